"""A context engine in one page, and a host in memory: fakes for tests of hosts and of engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from clew.engines import (
    Compaction,
    CompactionItem,
    ContextEngine,
    EngineSetup,
    HistoryHit,
    HistoryHits,
    HistoryQuery,
    HistoryRow,
    Node,
    Removed,
    kept_items,
)
from clew.errors import InvalidMessage
from clew.facts import StateRecord, entities_of
from clew.messages import Message, last_cut_at_or_before, repair, safe_cuts, text_of
from clew.turn import describe_entity


class PlainEngine(ContextEngine):
    """Keeps the system prompt, the newest request and the last `keep` messages. Deterministic, without a model."""

    name = "plain"

    def __init__(self, setup: EngineSetup | None = None, keep: int = 6) -> None:
        super().__init__(setup)
        self._keep = keep

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        return any(isinstance(item, Removed) for item in self._items(messages) or ())

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        del focus_topic, force
        items = self._items(messages)
        if items is None:
            return self.unchanged(messages, current_tokens, "A message cannot be read: nothing was changed.")
        return self.compaction(messages, items, current_tokens)

    def _items(self, messages: Sequence[Message]) -> list[CompactionItem] | None:
        try:
            repaired = repair(messages, open_end=True)
        except InvalidMessage:
            return None
        return kept_items(messages, repaired, _kept(repaired.messages, self._keep))


def _kept(messages: Sequence[Message], keep: int) -> frozenset[int]:
    """Positions of what stays: never a result without its call, because a cut lies between groups only."""
    start = last_cut_at_or_before(safe_cuts(messages), len(messages) - keep)
    requests = [position for position, message in enumerate(messages) if message["role"] == "user"]
    prompts = [position for position in range(start) if messages[position]["role"] in ("system", "developer")]
    return frozenset({*prompts, *requests[-1:], *range(start, len(messages))})


class MemoryEngineHost:
    """An `EngineHost` that has the conversation, the nodes and the engine's records in memory."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.messages = list(messages)
        self.offers_tools = True
        self.stored: dict[str, Any] = {}
        self.map: dict[str, Node] = {}
        self.shown: tuple[str, ...] = ()

    def publish(self, done: Compaction) -> None:
        """What a compaction brought is in effect, as a host makes it."""
        self.stored.update(done.records)
        self.map.update((node.id, node) for node in done.nodes)
        self.shown = self.shown if done.shown_nodes is None else done.shown_nodes

    async def rows(self, first: int, last: int) -> Sequence[Message]:
        return self.messages[first:last]

    async def records(self, ids: Sequence[str] | None = None) -> Mapping[str, Any]:
        if ids is None:
            return dict(self.stored)
        return {id: self.stored[id] for id in ids if id in self.stored}

    async def put_records(self, records: Mapping[str, Any]) -> None:
        self.stored.update(records)

    async def nodes(self, ids: Sequence[str] | None = None) -> Sequence[Node]:
        found = [node for node in self.map.values() if ids is None or node.id in ids]
        return sorted(found, key=lambda node: (node.first, -node.last))

    async def put_node(self, node: Node) -> None:
        self.map[node.id] = node

    async def shown_nodes(self) -> Sequence[Node]:
        return [self.map[id] for id in self.shown]

    async def history(self, first: int, last: int) -> Sequence[HistoryRow]:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        rows = enumerate(self.messages[first:last], first)
        return [HistoryRow(number, message, at + timedelta(minutes=number)) for number, message in rows]

    async def message_count(self) -> int:
        return len(self.messages)

    async def search(self, query: HistoryQuery) -> HistoryHits:
        """Messages that have one of the words, in their order."""
        words = query.text.lower().split()
        rows = [row for row in await self.history(0, len(self.messages)) if _has_any(row.message, words)]
        hits = [HistoryHit("message", row.number, text_of(row.message), row.at, row.message["role"]) for row in rows]
        return HistoryHits(tuple(hits[: query.limit]), f"{len(self.messages):,} messages")

    async def state(self, at: int | None = None) -> Sequence[str]:
        return [describe_entity(entity) for entity in entities_of(StateRecord.of(self.messages).facts, at)]

    async def output(self, id: str) -> str | None:
        del id
        return None


def _has_any(message: Message, words: Sequence[str]) -> bool:
    return any(word in text_of(message).lower() for word in words)
