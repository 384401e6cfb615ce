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
        kept = frozenset(self.kept)
        return [position for position in range(self.head, self.tail) if position not in kept]


def cut_at(messages: Sequence[Message], head: int, tail: int) -> Cut:
    """The cut with that head and tail, and what must be kept between them."""
    head, tail = min(head, tail), max(head, tail)
    kept = {*newest_said(messages), *_later_prompts(messages, head, tail)}
    return Cut(head, tail, tuple(sorted(place for place in kept if head <= place < tail)))


def head_end(messages: Sequence[Message], protected: int) -> int:
    """Where the head ends: behind the system prompt and the first messages, and before a group that reaches further."""
    leading = next((place for place, message in enumerate(messages) if not is_prompt(message)), len(messages))
    return max(leading, safe_cut_at_or_before(messages, min(len(messages), leading + protected)))


def tail_start(sizes: Sequence[int], messages: Sequence[Message], tokens: int, protected: int) -> int:
    """Where the tail begins: as far back as the budget reaches, and before the last `protected` messages."""
    start, used = len(messages), 0
    while start > 0 and used + sizes[start - 1] <= tokens:
        start -= 1
        used += sizes[start]
    return safe_cut_at_or_before(messages, min(start, max(0, len(messages) - max(1, protected))))


def newest_said(messages: Sequence[Message]) -> list[int]:
    """The newest user message, and the newest reply that a person saw."""
    places = range(len(messages) - 1, -1, -1)
    user = next((place for place in places if messages[place]["role"] == "user"), None)
    reply = next((place for place in places if _is_visible(messages[place])), None)
    # A reply with calls cannot stand without their results; it lies before the tail only when those are huge.
    alone = reply is not None and not calls_of(messages[reply])
    return sorted({place for place in (user, reply if alone else None) if place is not None})


def is_prompt(message: Message) -> bool:
    return message["role"] in ("system", "developer")


def _later_prompts(messages: Sequence[Message], head: int, tail: int) -> list[int]:
    """System messages in the middle: each stays, once, since no handoff has their authority."""
    places = [place for place in range(len(messages) - 1, -1, -1) if is_prompt(messages[place])]
    standing = {text_of(messages[place]) for place in places if not head <= place < tail}
    later = []
    for place in places:
        if head <= place < tail and (text := text_of(messages[place])) not in standing:
            standing.add(text)
            later.append(place)
    return later


def _is_visible(message: Message) -> bool:
    return message["role"] == "assistant" and bool(text_of(message).strip())
