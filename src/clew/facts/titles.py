"""The title of a conversation: the first thing that a person asked for."""

from __future__ import annotations

from collections.abc import Iterable

from clew.facts.speech import person_text
from clew.lazy import lazy_pattern
from clew.messages import Message, text_of

_MAX_CHARS = 80
_SAID_CHARS = 50_000
"""Of a message, in which is looked for what a person said."""
_SEARCHED_CHARS = 4_000
"""Of that, in which is looked for a line."""
_UNPRINTABLE = lazy_pattern("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
# A command to the program is no request.
_BARE_COMMAND = lazy_pattern(r"\s*/[\w:.-]+\s*$")
# A request that a program put between tags.
_TAG = lazy_pattern(r"^\s*</?[A-Za-z][\w-]*>\s*")


def title_of(messages: Iterable[Message]) -> str | None:
    """The first thing that a person asked for, as a title; None where only programs spoke."""
    for message in messages:
        if message.get("role") != "user":
            continue
        said = person_text(text_of(message)[:_SAID_CHARS])
        if not _BARE_COMMAND.match(said) and (title := clean_title(said)):
            return title
    return None


def clean_title(text: str) -> str | None:
    """The first line that is not blank, short enough for a list; None where there is none."""
    lines = (_TAG.sub(" ", line, count=1) for line in text[:_SEARCHED_CHARS].splitlines())
    words = " ".join(_UNPRINTABLE.sub(" ", next(filter(str.strip, lines), "")).split())
    return (words if len(words) <= _MAX_CHARS else words[: _MAX_CHARS - 1].rstrip() + "…") or None
