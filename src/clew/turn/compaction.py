"""Compactions before they take effect: the request for one, the prepared result, and the lease to commit it.

A prepared compaction can be written as JSON, so that another process applies exactly what was shown. Nothing here
changes a conversation: `Conversation` commits a prepared compaction in one step.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from clew.engines import (
    Added,
    Changed,
    Compaction,
    CompactionItem,
    ContextEngine,
    Kept,
    Node,
    Removed,
    Summarized,
    checked_compaction,
)
from clew.errors import StoreError
from clew.events import CompactionPhase, Notice
from clew.handoff import BUILTIN, Handoff, unwrap
from clew.messages import Message, text_of
from clew.store import (
    LEFT_OUT,
    CompactionEntry,
    EngineRecord,
    Lease,
    NodePublication,
    Rows,
    View,
    ViewItem,
    WrittenMessage,
)
from clew.turn.engine_host import new_node
from clew.turn.request import TurnServices
from clew.turn.view import ConversationView

PREPARE_AT = 0.85
"""Of the threshold: from here on a compaction is prepared in the background."""
_HANDOFF = "handoff"
"""In the details of a compaction: its handoff as a value."""
_LEASE_TRIES = 60
_LEASE_WAIT_SECONDS = 1.0

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """The request for a compaction."""

    reason: str
    """`preflight`, `usage`, `overflow`, `manual`, `idle`, `cold` or `finished`."""
    tokens: int
    """The size of the whole request now."""
    focus: str | None = None
    force: bool = False
    asks_model: bool = False
    """Whether a model may write it where models are asked ahead of time only."""


@dataclass(frozen=True, slots=True)
class PreparedCompaction:
    """The compaction of a view, before it takes effect."""

    view: View = field(repr=False)
    compaction: Compaction
    focus: str | None = None
    engine: str = ""

    def measured(self, now: ConversationView, tokens: int) -> PreparedCompaction:
        """The same with the sizes of the request: engines know neither the calibration of our count, nor the texts
        behind the system prompt, nor messages that arrived since. `tokens` is the size of the whole request now.
        """
        if not self.compaction.changed:
            return self
        counted = now.counted_with(len(self.view.messages), self.compaction.messages)
        freed = now.size.tokens - now.size.tokens_of(counted)
        return replace(self, compaction=replace(self.compaction, tokens_before=tokens, tokens_after=tokens - freed))

    def entry(self) -> CompactionEntry:
        """The compaction as the store commits it."""
        done = self.compaction
        return CompactionEntry(
            view=_view_items(self.view, done),
            summary=self._searchable_summary(),
            base=self.view.base,
            until=self.view.next_seq,
            tokens_before=done.tokens_before,
            tokens_after=done.tokens_after,
            engine=self.engine,
            template_version=done.template or "",
            written_by=done.written_by or "",
            focus_topic=self.focus,
            warnings=done.warnings,
            details=self._details(),
        )

    def _details(self) -> dict[str, Any]:
        done = self.compaction
        details: dict[str, Any] = {"unverified": list(done.unverified), "replaced": list(done.numbers)}
        removed = [self.view.seqs[item.index] for item in done.items if isinstance(item, Removed)]
        if left_out := [seq for seq in removed if seq is not None]:
            details[LEFT_OUT] = left_out
        if done.handoff is not None:
            details[_HANDOFF] = done.handoff.as_json()
        return details

    def _searchable_summary(self) -> Message | None:
        """The text by which search finds this compaction: its summary; of a map the new nodes alone, so that each is
        found once."""
        done = self.compaction
        if done.shown_nodes is None:
            return next((item.message for item in done.summaries), None)
        new = "\n\n".join(node.text for node in done.nodes)
        return {"role": "user", "content": new} if new else None

    def nodes(self) -> NodePublication | None:
        """The nodes of the engine's map that become visible with the compaction."""
        shown = self.compaction.shown_nodes
        return None if shown is None else NodePublication(tuple(map(new_node, self.compaction.nodes)), shown)

    def records(self) -> list[EngineRecord]:
        """The records that the engine stores with the compaction."""
        # It was chosen from everything below `next_seq`: a branch from before has neither of them.
        return [EngineRecord(id, value, self.view.next_seq) for id, value in self.compaction.records.items()]


