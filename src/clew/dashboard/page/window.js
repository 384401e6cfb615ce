// What is in the window of a session now, by kind, as `/context` shows it; and what takes most of it.

import { html } from "./vendor/htm-preact.js";
import { count, cut, dollars, oneLine, plural } from "./format.js";
import { Keys, Thin, WindowBar } from "./parts.js";
import { messageLink } from "./route.js";

const MOST = 8;

export function WindowNow({ context, id }) {
  const keys = context.parts.filter((part) => part.tokens > 0).map(keyOf);
  if (context.free > 0) keys.push({ name: "free", label: "free", words: count(context.free) });
  return html`<div class="card">
    <p class="lead"><b class="ink">${count(context.tokens)} tokens</b>, ${whole(context)}</p>
    <${WindowBar} parts=${context.parts} whole=${context.window || context.tokens} label="In the window" />
    <${Keys} items=${keys} />
    ${context.next_message && html`<p class="lead">${nextMessage(context.next_message)}</p>`}
    ${context.hint && html`<p class="hint">${context.hint}</p>`}
    <div class="two">
      ${context.tools.length > 0 && html`<${Tools} tools=${context.tools.slice(0, MOST)} />`}
      ${context.largest.length > 0 && html`<${Largest} messages=${context.largest.slice(0, MOST)} id=${id} />`}
    </div></div>`;
}

const keyOf = ({ name, label, tokens, messages }) => {
  const where = messages ? ` in ${plural(messages, "message")}` : "";
  return { name, label, words: count(tokens) + where };
};

function whole({ is_exact: isExact, window: size, threshold }) {
  const basis = isExact ? "as the provider counted it" : "by our own count";
  const of = size ? `, of a window of ${count(size)}.` : "; the window of this model is not known.";
  return basis + of + (threshold ? ` It is compacted at ${count(threshold)}.` : "");
}

/** What the next message costs before a word of its answer: providers keep what they have read for some minutes. */
const nextMessage = ({ warm_usd: warm, cold_usd: cold }) =>
  `The next message costs about ${dollars(warm)} while the provider has the conversation in its cache, and ${dollars(cold)} after a longer pause.`;

function Tools({ tools }) {
  const most = Math.max(1, ...tools.map((tool) => tool.tokens));
  return html`<div><h3>Tool results by tool</h3>
    <table><thead class="unseen"><tr><th scope="col">tool</th><th scope="col">tokens</th><th scope="col">results</th></tr></thead>
      <tbody>${tools.map((tool) => html`<tr>
        <th scope="row"><span class="mono">${tool.name}</span><${Thin} ratio=${tool.tokens / most} kind="of-results" /></th>
        <td class="num">${count(tool.tokens)}</td>
        <td class="num soft">${plural(tool.messages, "result")}</td></tr>`)}</tbody></table></div>`;
}

const Largest = ({ messages, id }) => html`<div><h3>The largest messages</h3>
  <ul class="largest">${messages.map((message) => html`<li>
    ${message.seq === null ? html`<span>–</span>` : html`<a class="ref" href=${messageLink(id, message.seq)}>m${message.seq}</a>`}
    <span class="opening">${message.tool || message.role} · ${cut(oneLine(message.opening), 80)}</span>
    <span class="num">${count(message.tokens)}</span></li>`)}</ul></div>`;
