// Where we are, in the fragment of the address: `#/`, `#/session/ID`, `#/session/ID/m12`, `#/insights`, each with a query.

export function routeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view, id, place] = path.split("/").map((part) => decode(part));
  const options = Object.fromEntries(new URLSearchParams(query));
  if (view === "session" && id) {
    const number = /^m(\d{1,9})$/.exec(place || "");
    return { view, id, seq: number ? Number(number[1]) : null, section: number ? null : place || null, options };
  }
  return { view: view === "insights" ? "insights" : "sessions", options };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

const queryOf = (options) => {
  const given = Object.entries(options).filter(([, value]) => value);
  return given.length ? "?" + new URLSearchParams(given).toString() : "";
};

export const sessionsLink = (options = {}) => "#/" + queryOf(options);
export const insightsLink = (options = {}) => "#/insights" + queryOf(options);
export const sessionLink = (id, place = "") => `#/session/${encodeURIComponent(id)}${place ? "/" + place : ""}`;
export const messageLink = (id, seq) => sessionLink(id, "m" + seq);

/** Change the address without a new entry in the history: for what changes while somebody types. */
export function replaceRoute(link) {
  if (location.hash === link) return;
  history.replaceState(history.state, "", link);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export const go = (link) => { location.hash = link; };
