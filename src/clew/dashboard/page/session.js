// One session: its window now, every request, what compactions did, its chain and branches, every message.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { ActionBar } from "./actions.js";
import { count, cut, dollars, fullTime, oneLine, percent, plural } from "./format.js";
import { Handoff } from "./handoff.js";
import { listen } from "./live.js";
import { MessageList, MessagePanel } from "./messages.js";
import { Figure, Keys, Meter, Problem, Thin, useLoaded, Waiting, Warnings, WindowBar } from "./parts.js";
import { go, messageLink, sessionLink, sessionsLink } from "./route.js";
import { SearchHits } from "./search.js";
import { costWords, titleOf } from "./sessions.js";
import { CompactionList, rangeOf, Timeline } from "./timeline.js";
import { Tree, treeWords } from "./tree.js";

const GATHER_MILLISECONDS = 200;
const SECTIONS = { window: "Window", requests: "Requests", handoffs: "Handoffs", chain: "Chain", messages: "Messages" };

export function Session({ route, me }) {
  const path = "sessions/" + encodeURIComponent(route.id);
  const shown = useLoaded((signal) => get(path, {}, signal), [path]);
  const context = useLoaded((signal) => get(path + "/context", {}, signal), [path]);
  const line = useLoaded((signal) => get(path + "/timeline", { points: 1500 }, signal), [path]);
  const tree = useLoaded((signal) => get(path + "/tree", {}, signal), [path]);
  const [gone, setGone] = useState(false);
  const id = shown.value ? shown.value.session.id : route.id;
  const reload = () => { shown.again(); context.again(); line.again(); tree.again(); };
  useLiveSession(id, reload, () => setGone(true));
  useEffect(() => { if (shown.value) document.title = titleOf(shown.value.session) + " · Clew"; }, [shown.value]);
  useEffect(() => { if (route.seq === null && !route.section) scrollTo({ top: 0, behavior: "instant" }); }, []);
  useEffect(() => {
    const heading = route.section && shown.value && document.getElementById("t-" + route.section);
    if (heading) { heading.scrollIntoView({ block: "start" }); heading.focus({ preventScroll: true }); }
  }, [route.section, Boolean(shown.value)]);
  if (gone) return html`<p class="empty"><b>This session was deleted.</b><a href=${sessionsLink()}>All sessions</a></p>`;
  if (!shown.value && shown.problem) {
    return shown.problem.status === 404
      ? html`<p class="empty"><b>There is no such session.</b>It may have been deleted. <a href=${sessionsLink()}>All sessions</a></p>`
      : html`<${Problem} problem=${shown.problem} again=${reload} />`;
  }
  if (!shown.value) return html`<${Waiting} what="the session" />`;
  const { session, compactions, warnings } = shown.value;
  return html`
    <${Head} shown=${shown.value} me=${me} reload=${reload} />
    ${shown.problem && html`<${Problem} problem=${shown.problem} again=${reload} />`}
    <${Warnings} texts=${warnings.map((warning) => warning.text)} />
    <${Figures} session=${session} line=${line.value} compactions=${compactions} />
    <nav class="within" aria-label="On this page">${Object.entries(SECTIONS).map(([name, words]) => html`<a href=${sessionLink(id, name)}>${words}</a>`)}</nav>
    <${Part} name="window" title="What is in the window now" loaded=${context} what="the window">${() => html`<${WindowNow} context=${context.value} id=${id} />`}<//>
    <${Part} name="requests" title="Request by request" loaded=${line} what="the requests">${() => html`<div class="card"><${Timeline} line=${line.value} /></div>`}<//>
    <${Handoffs} id=${id} compactions=${compactions} current=${route.seq} asked=${route.options.compaction} />
    <${Part} name="chain" title="Chain and branches" loaded=${tree} what="the chain">${() => html`<p class="lead">${treeWords(tree.value)}</p><${Tree} tree=${tree.value} />`}<//>
    <${Messages} id=${id} session=${session} current=${route.seq} />
    ${route.seq !== null && html`<${MessagePanel} id=${id} seq=${route.seq} total=${session.messages} />`}`;
}

/** A section whose figures are read by themselves. */
const Part = ({ name, title, loaded, what, children }) => html`<section aria-labelledby=${"t-" + name}>
  <h2 id=${"t-" + name} tabindex="-1">${title}</h2>
  ${loaded.problem && html`<${Problem} problem=${loaded.problem} again=${loaded.again} />`}
  ${!loaded.value && !loaded.problem && html`<${Waiting} what=${what} />`}
  ${loaded.value && children()}</section>`;

