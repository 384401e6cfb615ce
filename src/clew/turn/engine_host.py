"""The services of an open conversation for its engine: history, nodes and records, all read from the store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from clew.engines import HistoryHit, HistoryHits, HistoryQuery, HistoryRow, Node
from clew.messages import Message, arguments_of_call, calls_of, text_of
from clew.store import EngineRecord, NewNode, SearchHit, SearchScope, SnippetSizes, Store, StoredMessage, StoredNode
from clew.turn.state_entities import read_conversation_state, state_lines
from clew.turn.view import ConversationView

_PAGE_ROWS = 1_000
_STATE_LINES_OF_A_KIND = 12
_SCANNED_CHARS = 4_000
"""Of a line: a regular expression is matched against no more at once."""


class StoreEngineHost:
    """The `EngineHost` of an open conversation."""

    def __init__(self, store: Store, view: ConversationView, engine: str, *, offers_tools: bool = True) -> None:
        self.offers_tools = offers_tools
        self._store = store
        self._view = view
        self._engine = engine

    # -- messages and records ------------------------------------------------------------------------------------------

    async def rows(self, first: int, last: int) -> Sequence[Message]:
        return [row.message for row in await self._rows(first, last)]

    async def history(self, first: int, last: int) -> Sequence[HistoryRow]:
        return [HistoryRow(row.seq, row.message, row.at, row.tool, row.tokens) for row in await self._rows(first, last)]

    async def message_count(self) -> int:
        return self._view.next_seq

    async def output(self, id: str) -> str | None:
        session = await self._store.session(self._view.session)
        found = await self._store.output(id, owner=session.owner)
        return None if found is None else found.text

    async def _rows(self, first: int, last: int) -> list[StoredMessage]:
        return await self._store.messages(self._view.session, first, last, keep_damaged=True)

    async def records(self, ids: Sequence[str] | None = None) -> Mapping[str, Any]:
        read = page = await self._store.engine_records(self._view.session, self._engine, ids)
        while ids is None and page:
            page = await self._store.engine_records(self._view.session, self._engine, after=page[-1].id)
            read += page
        return {record.id: record.value for record in read}

    async def put_records(self, records: Mapping[str, Any]) -> None:
        known = self._view.next_seq
        rows = [EngineRecord(id, value, known) for id, value in records.items()]
        await self._store.put_engine_records(self._view.session, self._engine, rows)

    async def state(self, at: int | None = None) -> Sequence[str]:
        read = await read_conversation_state(self._store, self._view.session)
        return state_lines(read.entities(at=at), _STATE_LINES_OF_A_KIND)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    async def nodes(self, ids: Sequence[str] | None = None) -> Sequence[Node]:
        return [node_of(stored) for stored in await self._store.nodes(self._view.session, ids)]

    async def shown_nodes(self) -> Sequence[Node]:
        return [node_of(stored) for stored in await self._store.shown_nodes(self._view.session)]

    async def put_node(self, node: Node) -> None:
        await self._store.replace_node(self._view.session, new_node(node))

    # -- search --------------------------------------------------------------------------------------------------------

    async def search(self, query: HistoryQuery) -> HistoryHits:
        if query.exact or query.regex:
            return await self._scan(query)
        scope = SearchScope(
            conversation_of=self._view.session,
            roles=(query.role,) if query.role else (),
            kinds=("message", "output", "summary"),
        )
        seen = range(0) if query.seen_from is None else range(query.seen_from, self._view.next_seq)
        sizes = SnippetSizes(query.snippet_chars, query.later_chars, seen, self._view.stored.conversation)
        found = await self._store.search(query.text, scope, limit=query.limit, snippet_chars=sizes)
        searched = str(found.searched) if found.searched else f"{self._view.next_seq:,} messages"
        return HistoryHits(tuple(_hit(hit) for hit in found.hits), searched, found.problem or "")

    async def _scan(self, query: HistoryQuery) -> HistoryHits:
        """Search every message, the newest first, for a literal text or a regular expression."""
        searched = f"{self._view.next_seq:,} messages"
        pattern, problem = _pattern(query)
        hits: list[HistoryHit] = []
        for stop in range(self._view.next_seq, 0, -_PAGE_ROWS):
            rows = await self._rows(max(0, stop - _PAGE_ROWS), stop)
            # In a thread, since a pattern may take long.
            hits += await asyncio.to_thread(_matches, rows, pattern, query)
            if len(hits) >= query.limit:
                break
        return HistoryHits(tuple(hits[: query.limit]), searched, problem)


def node_of(stored: StoredNode) -> Node:
    """A node of the store as an engine knows it."""
    # The same fields in the same order; `at` is the last one of the store.
    return Node(*astuple(stored)[:-1])


def new_node(node: Node) -> NewNode:
    """A node of an engine as the store takes it."""
    return NewNode(*astuple(node))


def _hit(hit: SearchHit) -> HistoryHit:
    snippet = hit.snippet
    return HistoryHit(
        hit.kind, hit.seq, snippet.text, hit.at, hit.role, hit.tool, hit.ref, snippet.is_start, snippet.is_end
    )


def _pattern(query: HistoryQuery) -> tuple[re.Pattern[str], str]:
    """The expression to search for; a text that is no regular expression is searched as it is, with a notice."""
    problem = ""
    if query.regex:
        try:
            return re.compile(query.text, re.IGNORECASE), ""
        except (re.error, RecursionError, OverflowError) as error:
            problem = f"not a regular expression ({error}): searched as text"
    return re.compile(re.escape(query.text), re.IGNORECASE), problem


def _matches(rows: Sequence[StoredMessage], pattern: re.Pattern[str], query: HistoryQuery) -> list[HistoryHit]:
    hits: list[HistoryHit] = []
    for row in reversed(rows):
        role = row.message["role"]
        if len(hits) >= query.limit or (query.role and query.role != role):
            continue
        text = _searched_text(row.message)
        found = pattern.search(text) if query.exact else _first_in_lines(pattern, text)
        if found is not None:
            start = max(0, (found.start() + found.end() - query.snippet_chars) // 2)
            end = min(len(text), start + query.snippet_chars)
            passage, is_end = text[start:end], end == len(text)
            hits.append(HistoryHit("message", row.seq, passage, row.at, role, row.tool, "", not start, is_end))
    return hits


def _searched_text(message: Message) -> str:
    called = [str(value) for call in calls_of(message) for value in arguments_of_call(call).values()]
    return "\n".join([text_of(message), *called])


def _first_in_lines(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first match of a regular expression in a stretch of bounded length."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        found = pattern.search(text, start, min(end, start + _SCANNED_CHARS))
        if found is not None:
            return found
        start = min(end, start + _SCANNED_CHARS) + 1
    return None
