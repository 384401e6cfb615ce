// Where tokens and money went, per day, model and client; what fills windows, and what would help most.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { Chart, FiguresTable } from "./chart.js";
import { count, dayName, dollars, percent, plural, short } from "./format.js";
import { Choice, Figure, Keys, Problem, Thin, useLoaded, Waiting, WindowBar } from "./parts.js";
import { insightsLink, replaceRoute } from "./route.js";
import { costWords } from "./sessions.js";

const PERIODS = { 7: "7 days", 30: "30 days", 90: "90 days", 365: "a year" };
const DEFAULT_DAYS = "30", MOST_TOOLS = 12;
/** From the ground up: the figure, its colour, its words. */
const LAYERS = [
  ["cache_read_tokens", "read", "read from cache"], ["cache_write_tokens", "write", "written to cache"], ["input_tokens", "uncached", "uncached"],
];

export function Insights({ route }) {
  const days = route.options.days in PERIODS ? route.options.days : DEFAULT_DAYS;
  const loaded = useLoaded((signal) => get("insights", { days }, signal), [days]);
  useEffect(() => { document.title = "Insights · Clew"; }, []);
  return html`
    <div class="head insights-head"><h1>Insights</h1>
      <${Choice} label="Period" values=${PERIODS} current=${days} choose=${(value) => replaceRoute(insightsLink({ days: value }))} /></div>
    ${loaded.problem && html`<${Problem} problem=${loaded.problem} again=${loaded.again} />`}
    ${!loaded.value && !loaded.problem && html`<${Waiting} what="the figures" />`}
    ${loaded.value && html`<${Found} found=${loaded.value} />`}`;
}

const Found = ({ found }) => html`
  <${Totals} found=${found} />
  <${Hints} hints=${found.hints} />
  ${found.total.calls > 0 && html`
    <${Days} found=${found} />
    <${Split} name="model" rows=${found.by_model} />
    <${Split} name="client" rows=${found.by_client} />`}
  ${found.fills && found.fills.tokens > 0 && html`<${Fills} fills=${found.fills} />`}`;

function Totals({ found: { total, days } }) {
  if (!total.calls) return html`<p class="empty"><b>No calls in these ${days} days</b>Figures appear as soon as something is sent through Clew.</p>`;
  const summaries = total.auxiliary_cost_usd ? `; ${dollars(total.auxiliary_cost_usd)} of it for summaries` : "";
  const compactions = total.compactions ? `compactions, ${short(total.tokens_freed)} tokens freed` : "compactions";
  const unpriced = total.calls_of_unknown_cost === total.calls;
  const why = unpriced ? "saved: no price is known for these models" : "saved: compared for requests through the gateway";
  const saved = total.saved_usd === null ? why : "saved beside sending everything";
  return html`<dl class="figures">
      <${Figure} kind="main" value=${costWords(total)} words=${`spent, ${plural(total.calls, "request")}${summaries}`} />
      <${Figure} value=${savedFigure(total)} words=${saved} />
      <${Figure} value=${percent(total.hit_share)} words=${`read from cache, of ${short(total.prompt_tokens)} tokens sent`} />
      <${Figure} value=${count(total.compactions)} words=${compactions} />
    </dl>
    ${total.calls_of_unknown_cost > 0 && html`<p class="note">
      ${plural(total.calls_of_unknown_cost, "request")} of ${count(total.calls)} have no known price and are not in the money.</p>`}`;
}

const savedFigure = (figures) => (figures.saved_usd === null || figures.saved_usd === undefined ? "–" : dollars(figures.saved_usd));

const Hints = ({ hints }) => hints.length > 0 && html`<section aria-labelledby="t-hints"><h2 id="t-hints">What would help most</h2>
  <ol class="hints">${hints.map((hint) => html`<li class="card">
    <h3>${hint.title}</h3><p><${Coded} text=${hint.text} /></p>
    ${hint.saves_tokens > 0 && html`<p class="saves">about ${short(hint.saves_tokens)} ${hint.saves}</p>`}</li>`)}</ol></section>`;