def handoff_of(entry: CompactionEntry) -> Handoff | None:
    """The handoff of a committed compaction; None without a summary.

    It is read from the text if it was not stored as a value: in older databases, and by engines that give only text.
    """
    with contextlib.suppress(TypeError, ValueError):
        if stored := entry.details.get(_HANDOFF):
            return Handoff.of_json(stored)
    text = handoff_text_of(entry)
    return None if text is None else Handoff.of_text(text)


def handoff_text_of(entry: CompactionEntry) -> str | None:
    """The text of a handoff, without the prefix and the end marker of its message; None without a summary."""
    if entry.summary is None:
        return None
    wrapped = unwrap(entry.summary)
    return text_of(entry.summary) if wrapped is None else wrapped.text


def _view_items(view: View, done: Compaction) -> tuple[ViewItem, ...]:
    """The result of a compaction as stored: kept rows by their numbers, the others as written."""
    items: list[ViewItem] = []
    for item in done.items:
        if isinstance(item, Removed):
            continue
        # A summary that was merged into a message has its whole text.
        own = item.merged_with if isinstance(item, Summarized) else item
        seq = view.seqs[own.index] if isinstance(own, Kept | Changed) else None
        if not isinstance(item, Kept):
            items.append(WrittenMessage(item.message, seq))
        elif seq is None or item.index in view.written:
            items.append(WrittenMessage(view.messages[item.index], seq))
        elif items and isinstance(last := items[-1], Rows) and last.stop == seq:
            items[-1] = Rows(last.start, seq + 1)
        else:
            items.append(Rows(seq, seq + 1))
    return tuple(items)


