"""All sessions of a store as lists show them, kept in memory and read again only where something was written.

On the dashboard a session is one conversation with all its continuations. `visible` and `find` give only the sessions
of one owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from clew.dashboard.timeline import CompactionEffect, compaction_effects
from clew.dashboard.window_content import (
    BYTES_PER_TOKEN,
    SizeCache,
    WindowContent,
    WindowFinder,
    WindowLimits,
    is_current,
    measure_content,
)
from clew.errors import StoreError
from clew.messages import Message, calls_of, name_of_call, text_of
from clew.store import (
    CallFilter,
    ConversationOverview,
    RecordedCall,
    Rows,
    Store,
    UnknownSession,
    UsageTotal,
    ViewOutline,
)
from clew.usage import CanonicalUsage

MAX_SESSIONS = 10_000
"""The newest sessions that are listed; older ones are found by search."""
MAX_WORDS_CHARS = 240
_CHUNK = 200
_MAX_OWNERS = 32
"""Owners whose lists are kept in memory."""
_MAX_CONTENTS = 500
_READ_AHEAD = 50
_MAX_CALLS_KEPT = 8
_CHARS_PER_TOKEN = 4
_CLIENTS = {
    "terminal": "Clew chat",
    "gateway": "gateway",
    "hosted": "hosted",
    "library": "library",
    "hermes": "Hermes",
    "import": "imported",
    "claude-code": "Claude Code (imported)",
    "codex": "Codex (imported)",
    "gemini-cli": "Gemini CLI (imported)",
    "opencode": "opencode (imported)",
    "pi": "pi (imported)",
}
ACTIVE_SECONDS = 90.0
"""After this time without a new message a session is idle: most replies and tools take less."""
NO_CALLS = UsageTotal({}, 0, CanonicalUsage(), 0, 0)


@dataclass(frozen=True, slots=True)
class Meter:
    """How full a window is."""

    tokens: int | None
    basis: str
    is_exact: bool
    limits: WindowLimits

    @property
    def fill(self) -> float:
        """The share of the window that is taken."""
        return (self.tokens or 0) / max(1, self.limits.tokens)

    @property
    def is_full(self) -> bool:
        """Whether a compaction is due."""
        return self.limits.threshold is not None and (self.tokens or 0) >= self.limits.threshold


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """Figures of a session that its overview does not have."""

    opening: str
    last_words: str
    last_role: str | None
    total: UsageTotal
    auxiliary: UsageTotal
    last_call: RecordedCall | None
    meter: Meter


@dataclass(frozen=True, slots=True)
class CatalogState:
    """The sessions of a store at one moment, the one that changed last first."""

    mark: str = ""
    sessions: tuple[ConversationOverview, ...] = ()
    by_conversation: Mapping[int, ConversationOverview] = field(default_factory=dict)
    branches: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The branches and subagents of each conversation."""


_NEVER = CatalogState()


