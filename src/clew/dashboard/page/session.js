// One session: its window now, every request, what compactions did, its chain and branches, every message.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { ActionBar } from "./actions.js";
import { Compactions } from "./compactions.js";
import { count, dollars, fullTime, oneLine, percent, plural } from "./format.js";
import { listen } from "./live.js";
import { MessageList, MessagePanel } from "./messages.js";
import { Figure, Meter, Problem, useLoaded, Waiting, Warnings } from "./parts.js";
import { go, messageLink, sessionLink, sessionsLink } from "./route.js";
import { SearchHits } from "./search.js";
import { costWords, titleOf } from "./sessions.js";
import { Timeline } from "./timeline.js";
import { Tree } from "./tree.js";
import { WindowNow } from "./window.js";

const GATHER_MILLISECONDS = 200, POINTS = 1500;
const SECTIONS = { window: "Window", requests: "Requests", handoffs: "Handoffs", chain: "Chain", messages: "Messages" };

export function Session({ route, me }) {
  const path = "sessions/" + encodeURIComponent(route.id);
  const shown = useLoaded((signal) => get(path, {}, signal), [path]);
  const context = useLoaded((signal) => get(path + "/context", {}, signal), [path]);
  const line = useLoaded((signal) => get(path + "/timeline", { points: POINTS }, signal), [path]);
  const tree = useLoaded((signal) => get(path + "/tree", {}, signal), [path]);
  const [isGone, setIsGone] = useState(false);
  const id = shown.value ? shown.value.session.id : route.id;
  const reload = () => [shown, context, line, tree].forEach((each) => each.again());
  useLiveSession(id, reload, () => setIsGone(true));
  usePlace(route, shown.value);
  if (isGone) return html`<p class="empty"><b>This session was deleted.</b><a href=${sessionsLink()}>All sessions</a></p>`;
  if (!shown.value) return html`<${NotShown} problem=${shown.problem} again=${reload} />`;
  const { session, compactions, warnings } = shown.value;
  return html`
    <${Head} shown=${shown.value} me=${me} reload=${reload} />
    ${shown.problem && html`<${Problem} problem=${shown.problem} again=${reload} />`}
    <${Warnings} texts=${warnings.map((warning) => warning.text)} />
    <${Figures} session=${session} compactions=${compactions} />
    <nav class="within" aria-label="On this page">
      ${Object.entries(SECTIONS).map(([name, words]) => html`<a href=${sessionLink(id, name)}>${words}</a>`)}</nav>
    <${Part} name="window" title="What is in the window now" loaded=${context} what="the window">
      ${(value) => html`<${WindowNow} context=${value} id=${id} />`}<//>
    <${Part} name="requests" title="Request by request" loaded=${line} what="the requests">
      ${(value) => html`<div class="card"><${Timeline} line=${value} /></div>`}<//>
    <${Compactions} id=${id} compactions=${compactions} current=${route.seq} />
    <${Part} name="chain" title="Chain and branches" loaded=${tree} what="the chain">
      ${(value) => html`<${Tree} tree=${value} />`}<//>
    <${Messages} id=${id} session=${session} current=${route.seq} />
    ${route.seq !== null && html`<${MessagePanel} id=${id} seq=${route.seq} total=${session.messages} />`}`;
}

/** A section whose figures are read by themselves. */
const Part = ({ name, title, loaded, what, children }) => html`<section aria-labelledby=${"t-" + name}>
  <h2 id=${"t-" + name} tabindex="-1">${title}</h2>
  ${loaded.problem && html`<${Problem} problem=${loaded.problem} again=${loaded.again} />`}
  ${!loaded.value && !loaded.problem && html`<${Waiting} what=${what} />`}
  ${loaded.value && children(loaded.value)}</section>`;

function NotShown({ problem, again }) {
  if (!problem) return html`<${Waiting} what="the session" />`;
  if (problem.status !== 404) return html`<${Problem} problem=${problem} again=${again} />`;
  return html`<p class="empty"><b>There is no such session.</b>It may have been deleted. <a href=${sessionsLink()}>All sessions</a></p>`;
}

