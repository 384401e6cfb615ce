"""Where messages came from: the wire items of each, remembered by the identity of the message object.

This is what makes round trips exact. A message that is still the same object leaves as the item it came from; only
what was changed is spelled anew. Strong references keep every identity valid for as long as the table lives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.messages.types import Message


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The items of the wire in which a message stood, and which part of them it was."""

    items: tuple[Any, ...]
    part: int = 0
    parts: int = 1
    place: int = field(default=0, repr=False)
    """Of the first item, on the wire."""
    blocks: Any = field(default=None, repr=False)
    """What of the item's content became this message, where several messages came from one item."""
    messages: tuple[Message, ...] = field(default=(), repr=False)
    """All the messages that came from these items, in order."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Messages read from a wire, and what each of them came from."""

    messages: list[Message] = field(default_factory=list)
    origins: dict[int, Origin] = field(default_factory=dict)
    pieces: dict[int, Any] = field(default_factory=dict)
    """By the identity of a call, or of a list in a message, the piece of the wire that it was read from."""
    results: dict[str, Any] = field(default_factory=dict)
    """By the id of a call, the piece of the wire that answered it last."""

    def add(self, messages: Sequence[Message], items: Sequence[Any], place: int, blocks: Sequence[Any] = ()) -> None:
        """Take in all the messages that came from some items."""
        siblings = tuple(messages)
        for part, message in enumerate(siblings):
            own = blocks[part] if blocks else None
            self.origins[id(message)] = Origin(tuple(items), part, len(siblings), place, own, siblings)
        self.messages.extend(siblings)


def by_origin(
    messages: Sequence[Message], origins: dict[int, Origin]
) -> Iterator[tuple[Origin | None, Sequence[Message]]]:
    """The messages in runs: those that still stand together as they came, with their origin, and single others.

    A message comes without an origin when it is new, and also when a sibling from its item is missing or changed.
    """
    index = 0
    while index < len(messages):
        origin = origins.get(id(messages[index]))
        if origin is not None and _stands_whole(messages, index, origin):
            yield origin, origin.messages
            index += origin.parts
        else:
            yield None, (messages[index],)
            index += 1


def _stands_whole(messages: Sequence[Message], index: int, origin: Origin) -> bool:
    if origin.parts == 1:
        return True
    if origin.part or index + origin.parts > len(messages):
        return False
    return all(messages[index + part] is origin.messages[part] for part in range(origin.parts))


def in_former_order(former: Sequence[str] | None, pieces: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Pieces of several kinds in the order that the kinds once had; kind by kind, where the numbers do not agree.

    Thinking can stand between calls. What was signed in that order is sent in that order, even when a neighbouring
    piece was changed or marked.
    """
    if former is None or any(former.count(kind) != len(of_kind) for kind, of_kind in pieces.items()):
        return [piece for of_kind in pieces.values() for piece in of_kind]
    queues = {kind: iter(of_kind) for kind, of_kind in pieces.items()}
    return [next(queues[kind]) for kind in former]
