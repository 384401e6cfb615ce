"""Where messages came from: the wire items of each, remembered by the identity of the message object.

This is what makes round trips exact. A message that is still the same object leaves as the item it came from; only
what was changed is spelled anew. Strong references keep every identity valid for as long as the table lives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clew.messages.types import Message


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The items of the wire in which a message stood, and which part of them it was."""

    items: tuple[Any, ...]
    part: int = 0
    parts: int = 1
    blocks: Any = field(default=None, repr=False)
    """What of the item's content became this message, where several messages came from one item."""


class Source(NamedTuple):
    """Some items of the wire and all the messages that came from them: what the table holds, as small as can be."""

    items: tuple[Any, ...]
    messages: tuple[Message, ...]
    place: int
    """Of the first item, on the wire."""
    blocks: Sequence[Any] = ()
    """For each message its blocks, where several came from one item."""

    def origin_of(self, message: Message) -> Origin:
        part = next(part for part, known in enumerate(self.messages) if known is message)
        return Origin(self.items, part, len(self.messages), self.blocks[part] if self.blocks else None)


@dataclass(frozen=True, slots=True)
class Reading:
    """Messages read from a wire, and what each of them came from."""

    messages: list[Message] = field(default_factory=list)
    sources: dict[int, Source] = field(default_factory=dict)
    """By the identity of a message."""
    pieces: dict[int, Any] = field(default_factory=dict)
    """By the identity of a call, or of a list in a message, the piece of the wire that it was read from."""
    results: dict[str, Any] = field(default_factory=dict)
    """By the id of a call, the piece of the wire that answered it last."""

    def add(self, source: Source) -> None:
        """Take in all the messages that came from some items."""
        for message in source.messages:
            self.sources[id(message)] = source
        self.messages.extend(source.messages)

    def origin_of(self, message: Message) -> Origin | None:
        source = self.sources.get(id(message))
        return None if source is None else source.origin_of(message)


def by_source(
    messages: Sequence[Message], sources: Mapping[int, Source]
) -> Iterator[tuple[Source | None, Sequence[Message]]]:
    """The messages in runs: those that still stand together as they came, with their source, and single others.

    A message comes without a source when it is new, and also when a sibling from its item is missing or changed.
    """
    index = 0
    while index < len(messages):
        source = sources.get(id(messages[index]))
        if source is not None and _stands_whole(messages, index, source.messages):
            yield source, source.messages
            index += len(source.messages)
        else:
            yield None, (messages[index],)
            index += 1


def _stands_whole(messages: Sequence[Message], index: int, siblings: Sequence[Message]) -> bool:
    if len(siblings) == 1:
        return True
    if index + len(siblings) > len(messages):
        return False
    return all(messages[index + part] is sibling for part, sibling in enumerate(siblings))


def in_former_order(former: Sequence[str] | None, pieces: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Pieces of several kinds in the order that the kinds once had; kind by kind, where the numbers do not agree.

    Thinking can stand between calls. What was signed in that order is sent in that order, even when a neighbouring
    piece was changed or marked.
    """
    if former is None or any(former.count(kind) != len(of_kind) for kind, of_kind in pieces.items()):
        return [piece for of_kind in pieces.values() for piece in of_kind]
    queues = {kind: iter(of_kind) for kind, of_kind in pieces.items()}
    return [next(queues[kind]) for kind in former]
