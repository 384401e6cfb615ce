"""The wire items that each message was read from, by the identity of the message object.

This makes round trips exact: a message that is still the same object is written as the items it came from, and only
changed ones are encoded again. The table holds strong references, so that no identity is used again while it lives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clew.messages.message import Message


@dataclass(frozen=True, slots=True, eq=False)
class WireOrigin:
    """The wire items that a message came from, and which of their messages it is."""

    items: tuple[Any, ...]
    part: int = 0
    parts: int = 1
    blocks: Any = field(default=None, repr=False)
    """The part of the item's content that became this message, where several messages came from one item."""


class WireSource(NamedTuple):
    """Wire items and all the messages that came from them. A named tuple, because there is one for each message."""

    items: tuple[Any, ...]
    messages: tuple[Message, ...]
    position: int
    """Of the first item, on the wire."""
    blocks: Sequence[Any] = ()
    """For each message its blocks, where several came from one item."""

    def origin_of(self, message: Message) -> WireOrigin:
        part = next(part for part, known in enumerate(self.messages) if known is message)
        return WireOrigin(self.items, part, len(self.messages), self.blocks[part] if self.blocks else None)


@dataclass(frozen=True, slots=True)
class ParsedMessages:
    """Messages read from a wire, and what each of them came from."""

    messages: list[Message] = field(default_factory=list)
    sources: dict[int, WireSource] = field(default_factory=dict)
    """By the identity of a message."""
    pieces: dict[int, Any] = field(default_factory=dict)
    """By the identity of a call, or of a list in a message: what it was read from."""
    results: dict[str, Any] = field(default_factory=dict)
    """By the id of a call: the newest wire item or block with its result."""

    def add(self, source: WireSource) -> None:
        """Append the messages of a source, and remember it for each of them."""
        for message in source.messages:
            self.sources[id(message)] = source
        self.messages.extend(source.messages)

    def origin_of(self, message: Message) -> WireOrigin | None:
        source = self.sources.get(id(message))
        return None if source is None else source.origin_of(message)


def group_by_source(
    messages: Sequence[Message], sources: Mapping[int, WireSource]
) -> Iterator[tuple[WireSource | None, Sequence[Message]]]:
    """The messages in runs: all messages of a source together with it, and single messages without a source.

    A message comes without a source when it is new, and when another message of its source is missing or changed.
    """
    index = 0
    while index < len(messages):
        source = sources.get(id(messages[index]))
        if source is not None and _is_complete(messages, index, source.messages):
            yield source, source.messages
            index += len(source.messages)
        else:
            yield None, (messages[index],)
            index += 1


def _is_complete(messages: Sequence[Message], index: int, siblings: Sequence[Message]) -> bool:
    if len(siblings) == 1:
        return True
    if index + len(siblings) > len(messages):
        return False
    return all(messages[index + part] is sibling for part, sibling in enumerate(siblings))


def in_original_order(original: Sequence[str] | None, pieces: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Pieces of several kinds in the original order of the kinds; kind by kind where the numbers do not agree.

    Reasoning can be between calls, and its signature holds for that order, also when another piece was changed.
    """
    if original is None or any(original.count(kind) != len(same_kind) for kind, same_kind in pieces.items()):
        return [piece for same_kind in pieces.values() for piece in same_kind]
    queues = {kind: iter(same_kind) for kind, same_kind in pieces.items()}
    return [next(queues[kind]) for kind in original]
