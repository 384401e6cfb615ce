"""A line of a handoff as spans, for pages that show one: code, bold, references to messages, and unverified marks.

Everything else in a line is text and is shown as written: a handoff quotes tools, and tools print anything. Whether a
span becomes HTML or JSON is up to the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from clew.facts import Verb
from clew.handoff.complete import UNVERIFIED_MARK
from clew.handoff.value import Entry, Handoff

SpanStyle: TypeAlias = Literal["text", "code", "strong", "unverified"]

_VERBS = frozenset(get_args(Verb))
# The lengths are limited so that a line full of opening marks is not searched to its end for each of them.
_MARKS = re.compile(
    rf"(?P<unverified>{UNVERIFIED_MARK})"
    r"|(?<!`)(?P<ticks>`+)(?!`)(?P<code>.{1,1000}?)(?<!`)(?P=ticks)(?!`)"
    # `2**3` and `**kwargs` are not bold.
    r"|(?<![\w*])\*\*(?P<strong>[^\s*](?:.{0,600}?[^\s*])?)\*\*(?![\w*])"
    # A file name or a folder such as m12.txt is not a reference.
    r"|(?<![\w/.])m(?P<number>\d{1,9})(?![\w/]|\.\w)"
)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line in one style; a reference has the number of its message."""

    text: str
    style: SpanStyle = "text"
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of a handoff without its sub-lines: what was done, the text, and its source messages."""

    verb: str
    """RAN, READ and so on; empty where the line is not about an action."""
    spans: tuple[Span, ...]
    source: tuple[Span, ...]
    """References; empty where the entry has no numbers."""
    is_quote: bool
    """Whether it begins with the words of a person or of the agent."""


def read_line(entry: Entry) -> Line:
    first, _, rest = entry.text.partition(" ")
    verb, body = (first, rest) if first in _VERBS else ("", entry.text)
    return Line(verb, tuple(spans_in(body)), tuple(_source(entry)), entry.text.startswith('"'))


def references_in(handoff: Handoff) -> set[int]:
    """The numbers of all messages that a handoff refers to."""
    found: set[int] = set()
    for entry in handoff.all_entries():
        found.update(entry.numbers)
        found.update(span.number for span in spans_in(entry.text) if span.number is not None)
    return found


def spans_in(text: str, style: SpanStyle = "text") -> Iterator[Span]:
    """The spans of a text, in order."""
    done = 0
    for found in _MARKS.finditer(text):
        if found.start() > done:
            yield Span(text[done : found.start()], style)
        yield from _marked(found)
        done = found.end()
    if done < len(text):
        yield Span(text[done:], style)


def _marked(found: re.Match[str]) -> Iterator[Span]:
    if found["unverified"]:
        yield Span("unverified", "unverified")
    elif found["code"]:
        yield Span(found["code"], "code")
    elif found["strong"]:
        yield from spans_in(found["strong"], "strong")
    else:
        yield Span(found[0], number=int(found["number"]))


def _source(entry: Entry) -> Iterator[Span]:
    for at, number in enumerate(dict.fromkeys(entry.numbers)):
        if at:
            yield Span("-")
        yield Span(f"m{number}", number=number)
