"""The store: the operations of all parts on one database, and the two that add messages.

Each method is one operation, run in one transaction. The other methods are in the modules of their parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from clew.messages import Message
from clew.store import history, sync
from clew.store.base import AppendResult, NewMessage, SyncResult
from clew.store.calls import CallStore, ModelCall
from clew.store.compactions import CompactionStore
from clew.store.database import Clock, Database, Steps, reads, wall_clock
from clew.store.history import AppendRequest, HistoryStore, calls_in_order
from clew.store.keys import KeyStore
from clew.store.maintenance import MaintenanceStore
from clew.store.nodes import NodeStore
from clew.store.overview import OverviewStore
from clew.store.quarantine import QuarantineStore
from clew.store.rows import chains_of, plain_to_store, tool_names
from clew.store.search.index_updates import catch_up, index_messages, index_system_prompt
from clew.store.search.vectors import Embedder
from clew.store.sessions import NewSession, SessionStore
from clew.store.state import StateStore
from clew.store.sync import KnownHistory

_REMEMBERED_SESSIONS = 256
_INDEX_EVERY_ROWS = 128
"""So many rows may wait to be indexed; a search indexes them before it looks."""


class Store(
    SessionStore,
    HistoryStore,
    CompactionStore,
    NodeStore,
    StateStore,
    CallStore,
    KeyStore,
    OverviewStore,
    QuarantineStore,
    MaintenanceStore,
):
    """A history of conversations that is only added to. Open one with `open_store`.

    With `owner` an operation sees only what belongs to that owner (for a gateway: that of a key), and another's
    session is as unknown as one that never was; None sees everything.
    """

    def __init__(self, database: Database, clock: Clock = wall_clock, embedder: Embedder | None = None) -> None:
        super().__init__(database, clock, embedder)
        self._calls: dict[str, dict[str, str]] = {}

    @property
    def where(self) -> str:
        """The file, or the server without its password."""
        return self._database.where

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._vectors is not None:
            await self._vectors.stop()
        await self._database.close()

    async def append(
        self,
        session: str,
        messages: Iterable[Message | NewMessage | Any],
        *,
        after: int | None = None,
        call: ModelCall | None = None,
        calls: Mapping[int, ModelCall] | None = None,
        owner: str | None = None,
    ) -> AppendResult:
        """Append messages to a session; they are durable when this returns. Objects of SDKs are stored as dicts.

        `call` is the model call that brought the last message, written in the same transaction; `calls` are several,
        by the index in `messages` of the one each brought. With `after`, the number of messages that the caller knows
        of, the same append can be tried again and adds nothing twice; `StaleHistory` where there are others.
        """
        added = plain_to_store(messages)
        brought, now = calls_in_order(len(added), call, calls or {}), self._now()
        request = AppendRequest(session, added, after, brought, owner, self._calls.get(session, {}))

        def operation() -> Steps[AppendResult]:
            appended = yield from history.append(request, now)
            if appended.added and self._database.index.is_immediate:
                yield from index_messages(self._database.index, appended.session, appended.first_seq)
            return appended

        appended = await self._database.write(operation)
        self._remember_calls(session, added)
        self._count_waiting(appended.added)
        return appended

    async def sync(
        self,
        messages: Iterable[Message | NewMessage | Any],
        *,
        session: str | None = None,
        new: NewSession | None = None,
        is_exact: bool = False,
    ) -> SyncResult:
        """Store a whole history, of which only new messages are added; an edited earlier message becomes a branch.

        Without `session` the conversation is the one of `new.owner` and `new.lineage` that has the longest beginning
        of it. With `is_exact` the session holds this history and no more: where more is known, it is a branch.
        """
        asked, now = new or NewSession(), self._now()
        whole = plain_to_store(messages)
        chains = chains_of(whole)

        def operation() -> Steps[SyncResult]:
            synced = yield from sync.sync(whole, chains, asked, session, is_exact, now)
            if synced.is_new and self._database.index.is_immediate:
                yield from index_system_prompt(self._database.index, synced.session)
            if synced.added and self._database.index.is_immediate:
                yield from index_messages(self._database.index, synced.session, synced.next_seq - synced.added)
            return synced

        synced = await self._database.write(operation)
        self._count_waiting(synced.added)
        return synced

    @reads
    def find_history(self, messages: Sequence[Message | NewMessage], new: NewSession) -> Steps[KnownHistory | None]:
        """Where `sync` would find a history among those of `new.owner` and `new.lineage`; nothing is stored."""
        return (yield from sync.find_known(chains_of(messages), new))

    def _remember_calls(self, session: str, messages: Sequence[Message | NewMessage]) -> None:
        """Keep the tool names of a session's newest calls, so that they need not be looked up for the results."""
        named = tool_names(it.message if isinstance(it, NewMessage) else it for it in messages)
        if named:
            self._calls.pop(session, None)
            self._calls[session] = named
            if len(self._calls) > _REMEMBERED_SESSIONS:
                del self._calls[next(iter(self._calls))]

    def _count_waiting(self, added: int) -> None:
        """Note that rows were appended: now and then they are indexed, and get vectors."""
        self._waiting_rows += added
        if self._waiting_rows >= _INDEX_EVERY_ROWS and not self._database.index.is_immediate:
            self._waiting_rows = 0
            self._database.write_soon(lambda: catch_up(self._database.index))
        if self._vectors is not None:
            self._vectors.count_added(added)
