// All sessions, live: how full, what they cost and saved, what was said last; filters, and search over every message.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { count, cut, dollars, fullTime, oneLine, percent, plural, when } from "./format.js";
import { listen } from "./live.js";
import { Meter, Problem, Waiting } from "./parts.js";
import { replaceRoute, routeOf, sessionLink, sessionsLink } from "./route.js";
import { SearchHits } from "./search.js";

const PAGE = 50, MOST_IN_ONE_CALL = 200, TYPING_MILLISECONDS = 120, GATHER_MILLISECONDS = 150;
const STATES = { "": "all", active: "at work now", full: "at the threshold", compacted: "compacted", branch: "branches" };
const SORTS = { "": "last used", cost: "cost", fill: "fullest window", messages: "most messages" };

/** What was shown last: coming back from a session finds the list as it was left. */
const remembered = { key: null, list: null, scroll: 0 };

const FILTERS = ["client", "model", "state", "sort"];
const filtersOf = (options) => Object.fromEntries(FILTERS.map((name) => [name, options[name] || ""]));
const keyOf = (filters) => JSON.stringify(filters);

function useSessions(filters) {
  const key = keyOf(filters);
  const [list, setList] = useState(remembered.key === key ? remembered.list : null);
  const [problem, setProblem] = useState(null);
  const shown = useRef(list);
  const latest = useRef(key);
  latest.current = key;
  const keep = (value) => {
    shown.current = value;
    Object.assign(remembered, { key, list: value });
    setList(value);
    setProblem(null);
  };
  const fetchPage = async (limit, before) => {
    const page = await get("sessions", { ...filters, limit, before });
    return latest.current === key ? page : null;
  };
  const load = () => fetchPage(PAGE).then((page) => page && keep(page), setProblem);
  const more = () => fetchPage(PAGE, shown.current.next).then((page) => {
    if (page) keep({ ...page, sessions: joined(shown.current.sessions, page.sessions) });
  }, setProblem);
  /** The rows that are shown, anew. Whoever has the mouse or the focus in the list is not moved about. */
  const refresh = async (isOrderKept) => {
    const now = shown.current;
    if (!now) return load();
    try {
      const limit = Math.min(MOST_IN_ONE_CALL, Math.max(PAGE, now.sessions.length));
      const page = await fetchPage(limit);
      if (!page) return undefined;
      const rest = now.sessions.length > limit ? now.sessions.slice(limit) : [];
      const fresh = joined(page.sessions, rest);
      const sessions = isOrderKept ? inOrderOf(now.sessions, fresh) : fresh;
      keep({ ...page, next: rest.length ? now.next : page.next, sessions });
    } catch (failed) { setProblem(failed); }
    return undefined;
  };
  const drop = (ids) => {
    if (shown.current) keep({ ...shown.current, sessions: shown.current.sessions.filter((row) => !ids.includes(row.id)) });
  };
  useEffect(() => {
    if (remembered.key === key && shown.current === remembered.list && shown.current) refresh(true);
    else { shown.current = null; setList(null); load(); }
  }, [key]);
  return { list, problem, load, more, refresh, drop };
}

const joined = (first, second) => {
  const known = new Set(first.map((row) => row.id));
  return [...first, ...second.filter((row) => !known.has(row.id))];
};

/** `fresh` in the order of `before`, what is new at the top. */
function inOrderOf(before, fresh) {
  const byId = new Map(fresh.map((row) => [row.id, row]));
  const kept = before.filter((row) => byId.has(row.id)).map((row) => byId.get(row.id));
  return joined(fresh.filter((row) => !before.some((old) => old.id === row.id)), kept);
}

