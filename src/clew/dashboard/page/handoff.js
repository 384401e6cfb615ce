// A handoff as elements, from its sections: every reference is a link to its message.

import { html } from "./vendor/htm-preact.js";
import { count } from "./format.js";

const LONG_CHARS = 420, SHOWN_CHARS = 300;

function Span({ span, linkOf }) {
  const link = span.seq === undefined || span.seq === null ? null : linkOf(span.seq);
  if (link) return html`<a class="ref" href=${link}>${span.text}</a>`;
  if (span.style === "code") return html`<code>${span.text}</code>`;
  if (span.style === "strong") return html`<strong>${span.text}</strong>`;
  if (span.style === "unverified") return html`<mark class="unverified" title="the messages do not show this">${span.text}</mark>`;
  return span.text;
}

const Spans = ({ spans, linkOf }) => spans.map((span) => html`<${Span} span=${span} linkOf=${linkOf} />`);

const charsOf = (spans) => spans.reduce((sum, span) => sum + span.text.length, 0);

/** Two parts of a long line: about `chars` characters, and the rest. */
function parted(spans, chars) {
  const first = [], rest = [];
  let left = chars;
  for (const span of spans) {
    const space = span.text.lastIndexOf(" ", left);
    const isPlain = span.style === "text" && (span.seq === undefined || span.seq === null);
    const at = span.text.length <= left ? span.text.length : isPlain && space > 0 ? space : 0;
    if (rest.length || at === 0) rest.push(span);
    else {
      first.push({ ...span, text: span.text.slice(0, at) });
      if (at < span.text.length) rest.push({ ...span, text: span.text.slice(at) });
    }
    left = rest.length ? 0 : left - span.text.length;
  }
  return [first, rest];
}

function Line({ line, isSub, linkOf }) {
  const classes = ["line", isSub && "sub", line.is_quote && "quote"].filter(Boolean).join(" ");
  const verb = line.verb && html`<span class="verb">${line.verb}</span> `;
  const source = line.source.length > 0 && html` <span class="source"><${Spans} spans=${line.source} linkOf=${linkOf} /></span>`;
  const chars = charsOf(line.spans);
  const [first, rest] = chars > LONG_CHARS ? parted(line.spans, SHOWN_CHARS) : [line.spans, []];
  if (!rest.length || !first.length) return html`<div class=${classes}>${verb}<${Spans} spans=${line.spans} linkOf=${linkOf} />${source}</div>`;
  // Links are outside of <summary>, which is a button itself.
  return html`<div class=${classes}>${verb}<${Spans} spans=${first} linkOf=${linkOf} />${source}
    <details><summary class="more">… ${count(charsOf(rest))} more chars</summary><${Spans} spans=${rest} linkOf=${linkOf} /></details></div>`;
}

const Entry = ({ entry, linkOf }) => html`<${Line} line=${entry} linkOf=${linkOf} />
  ${entry.lines.map((line) => html`<${Line} line=${line} isSub=${true} linkOf=${linkOf} />`)}`;

function Section({ section, linkOf }) {
  const items = section.entries.map((entry) => html`<${Entry} entry=${entry} linkOf=${linkOf} />`);
  const listed = items.map((item) => html`<li>${item}</li>`);
  return html`${section.heading && html`<h4>${section.heading}</h4>`}
    ${section.list === "numbers" ? html`<ol>${listed}</ol>` : section.list === "bullets" ? html`<ul>${listed}</ul>` : html`<div>${items}</div>`}`;
}

export const Handoff = ({ sections, linkOf }) => html`<div class="handoff">
  ${sections.map((section) => html`<${Section} section=${section} linkOf=${linkOf} />`)}</div>`;
