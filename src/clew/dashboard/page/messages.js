// Messages of a session: a list of which only the visible rows exist, and one message beside the page.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { count, cut, fullTime, oneLine } from "./format.js";
import { Problem } from "./parts.js";
import { go, messageLink, replaceRoute, sessionLink } from "./route.js";

const BLOCK = 50, ROW_PIXELS = 40, NARROW_ROW_PIXELS = 58, NARROW_PIXELS = 432, AROUND = 8, ROW_CHARS = 240;
const FATES = {
  view: "as it is", shortened: "shortened", folded: "folded into a handoff", removed: "removed", kept: "kept",
};
const LETTERS = { system: "S", developer: "S", user: "U", assistant: "A", tool: "T" };

function kindOf(message) {
  if (message.role === "tool") return message.tool ? "result of " + message.tool : "tool result";
  const who = { user: "you", assistant: "agent", system: "system prompt", developer: "system prompt" }[message.role] || message.role;
  const tools = [...new Set((message.calls || []).map((call) => call.name))];
  return tools.length ? `${who}, calls ${tools.join(", ")}` : who;
}

function openingOf(message) {
  const calls = (message.calls || []).map((call) => `${call.name} ${oneLine(call.arguments)}`);
  return oneLine(message.text) || calls.join("; ") || (message.images ? "an image" : "(no text)");
}

/** Messages by number, read in blocks when they come into sight. */
function useBlocks(id, compaction, version) {
  const store = useRef({ messages: new Map(), asked: new Set(), done: new Set() });
  const [, draw] = useState(0);
  const [problem, setProblem] = useState(null);
  const name = `${id} ${compaction} ${version}`;
  const current = useRef(name);
  if (current.current !== name) {
    current.current = name;
    // What is shown stays until it was read again.
    store.current = { messages: store.current.messages, asked: new Set(), done: new Set() };
  }
  const want = async (start, stop) => {
    const now = store.current;
    for (let block = Math.floor(start / BLOCK); block <= Math.floor((stop - 1) / BLOCK); block++) {
      if (now.asked.has(block)) continue;
      now.asked.add(block);
      try {
        const query = { before: (block + 1) * BLOCK, limit: BLOCK, chars: ROW_CHARS, compaction };
        const page = await get(`sessions/${encodeURIComponent(id)}/messages`, query);
        for (const message of page.messages) now.messages.set(message.seq, message);
        now.done.add(block);
        if (store.current === now) { setProblem(null); draw((turn) => turn + 1); }
      } catch (failed) { now.asked.delete(block); if (store.current === now) setProblem(failed); return; }
    }
  };
  const find = (seq) => store.current.messages.get(seq) || null;
  const isRead = (seq) => store.current.done.has(Math.floor(seq / BLOCK));
  return { find, isRead, want, problem };
}

function MessageRow({ seq, message, isRead, isCurrent, isTab, top, height, place, size, id, label }) {
  const fate = message ? message.fate : isRead ? "kept" : "";
  const words = !message ? (isRead ? "stands as it was" : "…") : cut(openingOf(message), 220);
  const letter = message ? LETTERS[message.role] || "?" : "·";
  return html`<li style=${{ top: top + "px", height: height + "px" }} aria-setsize=${size} aria-posinset=${place}>
    <a href=${messageLink(id, seq)} class=${"message" + (isCurrent ? " current" : "")} data-seq=${seq} tabindex=${isTab ? 0 : -1}
      aria-current=${isCurrent ? "true" : undefined}>
      <span class=${`cell ${fate} ${message ? message.role : ""}`} aria-hidden="true">${letter}</span>
      <span class="seq">m${seq}</span>
      <span class="kind">${message ? kindOf(message) : ""}</span>
      <span class="unseen">${message ? label(message) : ""}</span>
      <span class="words">${words}</span>
      <span class="num soft">${message && message.tokens !== null ? count(message.tokens) : ""}</span></a></li>`;
}

const fateWords = (message) => FATES[message.fate] || message.fate;

