// The compactions of a session: what each cost and saved, and its handoff beside what it replaced.

import { html, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { count, dollars, fullTime, plural } from "./format.js";
import { Handoff } from "./handoff.js";
import { MessageList } from "./messages.js";
import { Problem, useLoaded, Waiting } from "./parts.js";
import { messageLink } from "./route.js";

const MAX_UNVERIFIED = 12;
/** What became of a message by one compaction. */
const FATES_THEN = { folded: "in the handoff", shortened: "shortened", removed: "removed", view: "kept", kept: "kept" };

export function Compactions({ id, compactions, current }) {
  const newest = [...compactions].reverse().find((made) => made.is_in_effect) || compactions[compactions.length - 1];
  const [chosen, setChosen] = useState(null);
  const made = compactions.find((each) => each.id === chosen) || newest;
  const read = (which) => {
    setChosen(which);
    requestAnimationFrame(() => document.getElementById("t-handoff").focus());
  };
  return html`<section aria-labelledby="t-handoffs"><h2 id="t-handoffs" tabindex="-1">Compactions and handoffs</h2>
    ${!made ? html`<p class="lead">Nothing was compacted yet: the model sees every message as it is.</p>` : html`
      <ol class="compactions">${compactions.map((each, index) => html`
        <${CompactionRow} made=${each} number=${index + 1} isChosen=${each === made} choose=${() => read(each.id)} />`)}</ol>
      <${Beside} key=${made.id} id=${id} made=${made} number=${compactions.indexOf(made) + 1} current=${current} />`}
  </section>`;
}

const CompactionRow = ({ made, number, isChosen, choose }) => html`<li class=${made.is_in_effect ? "" : "undone"}>
  <span class="badge" aria-hidden="true">${number}</span>
  <div>
    <p><b class="num">${count(made.tokens_before)} → ${count(made.tokens_after)} tokens</b>
      <span class="soft"> · ${fullTime(made.at)}</span>
      ${!made.is_in_effect && html`<span class="tag after">undone</span>`}</p>
    <p>${whatBecame(made)} ${paidBack(made)}</p>
    ${made.warnings.map((text) => html`<p class="warn">${text}</p>`)}
  </div>
  <button type="button" aria-pressed=${isChosen} onClick=${choose}>Read the handoff</button></li>`;

const rangeOf = (made) => (made.stop - made.first === 1 ? `m${made.first}` : `m${made.first} to m${made.stop - 1}`);

function whatBecame(made) {
  const focus = made.focus ? `, with the focus “${made.focus}”` : "";
  if (made.written_by) return `${rangeOf(made)} became a handoff, written by ${made.written_by}${focus}.`;
  return made.stop > made.first ? `The engine replaced ${rangeOf(made)}${focus}.` : "Results were shortened; nothing was summarised.";
}

/** What a compaction cost and what it saved, in plain words. */
function paidBack(made) {
  const cost = made.cost_usd === 0 ? "It cost nothing" : `It cost ${dollars(made.cost_usd)}`;
  const paid = made.cost_usd === null ? "What its summary cost is not known" : cost;
  if (!made.requests_since) return `${paid}. No request was sent since, so it has saved nothing yet.`;
  const tokens = `${count(made.tokens_saved)} tokens in ${plural(made.requests_since, "request")}`;
  if (made.saved_usd === null) return `${paid}, and has kept out ${tokens} since.`;
  const basis = made.saved_basis ? `, ${made.saved_basis}` : "";
  return `${paid} and has saved ${dollars(made.saved_usd)} so far: ${tokens}${basis}.`;
}

/** The handoff, and beside it what it replaced. */
function Beside({ id, made, number, current }) {
  const path = `sessions/${encodeURIComponent(id)}/compactions/${made.id}`;
  const detail = useLoaded((signal) => get(path, {}, signal), [path]);
  const referred = detail.value && detail.value.references.length;
  return html`<div class="beside">
    <div class="card told">
      <h3 id="t-handoff" tabindex="-1">Handoff ${number}<span class="soft"> · ${count(made.tokens_after)} tokens in the window after it</span></h3>
      ${detail.problem && html`<${Problem} problem=${detail.problem} again=${detail.again} />`}
      ${!detail.value && !detail.problem && html`<${Waiting} what="the handoff" />`}
      ${detail.value && html`<${HandoffText} value=${detail.value} id=${id} />`}
    </div>
    ${made.stop > made.first && html`<div class="card replaced">
      <h3>What it replaced<span class="soft"> · ${rangeOf(made)}${referred ? `, ${plural(referred, "reference")}` : ""}</span></h3>
      <${MessageList} id=${id} first=${made.first} stop=${made.stop} compaction=${made.id} current=${current}
        title="Messages that the handoff replaced" label=${(message) => FATES_THEN[message.fate] || message.fate} />
    </div>`}
  </div>`;
}

const HandoffText = ({ value, id }) => (value.sections.length === 0
  ? html`<p class="lead">No message was summarised, so there is no handoff.</p>`
  : html`<${Unverified} strings=${value.compaction.unverified} />
      <div class="scroll-y" tabindex="0" role="group" aria-label="The handoff">
      <${Handoff} sections=${value.sections} linkOf=${(seq) => messageLink(id, seq)} /></div>`);

const Unverified = ({ strings }) => (strings.length > 0 && html`<p class="note">
  ${strings.length === 1 ? "It contains a string" : `It contains ${count(strings.length)} strings`} that the messages do not show:
  ${strings.slice(0, MAX_UNVERIFIED).map((text) => html` <code>${text}</code>`)}${strings.length > MAX_UNVERIFIED ? " …" : ""}</p>`);
