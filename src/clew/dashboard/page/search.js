// What was found in the messages of all sessions, or of one, while somebody types.

import { html, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { fullTime, oneLine, plural, when } from "./format.js";
import { Choice, Problem, useLoaded, Waiting } from "./parts.js";
import { messageLink, sessionLink } from "./route.js";

const LIMIT = 50;
const ROLES = { "": "everything", user: "what you said", assistant: "what agents said", tool: "tool results" };

/** A snippet with its hits marked. Marks count characters as people do, so not by halves of a pair. */
export function Marked({ text, marks }) {
  const chars = [...text], pieces = [];
  let done = 0;
  for (const [start, stop] of marks) {
    if (start < done) continue;
    pieces.push(chars.slice(done, start).join(""), html`<mark>${chars.slice(start, stop).join("")}</mark>`);
    done = stop;
  }
  return [...pieces, chars.slice(done).join("")];
}

const place = (hit) => (hit.kind === "message" ? "m" + hit.seq : hit.kind === "summary" ? "handoff" : "output");
const source = (hit) => (hit.role === "tool" ? hit.tool || "tool result" : { user: "you", assistant: "agent" }[hit.role] || "");

function linkOf(hit) {
  if (hit.kind === "message") return messageLink(hit.session, hit.seq);
  return sessionLink(hit.session, hit.kind === "summary" ? "handoffs" : "");
}

const Links = (words, hit, numbers) => numbers.length > 0 && html`<span class="soft">${words}: ${numbers.map(
  (seq) => html`<a class="ref" href=${messageLink(hit.session, seq)}>m${seq}</a> `)}</span>`;

const Hit = ({ hit }) => html`<li class="hit">
  <a href=${linkOf(hit)}><b>${oneLine(hit.title) || "Without a title"}</b>
    <span class="soft"> ${[place(hit), source(hit)].filter(Boolean).join(" · ")} · <time datetime=${hit.at} title=${fullTime(hit.at)}>${when(hit.at)}</time></span></a>
  <p><${Marked} text=${hit.snippet} marks=${hit.marks} /></p>
  ${Links("call or result", hit, hit.linked)}${Links("nearly the same", hit, hit.same_in)}</li>`;

function foundWords({ query, hits, searched }) {
  if (!hits.length) return `Nothing with “${query}”${searched ? " in " + searched : ""}.`;
  return `${hits.length === LIMIT ? `The best ${LIMIT} places` : plural(hits.length, "place")} with “${query}”`;
}

export function SearchHits({ query, session }) {
  const [role, setRole] = useState("");
  const found = useLoaded((signal) => get("search", { q: query, role, session, limit: LIMIT }, signal), [query, role, session]);
  const hits = found.value ? found.value.hits : [];
  return html`<section aria-label="What was found" aria-busy=${found.isLoading}>
    <${Choice} label="Search in" values=${ROLES} current=${role} choose=${setRole} />
    ${found.problem && html`<${Problem} problem=${found.problem} again=${found.again} />`}
    ${!found.value && !found.problem && html`<${Waiting} what="the messages" />`}
    ${found.value && html`<p class="facts" role="status">${foundWords(found.value)}</p>
      ${found.value.problem && html`<p class="facts" role="alert">${found.value.problem}</p>`}
      <ol class="hits">${hits.map((hit) => html`<${Hit} hit=${hit} />`)}</ol>`}
  </section>`;
}
