"""What an engine may ask of its host, where the host has a store: messages by number, nodes, records, and search.

An engine knows no database. Whoever runs it implements `EngineHost`; `clew.testing` has one in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from clew.engines.compaction import Node
from clew.messages import Message


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A message of the conversation with its number, and what is known of it beside its words."""

    number: int
    message: Message
    at: datetime
    tool: str | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """What to look for in a conversation, and how much to give back."""

    text: str
    exact: bool = False
    """Only where the text stands as it is, in whatever case."""
    regex: bool = False
    """Only where the text, as a regular expression, matches a line."""
    role: str | None = None
    limit: int = 20
    snippet_chars: int = 600
    later_chars: int | None = None
    """Of the hits behind the first few, where not as many: so that a page has room for more of them."""
    seen_from: int | None = None
    """Messages from this number on are in view: they are no first hits."""


@dataclass(frozen=True, slots=True)
class HistoryHit:
    """A place where something was found: a message, a persisted output, or a summary."""

    kind: str
    """`message`, `output` or `summary`."""
    number: int | None
    """Of the message; for an output or a summary, how many messages came before it."""
    text: str
    """The passage around the match."""
    at: datetime
    role: str | None = None
    tool: str | None = None
    ref: str = ""
    """The id of an output."""
    is_start: bool = True
    is_end: bool = True


@dataclass(frozen=True, slots=True)
class HistoryHits:
    """What was found, the best first; `searched` says in words what was looked through."""

    hits: tuple[HistoryHit, ...]
    searched: str
    problem: str = ""
    """Why the query could not be looked for as it was meant."""


class EngineHost(Protocol):
    """What an engine may ask of its host: the conversation's messages, its nodes, and room for records of its own."""

    offers_tools: bool
    """Whether the model can call the tools of the engine."""

    async def rows(self, first: int, last: int) -> Sequence[Message]:
        """The original messages of the conversation with the numbers `first` to `last` (not included)."""

    async def records(self, ids: Sequence[str] | None = None) -> Mapping[str, Any]:
        """The engine's records of this conversation by id; all of them without `ids`, unknown ids left out."""

    async def put_records(self, records: Mapping[str, Any]) -> None:
        """Store records, plain JSON by id, outside a compaction. Those of a compaction are `Compaction.records`."""

    async def nodes(self, ids: Sequence[str] | None = None) -> Sequence[Node]:
        """The nodes of this conversation in the order of what they cover; of `ids` those that there are."""

    async def put_node(self, node: Node) -> None:
        """Store a better text for a provisional node. New nodes of a compaction are `Compaction.nodes`."""

    async def shown_nodes(self) -> Sequence[Node]:
        """The nodes that the view shows now, oldest first."""

    async def history(self, first: int, last: int) -> Sequence[HistoryRow]:
        """The messages with the numbers `first` to `last` (not included), with when they came."""

    async def message_count(self) -> int:
        """How many messages the conversation has."""

    async def search(self, query: HistoryQuery) -> HistoryHits:
        """Places in this conversation that a query finds. Every text is a valid query."""

    async def state(self, at: int | None = None) -> Sequence[str]:
        """How the things of this conversation stand, a line each; as they were behind a message with `at`."""

    async def output(self, id: str) -> str | None:
        """The whole text of a persisted output; None where there is none of that id."""
