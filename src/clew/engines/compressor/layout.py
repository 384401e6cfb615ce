"""A history as the compressor sees it: an earlier summary taken out, every message with its number.

Numbers go on counting over compactions: m12 is the same message for as long as the conversation lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice

from clew.messages import Message, Repaired, calls_of, repair
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

    def place_of(self, place: int) -> int | None:
        """Where a message of the history stands here; None for an earlier summary that is a message of its own."""
        if self.previous is None or self.previous.message is not None or place < self.position:
            return place
        return None if place == self.position else place - 1

    @property
    def first_unread(self) -> int:
        """The first number that no summary covers yet, apart from the head."""
        return self.previous.last if self.previous else 0


def sound(messages: Sequence[Message]) -> Repaired:
    """The history with whole tool groups; calls that still wait for a result at its end get a stub."""
    whole = repair(messages, open_end=True)
    last = len(whole.messages) - 1
    while last > 0 and whole.messages[last]["role"] == "tool":
        last -= 1
    if last < 0 or not calls_of(whole.messages[last]):
        return whole
    # Only the last group can be open: the long part before it need not be looked at twice.
    end = repair(whole.messages[last:])
    if not end.repairs:
        return whole
    caller = whole.indexes[last]
    stubs = len(end.messages) - (len(whole.messages) - last)
    return Repaired(
        [*whole.messages[:last], *end.messages],
        (*whole.repairs, *(replace(done, index=caller) for done in end.repairs)),
        [*whole.indexes, *[caller] * stubs],
    )


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
