"""A handoff as HTML, from its value: headings, lists of entries, and references that are links to their messages.

Every text is escaped.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from html import escape
from typing import Final

from clew.handoff import Entry, Handoff, ListStyle, Span, list_style, read_line

_LONG_LINE_CHARS: Final = 420
_SHOWN_OF_LONG_CHARS: Final = 300
_UNVERIFIED_HTML: Final = '<mark title="the messages do not show this">unverified</mark>'
_LIST_TAGS: Final[dict[ListStyle, str]] = {"numbers": "ol", "bullets": "ul", "plain": "div"}


def handoff_html(handoff: Handoff, known: Container[int]) -> str:
    """The sections of a handoff; a reference is a link where its number is `known`, a message of the conversation."""
    return "\n".join(_section(heading, entries, known) for heading, entries in handoff.ordered_sections())


def _section(heading: str, entries: Sequence[Entry], known: Container[int]) -> str:
    title = f"<h3>{escape(heading, quote=False)}</h3>\n" if heading else ""
    style = list_style(heading)
    tag, item = _LIST_TAGS[style], "div" if style == "plain" else "li"
    listed = "\n".join(f"<{item}>{''.join(_entry_lines(entry, known))}</{item}>" for entry in entries)
    return f"{title}<{tag}>\n{listed}\n</{tag}>"


def _entry_lines(entry: Entry, known: Container[int]) -> Iterator[str]:
    yield _line(entry, "line", known)
    for line in entry.lines:
        yield _line(line, "line sub", known)


def _line(entry: Entry, classes: str, known: Container[int]) -> str:
    """A line with its verb and its source; of a very long one the beginning, and the rest to open."""
    line = read_line(entry)
    classes = f"{classes} quote" if line.is_quote else classes
    verb = f'<span class="verb">{line.verb}</span> ' if line.verb else ""
    source = f' <span class="source">{_spans(line.source, known)}</span>' if line.source else ""
    shown, rest = _split_long(line.spans)
    if not rest:
        return f'<div class="{classes}">{verb}{_spans(shown, known)}{source}</div>'
    left_out = sum(len(span.text) for span in rest)
    more = f'<span class="more">… {left_out:,} more chars</span>'
    summary = f"<summary>{verb}{_spans(shown, known)} {more}{source}</summary>"
    return f'<details class="{classes}">{summary}{_spans(rest, known)}</details>'


def _split_long(spans: Sequence[Span]) -> tuple[list[Span], list[Span]]:
    """The beginning of a line that is too long to be shown whole, cut at a word, and the rest; else the whole line."""
    if sum(len(span.text) for span in spans) <= _LONG_LINE_CHARS:
        return list(spans), []
    left = _SHOWN_OF_LONG_CHARS
    for at, span in enumerate(spans):
        if len(span.text) > left:
            # Only plain text is cut; code and references stay whole.
            cut = span.text.rfind(" ", 0, left) if span.style == "text" and span.number is None else -1
            cut = left if cut < 0 and not at else max(cut, 0)
            first, second = Span(span.text[:cut], span.style), Span(span.text[cut:], span.style)
            return [*spans[:at], *([first] if cut else [])], [second if cut else span, *spans[at + 1 :]]
        left -= len(span.text)
    return list(spans), []


def _spans(spans: Iterable[Span], known: Container[int]) -> str:
    return "".join(_span(span, known) for span in spans)


def _span(span: Span, known: Container[int]) -> str:
    text = escape(span.text, quote=False)
    match span.style:
        case "code":
            return f"<code>{text}</code>"
        case "strong":
            return f"<strong>{text}</strong>"
        case "unverified":
            return _UNVERIFIED_HTML
        case _:
            is_link = span.number is not None and span.number in known
            return f'<a class="ref" href="#m{span.number}">{text}</a>' if is_link else text
