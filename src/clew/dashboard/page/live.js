// Events of the server: one connection for the whole page, with any number of listeners.

const AGAIN_MILLISECONDS = 4_000;
const listeners = new Set();
let source = null;

/** Calls `listener(name, value)` with every event; returns what stops it. `name`: changed, deleted, reload, on or off. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const tell = (name, value = {}) => { for (const listener of [...listeners]) listener(name, value); };

export function follow() {
  leave();
  const opened = source = new EventSource("api/events");
  let hasBegun = false;
  opened.addEventListener("hello", () => {
    tell("on");
    // Events that were sent without a connection are not sent again.
    if (hasBegun) tell("reload");
    hasBegun = true;
  });
  for (const name of ["changed", "deleted", "reload"]) {
    opened.addEventListener(name, (event) => tell(name, JSON.parse(event.data)));
  }
  opened.onerror = () => {
    tell("off");
    // The browser tries again by itself, unless the answer was no stream at all.
    if (opened.readyState === EventSource.CLOSED && source === opened) setTimeout(() => source === opened && again(), AGAIN_MILLISECONDS);
  };
}

function again() {
  follow();
  tell("reload");
}

export function leave() {
  if (source) source.close();
  source = null;
}
