// Where tokens and money went, per day, model and client; what fills windows, and what would help most.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { Chart, FiguresTable } from "./chart.js";
import { count, dayName, dollars, percent, plural, short } from "./format.js";
import { Figure, Keys, Problem, Thin, useLoaded, Waiting, WindowBar } from "./parts.js";
import { insightsLink, replaceRoute } from "./route.js";
import { costWords } from "./sessions.js";

const PERIODS = { 7: "7 days", 30: "30 days", 90: "90 days", 365: "a year" };

export function Insights({ route }) {
  const days = route.options.days in PERIODS ? Number(route.options.days) : 30;
  const loaded = useLoaded((signal) => get("insights", { days }, signal), [days]);
  useEffect(() => { document.title = "Insights · Clew"; }, []);
  const found = loaded.value;
  return html`<div class="head insights-head"><h1>Insights</h1>
      <div class="roles" role="group" aria-label="Period">${Object.entries(PERIODS).map(([value, words]) => html`<button type="button" aria-pressed=${Number(value) === days} onClick=${() => replaceRoute(insightsLink({ days: value }))}>${words}</button>`)}</div></div>
    ${loaded.problem && html`<${Problem} problem=${loaded.problem} again=${loaded.again} />`}
    ${!found && !loaded.problem && html`<${Waiting} what="the figures" />`}
    ${found && html`<${Totals} found=${found} /><${Hints} hints=${found.hints} />
      ${found.total.calls > 0 && html`<${Days} found=${found} />
      <${Split} title="By model" rows=${found.by_model} nameOf=${(row) => row.model || "no model named"} /><${Split} title="By client" rows=${found.by_client} nameOf=${(row) => row.client} />`}
      <${Fills} fills=${found.fills} />`}`;
}

function Totals({ found }) {
  const total = found.total;
  if (!total.calls) return html`<p class="empty"><b>No calls in these ${found.days} days</b>Figures appear as soon as something is sent through Clew.</p>`;
  return html`<dl class="figures">
    <${Figure} kind="main" value=${costWords(total)} words=${`spent, ${plural(total.calls, "request")}${total.auxiliary_cost_usd ? `; ${dollars(total.auxiliary_cost_usd)} of it for summaries` : ""}`} />
    <${Figure} value=${total.saved_usd === null ? "–" : dollars(total.saved_usd)} words=${total.saved_usd === null ? "saved; only the gateway can compare" : "saved beside sending everything"} />
    <${Figure} value=${percent(total.hit_share)} words=${`read from cache, of ${short(total.prompt_tokens)} tokens sent`} />
    <${Figure} value=${count(total.compactions)} words=${total.compactions ? `compactions, ${short(total.tokens_freed)} tokens freed` : "compactions"} /></dl>
    ${total.calls_of_unknown_cost > 0 && html`<p class="note">${plural(total.calls_of_unknown_cost, "request")} of ${count(total.calls)} have no known price and are not in the money.</p>`}`;
}

const Hints = ({ hints }) => hints.length > 0 && html`<section aria-labelledby="t-hints"><h2 id="t-hints">What would help most</h2>
  <ol class="hints">${hints.map((hint) => html`<li class="card"><h3>${hint.title}</h3><p><${Coded} text=${hint.text} /></p>${hint.saves_tokens > 0 && html`<p class="saves">about ${short(hint.saves_tokens)} tokens less</p>`}</li>`)}</ol></section>`;

