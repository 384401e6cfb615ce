// A session and its branches as a tree: each chain runs straight down, from compaction to compaction.

import { html } from "./vendor/htm-preact.js";
import { count, cut, oneLine, plural, short, when } from "./format.js";
import { sessionLink } from "./route.js";

const nameOf = (chain) => oneLine(chain.title) || cut(oneLine(chain.opening), 70) || "Without words yet";
const rangeOf = (part) => (part.messages === 0 ? "nothing of its own yet" : part.messages === 1 ? `m${part.first}` : `m${part.first} to m${part.stop - 1}`);

const Fold = ({ made }) => html`<p class=${"fold-line" + (made.is_in_effect ? "" : " undone")}><span aria-hidden="true">◆</span> compacted ${when(made.at)}: ${short(made.tokens_before)} → ${short(made.tokens_after)} tokens${made.is_in_effect ? "" : ", undone"}</p>`;

const Part = ({ part }) => html`<li>
  ${part.compaction && html`<${Fold} made=${part.compaction} />`}
  <p class="stretch"><b>${rangeOf(part)}</b> <span class="soft">${part.messages ? `· ${plural(part.messages, "message")} ` : ""}· ${when(part.created)}</span></p>
  ${part.children.length > 0 && html`<ul class="children">${part.children.map((child) => html`<li><${Chain} chain=${child} /></li>`)}</ul>`}</li>`;

function Chain({ chain, isRoot = false }) {
  const from = isRoot ? "" : chain.kind === "subagent" ? "subagent" : chain.at === null ? "branch" : `branch after ${chain.at === 0 ? "nothing" : "m" + (chain.at - 1)}`;
  return html`<div class=${"chain" + (chain.is_current ? " current" : "")}>
    <p class="chain-name">${chain.is_current ? html`<b aria-current="true">${nameOf(chain)}</b> <span class="tag">this one</span>` : html`<a href=${sessionLink(chain.id)}>${nameOf(chain)}</a>`}${from && html` <span class="soft">· ${from}</span>`}</p>
    <ol>${chain.sessions.map((part) => html`<${Part} part=${part} />`)}</ol></div>`;
}

export function Tree({ tree }) {
  return html`<div class="card tree"><${Chain} chain=${tree.root} isRoot=${true} /></div>
    ${tree.left_out > 0 && html`<p class="note">${count(tree.left_out)} more are not drawn.</p>`}`;
}

/** One line about the whole. */
export const treeWords = (tree) => {
  const parts = tree.root.sessions.length;
  const chain = parts === 1 ? "One stretch, never compacted" : `${parts} stretches, one after each compaction`;
  return tree.conversations > 1 ? `${chain}; ${plural(tree.conversations - 1, "branch", "branches")}.` : `${chain}; no branches.`;
};
