"""Phase 2, boundaries: which messages stay at the start, which at the end, and what lies between.

Knows sizes and roles. Never cuts inside a tool group; the newest user message always stays, word for word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew.messages import Message, calls_of, safe_cut_at_or_before, text_of


@dataclass(frozen=True, slots=True)
class Cut:
    """The positions of a history that a compaction keeps. What is in none of them is summarised."""

    head: int
    """The head is everything before this position."""
    tail: int
    """The tail begins here."""
    kept: tuple[int, ...]
    """Positions between head and tail that are kept all the same, in order."""

    @property
    def folded(self) -> list[int]:
        """The positions that are summarised."""
        return [position for position in range(self.head, self.tail) if position not in self.kept]


def cut_at(messages: Sequence[Message], head: int, tail: int) -> Cut:
    """The cut with that head and tail, and what must be kept between them."""
    head, tail = min(head, tail), max(head, tail)
    return Cut(head, tail, tuple(place for place in _newest_said(messages) if head <= place < tail))


def head_end(messages: Sequence[Message], protected: int) -> int:
    """Where the head ends: behind the system prompt and the first messages, and before a group that reaches further."""
    leading = next((i for i, message in enumerate(messages) if message["role"] not in ("system", "developer")), 0)
    return max(leading, safe_cut_at_or_before(messages, min(len(messages), leading + protected)))


def tail_start(sizes: Sequence[int], messages: Sequence[Message], tokens: int, protected: int) -> int:
    """Where the tail begins: as far back as the budget reaches, and before the last `protected` messages."""
    start, used = len(messages), 0
    while start > 0 and used + sizes[start - 1] <= tokens:
        start -= 1
        used += sizes[start]
    return safe_cut_at_or_before(messages, min(start, max(0, len(messages) - max(1, protected))))


def _newest_said(messages: Sequence[Message]) -> list[int]:
    """The newest user message, and the newest reply that a person saw."""
    places = range(len(messages) - 1, -1, -1)
    user = next((place for place in places if messages[place]["role"] == "user"), None)
    reply = next((place for place in places if _is_visible(messages[place])), None)
    # A reply with calls cannot stand without their results; it lies before the tail only when those are huge.
    alone = reply is not None and not calls_of(messages[reply])
    return sorted({place for place in (user, reply if alone else None) if place is not None})


def _is_visible(message: Message) -> bool:
    return message["role"] == "assistant" and bool(text_of(message).strip())
