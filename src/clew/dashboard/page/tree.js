// A session and its branches as a tree: each chain runs straight down, from compaction to compaction.

import { html } from "./vendor/htm-preact.js";
import { count, cut, oneLine, plural, short, when } from "./format.js";
import { sessionLink } from "./route.js";

const nameOf = (chain) => oneLine(chain.title) || cut(oneLine(chain.opening), 70) || "Without words yet";

function rangeOf(part) {
  if (part.messages === 0) return "no own messages yet";
  return part.messages === 1 ? `m${part.first}` : `m${part.first} to m${part.stop - 1}`;
}

function originOf(chain) {
  if (chain.kind === "subagent" || chain.at === null) return chain.kind;
  return chain.at === 0 ? "branch from the beginning" : `branch after m${chain.at - 1}`;
}

const Fold = ({ made }) => html`<p class=${"fold-line" + (made.is_in_effect ? "" : " undone")}>
  <span aria-hidden="true">◆</span>
  compacted ${when(made.at)}: ${short(made.tokens_before)} → ${short(made.tokens_after)} tokens${made.is_in_effect ? "" : ", undone"}</p>`;

const Part = ({ part }) => html`<li>
  ${part.compaction && html`<${Fold} made=${part.compaction} />`}
  <p><b>${rangeOf(part)}</b><span class="soft">${part.messages > 0 && ` · ${plural(part.messages, "message")}`} · ${when(part.created)}</span></p>
  ${part.children.length > 0 && html`<ul class="children">
    ${part.children.map((child) => html`<li><${Chain} chain=${child} origin=${originOf(child)} /></li>`)}</ul>`}</li>`;

const Chain = ({ chain, origin = "" }) => html`<div class=${"chain" + (chain.is_current ? " current" : "")}>
  <p>${chain.is_current
    ? html`<b aria-current="true">${nameOf(chain)}</b><span class="tag after">this one</span>`
    : html`<a href=${sessionLink(chain.id)}>${nameOf(chain)}</a>`}
    ${origin && html`<span class="soft"> · ${origin}</span>`}</p>
  <ol>${chain.sessions.map((part) => html`<${Part} part=${part} />`)}</ol></div>`;

export const Tree = ({ tree }) => html`
  <p class="lead">${treeWords(tree)}</p>
  <div class="card tree"><${Chain} chain=${tree.root} /></div>
  ${tree.left_out > 0 && html`<p class="note">${count(tree.left_out)} more are not drawn.</p>`}`;

/** One line about the whole. */
function treeWords(tree) {
  const parts = tree.root.sessions.length;
  const chain = parts === 1 ? "One stretch, never compacted" : `${parts} stretches, one after each compaction`;
  const branches = tree.conversations - 1;
  return `${chain}; ${branches > 0 ? plural(branches, "branch", "branches") : "no branches"}.`;
}
