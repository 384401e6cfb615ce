"""A history as the compressor sees it: an earlier summary taken out, every message with its number.

Numbers go on counting over compactions: m12 is the same message for as long as the conversation lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count, islice

from clew.messages import Message
from clew.summaries import Wrapped, unwrap


@dataclass(frozen=True, slots=True)
class Layout:
    """The messages without the summary among them."""

    messages: Sequence[Message]
    numbers: Sequence[int]
    previous: Wrapped | None = None
    position: int = 0
    """Where the earlier summary stood."""

    @property
    def next_number(self) -> int:
        return self.numbers[-1] + 1 if self.numbers else 0

    @property
    def first_unread(self) -> int:
        """The first number that no summary covers yet, apart from the head."""
        return self.previous.last if self.previous else 0


def lay_out(messages: Sequence[Message]) -> Layout:
    """Find the earlier summary, if there is one, and number the messages."""
    # A summary stands near the start: behind the system prompt and the head.
    for position, message in enumerate(islice(messages, _FURTHEST_SUMMARY)):
        wrapped = unwrap(message) if message["role"] in ("user", "assistant") else None
        if wrapped:
            merged = [wrapped.message] if wrapped.message else []
            flat = [*messages[:position], *merged, *messages[position + 1 :]]
            numbers = islice(chain(range(position), wrapped.kept, count(wrapped.last)), len(flat))
            return Layout(flat, list(numbers), wrapped, position)
    return Layout(messages, range(len(messages)))


_FURTHEST_SUMMARY = 200
