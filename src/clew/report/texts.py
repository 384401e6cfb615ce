"""How much of each message a page may show: bounded in all, so that a page of 20,000 messages stays small.

What a reader is most likely to open (what the handoff names, what was kept, what is largest) gets most of the room;
the rest share what is left evenly. Knows chars only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from clew.messages import Message, calls_of, images_of, name_of_call, reasoning_of, text_of

MOST_CHARS_IN_ALL: Final = 1_200_000
MOST_CHARS_OF_ONE: Final = 6_000
LEAST_CHARS_OF_ONE: Final = 48
_SHARE_OF_WANTED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The start of a text, and how many chars of it are left out."""

    text: str
    left_out: int


def shown_text(message: Message) -> str:
    """A message as a person reads it: what it says, then its calls, then what cannot be shown."""
    said = [text_of(message)] if text_of(message) else []
    calls = [f"→ {name_of_call(call)} {call['function'].get('arguments', '')}" for call in calls_of(message)]
    beside = []
    if reasoning := reasoning_of(message):
        beside.append(f"[{len(reasoning)} blocks of reasoning, not shown]")
    if images := images_of(message):
        beside.append(f"[{len(images)} pictures, not shown]")
    return "\n".join((*said, *calls, *beside))


def excerpts(texts: Sequence[str], wanted: Sequence[bool]) -> list[Excerpt]:
    """The start of each text; those that are wanted come first when there is not room for all."""
    room = _rooms(texts, wanted)
    return [Excerpt(text[:most], max(0, len(text) - most)) for text, most in zip(texts, room, strict=True)]


def _rooms(texts: Sequence[str], wanted: Sequence[bool]) -> list[int]:
    lengths = [min(len(text), MOST_CHARS_OF_ONE) for text in texts]
    if sum(lengths) <= MOST_CHARS_IN_ALL:
        return [MOST_CHARS_OF_ONE] * len(texts)
    first = [length for length, is_wanted in zip(lengths, wanted, strict=True) if is_wanted]
    rest = [length for length, is_wanted in zip(lengths, wanted, strict=True) if not is_wanted]
    most = _level(first, int(MOST_CHARS_IN_ALL * _SHARE_OF_WANTED))
    spent = sum(min(length, most) for length in first)
    least = _level(rest, MOST_CHARS_IN_ALL - spent)
    return [most if is_wanted else least for is_wanted in wanted]


def _level(lengths: Sequence[int], room: int) -> int:
    """The length to which all are cut so that together they take at most `room`."""
    left, share = room, MOST_CHARS_OF_ONE
    ordered = sorted(lengths)
    for place, length in enumerate(ordered):
        share = left // (len(ordered) - place)
        if length > share:
            return max(LEAST_CHARS_OF_ONE, share)
        left -= length
    return MOST_CHARS_OF_ONE