class CompactionPreparer:
    """Prepares compactions of one conversation with its engine: at once, or ahead of time in the background.

    A compaction that was prepared ahead is used only while the messages that it covers are the beginning of the view;
    otherwise it is dropped. The engine's state changes when a compaction takes effect, and not before.
    """

    def __init__(self, services: TurnServices, engine: ContextEngine, view: ConversationView) -> None:
        self.engine = engine
        self.task: asyncio.Task[PreparedCompaction] | None = None
        """Prepares a compaction ahead; None if none was started since the last one."""
        self.reason = ""
        """The reason of the compaction that is being prepared, or was prepared last."""
        self.asks_model = True
        """Whether a model may write the compaction that is being prepared, or was prepared last."""
        self._services = services
        self._view = view

    @property
    def is_ready(self) -> bool:
        """Whether a compaction was prepared ahead and can be used."""
        return self.task is not None and self.task.done()

    @property
    def is_ready_by_model(self) -> bool:
        """Whether a model wrote the one that was prepared: it is used before the threshold is reached."""
        if self.task is None or not self.task.done() or self.task.cancelled() or self.task.exception() is not None:
            return False
        return self.task.result().compaction.written_by not in (None, BUILTIN)

    async def prepare(self, request: CompactionRequest) -> PreparedCompaction:
        """Compact what may be compacted now; unsettled messages only if the rest is not enough."""
        self.reason = request.reason
        self.asks_model = request.asks_model or not self._services.options.models_ahead_only
        if self._view.unsettled:
            prepared = await self._prepare_from(self._view.compactable(is_settled=True), request)
            if prepared.compaction.changed and prepared.compaction.tokens_after < self.engine.threshold_tokens:
                return prepared
        return await self._prepare_from(self._view.compactable(), request)

    async def _prepare_from(self, view: View, request: CompactionRequest) -> PreparedCompaction:
        made = await self.engine.compress(list(view.messages), request.tokens, request.focus, request.force)
        done = checked_compaction(made, self.engine.name)
        return PreparedCompaction(view, done, request.focus, self.engine.name).measured(self._view, request.tokens)

    def prepare_ahead(self, tokens: int, settled: Callable[[], Awaitable[None]]) -> None:
        """Start in the background if the threshold is near and none was started since the last compaction.

        `settled` waits until all messages in view are stored: engines read rows of the store.
        """
        if PREPARE_AT * self.engine.threshold_tokens <= tokens and self.may_prepare(tokens):
            self.start(CompactionRequest("preflight", tokens), settled)

    def may_prepare(self, tokens: int) -> bool:
        """Whether a compaction of so many tokens may be prepared now: below the threshold, and only one at a time."""
        status, is_enabled = self.engine.get_status(), self._services.options.settings.compression.enabled
        return is_enabled and not self.task and not status.paused and tokens < status.threshold_tokens

    def start(
        self, request: CompactionRequest, settled: Callable[[], Awaitable[None]]
    ) -> asyncio.Task[PreparedCompaction]:
        """Prepare in the background, at any size; an earlier preparation must be done or dropped."""
        self.task = asyncio.create_task(self._prepare_ahead(request, settled))
        return self.task

    async def _prepare_ahead(
        self, request: CompactionRequest, settled: Callable[[], Awaitable[None]]
    ) -> PreparedCompaction:
        await settled()
        started, session = time.monotonic(), self._view.session
        self._services.tell(CompactionPhase(session, "prepare", 0.0))
        prepared = await self.prepare(request)
        self._services.tell(CompactionPhase(session, "prepared", time.monotonic() - started))
        return prepared

    async def claim(self, tokens: int) -> PreparedCompaction | None:
        """The compaction that was prepared ahead, if it can be used for a request of this size; else it is dropped."""
        task = self.task
        if task is None:
            return None
        if not task.done():
            self._tell_phase("awaited")
        # The caller may be cancelled here; the task continues, for the next turn.
        await asyncio.wait({task})
        if self.task is not task:  # the conversation was closed meanwhile
            return None
        ready = self._usable(task, tokens)
        if ready is None:
            await self.drop()
        self.task = None
        return ready

    def _usable(self, task: asyncio.Task[PreparedCompaction], tokens: int) -> PreparedCompaction | None:
        if task.cancelled() or (problem := task.exception()) is not None:
            why = "." if task.cancelled() else f": {problem}"
            self._services.tell(Notice(f"A compaction could not be prepared{why}"))
            return None
        ready = task.result()
        if not ready.compaction.changed or not self._view.starts_with(ready.view):
            return None
        ready = ready.measured(self._view, tokens)
        return ready if ready.compaction.tokens_after < self.engine.get_status().threshold_tokens else None

    async def drop(self) -> None:
        """Drop the compaction that was prepared ahead."""
        if self.task is None:
            return
        await self.cancel()
        self._tell_phase("dropped")

    async def cancel(self) -> None:
        """Cancel the preparation, and wait until it has ended."""
        if self.task is not None:
            cancelled, self.task = self.task, None
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)

    def _tell_phase(self, phase: str) -> None:
        self._services.tell(CompactionPhase(self._view.session, phase, 0.0))


@dataclass(frozen=True, slots=True)
class ConversationLocks:
    """What excludes what."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a turn: later ones wait in their order."""
    compaction: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a compaction: messages may be appended meanwhile, and requests wait."""
    write: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the store and the view are brought to the same state."""


@contextlib.asynccontextmanager
async def compaction_lease(
    services: TurnServices, session: str, on_waited: Callable[[], Awaitable[None]]
) -> AsyncIterator[Lease | None]:
    """The right to compact a conversation, renewed while it is needed; None if another process keeps it too long.

    `on_waited` is called after a wait: the former holder has probably compacted.
    """
    lease, tries = await _take_lease(services, session), 0
    while lease is None and tries < _LEASE_TRIES:
        await services.options.sleep(_LEASE_WAIT_SECONDS)
        lease, tries = await _take_lease(services, session), tries + 1
    if lease is None:
        services.tell(
            Notice("Another process is compacting this conversation and has not ended; this turn continues without it.")
        )
        yield None
        return
    renewing = asyncio.create_task(_renew(services, lease))
    try:
        if tries:
            await on_waited()
        yield lease
    finally:
        renewing.cancel()
        await uninterruptible(services.store.release_lease(lease))