function useLiveSession(id, reload, end) {
  const latest = useRef(null);
  latest.current = { id, reload, end };
  useEffect(() => {
    let timer = 0;
    const stop = listen((name, value) => {
      const now = latest.current;
      if (name === "deleted" && value.sessions.includes(now.id)) now.end();
      const isOurs = name === "reload" || (name === "changed" && value.sessions.some((each) => each.id === now.id));
      if (!isOurs) return;
      clearTimeout(timer);
      timer = setTimeout(() => latest.current.reload(), GATHER_MILLISECONDS);
    });
    return () => { stop(); clearTimeout(timer); };
  }, []);
}

function Head({ shown, me, reload }) {
  const { session, branch_of: origin } = shown;
  const facts = [plural(session.messages, "message"), session.model || "no model named", session.client, `begun ${fullTime(session.created)}`];
  return html`<div class="head session-head">
    <div><p class="crumbs"><a href=${sessionsLink()}>Sessions</a>${origin && html` / <${Origin} origin=${origin} />`}</p>
      <h1>${titleOf(session)}</h1>
      <p class="facts">${session.is_active && html`<span class="tag at-work"><i></i>at work</span> `}${facts.join(" · ")}</p></div>
    <${ActionBar} shown=${shown} me=${me} reload=${reload} />
    ${!me.can_change && html`<p class="note">Only to look at: ${me.read_only_reason}.</p>`}</div>`;
}

const Origin = ({ origin }) => html`${origin.kind === "subagent" ? "subagent" : "branch"} of <a href=${sessionLink(origin.id)}>${oneLine(origin.title) || "a session"}</a>${origin.seq ? ` after m${origin.seq - 1}` : ""}`;

function Figures({ session, compactions }) {
  const usage = session.usage;
  const inEffect = compactions.filter((made) => made.is_in_effect);
  const kept = inEffect.reduce((sum, made) => sum + (made.tokens_saved || 0), 0);
  const priced = inEffect.filter((made) => made.saved_usd !== null && made.saved_usd !== undefined);
  const saved = usage.saved_usd !== null ? usage.saved_usd : priced.length ? priced.reduce((sum, made) => sum + made.saved_usd, 0) : null;
  return html`<dl class="figures">
    <div class="figure main"><dt><${Meter} ...${session.meter} /></dt><dd>${session.meter.tokens === null ? "–" : percent(session.meter.window ? session.meter.tokens / session.meter.window : null)}</dd></div>
    <${Figure} value=${costWords(usage)} words=${usage.calls ? `cost so far, ${plural(usage.calls, "request")}${usage.auxiliary_cost_usd ? `; ${dollars(usage.auxiliary_cost_usd)} of it for summaries` : ""}` : "nothing was sent through Clew"} />
    <${Figure} value=${saved === null ? "–" : dollars(saved)} words=${savedWords(inEffect, kept)} />
    <${Figure} value=${percent(usage.hit_share)} words=${usage.hit_share === null ? "read from cache" : `read from cache, of ${count(usage.prompt_tokens)} tokens sent`} />
  </dl>`;
}

function savedWords(inEffect, kept) {
  if (!inEffect.length) return "saved; nothing was compacted yet";
  if (!kept) return `saved; no request since the ${inEffect.length === 1 ? "compaction" : "compactions"}`;
  return `saved by ${plural(inEffect.length, "compaction")}: ${count(kept)} tokens kept out`;
}

function WindowNow({ context, id }) {
  const whole = context.window || context.tokens;
  const keys = context.parts.filter((part) => part.tokens > 0).map((part) => ({ name: part.name, label: part.label, words: `${count(part.tokens)}${part.messages ? ` in ${plural(part.messages, "message")}` : ""}` }));
  const basis = context.is_exact ? "as the provider counted it" : "by our own count";
  return html`<div class="card">
    <p class="lead"><b class="ink">${count(context.tokens)} tokens</b>, ${basis}${context.window ? `, of a window of ${count(context.window)}` : "; the window of this model is not known"}${context.threshold ? `. It is compacted at ${count(context.threshold)}.` : "."}</p>
    <${WindowBar} parts=${context.parts} whole=${whole} label="In the window" />
    <${Keys} items=${[...keys, ...(context.free > 0 ? [{ name: "free", label: "free", words: count(context.free) }] : [])]} />
    ${context.hint && html`<p class="hint">${context.hint}</p>`}
    <${Largest} context=${context} id=${id} /></div>`;
}

