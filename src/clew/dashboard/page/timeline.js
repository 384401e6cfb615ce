// The tokens of a session, request by request, and its compactions where they happened.

import { html, useMemo, useState } from "./vendor/htm-preact.js";
import { Chart, FiguresTable } from "./chart.js";
import { count, dollars, fullTime, percent, plural, short } from "./format.js";
import { Keys } from "./parts.js";

const THRESHOLD_IN_SIGHT = 2.2;

const promptOf = (line, at) => line.read[at] + line.write[at] + line.uncached[at];

function tellRequest(line, at) {
  const several = line.every > 1 ? ` (the largest of ${line.every})` : "";
  const figures = [`${count(line.read[at])} read from cache`, `${count(line.write[at])} written to it`, `${count(line.uncached[at])} uncached`];
  return `Request ${count(line.number[at] + 1)}${several}, ${fullTime(line.at[at] * 1000)}: ${count(promptOf(line, at))} tokens: ${figures.join(", ")}; ${count(line.output[at])} out; ${dollars(line.cost_usd[at])}.`;
}

/** Where a compaction lies among the places of the chart: before the first request that came after it. */
const placeOf = (line, compaction) => {
  const at = line.number.findIndex((number) => number >= compaction.before_request);
  return (at < 0 ? line.number.length : at) - 0.5;
};

export function Timeline({ line }) {
  const version = `${line.requests} ${line.compactions.map((each) => each.id + String(each.is_in_effect)).join()} ${line.threshold}`;
  const marks = useMemo(() => line.compactions.map((each, index) => ({ at: placeOf(line, each), label: String(index + 1), isFaint: !each.is_in_effect })), [version]);
  if (!line.requests) return html`<p class="lead">No request was sent through Clew, so there is nothing to draw. What is imported has its messages, and no figures of calls.</p>`;
  const highest = Math.max(...line.number.map((_, at) => promptOf(line, at)));
  const sum = (name) => line[name].reduce((all, value) => all + value, 0);
  const whole = sum("read") + sum("write") + sum("uncached");
  const layers = [{ values: line.read, color: "read" }, { values: line.write, color: "write" }, { values: line.uncached, color: "uncached" }];
  const lines = [];
  if (line.threshold) lines.push({ value: line.threshold, color: "accent", label: `compacts at ${short(line.threshold)}`, isInRange: line.threshold < highest * THRESHOLD_IN_SIGHT });
  if (line.window) lines.push({ value: line.window, color: "soft", label: `window ${short(line.window)}`, isInRange: false });
  const keys = [["read", "read from cache"], ["write", "written to cache"], ["uncached", "uncached"]];
  return html`
    <${Chart} layers=${layers} lines=${lines} marks=${marks} version=${version} label="Tokens of each request" tell=${(at) => tellRequest(line, at)} nameOf=${(at) => count(line.number[at] + 1)} />
    <${Keys} items=${keys.map(([name, label]) => ({ name, label, words: line.every === 1 ? `${short(sum(name))} · ${percent(whole ? sum(name) / whole : null)}` : "" }))} />
    <${RequestTable} line=${line} />`;
}

function RequestTable({ line }) {
  const [isOpen, setIsOpen] = useState(false);
  const heads = ["request", "when", "prompt", "read", "written", "uncached", "output", "cost", "model"];
  const rows = () => line.number.map((number, at) => [count(number + 1), fullTime(line.at[at] * 1000), count(promptOf(line, at)), count(line.read[at]),
    count(line.write[at]), count(line.uncached[at]), count(line.output[at]), dollars(line.cost_usd[at]), line.models[line.model[at]] || ""]);
  const caption = line.every > 1 ? `${plural(line.number.length, "request")}, each the largest of ${line.every} in a row` : plural(line.number.length, "request");
  return html`<details class="as-table" onToggle=${(event) => setIsOpen(event.target.open)}><summary>As a table</summary>${isOpen && html`<${FiguresTable} caption=${caption} heads=${heads} rows=${rows()} />`}</details>`;
}

export const rangeOf = (made) => (made.stop - made.first === 1 ? `m${made.first}` : `m${made.first} to m${made.stop - 1}`);

/** What a compaction cost and what it saved, in plain words. */
export function paidBack(made) {
  const written = made.cost_usd === null ? "What its summary cost is not known" : made.cost_usd === 0 ? "It cost nothing" : `It cost ${dollars(made.cost_usd)}`;
  if (!made.requests_since) return `${written}. No request was sent since, so it has saved nothing yet.`;
  const tokens = `${count(made.tokens_saved)} tokens in ${plural(made.requests_since, "request")}`;
  if (made.saved_usd === null || made.saved_usd === undefined) return `${written}, and has kept out ${tokens} since.`;
  return `${written} and has saved ${dollars(made.saved_usd)} so far: ${tokens}${made.saved_basis ? `, ${made.saved_basis}` : ""}.`;
}

export function CompactionList({ compactions, current, choose }) {
  return html`<ol class="compactions">${compactions.map((made, index) => html`<li class=${made.is_in_effect ? "" : "undone"}>
    <span class="badge" aria-hidden="true">${index + 1}</span>
    <div><p><b class="num">${count(made.tokens_before)} → ${count(made.tokens_after)} tokens</b> <span class="soft">· ${fullTime(made.at)}</span>${!made.is_in_effect && html` <span class="tag">undone</span>`}</p>
      <p>${made.stop > made.first ? `${rangeOf(made)} became a handoff` : "Results were shortened"}, written by ${made.written_by || "nobody"}${made.focus ? `, with the focus “${made.focus}”` : ""}. ${paidBack(made)}</p>
      ${made.warnings.map((text) => html`<p class="warn">${text}</p>`)}
    </div>
    <button type="button" aria-pressed=${current === made.id} onClick=${() => choose(made.id)}>Read the handoff</button></li>`)}</ol>`;
}