async def _take_lease(services: TurnServices, session: str) -> Lease | None:
    """The lease, if it is free. One that is taken while the caller is cancelled is given back."""
    seconds = services.options.lease_seconds
    taking = asyncio.ensure_future(services.store.take_lease(session, services.lease_holder, seconds))

    async def give_back() -> None:
        with contextlib.suppress(StoreError):
            if (lease := await taking) is not None:
                await services.store.release_lease(lease)

    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await uninterruptible(give_back())
        raise


async def _renew(services: TurnServices, lease: Lease) -> None:
    while True:
        await asyncio.sleep(lease.seconds / 3)
        # The commit detects a lease that ran out.
        with contextlib.suppress(StoreError):
            await services.store.renew_lease(lease)


async def uninterruptible(work: Coroutine[Any, Any, _Value]) -> _Value:
    """The result of short work that must not end half done, such as storing a reply that was paid for.

    A caller that is cancelled meanwhile, once or often, is cancelled when the work is done.
    """
    task = asyncio.ensure_future(work)
    stop: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancelled:
            stop = cancelled
    if stop is not None:
        raise stop from (None if task.cancelled() else task.exception())
    return task.result()


_ITEMS: Mapping[str, type[CompactionItem]] = {it.__name__: it for it in (Kept, Changed, Added, Summarized, Removed)}
_AS_THEY_ARE = ("tokens_before", "tokens_after", "state", "records", "written_by", "template")
_TUPLES = ("numbers", "unverified", "warnings")


def prepared_to_plain(prepared: PreparedCompaction) -> dict[str, Any]:
    """A prepared compaction as JSON."""
    view, done = prepared.view, prepared.compaction
    return {
        "base": view.base,
        "until": view.next_seq,
        "shown": len(view.messages),
        "focus": prepared.focus,
        "engine": prepared.engine,
        "items": list(map(_item_to_plain, done.items)),
        "nodes": list(map(asdict, done.nodes)),
        "handoff": None if done.handoff is None else done.handoff.as_json(),
        "shown_nodes": None if done.shown_nodes is None else list(done.shown_nodes),
        **{name: getattr(done, name) for name in _AS_THEY_ARE},
        **{name: list(getattr(done, name)) for name in _TUPLES},
    }


def prepared_from_plain(plain: Mapping[str, Any], now: ConversationView) -> PreparedCompaction | None:
    """The prepared compaction of this JSON; None if the view is no longer the one that it was made for."""
    shown = plain["shown"]
    if plain["base"] != now.base or shown > len(now.messages) or plain["until"] > now.next_seq:
        return None
    view = now.beginning(shown, plain["until"])
    fields: dict[str, Any] = {name: plain[name] for name in _AS_THEY_ARE}
    fields |= {name: tuple(plain[name]) for name in _TUPLES}
    done = Compaction(
        list(view.messages),
        tuple(map(_item_from_plain, plain["items"])),
        nodes=tuple(Node(**{**node, "children": tuple(node["children"])}) for node in plain["nodes"]),
        handoff=Handoff.of_json(handoff) if (handoff := plain.get("handoff")) else None,
        shown_nodes=None if plain["shown_nodes"] is None else tuple(plain["shown_nodes"]),
        **fields,
    )
    return PreparedCompaction(view, done, plain["focus"], plain["engine"])


def _item_to_plain(item: CompactionItem) -> dict[str, Any]:
    plain = {"kind": type(item).__name__, **asdict(item)}
    if isinstance(item, Summarized):
        merged = None if item.merged_with is None else _item_to_plain(item.merged_with)
        plain |= {"covers": list(item.covers), "merged_with": merged}
    return plain


def _item_from_plain(plain: Mapping[str, Any]) -> CompactionItem:
    kind, given = _ITEMS[plain["kind"]], {name: value for name, value in plain.items() if name != "kind"}
    if kind is Summarized:
        merged = None if given["merged_with"] is None else _item_from_plain(given["merged_with"])
        given |= {"covers": tuple(given["covers"]), "merged_with": merged}
    return kind(**given)
