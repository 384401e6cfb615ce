"""The store: each method is one operation, run in one transaction on whichever database is behind it.

The operations themselves are in the other modules, as steps that a database runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from clew.messages import Message
from clew.store import calls, compactions, history, maintenance, quarantine, rows, sessions, sync
from clew.store.base import (
    AppendResult,
    CommittedCompaction,
    CompactionEntry,
    EngineRecord,
    Lease,
    NewMessage,
    Session,
    StoredMessage,
    SyncResult,
    View,
)
from clew.store.calls import CallFilter, Grouping, ModelCall, UsageTotal
from clew.store.compactions import CompactionCommit
from clew.store.database import Clock, Database, Steps, fetch_number, reads, wall_clock, writes
from clew.store.history import AppendRequest, calls_in_order
from clew.store.keys import KeyStore
from clew.store.maintenance import HealthProblem
from clew.store.nodes import NodePublication, NodeStore
from clew.store.overview import OverviewStore
from clew.store.quarantine import QuarantinedRow
from clew.store.rows import chains_of, plain_to_store, tool_names
from clew.store.search.base import DocKind
from clew.store.search.indexing import NOT_INDEXED, catch_up, index_where
from clew.store.search.search import SearchStore
from clew.store.search.vectors import Embedder
from clew.store.sessions import NewSession
from clew.store.state import NewOutput, StateStore, keep_output, put_records
from clew.store.sync import KnownHistory

_REMEMBERED_SESSIONS = 256
_INDEX_EVERY_ROWS = 128
"""So many rows may wait to be indexed; a search indexes them before it looks."""


class Store(SearchStore, NodeStore, OverviewStore, StateStore, KeyStore):
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

    # Sessions

    @writes
    def start_session(self, new: NewSession | None = None) -> Steps[Session]:
        """Start a session; an existing one of that id is returned as it is."""
        session = yield from sessions.start(new or NewSession(), self._now())
        yield from self._index_system(session.id)
        return session

    @reads
    def session(self, session: str, *, owner: str | None = None) -> Steps[Session]:
        """A session by its id; `UnknownSession` when there is none."""
        return (yield from sessions.find(session, owner)).session

    @reads
    def list_sessions(
        self, *, owner: str | None = None, limit: int = 50, before: str | None = None, only_tips: bool = False
    ) -> Steps[list[Session]]:
        """Sessions, newest first; page with `before`, the last id. `only_tips` leaves out compacted ones."""
        return (yield from sessions.list_sessions(owner, limit, before, only_tips))

    @reads
    def children_of(self, session: str, *, owner: str | None = None) -> Steps[list[Session]]:
        """Continuations, branches and subagents of a session, oldest first."""
        return (yield from sessions.children_of(session, owner))

    @reads
    def sessions_of(self, conversation: int, *, owner: str | None = None) -> Steps[list[Session]]:
        """The sessions of a conversation, oldest first; none where it is not that owner's."""
        return (yield from sessions.sessions_of(conversation, owner))

    @writes
    def end_session(self, session: str, reason: str = "done", *, owner: str | None = None) -> Steps[Session]:
        """End a session; one that has ended already is not changed."""
        return (yield from sessions.end(session, reason, self._now(), owner))

    @reads
    def get_compression_tip(self, session: str, *, owner: str | None = None) -> Steps[str]:
        """The id of the newest continuation of a session; its own where there is none."""
        return (yield from sessions.tip_of(session, owner)).id

    @writes
    def resume(self, session: str, *, owner: str | None = None) -> Steps[Session]:
        """The tip of a session, open again if it had ended."""
        return (yield from sessions.resume(session, owner))

    @writes
    def rename(self, session: str, title: str | None, *, owner: str | None = None) -> Steps[Session]:
        return (yield from sessions.rename(session, title, owner))

    @writes
    def set_model(self, session: str, model: str, *, owner: str | None = None) -> Steps[None]:
        yield from sessions.set_model(session, model, owner)

    @reads
    def system_prompt(self, session: str, *, owner: str | None = None, keep_damaged: bool = False) -> Steps[str | None]:
        """The system prompt that a session was started with; with `keep_damaged` a note for one that cannot be read."""
        found = yield from sessions.find(session, owner)
        if found.system is None:
            return None
        what = f"the system prompt of session {session!r}"
        return (yield from rows.text_at(found.system, what, session, keep_damaged))

    @writes
    def branch(
        self, session: str, at: int | None = None, *, new_id: str | None = None, owner: str | None = None
    ) -> Steps[Session]:
        """A new conversation that shares the first `at` messages of a session; all of them by default."""
        return (yield from history.branch(session, at, new_id, owner, self._now()))

    async def delete(self, session: str, *, owner: str | None = None) -> int:
        """Delete the whole conversation of a session; how many messages it had. `InUse` where it has branches."""
        await self.index_waiting()
        return await self._database.write(lambda: maintenance.delete_conversation(self._database.index, session, owner))

    # History

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
            if appended.added:
                yield from self._index_messages(appended.session, appended.first_seq)
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
            synced = yield from sync.sync(sync.SyncRequest(whole, asked, session, is_exact), chains, now)
            if synced.is_new:
                yield from self._index_system(synced.session)
            if synced.added:
                yield from self._index_messages(synced.session, synced.next_seq - synced.added)
            return synced

        synced = await self._database.write(operation)
        self._count_waiting(synced.added)
        return synced

    @reads
    def find_history(self, messages: Sequence[Message | NewMessage], new: NewSession) -> Steps[KnownHistory | None]:
        """Where `sync` would find a history among those of `new.owner` and `new.lineage`; nothing is stored."""
        return (yield from sync.find_known(chains_of(messages), new))

    @reads
    def view(self, session: str, *, owner: str | None = None, keep_damaged: bool = False) -> Steps[View]:
        """What a session shows the model; for one that a compaction ended, what it showed then.

        `DamagedRow` names a row that cannot be read; with `keep_damaged` a note is in its place.
        """
        return (yield from compactions.load_view(session, owner, keep_damaged))

    @reads
    def base(self, session: str, *, owner: str | None = None) -> Steps[int | None]:
        """The id of the compaction in effect in a session's conversation; None where there is none."""
        return (yield from history.base_of(session, owner))

    @reads
    def messages(
        self, session: str, start: int = 0, stop: int = 2**62, *, owner: str | None = None, keep_damaged: bool = False
    ) -> Steps[list[StoredMessage]]:
        """Messages of a session's conversation by their numbers, whether they are in the view or not.

        `DamagedRow` names one that cannot be read; with `keep_damaged` it is given with its `damage` and a note.
        """
        return (yield from history.stored_messages(session, start, stop, owner, keep_damaged))

    @reads
    def next_seq(self, session: str, *, owner: str | None = None) -> Steps[int]:
        """The number of the next message of a session's conversation."""
        return (yield from sessions.next_seq((yield from sessions.find(session, owner))))

    @reads
    def count_returns(self, session: str, seconds: float, *, owner: str | None = None) -> Steps[int]:
        """How often a person wrote in a session's conversation after nothing was added to it for so long."""
        return (yield from history.count_returns(session, seconds, owner))

    # Compactions

    @writes
    def commit_compaction(
        self,
        session: str,
        entry: CompactionEntry,
        *,
        lease: Lease | None = None,
        calls: Sequence[ModelCall] = (),
        system: str | None = None,
        records: Sequence[EngineRecord] = (),
        nodes: NodePublication | None = None,
        new_id: str | None = None,
        owner: str | None = None,
    ) -> Steps[Session]:
        """End a session with a compaction and open its continuation, which is returned. Uses up the lease.

        `records` of the engine that made it and `nodes` of its map are stored in the same transaction.
        `StaleView` where the view has changed since, `LeaseLost` where the lease has run out.
        """
        request, now = CompactionCommit(session, entry, calls, system, new_id, owner, nodes), self._now()
        if lease is not None:
            yield from compactions.require_lease(lease, (yield from self._shared_now()))
        continuation = yield from compactions.commit(request, now)
        if records:
            yield from put_records(continuation.id, entry.engine, records, now)
        if system is not None:
            yield from self._index_system(continuation.id)
        if entry.summary is not None:
            yield from self._index("summary", "m.session = (SELECT id FROM sessions WHERE name = ?)", continuation.id)
        return continuation

    @writes
    def undo(self, session: str, *, owner: str | None = None) -> Steps[CommittedCompaction | None]:
        """Take the newest compaction out of effect and return it; None where there is none. Later messages stay."""
        return (yield from compactions.undo(session, owner, self._now()))

    @reads
    def compactions(
        self, session: str, *, owner: str | None = None, keep_damaged: bool = False
    ) -> Steps[list[CommittedCompaction]]:
        """The compactions of a session's conversation, oldest first, undone ones included.

        With `keep_damaged` one that cannot be read is given as one that replaced nothing.
        """
        return (yield from compactions.compactions_of(session, owner, keep_damaged))

    @writes
    def take_lease(
        self, session: str, holder: str, seconds: float = 300.0, *, owner: str | None = None
    ) -> Steps[Lease | None]:
        """The right to compact a session's conversation; None while another holder has it."""
        now = yield from self._shared_now()
        return (yield from compactions.take_lease(session, holder, seconds, now, owner))

    @writes
    def renew_lease(self, lease: Lease) -> Steps[bool]:
        return (yield from compactions.renew_lease(lease, (yield from self._shared_now())))

    @writes
    def release_lease(self, lease: Lease) -> Steps[bool]:
        return (yield from compactions.release_lease(lease))

    @reads
    def lease_holder(self, session: str, *, owner: str | None = None) -> Steps[str | None]:
        return (yield from compactions.lease_holder(session, (yield from self._shared_now()), owner))

    # Usage

    @writes
    def record_call(self, session: str | None, call: ModelCall, *, owner: str | None = None) -> Steps[None]:
        """Store a call that brought no message; one that did belongs to its `append`.

        Without a session it is a call of the owner's that belongs to no conversation.
        """
        yield from calls.record_session_call(session, call, self._now(), owner)

    @reads
    def usage(self, by: Sequence[Grouping] = (), which: CallFilter | None = None) -> Steps[list[UsageTotal]]:
        """Calls added up per group."""
        return (yield from calls.totals(by, which or CallFilter()))

    @writes
    def keep_output(self, new: NewOutput) -> Steps[str]:
        """Store a spilled output, once per text; its id."""
        name = yield from keep_output(new, self._now())
        yield from self._index(
            "output", "m.name = ? AND NOT EXISTS (SELECT 1 FROM docs WHERE kind = 'output' AND ref = m.id)", name
        )
        return name

    # Health

    async def check(self) -> list[HealthProblem]:
        """Everything that is wrong. Reads the whole database."""
        return await maintenance.check_database(self._database, self.index_waiting)

    @writes
    def quarantine(self) -> Steps[list[QuarantinedRow]]:
        """Set aside every row that cannot be read, with a note in its place; those rows. Rebuild the index then."""
        return (yield from quarantine.set_aside(self._now()))

    @reads
    def quarantined(self) -> Steps[list[QuarantinedRow]]:
        """What was set aside so far, oldest first, with its bytes."""
        return (yield from quarantine.list_quarantined())

    # Helpers of the methods above

    def _shared_now(self) -> Steps[int]:
        """The time by a clock that all processes on this database share."""
        if self._database.now_sql is None:
            return self._now()
        return (yield from fetch_number(self._database.now_sql))

    def _index(self, kind: DocKind, condition: str, *params: Any) -> Steps[None]:
        """Index rows in the transaction that writes them, where the database does so."""
        if self._database.index.is_immediate:
            yield from index_where(self._database.index, kind, condition, *params)

    def _index_system(self, session: str) -> Steps[None]:
        """Index the system prompt of a session, unless it is indexed already."""
        condition = f"m.id = (SELECT id FROM sessions WHERE name = ?) AND {NOT_INDEXED}"  # noqa: S608 (fixed text)
        yield from self._index("system", condition, session)

    def _index_messages(self, session: str, first_seq: int) -> Steps[None]:
        yield from self._index(
            "message",
            "m.conversation = (SELECT conversation FROM sessions WHERE name = ?) AND m.seq >= ?",
            session,
            first_seq,
        )

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
            self._vectors.count_added(added, self.index_waiting)