/** The title of the page, and the place in it that the address names. */
function usePlace(route, shown) {
  useEffect(() => { if (shown) document.title = titleOf(shown.session) + " · Clew"; }, [shown]);
  useEffect(() => { if (route.seq === null && !route.section) scrollTo({ top: 0, behavior: "instant" }); }, []);
  useEffect(() => {
    const heading = route.section && shown && document.getElementById("t-" + route.section);
    if (!heading) return;
    heading.scrollIntoView({ block: "start" });
    heading.focus({ preventScroll: true });
  }, [route.section, Boolean(shown)]);
}

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
  const facts = [plural(session.messages, "message"), session.model || "no model named", session.client];
  return html`<div class="head session-head">
    <div>
      <p class="crumbs"><a href=${sessionsLink()}>Sessions</a>${origin && html`<${Origin} origin=${origin} />`}</p>
      <h1>${titleOf(session)}</h1>
      <p class="facts">
        ${session.is_active && html`<span class="tag at-work"><i></i>at work</span> `}
        ${[...facts, `begun ${fullTime(session.created)}`].join(" · ")}</p>
    </div>
    <${ActionBar} shown=${shown} me=${me} reload=${reload} />
    ${!me.can_change && html`<p class="note">Only to look at: ${me.read_only_reason}.</p>`}
  </div>`;
}

const Origin = ({ origin }) => html` / ${origin.kind === "subagent" ? "subagent" : "branch"} of${" "}
  <a href=${sessionLink(origin.id)}>${oneLine(origin.title) || "a session"}</a>${origin.seq ? ` after m${origin.seq - 1}` : ""}`;

function Figures({ session, compactions }) {
  const { usage, meter } = session;
  const fill = meter.tokens === null || !meter.window ? "–" : percent(meter.tokens / meter.window);
  const inEffect = compactions.filter((made) => made.is_in_effect);
  const hits = usage.hit_share === null ? "read from cache" : `read from cache, of ${count(usage.prompt_tokens)} tokens sent`;
  const saved = savedBy(usage, inEffect);
  return html`<dl class="figures">
    <div class="figure main"><dt><${Meter} ...${meter} /></dt><dd>${fill}</dd></div>
    <${Figure} value=${costWords(usage)} words=${spentWords(usage)} />
    <${Figure} value=${saved === null ? "–" : dollars(saved)} words=${savedWords(inEffect)} />
    <${Figure} value=${percent(usage.hit_share)} words=${hits} />
  </dl>`;
}

function spentWords(usage) {
  if (!usage.calls) return "nothing was sent through Clew";
  const summaries = usage.auxiliary_cost_usd ? `; ${dollars(usage.auxiliary_cost_usd)} of it for summaries` : "";
  return `cost so far, ${plural(usage.calls, "request")}${summaries}`;
}

/** What the gateway compared, else what the compactions saved as far as prices are known. */
function savedBy(usage, compactions) {
  if (usage.saved_usd !== null) return usage.saved_usd;
  const priced = compactions.filter((made) => made.saved_usd !== null);
  return priced.length ? priced.reduce((sum, made) => sum + made.saved_usd, 0) : null;
}

function savedWords(compactions) {
  if (!compactions.length) return "saved; nothing was compacted yet";
  const kept = compactions.reduce((sum, made) => sum + (made.tokens_saved || 0), 0);
  if (!kept) return `saved; no request since the ${compactions.length === 1 ? "compaction" : "compactions"}`;
  return `saved by ${plural(compactions.length, "compaction")}: ${count(kept)} tokens kept out`;
}

function Messages({ id, session, current }) {
  const [typed, setTyped] = useState("");
  const [goTo, setGoTo] = useState(null);
  const number = /^m?(\d{1,9})$/.exec(typed.trim());
  const jump = (event) => {
    event.preventDefault();
    if (!number || Number(number[1]) >= session.messages) return;
    setGoTo(Number(number[1]));
    go(messageLink(id, Number(number[1])));
  };
  return html`<section aria-labelledby="t-messages"><h2 id="t-messages" tabindex="-1">Every message</h2>
    <p class="lead">As received, the oldest first: U you, A agent, T tool result. Filled ones are in the window, dashed ones are there shortened, outlined ones are folded into a handoff.</p>
    <form class="filters" role="search" aria-label="In this session" onSubmit=${jump}>
      <div class="find"><label for="find-here">Search this session, or go to a message (m12)</label>
        <input id="find-here" type="search" autocomplete="off" spellcheck=${false} value=${typed} onInput=${(event) => setTyped(event.target.value)} /></div>
    </form>
    ${typed.trim() && !number ? html`<${SearchHits} query=${typed.trim()} session=${id} />`
    : session.messages === 0 ? html`<p class="lead">There are none yet.</p>`
    : html`<div class="card list-card"><${MessageList} id=${id} first=${0} stop=${session.messages} current=${current} goTo=${goTo}
        version=${`${session.compactions} ${session.messages}`} title="Messages" /></div>`}
  </section>`;
}
