// A handoff as elements, from the blocks that the server read it into: every reference is a link to its message.

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
    const isPlain = !span.style && (span.seq === undefined || span.seq === null);
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

function Line({ block, linkOf }) {
  const verb = block.verb && html`<span class="verb">${block.verb}</span>`;
  const source = block.source && block.source.length > 0 && html`
    <span class="source"> <${Spans} spans=${block.source} linkOf=${linkOf} /></span>`;
  const chars = charsOf(block.spans);
  const [first, rest] = chars > LONG_CHARS ? parted(block.spans, SHOWN_CHARS) : [block.spans, []];
  if (!rest.length || !first.length) return html`${verb}<${Spans} spans=${block.spans} linkOf=${linkOf} />${source}`;
  return html`<details>
    <summary>${verb}<${Spans} spans=${first} linkOf=${linkOf} /><span class="more"> … ${count(charsOf(rest))} more chars</span></summary>
    <${Spans} spans=${rest} linkOf=${linkOf} /></details>${source}`;
}

/** Items in a row become a list, what is set below an item belongs to it. */
function grouped(blocks) {
  const groups = [];
  for (const block of blocks) {
    const last = groups[groups.length - 1];
    const kind = block.kind === "item" ? (block.number === null || block.number === undefined ? "ul" : "ol") : block.kind;
    if (block.kind === "aside" && last && last.items) last.items[last.items.length - 1].below.push(block);
    else if (block.kind === "item" && last && last.kind === kind) last.items.push({ block, below: [] });
    else if (block.kind === "item") groups.push({ kind, items: [{ block, below: [] }] });
    else groups.push({ kind, block });
  }
  return groups;
}

const Item = ({ item, linkOf }) => html`<li value=${item.block.number === null ? undefined : item.block.number}>
  <${Line} block=${item.block} linkOf=${linkOf} />
  ${item.below.map((block) => html`<p class="aside"><${Line} block=${block} linkOf=${linkOf} /></p>`)}</li>`;

export function Handoff({ blocks, linkOf }) {
  return html`<div class="handoff">${grouped(blocks).map(({ kind, block, items }) => {
    if (kind === "heading") return html`<h4><${Spans} spans=${block.spans} linkOf=${linkOf} /></h4>`;
    if (!items) return html`<p class=${kind === "aside" ? "aside" : ""}><${Line} block=${block} linkOf=${linkOf} /></p>`;
    const list = items.map((item) => html`<${Item} item=${item} linkOf=${linkOf} />`);
    return kind === "ol" ? html`<ol>${list}</ol>` : html`<ul>${list}</ul>`;
  })}</div>`;
}