/** Text whose names in backticks are set as code. */
const Coded = ({ text }) => text.split(/`([^`]+)`/).map((piece, index) => (index % 2 ? html`<code>${piece}</code>` : piece));

// -- days ---------------------------------------------------------------------------------------------------------------

function Days({ found }) {
  const [shown, setShown] = useState("tokens");
  const days = found.by_day;
  const column = (name) => days.map((day) => day[name] || 0);
  const chart = { version: shown + found.days + found.total.calls, tell: (at) => tellDay(days[at]), nameOf: (at) => dayName(days[at].day) };
  const tokens = () => html`
    <${Chart} key="tokens" ...${chart} label="Tokens sent each day" layers=${LAYERS.map(([name, color]) => ({ values: column(name), color }))} />
    <${Keys} items=${LAYERS.map(([name, color, label]) => ({ name: color, label, words: short(found.total[name]) }))} />`;
  const money = () => html`
    <${Chart} key="money" ...${chart} label="Cost of each day" layers=${[{ values: column("cost_usd"), color: "accent" }]} figureOf=${axisMoney} />`;
  const used = days.filter((day) => day.calls || day.compactions);
  return html`<section aria-labelledby="t-days">
    <div class="between"><h2 id="t-days">Day by day</h2>
      <${Choice} label="Shown" values=${{ tokens: "tokens", money: "money" }} current=${shown} choose=${setShown} /></div>
    <div class="card">${shown === "money" ? money() : tokens()}
      <details class="as-table"><summary>As a table</summary>
        <${FiguresTable} caption="Days of UTC on which something was sent" heads=${["day", ...HEADS]} rows=${used.map((day) => [dayName(day.day), ...figuresOf(day)])} />
      </details></div></section>`;
}

const HEADS = ["requests", "sent", "read", "written", "uncached", "output", "hits", "compactions", "cost", "saved"];

const figuresOf = (row) => [
  count(row.calls), short(row.prompt_tokens), short(row.cache_read_tokens), short(row.cache_write_tokens), short(row.input_tokens),
  short(row.output_tokens), percent(row.hit_share), count(row.compactions || 0), costWords(row), savedFigure(row),
];

function tellDay(day) {
  if (!day.calls) return `${dayName(day.day)}: no requests.`;
  const tokens = `${count(day.prompt_tokens)} tokens sent, ${percent(day.hit_share)} read from cache, ${count(day.output_tokens)} out`;
  const compactions = day.compactions ? `, ${plural(day.compactions, "compaction")}` : "";
  return `${dayName(day.day)}: ${plural(day.calls, "request")}, ${tokens}, ${costWords(day)}${compactions}.`;
}

function axisMoney(value) {
  if (value === 0) return "$0";
  return "$" + (value >= 100 ? Math.round(value) : value >= 1 ? value.toFixed(1) : value.toPrecision(1));
}

// -- models, clients, windows ------------------------------------------------------------------------------------------

function Split({ name, rows }) {
  const most = Math.max(1, ...rows.map((row) => row.prompt_tokens));
  const nameOf = (row) => html`${row[name] || `no ${name} named`}<${Thin} ratio=${row.prompt_tokens / most} />`;
  return rows.length > 0 && html`<section aria-labelledby=${"t-" + name}><h2 id=${"t-" + name}>By ${name}</h2>
    <div class="card"><${FiguresTable} label=${"By " + name} heads=${[name, ...HEADS]} rows=${rows.map((row) => [nameOf(row), ...figuresOf(row)])} /></div></section>`;
}

function Fills({ fills }) {
  const most = Math.max(1, ...fills.tools.map((tool) => tool.tokens));
  const about = fills.about ? fills.about[0].toUpperCase() + fills.about.slice(1) : "What the windows hold";
  const keys = fills.parts.filter((part) => part.tokens > 0)
    .map((part) => ({ name: part.name, label: part.label, words: `${short(part.tokens)} · ${percent(part.share)}` }));
  const rowOf = (tool) => [
    html`<span class="mono">${tool.name}</span><${Thin} ratio=${tool.tokens / most} kind="of-results" />`,
    count(tool.tokens), percent(tool.share), count(tool.messages), count(tool.largest),
  ];
  return html`<section aria-labelledby="t-fills"><h2 id="t-fills">What fills windows</h2>
    <div class="card"><p class="lead">${about}: ${count(fills.tokens)} tokens.</p>
      <${WindowBar} parts=${fills.parts} whole=${fills.tokens} label="In all windows" />
      <${Keys} items=${keys} />
      ${fills.tools.length > 0 && html`<h3>Tool results by tool</h3>
        <${FiguresTable} label="Tool results by tool" heads=${["tool", "tokens", "of all", "results", "largest"]} rows=${fills.tools.slice(0, MOST_TOOLS).map(rowOf)} />`}
    </div></section>`;
}
