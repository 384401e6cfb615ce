// Calls to the server this page came from. Addresses are relative, so that the page works below any path.

const CSRF_HEADER = "X-Clew-CSRF";
const CALL_MILLISECONDS = 300_000;

/** A call that did not work, with words for a person. */
export class CallFailed extends Error {
  constructor({ message, remedy = "", kind = "", status = 0 }) {
    super(message);
    Object.assign(this, { remedy, kind, status });
  }
}

let csrf = null;
let onSignedOut = () => {};
/** The error when the server requires a sign-in. */
export const whenSignedOut = (listener) => { onSignedOut = listener; };

function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return path + (text ? "?" + text : "");
}

async function send(method, path, { query, body, signal }) {
  const headers = method === "GET" || csrf === null ? {} : { [CSRF_HEADER]: csrf };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const timeout = AbortSignal.timeout(CALL_MILLISECONDS);
  try {
    return await fetch(address(path, query), {
      method, headers, credentials: "same-origin", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  } catch (problem) {
    if (signal && signal.aborted) throw problem;
    throw new CallFailed(timeout.aborted
      ? { message: "The server did not answer within five minutes.", remedy: "It may still be at work: look again in a while." }
      : { message: "The server cannot be reached.", remedy: "Is it still running? Start it again, then try again here." });
  }
}

async function read(response) {
  if (response.status === 204) return null;
  let value = null;
  try { value = await response.json(); } catch { /* Without JSON, the status is the message. */ }
  if (response.ok && value !== null) return value;
  const told = (value && value.error) || {};
  const message = told.message || `The server answered with status ${response.status}.`;
  throw new CallFailed({ message: message[0].toUpperCase() + message.slice(1), remedy: told.remedy, kind: told.kind, status: response.status });
}

async function call(method, path, given) {
  try {
    return await read(await send(method, path, given));
  } catch (problem) {
    // A token is as old as the sign-in: after a restart of the server there is a new one.
    if (problem.kind === "csrf" && !given.isAgain) {
      await whoAmI();
      return call(method, path, { ...given, isAgain: true });
    }
    if (problem.status === 401 && path !== "api/sign-in") onSignedOut();
    throw problem;
  }
}

export const get = (path, query, signal) => call("GET", "api/" + path, { query, signal });

const conversation = (id, rest = "") => `clew/conversations/${encodeURIComponent(id)}${rest}`;
/** What a compaction would do, with its handoff in sections. */
export async function previewCompaction(id, focus, signal) {
  const body = focus ? { preview: true, focus } : { preview: true };
  const found = await call("POST", conversation(id, "/compress"), { body, signal });
  if (!found.handoff_sections) return { ...found, sections: [] };
  const shown = { handoff_sections: found.handoff_sections, session: id };
  const view = await call("POST", "api/handoff", { body: shown, signal });
  return { ...found, sections: view.sections };
}
export const applyPreview = (id, preview) => call("POST", conversation(id, "/compress"), { body: { apply: preview } });
export const undoCompaction = (id) => call("POST", conversation(id, "/undo"), { body: {} });
export const rename = (id, title) => call("PATCH", conversation(id), { body: { title } });
export const branch = (id, fields) => call("POST", conversation(id, "/branch"), { body: fields });
export const removeSession = (id) => call("DELETE", conversation(id), {});
export const exportAddress = (id, format, isView) => address(conversation(id, "/export"), { format, view: isView });

/** Who is signed in, and the token that changes need. */
export async function whoAmI() {
  const me = await read(await send("GET", "api/me", {}));
  csrf = me.csrf;
  return me;
}

export async function signIn(fields) {
  const me = await call("POST", "api/sign-in", { body: fields });
  csrf = me.csrf;
  return me;
}

export const signOut = () => call("POST", "api/sign-out", { body: {} });
