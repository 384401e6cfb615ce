// The page: who is signed in, which view is shown, and whether it is live.

import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { signIn, signOut, whenSignedOut, whoAmI } from "./api.js";
import { Insights } from "./insights.js";
import { follow, leave, listen } from "./live.js";
import { Problem, useAction } from "./parts.js";
import { insightsLink, routeOf, sessionsLink } from "./route.js";
import { Session } from "./session.js";
import { Sessions } from "./sessions.js";
import { useSaid } from "./said.js";

const LIVE_WORDS = { true: "live", false: "not connected, trying again", null: "connecting" };
const LAUNCH = /^#launch=(.+)$/;

async function begin() {
  const launch = LAUNCH.exec(location.hash);
  if (!launch) return whoAmI();
  history.replaceState(null, "", location.pathname + "#/");
  try {
    return await signIn({ launch: launch[1] });
  } catch (problem) {
    const me = await whoAmI();
    return me.is_signed_in ? me : { ...me, note: problem.message };
  }
}

const Brand = () => html`<a class="brand" href=${sessionsLink()}><svg viewBox="0 0 32 32" aria-hidden="true"><circle cx="15" cy="16" r="11" /><path d="M5 12c7-6 14-6 20 1M4 17c8-5 15-4 21 3M7 23c5-5 10-5 15-1M13 5c-5 7-5 15 0 22M19 6c4 6 4 14-1 20M25 20c1 4 3 6 6 6" /></svg>clew</a>`;

function SignIn({ me, done }) {
  const [key, setKey] = useState("");
  const action = useAction(async () => done(await signIn({ key: key.trim() })));
  const submit = (event) => { event.preventDefault(); action.run(); };
  return html`<main id="main" class="wide" tabindex="-1"><div class="sign-in card">
    <h1>Sign in</h1>
    ${me.note && html`<p class="warnings" role="note">${me.note}</p>`}
    ${me.sign_in === "key" ? html`<form onSubmit=${submit}>
        <p class="lead">This gateway has keys. Yours shows you your own sessions, and no others.</p>
        <div class="field"><label for="key">Key of Clew</label>
        <input id="key" type="password" autocomplete="current-password" required value=${key} placeholder="clew_sk_…"
          onInput=${(event) => setKey(event.target.value)} /></div>
        ${action.problem && html`<${Problem} problem=${action.problem} />`}
        <div class="buttons"><button class="main" type="submit" aria-disabled=${action.isBusy}>${action.isBusy ? "Signing in…" : "Sign in"}</button></div>
      </form>`
    : html`<p>Open the address that <code>clew dashboard</code> printed when it started. It works once: run the command again for a new one.</p>`}
  </div></main>`;
}

function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    // It may have changed between the first drawing and this.
    changed();
    return () => removeEventListener("hashchange", changed);
  }, []);
  return useMemo(() => routeOf(hash), [hash]);
}

function useLive(isSignedIn) {
  const [isLive, setIsLive] = useState(null);
  useEffect(() => {
    if (!isSignedIn) return undefined;
    const stop = listen((name) => { if (name === "on" || name === "off") setIsLive(name === "on"); });
    follow();
    return () => { stop(); leave(); };
  }, [isSignedIn]);
  return isLive;
}

/** After a change of view the focus goes to its heading, as a new page would have it; not at the first one. */
function useFocusOnView(route) {
  const before = useRef(null);
  const name = route.view + (route.id || "");
  useLayoutEffect(() => {
    if (before.current !== null && before.current !== name) {
      const main = document.getElementById("main");
      if (main) main.focus({ preventScroll: true });
    }
    before.current = name;
  }, [name]);
}

function View({ route, me }) {
  if (route.view === "session") return html`<${Session} key=${route.id} route=${route} me=${me} />`;
  if (route.view === "insights") return html`<${Insights} route=${route} />`;
  return html`<${Sessions} route=${route} me=${me} />`;
}

const skip = (event) => { event.preventDefault(); document.getElementById("main").focus(); };

function Page({ me, leaveNow }) {
  const route = useRoute();
  const isLive = useLive(true);
  useFocusOnView(route);
  const current = (name) => (route.view === name ? "page" : undefined);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="wide top"><${Brand} />
      <nav aria-label="Views">
        <a href=${sessionsLink()} aria-current=${current("sessions")}>Sessions</a>
        <a href=${insightsLink()} aria-current=${current("insights")}>Insights</a></nav>
      <p class=${"live" + (isLive === false ? " off" : "")} role="status"><i></i>${LIVE_WORDS[isLive]}</p>
      ${me.sign_in === "key" && html`<button type="button" onClick=${leaveNow}>Sign out</button>`}
    </header>
    <main id="main" class="wide" tabindex="-1"><${View} route=${route} me=${me} /></main>
    <footer class="wide">clew ${me.version}${me.label && html` · <span class="mono">${me.label}</span>`}. This page loads nothing from anywhere else.</footer>`;
}

function App() {
  const [me, setMe] = useState(null);
  const [problem, setProblem] = useState(null);
  const said = useSaid();
  const start = () => { setProblem(null); begin().then(setMe, setProblem); };
  useEffect(() => {
    whenSignedOut(() => whoAmI().then(setMe, () => {}));
    start();
  }, []);
  const leaveNow = async () => { await signOut(); setMe(await whoAmI()); };
  let shown = html`<main id="main" class="wide" tabindex="-1"><p class="waiting" role="status">One moment…</p></main>`;
  if (problem) shown = html`<main id="main" class="wide" tabindex="-1"><${Problem} problem=${problem} again=${start} /></main>`;
  else if (me && !me.is_signed_in) shown = html`<header class="wide top"><${Brand} /></header><${SignIn} me=${me} done=${setMe} />`;
  else if (me) shown = html`<${Page} me=${me} leaveNow=${leaveNow} />`;
  return html`${shown}<div role="status" aria-live="polite">${said && html`<p class="said">${said}</p>`}</div>`;
}

document.getElementById("app").replaceChildren();
render(html`<${App} />`, document.getElementById("app"));
