// What several views are made of: meters, bars, figures, states of loading, dialogs.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { count, share, short } from "./format.js";

/** What `load` gives: undefined while it runs, and again whenever one of `inputs` changes. What was there before stays
    until the new value comes, so that nothing jumps. */
export function useLoaded(load, inputs) {
  const [state, setState] = useState({ value: undefined, problem: null, isLoading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState((now) => ({ ...now, isLoading: true }));
    load(stop.signal).then(
      (value) => { if (!stop.signal.aborted) setState({ value, problem: null, isLoading: false }); },
      (problem) => { if (!stop.signal.aborted) setState((now) => ({ ...now, problem, isLoading: false })); },
    );
    return () => stop.abort();
  }, [...inputs, turn]);
  const change = (make) => setState((now) => (now.value === undefined ? now : { ...now, value: make(now.value) }));
  return { ...state, again: () => setTurn((now) => now + 1), change };
}

/** The width of an element, kept up to date. */
export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!ref.current) return undefined;
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watcher.observe(ref.current);
    return () => watcher.disconnect();
  }, []);
  return [ref, width];
}

export const Problem = ({ problem, again }) => html`
  <div class="warnings bad" role="alert">
    <p><strong>${problem.message}</strong></p>
    ${problem.remedy && html`<p>${problem.remedy}</p>`}
    ${again && html`<p><button type="button" onClick=${again}>Try again</button></p>`}
  </div>`;

export const Waiting = ({ what }) => html`<p class="waiting" role="status">Reading ${what}…</p>`;

export const Warnings = ({ title = "Please note", texts }) => texts.length > 0 && html`
  <div class="warnings" role="note"><strong>${title}</strong><ul>${texts.map((text) => html`<li>${text}</li>`)}</ul></div>`;

export const Figure = ({ value, was, words, kind = "" }) => html`
  <div class=${"figure " + kind}><dt>${words}</dt><dd>${was && html`<span class="was">${was} → </span>`}${value}</dd></div>`;

/** How full a window is, with a line where it will be compacted. */
export function Meter({ tokens, window: whole, threshold }) {
  if (!whole || tokens === null || tokens === undefined) {
    return html`<div class="meter"><span class="words">${tokens ? html`<b>${short(tokens)}</b> tokens, window unknown` : "nothing sent yet"}</span></div>`;
  }
  const ratio = share(tokens, whole), isOver = threshold && tokens >= threshold;
  const words = `${count(tokens)} of ${count(whole)} tokens` + (threshold ? `, compacts at ${count(threshold)}` : "");
  const label = isOver ? "at the threshold" : threshold ? `compacts at ${short(threshold)}` : "no threshold";
  return html`<div class="meter">
    <div class=${"bar" + (isOver ? " over" : "")} role="meter" aria-label="Window" aria-valuemin="0" aria-valuemax=${whole}
      aria-valuenow=${Math.min(tokens, whole)} aria-valuetext=${words} title=${words}>
      <i style=${{ width: `${100 * ratio}%` }}></i>
      ${threshold && html`<u style=${{ left: `${100 * share(threshold, whole)}%` }}></u>`}
    </div>
    <span class="words"><b>${short(tokens)}</b> of ${short(whole)} <span class="soft">· ${label}</span></span>
  </div>`;
}

/** What fills a window, part by part, as `/context` shows it; the bar is as wide as `whole`. */
export function WindowBar({ parts, whole, label }) {
  const shown = parts.filter((part) => part.tokens > 0);
  const told = shown.map((part) => `${part.label} ${count(part.tokens)}`).join(", ");
  const rest = Math.max(0, whole - shown.reduce((sum, part) => sum + part.tokens, 0));
  const [bar, width] = useWidth();
  const isNamed = (tokens, words) => (tokens / whole) * width > 7.5 * words.length + 14;
  const all = `${label}: ${told || "nothing"}${rest ? `, free ${count(rest)}` : ""}`;
  return html`<div class="window-bar" ref=${bar} role="img" aria-label=${all}>
    ${shown.map((part) => html`
      <div class=${"part p-" + part.name} style=${{ flexGrow: part.tokens }} title=${`${part.label}: ${count(part.tokens)} tokens`}>
        ${isNamed(part.tokens, part.label) && html`<b>${part.label}</b>`}</div>`)}
    ${rest > 0 && html`<div class="part p-free" style=${{ flexGrow: rest }} title=${`free: ${count(rest)} tokens`}>
      ${isNamed(rest, "free 000K") && `${short(rest)} free`}</div>`}
  </div>`;
}

export const Keys = ({ items }) => html`<ul class="keys">
  ${items.map((item) => html`<li><i class=${"p-" + item.name}></i>${item.label}${" "}
    ${item.words && html`<span class="num">${item.words}</span>`}</li>`)}</ul>`;

/** One of several, as a row of buttons. */
export const Choice = ({ label, values, current, choose }) => html`<div class="roles" role="group" aria-label=${label}>
  ${Object.entries(values).map(([value, words]) => html`
    <button type="button" aria-pressed=${value === current} onClick=${() => choose(value)}>${words}</button>`)}</div>`;

/** A share as a thin bar in a table; the figure is beside it, so that screen readers skip it. */
export const Thin = ({ ratio, kind = "" }) => html`
  <span class=${"thin " + kind} aria-hidden="true"><i style=${{ width: `${100 * ratio}%` }}></i></span>`;

/** A modal dialog. The browser keeps the focus inside; closing gives it back to where it was. */
export function Dialog({ title, lead, isLarge = false, close, children }) {
  const ref = useRef(null), isOver = useRef(false);
  useLayoutEffect(() => {
    const opener = document.activeElement, dialog = ref.current;
    dialog.showModal();
    return () => {
      // While it is open everything else is inert, and cannot have the focus. The event of closing comes later, when
      // another dialog may be open already.
      isOver.current = true;
      dialog.close();
      if (opener && opener.isConnected) opener.focus();
    };
  }, []);
  const outside = (event) => { if (event.target === ref.current) close(); };
  return html`<dialog ref=${ref} class=${isLarge ? "large" : ""} aria-labelledby="dialog-title" onClose=${() => isOver.current || close()}
      onCancel=${(event) => { event.preventDefault(); close(); }} onMouseDown=${outside}>
    <h2 id="dialog-title">${title}</h2>
    ${lead && html`<p class="lead">${lead}</p>`}
    ${children}
  </dialog>`;
}

/** Runs `act` once at a time; gives what to show meanwhile and when it failed. */
export function useAction(act) {
  const [state, setState] = useState({ isBusy: false, problem: null });
  const run = async (...given) => {
    if (state.isBusy) return;
    setState({ isBusy: true, problem: null });
    try {
      await act(...given);
      setState({ isBusy: false, problem: null });
    } catch (problem) {
      setState({ isBusy: false, problem });
    }
  };
  return { ...state, run };
}