class SessionCatalog:
    """The sessions of one store."""

    def __init__(self, store: Store, windows: WindowFinder) -> None:
        self.store = store
        self.windows = windows
        self.sizes = SizeCache(store)
        self._states: dict[str | None, CatalogState] = {}
        """By owner, so that one with many sessions does not hide those of others; None: of all."""
        self._figures: dict[int, tuple[tuple[object, ...], SessionFigures]] = {}
        self._contents: dict[int, tuple[tuple[object, ...], WindowContent]] = {}
        self._openings: dict[int, str] = {}
        self._calls: dict[int, tuple[int, Sequence[RecordedCall]]] = {}
        self._reading = asyncio.Lock()

    async def state(self, owner: str | None = None) -> CatalogState:
        """The sessions of an owner as they are now; None: of all."""
        mark = await self.store.change_mark()
        if mark != self._states.get(owner, _NEVER).mark:
            async with self._reading:
                if mark != self._states.get(owner, _NEVER).mark:
                    if owner not in self._states and len(self._states) >= _MAX_OWNERS:
                        self._states.clear()
                    read = await self.store.conversations(MAX_SESSIONS, owner=owner)
                    self._states[owner] = _state_of(mark, read)
        return self._states[owner]

    async def visible(self, owner: str | None) -> list[ConversationOverview]:
        """The sessions of an owner, the one that changed last first."""
        return list((await self.state(owner)).sessions)

    async def find(self, owner: str | None, id: str) -> ConversationOverview:
        """A session by the id of any of its continuations; raises `UnknownSession`, also for one of another owner."""
        found = await self.store.session(id, owner=owner)
        overview = (await self.state(owner)).by_conversation.get(found.conversation)
        if overview is None:
            every = await self.store.conversations(2**31, owner=owner)
            overview = next((each for each in every if each.conversation == found.conversation), None)
        if overview is None:
            raise UnknownSession(id)
        return overview

    async def figures(self, sessions: Sequence[ConversationOverview]) -> list[SessionFigures]:
        """The figures of some sessions, in their order; they are read again only where a session has changed."""
        stale = [each for each in sessions if self._figures.get(each.conversation, ((),))[0] != _stamp(each)]
        for start in range(0, len(stale), _CHUNK):
            await self._read_figures(stale[start : start + _CHUNK])
        return [self._figures[each.conversation][1] for each in sessions]

    async def _read_figures(self, sessions: Sequence[ConversationOverview]) -> None:
        ids = [each.conversation for each in sessions]
        totals = await self._totals(CallFilter(conversations=ids))
        auxiliary = await self._totals(CallFilter(conversations=ids, auxiliary=True))
        digests = await self.store.digests([each.newest for each in sessions])
        openings = await self.openings(sessions)
        uncalled = [
            each.conversation
            for each, digest in zip(sessions, digests, strict=True)
            if digest.last_call is None and _is_whole(each)
        ]
        counted = await self.store.counted_messages(uncalled) if uncalled else {}
        for each, digest, opening in zip(sessions, digests, openings, strict=True):
            figures = SessionFigures(
                opening=opening,
                last_words=words_of(digest.newest),
                last_role=None if digest.newest is None else str(digest.newest.get("role")),
                total=totals.get(each.conversation, NO_CALLS),
                auxiliary=auxiliary.get(each.conversation, NO_CALLS),
                last_call=digest.last_call,
                meter=await self._meter(each, digest.last_call, counted.get(each.conversation)),
            )
            self._figures[each.conversation] = (_stamp(each), figures)
        if len(self._figures) > 2 * MAX_SESSIONS:
            self._figures.clear()

    async def openings(self, sessions: Sequence[ConversationOverview]) -> list[str]:
        """The first words of some sessions, in their order; a branch has those of its origin."""
        known = (await self.state()).by_conversation
        roots = [_where_it_began(each, known) for each in sessions]
        unread = sorted({root for root in roots if root not in self._openings})
        for start in range(0, len(unread), _CHUNK):
            chunk = unread[start : start + _CHUNK]
            read = await self.store.openings(chunk)
            # A conversation without a user message may get one.
            self._openings.update({each: words_of(read[each]) for each in chunk if each in read})
        return [self._openings.get(root, "") for root in roots]

    async def totals(self, sessions: Sequence[ConversationOverview]) -> list[UsageTotal]:
        """The usage of some sessions, in their order."""
        found = await self._totals(CallFilter(conversations=[each.conversation for each in sessions]))
        return [found.get(each.conversation, NO_CALLS) for each in sessions]

    async def calls(self, overview: ConversationOverview) -> Sequence[RecordedCall]:
        """The calls of a session, oldest first; those of the newest few sessions that were read are kept."""
        known = self._calls.pop(overview.conversation, None)
        if known is None or known[0] != overview.last_call:
            known = (overview.last_call, await self.store.calls(overview.newest))
        self._calls[overview.conversation] = known
        if len(self._calls) > _MAX_CALLS_KEPT:
            del self._calls[next(iter(self._calls))]
        return known[1]

    async def effects(self, overview: ConversationOverview) -> list[CompactionEffect]:
        """The compactions of a session with what each cost and saved, oldest first."""
        accounts = await self.store.compaction_accounts(overview.newest)
        return compaction_effects(accounts, await self.calls(overview)) if accounts else []

    async def read_ahead(self) -> None:
        """Read the figures of all sessions a few at a time, so that lists which need all of them are quick."""
        with suppress(StoreError):
            # A search would wait for what is not indexed yet.
            await self.store.index_waiting()
        sessions = (await self.state()).sessions
        for start in range(0, len(sessions), _READ_AHEAD):
            await self.figures(sessions[start : start + _READ_AHEAD])
            await asyncio.sleep(0)

    async def _totals(self, which: CallFilter) -> dict[int, UsageTotal]:
        return {int(total.group["conversation"]): total for total in await self.store.usage(("conversation",), which)}

    async def _meter(
        self, overview: ConversationOverview, last_call: RecordedCall | None, counted: tuple[int, int] | None
    ) -> Meter:
        """How full a window is; `counted` are the tokens and the uncounted bytes of a history that is all in view."""
        limits = self.windows.limits(overview)
        if last_call is not None and is_current(last_call, overview):
            return Meter(last_call.usage.total_tokens, "last request", True, limits)
        if not overview.next_seq:
            return Meter(None, "counted", False, limits)
        if counted is not None:
            tokens = counted[0] + round(counted[1] / BYTES_PER_TOKEN) + overview.system_chars // _CHARS_PER_TOKEN
            return Meter(tokens, "counted", False, limits)
        content = await self.content(overview, last_call)
        return Meter(content.tokens, content.basis, content.is_exact, limits)

    async def content(self, overview: ConversationOverview, last_call: RecordedCall | None) -> WindowContent:
        """What is in the window of a session now."""
        known = self._contents.get(overview.conversation)
        if known is not None and known[0] == _stamp(overview):
            return known[1]
        content = await self._measure(overview, last_call)
        if len(self._contents) >= _MAX_CONTENTS:
            self._contents.clear()
        self._contents[overview.conversation] = (_stamp(overview), content)
        return content

    async def _measure(self, overview: ConversationOverview, last_call: RecordedCall | None) -> WindowContent:
        whole = ViewOutline(None, (Rows(0, overview.next_seq),), overview.next_seq)
        outline = whole if _is_whole(overview) else await self.store.view_outline(overview.newest)
        sizes = await self.sizes.sizes(overview)
        current = last_call if is_current(last_call, overview) else None
        return measure_content(outline, sizes, overview.system_chars // _CHARS_PER_TOKEN, current)


def client_of(client: str) -> str:
    """The display name of the program of a session, from its name or the source of the session."""
    return _CLIENTS.get(client, client)


def words_of(message: Message | None) -> str:
    """The text of a message on one line, or the names of its calls."""
    if message is None:
        return ""
    text = " ".join(text_of(message)[: 4 * MAX_WORDS_CHARS].split())[:MAX_WORDS_CHARS]
    return text or ", ".join(f"{name_of_call(call)}(…)" for call in calls_of(message))[:MAX_WORDS_CHARS]


def is_active(overview: ConversationOverview, now: datetime) -> bool:
    """Whether a session has not ended and has a recent message."""
    return overview.ended is None and (now - overview.updated).total_seconds() <= ACTIVE_SECONDS


def _is_whole(overview: ConversationOverview) -> bool:
    """Whether the view is the whole history: neither the conversation nor its origin was compacted."""
    return not overview.last_entry and not overview.shared


def _where_it_began(overview: ConversationOverview, known: Mapping[int, ConversationOverview]) -> int:
    """The conversation that has the first message of a session."""
    origin = known.get(overview.parent or 0) if overview.shared else None
    if origin is None or origin.conversation >= overview.conversation:
        return overview.conversation
    return _where_it_began(origin, known)


def _stamp(overview: ConversationOverview) -> tuple[object, ...]:
    """What the figures of a session depend on."""
    return overview.next_seq, overview.last_call, overview.last_entry, overview.model, overview.newest


def _state_of(mark: str, sessions: Iterable[ConversationOverview]) -> CatalogState:
    newest = sorted(sessions, key=lambda each: (each.updated, each.conversation), reverse=True)
    branches: dict[int, tuple[int, ...]] = {}
    for each in reversed(newest):
        if each.parent is not None:
            branches[each.parent] = (*branches.get(each.parent, ()), each.conversation)
    return CatalogState(mark, tuple(newest), {each.conversation: each for each in newest}, branches)
