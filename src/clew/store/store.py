"""The store: every operation of the room, each one transaction on whichever database is behind it.

This file only brings operations and database together. The rules are in the modules of the operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from clew.messages import Message
from clew.store import (
    calls,
    deleting,
    health,
    history,
    leases,
    outputs,
    recognise,
    search,
    sessions,
    state,
    texts,
    views,
)
from clew.store.base import (
    Appended,
    Compaction,
    CompactionEntry,
    LearntWindow,
    Lease,
    NewMessage,
    Output,
    Session,
    StoredMessage,
    Synced,
    View,
)
from clew.store.calls import CallFilter, Grouping, ModelCall, UsageTotal
from clew.store.clock import Clock, micros_of, wall_clock
from clew.store.database import Database
from clew.store.docs import DocKind
from clew.store.health import HealthProblem
from clew.store.history import Addition, calls_in_order
from clew.store.identity import FIRST_CHAIN, Chain, chains_after
from clew.store.indexing import KINDS, NOT_INDEXED, catch_up, index_where, is_behind
from clew.store.outputs import NewOutput
from clew.store.problems import IndexDamaged
from clew.store.rowtext import tool_names
from clew.store.search import SearchAnswer, SearchScope
from clew.store.sessions import NewSession
from clew.store.snippet import SNIPPET_CHARS
from clew.store.steps import Steps, one
from clew.store.views import Commit

_REMEMBERED_SESSIONS = 256
_INDEX_EVERY_ROWS = 128
"""So many rows may wait to be indexed; a search indexes them first."""


class Store:
    """A history of conversations that only grows. Open one with `open_store`.

    `owner` narrows an operation to what that owner has: for a gateway, a key. None is the person at the machine.
    """

    def __init__(self, database: Database, clock: Clock = wall_clock) -> None:
        self._database = database
        self._clock = clock
        self._waiting_rows = 0
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
        await self._database.close()

    # Sessions

    async def start_session(self, new: NewSession | None = None) -> Session:
        """Start a session; one of the given id that is there already is given back as it is."""
        asked, now = new or NewSession(), self._now()

        def operation() -> Steps[Session]:
            session = yield from sessions.start(asked, now)
            yield from self._index_system(session.id)
            return session

        return await self._database.write(operation)

    async def session(self, session: str, *, owner: str | None = None) -> Session:
        """A session by its id; `UnknownSession` when there is none."""
        return (await self._database.read(lambda: sessions.find(session, owner))).session

    async def list_sessions(
        self, *, owner: str | None = None, limit: int = 50, before: str | None = None, only_tips: bool = False
    ) -> list[Session]:
        """Sessions, newest first; go on with `before`, the last id. `only_tips` leaves out compacted ones."""
        return await self._database.read(lambda: sessions.listed(owner, limit, before, only_tips))

    async def children_of(self, session: str) -> list[Session]:
        """Continuations, branches and subagents of a session, oldest first."""
        return await self._database.read(lambda: sessions.children_of(session))

    async def sessions_of(self, conversation: int) -> list[Session]:
        """The sessions of a conversation, oldest first."""
        return await self._database.read(lambda: sessions.sessions_of(conversation))

    async def end_session(self, session: str, reason: str = "done") -> Session:
        now = self._now()
        return await self._database.write(lambda: sessions.end(session, reason, now))

    async def get_compression_tip(self, session: str) -> str:
        """The id of the newest continuation of a session; its own where there is none."""
        return (await self._database.read(lambda: sessions.tip_of(session))).id

    async def resume(self, session: str, *, owner: str | None = None) -> Session:
        """The session to go on with: the tip, open again."""
        return await self._database.write(lambda: sessions.resume(session, owner))

    async def rename(self, session: str, title: str | None) -> Session:
        return await self._database.write(lambda: sessions.rename(session, title))

    async def set_model(self, session: str, model: str) -> None:
        await self._database.write(lambda: sessions.set_model(session, model))

    async def system_prompt(self, session: str) -> str | None:
        """The system prompt that a session was started with."""

        def operation() -> Steps[str | None]:
            found = yield from sessions.find(session)
            return None if found.system is None else (yield from texts.text_at(found.system))

        return await self._database.read(operation)

    async def branch(
        self, session: str, at: int | None = None, *, new_id: str | None = None, owner: str | None = None
    ) -> Session:
        """A session of its own that shares the first `at` messages; all there are, when `at` is not given."""
        now = self._now()
        return await self._database.write(lambda: history.branch(session, at, new_id, owner, now))

    async def delete(self, session: str, *, owner: str | None = None) -> int:
        """Delete the whole conversation of a session, for good; how many messages that were."""
        await self.index_waiting()
        return await self._database.write(lambda: deleting.delete_conversation(self._database.index, session, owner))

    # History

    async def append(
        self,
        session: str,
        messages: Sequence[Message | NewMessage],
        *,
        after: int | None = None,
        call: ModelCall | None = None,
        calls: Mapping[int, ModelCall] | None = None,
        owner: str | None = None,
    ) -> Appended:
        """Put messages at the end of a session; they are durable when this returns.

        `call` is the model call that brought them, written in the same transaction; `calls` are several, each by the
        place in `messages` of the one it brought. With `after`, the number of messages the caller knows of, the same
        append can be tried again without adding anything twice.
        """
        brought, now = calls_in_order(len(messages), call, calls or {}), self._now()
        addition = Addition(session, messages, after, brought, owner, self._calls.get(session, {}))

        def operation() -> Steps[Appended]:
            appended = yield from history.append(addition, now)
            if appended.added:
                yield from self._index_messages(appended.session, appended.first_seq)
            return appended

        appended = await self._database.write(operation)
        self._remember_calls(session, messages)
        self._count_waiting(appended.added)
        return appended

    async def sync(
        self,
        messages: Sequence[Message | NewMessage],
        *,
        session: str | None = None,
        new: NewSession | None = None,
        chain: Chain | None = None,
    ) -> Synced:
        """Take in a whole history, of which only what is new is added; an edited earlier message becomes a branch.

        Without a session it is recognised by its longest known beginning, among the conversations of `new.owner`.
        """
        asked, now = new or NewSession(), self._now()
        plain = [it.message if isinstance(it, NewMessage) else it for it in messages]
        chains = chain.of(plain) if chain is not None else chains_after(FIRST_CHAIN, plain)

        def operation() -> Steps[Synced]:
            synced = yield from recognise.sync(messages, chains, asked, session, now)
            if synced.is_new:
                yield from self._index_system(synced.session)
            if synced.added:
                yield from self._index_messages(synced.session, synced.next_seq - synced.added)
            return synced

        synced = await self._database.write(operation)
        self._count_waiting(synced.added)
        return synced

    async def view(self, session: str, *, owner: str | None = None) -> View:
        """What a session shows the model; for one that has ended, what it showed in the end."""
        return await self._database.read(lambda: views.load_view(session, owner))

    async def messages(
        self, session: str, start: int = 0, stop: int = 2**62, *, owner: str | None = None
    ) -> list[StoredMessage]:
        """Rows of a session's conversation, whether they are in view or not."""
        return await self._database.read(lambda: history.stored_messages(session, start, stop, owner))

    # Compactions

    async def commit_compaction(
        self,
        session: str,
        entry: CompactionEntry,
        *,
        lease: Lease | None = None,
        calls: Sequence[ModelCall] = (),
        system: str | None = None,
        new_id: str | None = None,
        owner: str | None = None,
    ) -> Session:
        """End a session with a compaction; the continuation that was opened. A lease is used up by it."""
        asked, now = Commit(session, entry, calls, system, new_id, owner), self._now()

        def operation() -> Steps[Session]:
            if lease is not None:
                yield from leases.require_lease(lease, (yield from self._common_now()))
            continuation = yield from views.commit(asked, now)
            if system is not None:
                yield from self._index_system(continuation.id)
            if entry.summary is not None:
                yield from self._index(
                    "summary", "m.session = (SELECT id FROM sessions WHERE name = ?)", continuation.id
                )
            return continuation

        return await self._database.write(operation)

    async def undo(self, session: str, *, owner: str | None = None) -> Compaction | None:
        """Take the newest compaction out of effect; None when none is in effect. Later messages stay."""
        now = self._now()
        return await self._database.write(lambda: views.undo(session, owner, now))

    async def compactions(self, session: str, *, owner: str | None = None) -> list[Compaction]:
        """The compactions of a session's conversation, oldest first, undone ones included."""
        return await self._database.read(lambda: views.compactions_of(session, owner))

    async def take_lease(self, session: str, holder: str, seconds: float = 300.0) -> Lease | None:
        """The right to compact, or None while another holder has it."""

        def operation() -> Steps[Lease | None]:
            return (yield from leases.take_lease(session, holder, seconds, (yield from self._common_now())))

        return await self._database.write(operation)

    async def renew_lease(self, lease: Lease) -> bool:
        def operation() -> Steps[bool]:
            return (yield from leases.renew_lease(lease, (yield from self._common_now())))

        return await self._database.write(operation)

    async def release_lease(self, lease: Lease) -> bool:
        return await self._database.write(lambda: leases.release_lease(lease))

    async def lease_holder(self, session: str) -> str | None:
        def operation() -> Steps[str | None]:
            return (yield from leases.lease_holder(session, (yield from self._common_now())))

        return await self._database.read(operation)

    # Usage, and what must not be forgotten

    async def record_call(self, session: str, call: ModelCall) -> None:
        """Write a call that brought no message; one that did goes with its `append`."""
        now = self._now()
        await self._database.write(lambda: calls.record_call_of(session, call, now))

    async def usage(self, by: Sequence[Grouping] = (), which: CallFilter | None = None) -> list[UsageTotal]:
        """Calls added up per group."""
        return await self._database.read(lambda: calls.totals(by, which or CallFilter()))

    async def state(self, session: str) -> dict[str, Any]:
        """What engines remember for a session's conversation: strikes, cooldowns."""
        return await self._database.read(lambda: state.read_state(session))

    async def set_state(self, session: str, values: Mapping[str, Any]) -> None:
        """Remember values by name; None forgets one."""
        now = self._now()
        await self._database.write(lambda: state.write_state(session, dict(values), now))

    async def learn_window(self, model: str, base_url: str, tokens: int) -> None:
        """Remember a window that a provider stated."""
        now = self._now()
        await self._database.write(lambda: state.learn_window(model, base_url, tokens, now))

    async def forget_window(self, model: str, base_url: str) -> None:
        await self._database.write(lambda: state.forget_window(model, base_url))

    async def learnt_window(self, model: str, base_url: str) -> LearntWindow | None:
        return await self._database.read(lambda: state.learnt_window(model, base_url))

    async def learnt_windows(self) -> list[LearntWindow]:
        return await self._database.read(state.learnt_windows)

    # Outputs and search

    async def keep_output(self, new: NewOutput) -> str:
        """Keep a spilled output whole, once; the id under which it is read, and found by search."""
        now = self._now()

        def operation() -> Steps[str]:
            name = yield from outputs.keep_output(new, now)
            yield from self._index(
                "output", "m.name = ? AND NOT EXISTS (SELECT 1 FROM docs WHERE kind = 'output' AND ref = m.id)", name
            )
            return name

        return await self._database.write(operation)

    async def output(self, output: str, *, owner: str | None = None) -> Output | None:
        return await self._database.read(lambda: texts.read_output(output, owner))

    async def search(
        self,
        query: str,
        scope: SearchScope | None = None,
        *,
        limit: int = 20,
        snippet_chars: int = SNIPPET_CHARS,
    ) -> SearchAnswer:
        """The best hits for any of the words of a query. Every text is a query; none is a mistake."""

        def operation() -> Steps[SearchAnswer]:
            return search.search(self._database.index, query, scope or SearchScope(), limit, snippet_chars)

        try:
            await self.index_waiting()
            return await self._database.read(operation)
        except IndexDamaged:
            # The index is derived: nothing is lost by making it anew.
            await self.rebuild_index()
            return await self._database.read(operation)

    async def index_waiting(self) -> None:
        """Index every row that waits for it."""
        if self._database.index.is_immediate:
            return
        if await self._database.read(is_behind):
            while await self._database.write(lambda: catch_up(self._database.index)):
                pass
        self._waiting_rows = 0

    # Health

    async def check(self) -> list[HealthProblem]:
        """Everything that does not hold. Reads the whole database."""
        problems = [HealthProblem("database", problem) for problem in await self._database.check()]
        problems += await self._database.read(health.check_rows)
        try:
            await self.index_waiting()
            problems += await self._database.write(lambda: health.check_index(self._database.index))
        except IndexDamaged as error:
            problems.append(HealthProblem("index", str(error)))
        return problems

    async def rebuild_index(self) -> None:
        """Make the full-text index anew from the rows."""
        index = self._database.index

        def all_of_it() -> Steps[None]:
            yield from index.clear()
            if index.is_immediate:
                for kind in KINDS:
                    yield from index_where(index, kind, "1 = 1")

        await self._database.write(all_of_it)
        await self.index_waiting()

    # Within

    def _now(self) -> int:
        return micros_of(self._clock())

    def _common_now(self) -> Steps[int]:
        """The time that all processes on this database share."""
        if self._database.now_sql is None:
            return self._now()
        row = yield from one(self._database.now_sql)
        return int(row[0]) if row else self._now()

    def _index(self, kind: DocKind, condition: str, *params: Any) -> Steps[None]:
        """Index rows with the transaction that wrote them, where the database does so."""
        if self._database.index.is_immediate:
            yield from index_where(self._database.index, kind, condition, *params)

    def _index_system(self, session: str) -> Steps[None]:
        """Index the system prompt that a session was started with, unless it was there before."""
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
        """Which tools the newest calls of a session named, so that their results need not look it up."""
        named = tool_names(it.message if isinstance(it, NewMessage) else it for it in messages)
        if named:
            self._calls.pop(session, None)
            self._calls[session] = named
            if len(self._calls) > _REMEMBERED_SESSIONS:
                del self._calls[next(iter(self._calls))]

    def _count_waiting(self, added: int) -> None:
        self._waiting_rows += added
        if self._waiting_rows >= _INDEX_EVERY_ROWS and not self._database.index.is_immediate:
            self._waiting_rows = 0
            self._database.write_soon(lambda: catch_up(self._database.index))
