"""Open conversations of a gateway: found by lineage and history, closed when idle.

The store has everything; a conversation is kept open so that it is not read again with each request. After an idle
close, the next request opens it from the store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from multidict import CIMultiDict

from clew.errors import StaleHistory, StoreError
from clew.facts import title_of
from clew.gateway.admission import Caller, where_it_failed
from clew.gateway.wires import WirePath, WireRequest, hashes_of, read_json, write_json
from clew.messages import DialectName, History
from clew.store import ModelCall, NewSession, View
from clew.turn import (
    KEPT_SHARE,
    Conversation,
    ModelTarget,
    ProjectedConversation,
    Runtime,
    TakenHistory,
)
from clew.usage import CanonicalUsage, cost_of

MUST_FOLD = 0.95
"""Of the window: from here on a fold is not delayed, since the next turn may not fit any more."""


PREPARE_AT = 0.70 / 0.85
"""Of the threshold: 70% of the window, or less where the client reserves room for output."""
_LEAD_TURNS = 2
"""A model begins to write so many turns before the threshold: it takes about two, and later messages stay in view."""


def is_time_to_prepare(tokens: int, fixed: int, turns: int, threshold: int) -> bool:
    """Whether to begin a handoff, so that it is written when the conversation reaches the threshold.

    From 70% of the window on, and no earlier than needed: later messages stay in view after the handoff. `fixed` tokens
    are those of system prompt and tools, which do not grow with the turns.
    """
    growth = max(0, tokens - fixed) / max(1, turns)
    return tokens >= PREPARE_AT * threshold and tokens + _LEAD_TURNS * growth >= threshold


def pays_back(tokens: int, turns: int, model: str, provider: str | None) -> bool:
    """Whether the turns that are still expected pay back the fold of a prompt. True without a price, or a price of 0.

    On average a session continues for as many turns as it has had. A fold moves the prefix: the rest of the prompt is
    written to the cache again, and each later turn reads fewer tokens.
    """
    read = cost_of(CanonicalUsage(cache_read_tokens=tokens), model, provider)
    written = cost_of(CanonicalUsage(cache_write_tokens=tokens), model, provider)
    plain = cost_of(CanonicalUsage(input_tokens=tokens), model, provider)
    if read is None or written is None or plain is None or not plain.total:
        return True
    again = max(written.total, plain.total) - read.total
    return turns * (1 - KEPT_SHARE) * float(read.total) > KEPT_SHARE * float(again)


def direct_usage(usage: CanonicalUsage, freed: int, before: int) -> CanonicalUsage:
    """The usage of the client's own request, for one that used `usage` after folds that freed `freed` tokens.

    `before` is the prompt of the client's previous request.
    """
    if freed <= 0:
        return usage
    whole = usage.prompt_tokens + freed
    read = min(whole, max(before, usage.cache_read_tokens + freed))
    rest = whole - read
    is_written = usage.cache_write_tokens > 0
    return replace(
        usage,
        input_tokens=0 if is_written else rest,
        cache_write_tokens=rest if is_written else 0,
        cache_read_tokens=read,
    )


_log = logging.getLogger("clew.gateway")

IDLE_SECONDS = 120.0
MAX_OPEN_BYTES = 512 * 1024 * 1024
"""Of the requests of all open conversations together."""
_LARGE_BYTES = 128 * 1024
"""Parsed in about a millisecond: more are parsed in a thread."""
_TITLE_ITEMS = 12
"""Items at the beginning of a new conversation that its title is taken from."""
_LIKELY = 3
"""Open conversations that are compared with a request; the store finds the others."""
_RESPELLED = 3
"""Newest items of a request that may have another spelling in the next one."""
_MOST_REBUILT = 8
"""Items at the end of a request that a client may rebuild each time; more of them are an edit, or a rewind."""
_REBUILDS_SEEN = 4
"""Newest requests that are examined for this habit; two of them show it."""


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """The owner and the lineage of conversations."""

    owner: str
    lineage: str
    tree: str = ""


@dataclass(frozen=True, slots=True)
class KnownFold:
    """The newest fold of a conversation, and the tokens that all of its folds have freed."""

    session: str = ""
    """The session that it opened."""
    first_seq: int = 0
    """The first message that followed it."""
    freed: int = 0


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """A request as it was sent to the upstream, and its caller."""

    path: WirePath
    model: str
    url: str
    headers: CIMultiDict[str] = field(repr=False)
    body: bytes = field(repr=False)
    caller: Caller
    view: View = field(repr=False)
    """The view that the request was made from."""
    shown: int
    """Messages in view that it showed."""

    @property
    def cache_ttl(self) -> str | None:
        """How long the provider caches it; None where it does not."""
        return self.path.wire.cache_ttl(self.body)


@dataclass(slots=True)
class OpenConversation:
    """A conversation as a client sends it. Whoever changes it holds the lock."""

    key: ConversationKey
    first: int
    """The hash of the first item of the request that began it."""
    view: ProjectedConversation
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used_at: float = 0.0
    request_bytes: int = 0
    waiting: int = 0
    """Requests that have it, or wait for it."""
    changes: int = 0
    """How often its history was changed: a request that was matched before the last change is matched again."""
    hashes: list[int] = field(default_factory=list)
    """Of each item of the newest request. The replies after them are known by their digests only."""
    shown: list[bytes | int] | None = None
    """The items sent for the newest request: received ones by their places, and written ones; None: as received."""
    shown_of: int = 0
    """How many items that request had."""
    fold: KnownFold = field(default_factory=KnownFold)
    rebuilds: tuple[int, ...] = ()
    """For each of the newest requests, how many items at the end of the previous one were changed: aider puts files
    and a reminder there, which are missing from the next request."""
    stored_facts: Mapping[str, Any] = field(default_factory=dict)
    """Stored facts for lists and pages: the client program, and the window."""
    direct_prompt: int = 0
    """The tokens that the client's previous request would have taken, sent as received."""
    sent: UpstreamRequest | None = None
    """The newest request as it was sent to the upstream, where a handoff may be requested after it."""
    cached_until: float | None = None
    """When the provider's cache of that request expires; None where there is none, or a fold was tried for it."""
    answered: tuple[str, int] = ("", 0)
    """The session and the number of the next message when that request was answered."""
    has_finished_task: bool = False
    """Whether a handoff was requested because a task is finished: the next request is folded if it is ready."""
    is_preparing: bool = False
    """Whether a model is writing a handoff of it."""
    tried: tuple[str, int] = ("", 0)
    """The session that a handoff was last requested for, and its tokens then."""

    @property
    def held_bytes(self) -> int:
        """About the memory that it takes while open."""
        return self.request_bytes + (len(self.sent.body) if self.sent else 0)

    def count_known(self, hashes: list[int]) -> int:
        """How many items at the beginning are equal to the known ones."""
        known = self.hashes
        if hashes[: len(known)] == known:
            return len(known)
        pairs = enumerate(zip(known, hashes, strict=False))
        return next((at for at, (old, new) in pairs if old != new), min(len(known), len(hashes)))

    def note_rebuild(self, rebuilt: int) -> None:
        self.rebuilds = (*self.rebuilds, rebuilt)[-_REBUILDS_SEEN:]

    async def take(self, request: WireRequest, matched: MatchedRequest, target: ModelTarget) -> Conversation:
        """Store the new messages of a request."""
        items = matched.items
        try:
            conversation = await self.view.take(items, request.wire.dialect, target, is_beside=True)
        finally:
            self.changes += 1  # at the end: a request that is matched meanwhile is matched again, too
        is_habit = sum(map(bool, self.rebuilds)) > 1
        conversation.view.unsettled = self.view.count_from(len(items) - max(self.rebuilds)) if is_habit else 0
        self.hashes = matched.hashes
        self.request_bytes = len(request.body.raw)
        return conversation

    async def first_item_since_fold(self, conversation: Conversation) -> int | None:
        """The first item that followed the newest fold; None where nothing is folded."""
        if not conversation.is_compacted:
            return None
        return self.view.place_of((await self._last_fold(conversation)).first_seq)

    async def direct_usage(self, conversation: Conversation, usage: CanonicalUsage) -> CanonicalUsage:
        """The usage of the client's own newest request, had it been sent as received."""
        freed = (await self._last_fold(conversation)).freed if conversation.is_compacted else 0
        direct = direct_usage(usage, freed, self.direct_prompt)
        self.direct_prompt = direct.prompt_tokens
        return direct

    async def _last_fold(self, conversation: Conversation) -> KnownFold:
        if self.fold.session != conversation.session:
            store, session = conversation.services.store, conversation.session
            folds = [it.entry for it in await store.compactions(session) if it.is_in_effect]
            freed = sum(max(0, it.tokens_before - it.tokens_after) for it in folds)
            self.fold = KnownFold(session, (await store.session(session)).first_seq, freed)
        return self.fold

    def show(
        self,
        conversation: Conversation,
        raw: Sequence[bytes],
        change: Callable[[bytes], bytes] = bytes,
        until: int = 0,
    ) -> list[bytes] | None:
        """The items to send in place of the received ones, the first `until` of them changed; None where they are the
        same.
        """
        if until:
            raw = [*map(change, raw[:until]), *raw[until:]]
        shown = self.view.show_if_changed(conversation)
        if shown is None:
            self.shown = None
            return list(raw) if until else None
        # Written items represent messages from before the fold, and may contain parts of them.
        old = change if until else bytes
        self.shown = [it if isinstance(it, int) else old(write_json(it)) for it in shown]
        self.shown_of = len(raw)
        return [it if isinstance(it, bytes) else raw[it] for it in self.shown]

    def project(self, raw: Sequence[bytes], hashes: list[int]) -> list[bytes] | None:
        """The items that would be sent for these, if they are the newest request or extend it."""
        if self.shown is None or self.count_known(hashes) < max(1, self.shown_of - _RESPELLED):
            return None
        folded = [
            it if isinstance(it, bytes) else raw[it] for it in self.shown if isinstance(it, bytes) or it < len(raw)
        ]
        return [*folded, *raw[self.shown_of :]]

    async def record(
        self,
        items: Sequence[Any],
        usage: CanonicalUsage | None,
        call: ModelCall | None,
        taken: TakenHistory | None,
    ) -> bool:
        """Record the reply to the request of a history; False where another process has continued the conversation."""
        try:
            return await self.view.record(items, usage, call, taken)
        except StaleHistory:
            _log.info("a reply is not kept: another process has gone on with its conversation")
            return False
        finally:
            self.changes += 1