/** Text whose \`names\` are set as code. */
export const Coded = ({ text }) => text.split(/`([^`]+)`/).map((piece, index) => (index % 2 ? html`<code>${piece}</code>` : piece));

function Days({ found }) {
  const days = found.by_day;
  const [isMoney, setIsMoney] = useState(false);
  const column = (name) => days.map((day) => day[name] || 0);
  const tell = (at) => {
    const day = days[at];
    if (!day.calls) return `${dayName(day.day)}: no requests.`;
    return `${dayName(day.day)}: ${plural(day.calls, "request")}, ${count(day.prompt_tokens)} tokens sent, ${percent(day.hit_share)} read from cache, ${count(day.output_tokens)} out, ${costWords(day)}${day.compactions ? `, ${plural(day.compactions, "compaction")}` : ""}.`;
  };
  const tokens = [{ values: column("cache_read_tokens"), color: "read" }, { values: column("cache_write_tokens"), color: "write" }, { values: column("input_tokens"), color: "uncached" }];
  const money = [{ values: column("cost_usd"), color: "accent" }];
  const heads = ["day", "requests", "sent", "read", "written", "uncached", "output", "hits", "compactions", "cost", "saved"];
  const rows = days.filter((day) => day.calls || day.compactions).map((day) => [dayName(day.day), count(day.calls), count(day.prompt_tokens), count(day.cache_read_tokens), count(day.cache_write_tokens), count(day.input_tokens), count(day.output_tokens), percent(day.hit_share), count(day.compactions), costWords(day), day.saved_usd === null ? "–" : dollars(day.saved_usd)]);
  return html`<section aria-labelledby="t-days"><div class="between"><h2 id="t-days">Day by day</h2>
    <div class="roles" role="group" aria-label="Shown"><button type="button" aria-pressed=${!isMoney} onClick=${() => setIsMoney(false)}>tokens</button><button type="button" aria-pressed=${isMoney} onClick=${() => setIsMoney(true)}>money</button></div></div>
    <div class="card">
      ${isMoney ? html`<${Chart} key="money" layers=${money} version=${"money" + found.days + found.total.calls} label="Cost of each day" tell=${tell} nameOf=${(at) => dayName(days[at].day)} figureOf=${axisMoney} />`
      : html`<${Chart} key="tokens" layers=${tokens} version=${"tokens" + found.days + found.total.calls} label="Tokens sent each day" tell=${tell} nameOf=${(at) => dayName(days[at].day)} />
        <${Keys} items=${[{ name: "read", label: "read from cache", words: short(found.total.cache_read_tokens) }, { name: "write", label: "written to cache", words: short(found.total.cache_write_tokens) }, { name: "uncached", label: "uncached", words: short(found.total.input_tokens) }]} />`}
      <details class="as-table"><summary>As a table</summary><${FiguresTable} caption="Days of UTC on which something was sent" heads=${heads} rows=${rows} /></details></div></section>`;
}

const axisMoney = (value) => (value === 0 ? "$0" : "$" + (value >= 100 ? Math.round(value) : value >= 1 ? value.toFixed(1) : value.toPrecision(1)));

function Split({ title, rows, nameOf }) {
  const id = "t-" + title.replace(/\W/g, "").toLowerCase();
  const most = Math.max(1, ...rows.map((row) => row.prompt_tokens));
  return rows.length > 0 && html`<section aria-labelledby=${id}><h2 id=${id}>${title}</h2>
    <div class="card scroll" tabindex="0" role="group" aria-label=${title}><table><thead><tr><th scope="col">${title.slice(3)}</th><th scope="col" class="num">requests</th><th scope="col" class="num">sent</th><th scope="col" class="num">output</th><th scope="col" class="num">hits</th><th scope="col" class="num">compactions</th><th scope="col" class="num">cost</th><th scope="col" class="num">saved</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr><th scope="row">${nameOf(row)} <${Thin} ratio=${row.prompt_tokens / most} /></th><td class="num">${count(row.calls)}</td><td class="num">${short(row.prompt_tokens)}</td><td class="num">${short(row.output_tokens)}</td><td class="num">${percent(row.hit_share)}</td><td class="num">${count(row.compactions || 0)}</td><td class="num">${costWords(row)}</td><td class="num">${row.saved_usd === null || row.saved_usd === undefined ? "–" : dollars(row.saved_usd)}</td></tr>`)}</tbody></table></div></section>`;
}

function Fills({ fills }) {
  if (!fills || !fills.tokens) return null;
  const most = Math.max(1, ...fills.tools.map((tool) => tool.tokens));
  return html`<section aria-labelledby="t-fills"><h2 id="t-fills">What fills windows</h2>
    <div class="card"><p class="lead">${fills.about ? fills.about[0].toUpperCase() + fills.about.slice(1) : ""}: ${count(fills.tokens)} tokens.</p>
      <${WindowBar} parts=${fills.parts} whole=${fills.tokens} label="In all windows" />
      <${Keys} items=${fills.parts.filter((part) => part.tokens > 0).map((part) => ({ name: part.name, label: part.label, words: `${short(part.tokens)} · ${percent(part.share)}` }))} />
      ${fills.tools.length > 0 && html`<h3>Tool results by tool</h3><div class="scroll" tabindex="0" role="group" aria-label="Tool results by tool"><table><thead><tr><th scope="col">tool</th><th scope="col" class="num">tokens</th><th scope="col" class="num">of all</th><th scope="col" class="num">results</th><th scope="col" class="num">largest</th></tr></thead>
      <tbody>${fills.tools.slice(0, 12).map((tool) => html`<tr><th scope="row"><span class="mono">${tool.name}</span> <${Thin} ratio=${tool.tokens / most} kind="p-results" /></th><td class="num">${count(tool.tokens)}</td><td class="num">${percent(tool.share)}</td><td class="num">${count(tool.messages)}</td><td class="num">${count(tool.largest)}</td></tr>`)}</tbody></table></div>`}</div></section>`;
}
