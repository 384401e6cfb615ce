// The tokens of a session, request by request, and its compactions where they happened.

import { html, useMemo, useState } from "./vendor/htm-preact.js";
import { Chart, FiguresTable } from "./chart.js";
import { count, dollars, fullTime, percent, plural, short } from "./format.js";
import { Keys } from "./parts.js";

const THRESHOLD_IN_SIGHT = 2.2;
/** From the ground up. */
const LAYERS = [["read", "read from cache"], ["write", "written to cache"], ["uncached", "uncached"]];
const HEADS = ["request", "when", "prompt", "read", "written", "uncached", "output", "cost", "model"];

const promptOf = (line, at) => line.read[at] + line.write[at] + line.uncached[at];
const timeOf = (line, at) => fullTime(line.at[at] * 1000);

function tellRequest(line, at) {
  const several = line.every > 1 ? ` (the largest of ${line.every})` : "";
  const parts = `${count(line.read[at])} read from cache, ${count(line.write[at])} written to it, ${count(line.uncached[at])} uncached`;
  const request = `Request ${count(line.number[at] + 1)}${several}, ${timeOf(line, at)}`;
  return `${request}: ${count(promptOf(line, at))} tokens: ${parts}; ${count(line.output[at])} out; ${dollars(line.cost_usd[at])}.`;
}

/** The position of a compaction in the chart: before the first request after it. */
function placeOf(line, compaction) {
  const at = line.number.findIndex((number) => number >= compaction.before_request);
  return (at < 0 ? line.number.length : at) - 0.5;
}

const markOf = (line, compaction, index) =>
  ({ at: placeOf(line, compaction), label: String(index + 1), isFaint: !compaction.is_in_effect });

function linesOf(line) {
  const highest = Math.max(...line.number.map((_, at) => promptOf(line, at)));
  const lines = [];
  if (line.threshold) {
    const isInRange = line.threshold < highest * THRESHOLD_IN_SIGHT;
    lines.push({ value: line.threshold, color: "accent", label: `compacts at ${short(line.threshold)}`, isInRange });
  }
  if (line.window) lines.push({ value: line.window, color: "soft", label: `window ${short(line.window)}`, isInRange: false });
  return lines;
}

function keysOf(line) {
  const sums = LAYERS.map(([name]) => line[name].reduce((sum, value) => sum + value, 0));
  const whole = sums.reduce((sum, value) => sum + value, 0);
  // If one entry covers several requests, the sums are not those of the session.
  const wordsOf = (sum) => (line.every === 1 && whole ? `${short(sum)} · ${percent(sum / whole)}` : "");
  return LAYERS.map(([name, label], index) => ({ name, label, words: wordsOf(sums[index]) }));
}

export function Timeline({ line }) {
  const version = JSON.stringify([line.requests, line.threshold, line.compactions.map((each) => [each.id, each.is_in_effect])]);
  const marks = useMemo(() => line.compactions.map((each, index) => markOf(line, each, index)), [version]);
  if (!line.requests) {
    return html`<p class="lead">No request was sent through Clew, so there is nothing to draw. What is imported has its messages, and no figures of calls.</p>`;
  }
  return html`
    <${Chart} layers=${LAYERS.map(([name]) => ({ values: line[name], color: name }))} lines=${linesOf(line)} marks=${marks} version=${version}
      label="Tokens of each request" tell=${(at) => tellRequest(line, at)} nameOf=${(at) => count(line.number[at] + 1)} />
    <${Keys} items=${keysOf(line)} />
    <${RequestTable} line=${line} />`;
}

function RequestTable({ line }) {
  const [isOpen, setIsOpen] = useState(false);
  const size = plural(line.number.length, "request");
  const caption = line.every > 1 ? `${size}, each the largest of ${line.every} in a row` : size;
  return html`<details class="as-table" onToggle=${(event) => setIsOpen(event.target.open)}><summary>As a table</summary>
    ${isOpen && html`<${FiguresTable} caption=${caption} heads=${HEADS} rows=${line.number.map((_, at) => rowOf(line, at))} />`}</details>`;
}

const rowOf = (line, at) => [
  count(line.number[at] + 1), timeOf(line, at), count(promptOf(line, at)), count(line.read[at]), count(line.write[at]),
  count(line.uncached[at]), count(line.output[at]), dollars(line.cost_usd[at]), line.models[line.model[at]] || "",
];