/** The list of the messages `first` to `stop`. Only those in sight are elements, so any number of them is quick. */
export function MessageList({ id, first, stop, current = null, goTo = null, compaction, version = 0, title, label = fateWords }) {
  const scroller = useRef(null);
  const [sight, setSight] = useState({ top: 0, height: 480, width: 800 });
  const [tab, setTab] = useState(first);
  const blocks = useBlocks(id, compaction, version);
  const size = Math.max(0, stop - first);
  const rowHeight = sight.width < NARROW_PIXELS ? NARROW_ROW_PIXELS : ROW_PIXELS;
  const from = Math.max(0, Math.floor(sight.top / rowHeight) - AROUND);
  const to = Math.min(size, Math.ceil((sight.top + sight.height) / rowHeight) + AROUND);
  const look = () => {
    const at = scroller.current;
    if (at) setSight({ top: at.scrollTop, height: at.clientHeight, width: at.clientWidth });
  };
  useLayoutEffect(() => {
    look();
    const watcher = new ResizeObserver(look);
    watcher.observe(scroller.current);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => { if (to > from) blocks.want(first + from, first + to); }, [id, compaction, version, from, to, first]);
  const show = (seq) => {
    const at = scroller.current, top = (seq - first) * rowHeight;
    if (!at) return;
    const isInSight = top >= at.scrollTop && top <= at.scrollTop + at.clientHeight - rowHeight;
    if (!isInSight) at.scrollTop = Math.max(0, top - at.clientHeight / 2);
    look();
  };
  const target = goTo === null ? current : goTo;
  useEffect(() => { if (target !== null && target >= first && target < stop) { setTab(target); show(target); } }, [target, first, stop]);
  const focusOn = (seq) => {
    setTab(seq);
    show(seq);
    requestAnimationFrame(() => {
      const row = scroller.current && scroller.current.querySelector(`[data-seq="${seq}"]`);
      if (row) row.focus({ preventScroll: true });
    });
  };
  const keys = (event) => {
    const page = Math.max(1, Math.floor(sight.height / rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    const row = event.target.closest("[data-seq]");
    if (step === undefined || !row) return;
    event.preventDefault();
    focusOn(Math.max(first, Math.min(stop - 1, Number(row.dataset.seq) + step)));
  };
  const tabStop = tab >= first + from && tab < first + to ? tab : first + from;
  const rows = Array.from({ length: Math.max(0, to - from) }, (_, index) => first + from + index);
  return html`
    ${blocks.problem && html`<${Problem} problem=${blocks.problem} again=${() => blocks.want(first + from, first + to)} />`}
    <div class="messages" ref=${scroller} style=${{ height: size * rowHeight + "px" }} onScroll=${look} onKeyDown=${keys}>
      <ol aria-label=${title} style=${{ height: size * rowHeight + "px" }}>
        ${rows.map((seq) => html`<${MessageRow} key=${seq} id=${id} seq=${seq} message=${blocks.find(seq)} isRead=${blocks.isRead(seq)}
          isCurrent=${seq === current} isTab=${seq === tabStop} top=${(seq - first) * rowHeight} height=${rowHeight}
          place=${seq - first + 1} size=${size} label=${label} />`)}
      </ol></div>`;
}

const Excerpt = ({ title, text, left = 0 }) => html`<h3>${title}</h3><pre tabindex="0">${text || "(nothing to show)"}</pre>
  ${left > 0 && html`<p class="note">${count(left)} more chars are only in the export.</p>`}`;

/** One message whole, beside the page. It does not block it: escape closes it, arrows go on. */
export function MessagePanel({ id, seq, total }) {
  const [state, setState] = useState({ message: null, problem: null });
  const title = useRef(null);
  const opener = useRef(document.activeElement);
  const step = (to) => { if (to >= 0 && to < total) replaceRoute(messageLink(id, to)); };
  const close = () => go(sessionLink(id));
  // With the drawing, not after it: the next key belongs to the message already.
  useLayoutEffect(() => {
    document.body.classList.add("reading");
    title.current.focus({ preventScroll: true });
    return () => {
      document.body.classList.remove("reading");
      const back = opener.current;
      if (back && back.isConnected && back !== document.body) back.focus({ preventScroll: true });
    };
  }, []);
  useEffect(() => {
    const stop = new AbortController();
    get(`sessions/${encodeURIComponent(id)}/messages/${seq}`, {}, stop.signal).then(
      (value) => setState({ message: value.message, problem: null }),
      (problem) => { if (!stop.signal.aborted) setState({ message: null, problem }); });
    return () => stop.abort();
  }, [id, seq]);
  const keys = (event) => {
    if (event.key === "Escape") { event.stopPropagation(); close(); }
    const isText = event.target.tagName === "PRE";
    if (event.key === "ArrowRight" && !isText) step(seq + 1);
    if (event.key === "ArrowLeft" && !isText) step(seq - 1);
  };
  const message = state.message && state.message.seq === seq ? state.message : null;
  return html`<aside class="panel" aria-labelledby="message-title" onKeyDown=${keys}>
    <div class="bar-of-panel">
      <button type="button" aria-label="The message before" disabled=${seq === 0} onClick=${() => step(seq - 1)}>←</button>
      <button type="button" aria-label="The message after" disabled=${seq >= total - 1} onClick=${() => step(seq + 1)}>→</button>
      <h2 id="message-title" tabindex="-1" ref=${title}>m${seq}${message && " · " + kindOf(message)}</h2>
      <button type="button" aria-label="Close" onClick=${close}>✕</button>
    </div>
    ${state.problem && html`<${Problem} problem=${state.problem} />`}
    ${!message && !state.problem && html`<p class="waiting" role="status">Reading m${seq}…</p>`}
    ${message && html`<${MessageBody} message=${message} />`}
  </aside>`;
}

const SEEN = {
  view: "the model sees it as it is", shortened: "the model sees it shortened", folded: "the model sees a handoff in its place",
};

function MessageBody({ message }) {
  const facts = [message.tokens === null ? null : `${count(message.tokens)} tokens`, fullTime(message.at)];
  const fate = SEEN[message.fate];
  const calls = message.calls || [];
  return html`<p class="facts">${[...facts, fate].filter(Boolean).join(" · ")}</p>
    ${message.is_damaged && html`<p class="warnings" role="note">This message cannot be read any more: the store says what is left of it below.</p>`}
    ${message.now && html`<${Excerpt} title="Stands now as" text=${message.now.text} left=${message.now.left_out_chars} />`}
    ${(message.text || !calls.length) && html`
      <${Excerpt} title=${message.fate === "view" ? "Message" : "The original"} text=${message.text} left=${message.left_out_chars} />`}
    ${calls.map((call) => html`<${Excerpt} title=${"Calls " + call.name} text=${pretty(call.arguments)} />`)}
    ${message.images > 0 && html`<p class="note">${message.images === 1 ? "An image belongs" : `${message.images} images belong`} to it, not shown here.</p>`}`;
}

/** Arguments with their breaks, where they are JSON. */
function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