export function Sessions({ route, me }) {
  const filters = filtersOf(route.options);
  const { list, problem, load, more, refresh, drop } = useSessions(filters);
  const area = useRef(null);
  const [typed, setTyped] = useState(route.options.search || "");
  const search = route.options.search || "";
  useEffect(() => { document.title = "Sessions · Clew"; }, []);
  useEffect(() => { if (search !== typed.trim()) setTyped(search); }, [search]);
  useEffect(() => {
    if (typed.trim() === search) return undefined;
    // The address may have changed while somebody typed: it is read when the time is over.
    const look = () => replaceRoute(sessionsLink({ ...routeOf(location.hash).options, search: typed.trim() }));
    const timer = setTimeout(look, TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [typed]);
  useLiveList(refresh, drop, area);
  useLayoutEffect(() => {
    if (list && remembered.scroll) scrollTo({ top: remembered.scroll, behavior: "instant" });
    remembered.scroll = 0;
    const keepScroll = () => { remembered.scroll = scrollY; };
    addEventListener("scroll", keepScroll, { passive: true });
    return () => removeEventListener("scroll", keepScroll);
  }, []);
  return html`
    <div class="head"><h1>Sessions</h1>${list && html`<p class="facts">${totals(list.totals)}</p>`}</div>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <div class="find"><label for="find">Search every message</label>
        <input id="find" type="search" value=${typed} placeholder="a word, a path, an error…" autocomplete="off" spellcheck=${false}
          onInput=${(event) => setTyped(event.target.value)} /></div>
      ${!search && list && list.total > 0 && html`<${Filters} filters=${filters} list=${list} />`}
    </form>
    ${problem && html`<${Problem} problem=${problem} again=${load} />`}
    ${search ? html`<${SearchHits} query=${search} />`
    : html`<section class="list" aria-label="Sessions" ref=${area}>
        ${!list && !problem && html`<${Waiting} what="the sessions" />`}
        ${list && (list.sessions.length ? html`<${Rows} list=${list} more=${more} />` : html`<${Nothing} list=${list} me=${me} />`)}
      </section>`}`;
}

const totals = (all) => {
  const words = [plural(all.sessions, "session"), plural(all.messages, "message")];
  return [...words, all.active ? `${count(all.active)} at work now` : "none at work now"].join(" · ");
};

/** Follows what happens: many events in a row are one refresh. */
function useLiveList(refresh, drop, area) {
  const latest = useRef(null);
  latest.current = { refresh, drop };
  useEffect(() => {
    let timer = 0;
    const stop = listen((name, value) => {
      if (name === "deleted") latest.current.drop(value.sessions);
      if (name !== "changed" && name !== "reload") return;
      clearTimeout(timer);
      timer = setTimeout(() => {
        const list = area.current;
        latest.current.refresh(Boolean(list && (list.matches(":hover") || list.contains(document.activeElement))));
      }, GATHER_MILLISECONDS);
    });
    return () => { stop(); clearTimeout(timer); };
  }, []);
}

function Filters({ filters, list }) {
  const choose = (name) => (event) => replaceRoute(sessionsLink({ ...filters, [name]: event.target.value }));
  const named = (values) => ({ "": "all", ...Object.fromEntries(values.map((value) => [value, value])) });
  const select = (name, label, values) => html`<div><label for=${"by-" + name}>${label}</label>
    <select id=${"by-" + name} value=${filters[name]} onChange=${choose(name)}>
      ${Object.entries(values).map(([value, words]) => html`<option value=${value} selected=${value === filters[name]}>${words}</option>`)}</select></div>`;
  return html`
    ${select("state", "Show", STATES)}
    ${select("client", "Client", named(list.clients))}
    ${select("model", "Model", named(list.models))}
    ${select("sort", "Sorted by", SORTS)}`;
}

function Rows({ list, more }) {
  const [isBusy, setIsBusy] = useState(false);
  const next = async () => { setIsBusy(true); await more(); setIsBusy(false); };
  const left = list.matching - list.sessions.length;
  return html`
    <ol class="rows">${list.sessions.map((row) => html`<${Row} key=${row.id} row=${row} />`)}</ol>
    ${list.next && left > 0 && html`<p class="show-more">
      <button type="button" aria-disabled=${isBusy} onClick=${() => isBusy || next()}>${isBusy ? "Reading…" : `Show ${Math.min(PAGE, left)} more`}</button>
      <span class="soft">${count(list.sessions.length)} of ${count(list.matching)}</span></p>`}`;
}

export const titleOf = (row) => oneLine(row.title) || cut(oneLine(row.opening), 90) || "Without words yet";

export const costWords = (usage) => {
  if (!usage.calls) return "–";
  if (usage.calls_of_unknown_cost === usage.calls) return "no price";
  return dollars(usage.cost_usd) + (usage.calls_of_unknown_cost ? "+" : "");
};

function Row({ row }) {
  const usage = row.usage;
  const facts = [row.model || "no model named", row.client, plural(row.messages, "message")];
  if (row.kind !== "root") facts.unshift(row.kind);
  if (row.compactions) facts.push(`compacted ${row.compactions === 1 ? "once" : row.compactions + " times"}`);
  if (row.branches) facts.push(plural(row.branches, "branch", "branches"));
  return html`<li class=${"row" + (row.is_active ? " active" : "")}>
    <div class="what">
      <h2><a href=${sessionLink(row.id)}>${titleOf(row)}</a></h2>
      <p class="facts">${row.is_active && html`<span class="tag at-work"><i></i>at work</span> `}${facts.join(" · ")}</p>
      ${row.last_words && html`<p class="last"><span class="who">${who(row.last_role)}</span> ${cut(oneLine(row.last_words), 180)}</p>`}
    </div>
    <${Meter} ...${row.meter} />
    <dl class="sums">
      <div><dt>cost</dt><dd>${costWords(usage)}</dd></div>
      <div><dt>saved</dt><dd class=${usage.saved_usd > 0 ? "good" : ""}>${usage.saved_usd === null ? "–" : dollars(usage.saved_usd)}</dd></div>
      <div><dt>cache hits</dt><dd>${percent(usage.hit_share)}</dd></div>
      <div><dt>used</dt><dd><time datetime=${row.updated} title=${fullTime(row.updated)}>${when(row.updated)}</time></dd></div>
    </dl></li>`;
}

const who = (role) => ({ user: "You:", assistant: "Agent:", tool: "Tool:" })[role] || "";

function Nothing({ list, me }) {
  if (list.total) {
    return html`<p class="empty"><b>No session matches these filters.</b><a href=${sessionsLink()}>Show all ${count(list.total)}</a></p>`;
  }
  return me.sign_in === "key"
    ? html`<p class="empty"><b>No sessions yet</b>Send a request through this gateway with your key, and it appears here.</p>`
    : html`<p class="empty"><b>No sessions yet</b>Start one with <code>clew chat</code>, put an agent behind <code>clew wrap</code>, or bring in what you have with <code>clew import</code>. It appears here by itself.</p>`;
}