@dataclass(frozen=True, slots=True)
class MatchedRequest:
    """The conversation that a request continues, and the parsed items of the request."""

    opened: OpenConversation
    items: Sequence[Any]
    """The known ones are the objects that the conversation has."""
    hashes: list[int]
    changes: int
    """Of the conversation, when it was matched."""

    @property
    def is_current(self) -> bool:
        """Whether the conversation is still as it was when the request was matched."""
        return self.opened.changes == self.changes


class OpenConversations:
    """The open conversations of one gateway process."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime = runtime
        self._clock = clock
        self._open: dict[ConversationKey, dict[int, list[OpenConversation]]] = {}
        """By their key, and by the hash of their first item: one caller may have thousands."""

    @property
    def count(self) -> int:
        return sum(1 for _ in self._every())

    def _every(self) -> Iterator[OpenConversation]:
        return (it for groups in self._open.values() for opened in groups.values() for it in opened)

    def _with_first(self, key: ConversationKey, hashes: Sequence[int]) -> Sequence[OpenConversation]:
        """The conversations of a key that began with the first of these items."""
        return self._open.get(key, {}).get(hashes[0], ()) if hashes else ()

    async def find(self, key: ConversationKey, request: WireRequest) -> MatchedRequest:
        """The open conversation that a request continues, or a new one that will be looked up in the store."""
        hashes = hashes_of(request.items)
        first = max((it.count_known(hashes) for it in self._with_first(key, hashes)), default=0)
        new = await self._read_items(request.items[first:])
        # No await from here on: of two requests, the second finds the conversation that the first has opened.
        known = [(it.count_known(hashes), it) for it in self._with_first(key, hashes)]
        likely = sorted((pair for pair in known if pair[0]), key=lambda pair: pair[0], reverse=True)
        for count, candidate in likely[:_LIKELY]:
            items = [*candidate.view.items[:count], *map(read_json, request.items[count:first])]
            items += new[len(items) - first :]
            if candidate.view.is_followed_by(items, request.wire.dialect):
                candidate.note_rebuild(0)
                return MatchedRequest(candidate, items, hashes, candidate.changes)
        items = [*map(read_json, request.items[:first]), *new]
        session = NewSession(
            source="gateway",
            model=request.model,
            title=_title_of(items, request.wire.dialect),
            owner=key.owner,
            lineage=key.lineage,
            tree=key.tree,
        )
        opened = OpenConversation(key, hashes[0], ProjectedConversation(self._runtime, session))
        if likely:
            same, nearest = likely[0]
            opened.rebuilds = nearest.rebuilds
            rebuilt = len(nearest.hashes) - same
            opened.note_rebuild(rebuilt if rebuilt <= _MOST_REBUILT else 0)
        self._open.setdefault(key, {}).setdefault(opened.first, []).append(opened)
        return MatchedRequest(opened, items, hashes, opened.changes)

    async def _read_items(self, raw: Sequence[bytes]) -> list[Any]:
        """Parse items of a request."""
        is_large = sum(map(len, raw)) > _LARGE_BYTES
        return await self._runtime.in_thread(lambda: list(map(read_json, raw)), when=is_large)

    @asynccontextmanager
    async def matched(self, key: ConversationKey, request: WireRequest) -> AsyncIterator[MatchedRequest]:
        """Find the conversation and hold its lock; match again where another request changed it before."""
        while True:
            matched = await self.find(key, request)
            opened = matched.opened
            opened.waiting += 1
            try:
                async with opened.lock:
                    if opened.view.session is None:
                        # It will be looked up in the store, which must have all pending writes of the same history.
                        await self._written(key)
                    if matched.is_current:
                        yield matched
                        return
            finally:
                opened.waiting -= 1

    async def _written(self, key: ConversationKey) -> None:
        writing = [it for opened in self._open.get(key, {}).values() for it in opened if it.view.is_writing]
        for other in writing:
            await other.view.written()

    def project(self, key: ConversationKey, items: Sequence[bytes]) -> list[bytes] | None:
        """The items that would be sent for these, by what is known here; None where they are the same."""
        hashes = hashes_of(items)
        found = max(self._with_first(key, hashes), key=lambda it: it.count_known(hashes), default=None)
        return found.project(items, hashes) if found else None

    async def project_for_count(self, key: ConversationKey, request: WireRequest) -> list[bytes] | None:
        """The items that would be sent for these, by the store where another process may have continued."""
        try:
            return await self._project_stored(key, request)
        except StoreError as problem:
            _log.error("a count is of what is known here: %s", problem)
            return self.project(key, request.items)

    async def _project_stored(self, key: ConversationKey, request: WireRequest) -> list[bytes] | None:
        hashes = hashes_of(request.items)
        open_here = max(self._with_first(key, hashes), key=lambda it: it.count_known(hashes), default=None)
        session = open_here.view.session if open_here else None
        if session is not None and await self._runtime.store.get_compression_tip(session) == session:
            return self.project(key, request.items)
        looked_up = ProjectedConversation(self._runtime, NewSession(owner=key.owner, lineage=key.lineage))
        shown = await looked_up.peek(await self._read_items(request.items), request.wire.dialect)
        if shown is None:
            return None
        return [request.items[it] if isinstance(it, int) else write_json(it) for it in shown]

    async def close_idle(self) -> int:
        """Close idle conversations, and the longest unused ones where all together are too large; about how many bytes
        they took.

        A conversation that the provider has in its cache stays open until that expires, since it may be folded before.
        """
        now, every = self._clock(), self.by_use()
        total = before = sum(it.held_bytes for it in every)
        for conversation in every:
            if conversation.waiting or conversation.lock.locked():
                continue
            is_idle = now - conversation.used_at > IDLE_SECONDS and now >= (conversation.cached_until or 0.0)
            if is_idle or total > MAX_OPEN_BYTES:
                total -= conversation.held_bytes
                try:
                    await self._close(conversation)
                except StoreError as problem:
                    _log.error("a conversation is closed later: %s", where_it_failed(problem))
        return before - total

    def by_use(self) -> list[OpenConversation]:
        """All open conversations, the longest unused first."""
        return sorted(self._every(), key=lambda it: it.used_at)

    async def _close(self, conversation: OpenConversation) -> None:
        """Close a conversation; where its pending calls cannot be stored, it stays open."""
        async with conversation.lock:
            if conversation.view.session is not None:
                await self._runtime.forget(conversation.view.session)
            groups = self._open.get(conversation.key, {})
            left = [it for it in groups.pop(conversation.first, ()) if it is not conversation]
            if left:
                groups[conversation.first] = left
            if not groups:
                self._open.pop(conversation.key, None)
            conversation.changes += 1  # a request that waits for the lock matches again


def _title_of(items: Sequence[Any], dialect: DialectName) -> str | None:
    """The title of a new conversation: what a person asks for at its beginning."""
    return title_of([item.message for item in History(dialect).extend(items[:_TITLE_ITEMS])])