function Largest({ context, id }) {
  const most = Math.max(1, ...context.tools.map((tool) => tool.tokens));
  return html`<div class="two">
    ${context.tools.length > 0 && html`<div><h3>Tool results by tool</h3><div class="scroll"><table class="bars"><thead class="unseen"><tr><th>tool</th><th>tokens</th><th>results</th></tr></thead>
      <tbody>${context.tools.slice(0, 8).map((tool) => html`<tr><th scope="row"><span class="mono">${tool.name}</span> <${Thin} ratio=${tool.tokens / most} kind="p-results" /></th><td class="num">${count(tool.tokens)}</td><td class="num soft">${plural(tool.messages, "result")}</td></tr>`)}</tbody></table></div></div>`}
    ${context.largest.length > 0 && html`<div><h3>The largest messages</h3><ul class="largest">${context.largest.slice(0, 8).map((message) => html`<li>${message.seq === null ? html`<span>–</span>` : html`<a class="ref" href=${messageLink(id, message.seq)}>m${message.seq}</a>`} <span class="opening">${message.tool || message.role} · ${cut(oneLine(message.opening), 80)}</span> <span class="num">${count(message.tokens)}</span></li>`)}</ul></div>`}</div>`;
}

function Handoffs({ id, compactions, current, asked }) {
  const newest = [...compactions].reverse().find((made) => made.is_in_effect) || compactions[compactions.length - 1];
  const [chosen, setChosen] = useState(asked ? Number(asked) : null);
  const made = compactions.find((each) => each.id === chosen) || newest;
  const read = (which) => { setChosen(which); requestAnimationFrame(() => document.getElementById("t-handoff").focus()); };
  return html`<section aria-labelledby="t-handoffs"><h2 id="t-handoffs" tabindex="-1">Compactions and handoffs</h2>
    ${!made ? html`<p class="lead">Nothing was compacted yet: the model sees every message as it is.</p>`
    : html`<${CompactionList} compactions=${compactions} current=${made.id} choose=${read} />
      <${Beside} key=${made.id} id=${id} made=${made} number=${compactions.indexOf(made) + 1} current=${current} />`}</section>`;
}

const FATES_THEN = { folded: "told by the handoff", shortened: "shortened", removed: "removed", view: "kept", kept: "kept" };

/** The handoff, and beside it what it replaced. */
function Beside({ id, made, number, current }) {
  const detail = useLoaded((signal) => get(`sessions/${encodeURIComponent(id)}/compactions/${made.id}`, {}, signal), [id, made.id]);
  const linkOf = (seq) => messageLink(id, seq);
  const references = detail.value ? detail.value.references : [];
  const isFolded = made.stop > made.first;
  return html`<div class="beside">
    <div class="card told"><h3 id="t-handoff" tabindex="-1">Handoff ${number} <span class="soft">· ${count(made.tokens_after)} tokens in the window after it</span></h3>
      ${detail.problem && html`<${Problem} problem=${detail.problem} again=${detail.again} />`}
      ${!detail.value && !detail.problem && html`<${Waiting} what="the handoff" />`}
      ${detail.value && (detail.value.blocks.length ? html`<div class="scroll-y" tabindex="0" role="group" aria-label="The handoff"><${Handoff} blocks=${detail.value.blocks} linkOf=${linkOf} /></div>` : html`<p class="lead">Only results were shortened: there is no handoff.</p>`)}</div>
    ${isFolded && html`<div class="card replaced"><h3>What it replaced <span class="soft">· ${rangeOf(made)}${references.length ? `, ${plural(references.length, "reference")}` : ""}</span></h3>
      <${MessageList} id=${id} first=${made.first} stop=${made.stop} compaction=${made.id} current=${current} title="Messages that the handoff replaced" label=${(message) => FATES_THEN[message.fate] || message.fate} /></div>`}</div>`;
}

function Messages({ id, session, current }) {
  const [typed, setTyped] = useState("");
  const [goTo, setGoTo] = useState(null);
  const jump = (event) => {
    event.preventDefault();
    const number = /^m?(\d+)$/.exec(typed.trim());
    if (number && Number(number[1]) < session.messages) { setGoTo(Number(number[1])); go(messageLink(id, Number(number[1]))); }
  };
  const query = /^m?\d+$/.test(typed.trim()) ? "" : typed.trim();
  return html`<section aria-labelledby="t-messages"><h2 id="t-messages" tabindex="-1">Every message</h2>
    <p class="lead">As they came, the oldest first: U you, A agent, T tool result. Filled ones are in the window, dashed ones stand there shortened, outlined ones are folded into a handoff.</p>
    <form class="filters" role="search" aria-label="In this session" onSubmit=${jump}><div class="find"><label for="find-here">Search this session, or go to a message (m12)</label>
      <input id="find-here" type="search" autocomplete="off" spellcheck=${false} value=${typed} onInput=${(event) => setTyped(event.target.value)} /></div></form>
    ${query ? html`<${SearchHits} query=${query} session=${id} />`
    : session.messages ? html`<div class="card list-card"><${MessageList} id=${id} first=${0} stop=${session.messages} current=${current} goTo=${goTo} version=${`${session.compactions} ${session.messages}`} title="Messages" /></div>`
    : html`<p class="lead">There are none yet.</p>`}</section>`;
}
