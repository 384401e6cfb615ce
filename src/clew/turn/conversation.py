"""An open conversation: its view, the engine that compacts it, and every operation that changes it.

Each operation changes the store first and the open conversation afterwards, so that a store that fails changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from clew.caching import apply_cache_control, prompt_cache_key
from clew.engines import Compaction, ContextEngine, SessionStart, budgets_for
from clew.errors import ClewError, InvalidArgument, UnknownSession
from clew.events import CompactionFinished, CompactionPhase, CompactionStarted, CompactionUndone, Notice
from clew.messages import Message, Tool
from clew.providers import Request
from clew.store import AppendResult, Lease, LeaseLost, ModelCall, NewMessage, StaleView, SyncResult
from clew.tokens import ConversationSize, Window
from clew.turn.automatic_recall import AutomaticRecall
from clew.turn.compaction import (
    CompactionPreparer,
    CompactionRequest,
    ConversationLocks,
    PreparedCompaction,
    compaction_lease,
    uninterruptible,
)
from clew.turn.fold_prices import (
    CACHE_SECONDS,
    COLD_AT,
    FINISHED_AT,
    HANDOFF_SHARE,
    IDLE_AT,
    NextMessageCost,
    cold_fold_pays,
    early_fold_pays,
    handoff_pays,
    idle_fold_pays,
    next_message_cost,
    reports_finished,
)
from clew.turn.request import HostCalls, ModelTarget, ServingModel, TurnOptions, TurnServices
from clew.turn.view import (
    ConversationView,
    Pin,
    check_pins_fit,
    pins_from_plain,
    pins_to_plain,
    prompt_message,
    with_pin,
)
from clew.usage import CanonicalUsage

GROWN_SINCE_UNDO = 1.1
"""Of its size before an undone compaction: from there on a conversation is compacted automatically again."""
PINS_STATE = "pins"
ENGINE_STATE = "engine."
"""The prefix of the key of an engine's state in the store."""
CALIBRATION_STATE = "calibration."
"""The prefix of the key of a model's calibration: how its real usage differs from our count."""
_OBSERVED_TURNS = 3
"""After a compaction the size of a turn is known from so many turns on."""


@dataclass(slots=True, weakref_slot=True)
class Conversation:
    """An open conversation. `Runtime.conversation` opens it."""

    services: TurnServices
    root: str
    """The first session of the conversation; the cache key is made from it."""
    model: ServingModel
    view: ConversationView
    engine: ContextEngine
    preparer: CompactionPreparer
    engine_sees_all: bool
    """Whether the engine has observed every message from the first on."""
    pending_calls: list[ModelCall] = field(default_factory=list)
    """Calls of the summariser that are not stored yet."""
    stored_state: Any = None
    """The state of the engine as the store has it."""
    locks: ConversationLocks = field(default_factory=ConversationLocks)
    recall: AutomaticRecall | None = None
    background: asyncio.Task[None] | None = None
    """The background work of the engine, such as writing a summary."""
    host_calls: HostCalls | None = None
    """How the main model writes summaries where the host sends requests; None where it does not."""
    writing: asyncio.Task[None] | None = None
    """Stores messages that are in view already; None where all are stored."""

    @property
    def session(self) -> str:
        """The newest session of the conversation: a compaction continues in another one."""
        return self.view.session

    @property
    def messages(self) -> Sequence[Message]:
        return self.view.messages

    @property
    def size(self) -> ConversationSize:
        return self.view.size

    @property
    def pins(self) -> Sequence[Pin]:
        """The pins, oldest first."""
        return self.view.pins

    @property
    def target(self) -> ModelTarget:
        return self.model.target

    @property
    def window(self) -> Window:
        return self.model.window

    @property
    def is_compacted(self) -> bool:
        return self.view.base is not None

    @property
    def is_in_use(self) -> bool:
        """Whether a turn or a compaction is under way."""
        return self.locks.turn.locked() or self.locks.compaction.locked()

    # -- requests ------------------------------------------------------------------------------------------------------

    def tools_with(self, given: Sequence[Tool]) -> Sequence[Tool]:
        """The caller's tools and the engine's own; the same object for as long as the caller gives the same."""
        is_offered = self.services.options.offers_engine_tools
        return self.view.tools_with(given, self.engine.get_tool_schemas if is_offered else tuple)

    def request_tokens(self, options: TurnOptions) -> int:
        """The whole request: system, messages, tools, and what is injected."""
        return self.size.tokens + sum(self.view.count(options.inject))

    def build_request(self, options: TurnOptions, max_tokens: int | None) -> Request:
        """The request for the view as it is now.

        Injected messages follow the breakpoints: the next request is without them, and all before them stays cached.
        """
        request = self._request(self.messages, self.tools_with(options.tools), max_tokens)
        return replace(request, messages=[*request.messages, *options.inject]) if options.inject else request

    def request_so_far(self) -> Request:
        """The request for the view without calls that wait for results; the next request begins with it."""
        shown = self.messages[: self.view.open_group()]
        return self._request(shown, self.view.tools or (), self.target.max_tokens)

    def _request(self, shown: Sequence[Message], tools: Sequence[Tool], max_tokens: int | None) -> Request:
        policy = self.services.cache_policy(self.target)
        prompt = self.view.system_message(as_block=policy.enabled)
        messages = [prompt, *shown] if prompt else list(shown)
        if policy.enabled:
            messages = apply_cache_control(messages, policy.ttl, policy.native)
        return Request(
            model=self.target.model,
            messages=messages,
            tools=tools,
            max_tokens=max_tokens,
            cache_key=prompt_cache_key(self.root, self.target.model) if policy.takes_key else None,
            extra=self.target.extra,
        )

    def note_sent(self) -> None:
        """Note that the provider has read the current view and caches it for a while."""
        self.view.sent_at = self.services.options.clock()

    def observe_usage(self, usage: CanonicalUsage, shown: int, injected: Sequence[Message]) -> None:
        """Take in the real size of the request with the first `shown` messages of this view and with `injected`."""
        self.size.observe(usage.prompt_tokens - sum(self.view.count(injected)), shown)
        self.view.last_prompt_tokens = usage.prompt_tokens
        self.engine.update_from_response(usage)

    # -- messages ------------------------------------------------------------------------------------------------------

    async def append(
        self, messages: Sequence[Message | NewMessage], call: ModelCall | None = None, *, after: int | None = None
    ) -> None:
        """Append messages to the history, with the call that produced them.

        With `after` the first of them gets this number: `StaleHistory` if another process has written other messages
        there; if it has written the same ones, they are not added again.
        """
        await self.settled()
        async with self.locks.write:
            rows = self.view.counted(messages)
            appended = await self.services.store.append(self.session, rows, after=after, call=call)
            if self.view.is_next(appended):
                self._show_appended(appended, rows)
            else:
                await self.reload()

    def append_beside(self, messages: Sequence[Message | NewMessage]) -> asyncio.Task[None]:
        """Show messages at once and store them in a task; `settled` waits for it.

        For hosts whose clients send the history again. The messages follow the view; if another process has written
        there, the view is read again. If they cannot be stored, they leave the view, and the task raises the reason.
        """
        rows = self.view.counted(messages)
        expected = AppendResult(self.session, self.view.next_seq, self.view.next_seq + len(rows), len(rows))
        self._show_appended(expected, rows)
        self.writing = asyncio.create_task(self._write_shown(rows, expected))
        return self.writing

    async def _write_shown(self, rows: Sequence[NewMessage], expected: AppendResult) -> None:
        async with self.locks.write:
            try:
                appended = await self.services.store.append(expected.session, rows, after=expected.first_seq)
            except ClewError:
                self.view.take_back(len(rows))
                self.engine_sees_all = False
                raise
            if (appended.session, appended.first_seq) != (expected.session, expected.first_seq):
                await self.reload()

    async def settled(self) -> None:
        """Wait until all messages in view are stored, or have left the view."""
        writing = self.writing
        if writing is not None:
            await asyncio.wait({writing})
            if self.writing is writing:  # another write may have begun meanwhile
                self.writing = None

    async def follow_sync(self, synced: SyncResult, messages: Sequence[Message | NewMessage]) -> None:
        """Follow the store after a sync: for hosts whose clients send the whole history each time."""
        await self.settled()
        async with self.locks.write:
            appended = AppendResult(synced.session, synced.next_seq - synced.added, synced.next_seq, synced.added)
            if self.view.is_next(appended):
                self._show_appended(appended, self.view.counted(messages[len(messages) - synced.added :]))
            elif self.view.next_seq != synced.next_seq or self.session != synced.session:
                await self.reload()

    async def follow_store(self) -> None:
        """Read everything again if another process has undone the compaction in effect, or made another one.

        `UnknownSession` where the conversation was deleted.
        """
        if await self.services.store.base(self.session) != self.view.base:
            await self.reload()

    async def reload(self) -> None:
        """Read everything again, because another process has written to the conversation."""
        store, self.engine_sees_all = self.services.store, False
        tip = await store.resume(self.session)
        self.view.set_prompt(prompt_message(await store.system_prompt(tip.id)))
        self.view.set_pins(pins_from_plain((await store.state(tip.id)).get(PINS_STATE)))
        self.view.show(await store.view(tip.id))

    def _show_appended(self, appended: AppendResult, rows: Sequence[NewMessage]) -> None:
        self.view.append(appended, rows)
        if self.engine_sees_all:
            self.engine.observe([row.message for row in rows])

    # -- model and pins ------------------------------------------------------------------------------------------------

    async def use_model(self, target: ModelTarget) -> None:
        """Use another model from the next turn on; that turn compacts if the window is too small."""
        self.set_model(await self.services.serving(target))
        await self.services.store.set_model(self.session, target.model)

    def set_model(self, model: ServingModel) -> None:
        """Use another model, or another window of the same one."""
        self.model = model
        self.view.use_model(model.target.model)
        self.engine.update_model(model.target.model, model.window.tokens, model.max_output)

    async def pin(self, new: Pin, *, is_coming: bool = False) -> None:
        """Pin a text, in place of one with the same label. `is_coming`: the next messages hold it."""
        pins = with_pin(self.pins, new)
        check_pins_fit(pins, self.target.model, self.window.tokens)
        await self._store_pins(pins)
        self.view.set_pins(pins, is_coming=is_coming)

    async def unpin(self, number: int) -> Pin:
        """Remove a pin by its number in `pins`, from 1, and return it."""
        if not 1 <= number <= len(self.pins):
            raise InvalidArgument(f"there is no pin {number}", remedy=f"there are {len(self.pins)}")
        pins = list(self.pins)
        taken = pins.pop(number - 1)
        await self._store_pins(pins)
        self.view.set_pins(pins)
        return taken

    async def _store_pins(self, pins: Sequence[Pin]) -> None:
        await self.services.store.set_state(self.session, {PINS_STATE: pins_to_plain(pins) or None})

    # -- compactions when they are due ---------------------------------------------------------------------------------

    def measure(self, options: TurnOptions) -> int:
        """The size of the next request, with its prompt and its tools."""
        self.tools_with(options.tools)
        if options.prompt is not None:
            self.view.set_prompt(options.prompt)
        return self.request_tokens(options)

    def is_due(self, tokens: int) -> bool:
        """Whether a request of so many tokens is to be compacted; after an undo only once it has grown by a tenth."""
        return tokens >= GROWN_SINCE_UNDO * self.view.stored.undone_tokens and self.engine.should_compress(tokens)

    def may_fold_early(self, tokens: int) -> bool:
        """Whether it may be compacted before it is due: not soon after an undo, nor if compaction is off or paused."""
        has_grown = tokens >= GROWN_SINCE_UNDO * self.view.stored.undone_tokens
        is_enabled = self.services.options.settings.compression.enabled
        return has_grown and is_enabled and self.engine.get_status().paused is None

    async def fit(self, options: TurnOptions) -> None:
        """Make the next request fit below the threshold, also where the window has become smaller."""
        self.measure(options)
        async with self.locks.compaction:
            tokens = self.request_tokens(options)
            if self.is_due(tokens):
                is_over = self.view.last_prompt_tokens >= self.engine.get_status().threshold_tokens
                await self._compact_due(CompactionRequest("usage" if is_over else "preflight", tokens))
            elif self.may_fold_early(tokens) and (reason := await self._early_reason(tokens)):
                ready = await self.preparer.claim(tokens)
                if ready is not None or not self.services.options.summarizes:
                    await self.compact_or_keep(CompactionRequest(reason, tokens), ready)
            else:
                self.preparer.prepare_ahead(tokens, self.settled)

    async def compact_after_reply(self) -> None:
        """Compact if the real size of the newest prompt says so. Calls get their results first."""
        async with self.locks.compaction:
            real = self.view.last_prompt_tokens
            if self.has_open_calls or not real:
                return
            if self.is_compacted and self.view.appended <= 1:
                # Only the reply was added since the last compaction: another one would free hardly anything.
                return
            # Only the prompt counts: the next one has not all of the reply and its reasoning.
            if self.is_due(real):
                await self._compact_due(CompactionRequest("usage", self.size.tokens))
            elif self._is_worth_folding_at_end_of_task():
                self.preparer.start(CompactionRequest("finished", self.size.tokens), self.settled)
            else:
                self.preparer.prepare_ahead(self.size.tokens, self.settled)
        self.start_background_work()

    # -- compactions before they are due -------------------------------------------------------------------------------

    @property
    def cache_seconds_left(self) -> float | None:
        """Seconds until the provider's cache of the last request expires, below 0 afterwards; None without a cache."""
        if self.view.sent_at is None or not self.services.options.settings.prompt_caching.enabled:
            return None
        expires = self.view.sent_at + CACHE_SECONDS[self.services.cache_policy(self.target).ttl]
        return expires - self.services.options.clock()

    @property
    def next_message_cost(self) -> NextMessageCost | None:
        """The cost of the next prompt, warm and cold; None if no price is known."""
        target, ttl = self.target, self.services.cache_policy(self.target).ttl
        return next_message_cost(self.size.tokens, target.model, target.served_by or None, ttl)

    @property
    def turns(self) -> int:
        """The number of replies in view."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def turns_by_growth(self) -> int:
        """How many turns of the size observed since the last compaction would be as large as the messages in view.

        A compaction shortens the turns that it keeps, so that their number says little about later ones. The number of
        replies in view until enough turns were observed.
        """
        size, end = self.size, len(self.messages)
        since = end - self.view.appended if self.is_compacted else 0
        replies = sum(message["role"] == "assistant" for message in self.messages[since:])
        grown = size.between(since, end)
        return round(size.between(0, end) * replies / grown) if replies >= _OBSERVED_TURNS and grown else self.turns

    @property
    def has_open_calls(self) -> bool:
        """Whether calls of tools wait for their results."""
        return self.view.open_group() < len(self.messages)

    @property
    def summary_tokens(self) -> int:
        """The expected length of a handoff that a model writes."""
        budgets = budgets_for(self.window.tokens, self.services.options.settings.compression)
        return int(HANDOFF_SHARE * budgets.max_summary)

    def is_worth_asking(self, tokens: int) -> bool:
        """Whether the fold of a request of so many tokens still pays back if the main model writes the handoff."""
        return handoff_pays(tokens, self.size.fixed, self.turns_by_growth, self.summary_tokens, self.target)

    async def is_worth_folding_idle(self, ttl: str) -> bool:
        """Whether folding the idle conversation before the provider's cache expires pays."""
        settings, tokens = self.services.options.settings, self.size.tokens
        if (
            not settings.prompt_caching.fold_idle
            or tokens < IDLE_AT * self.window.tokens
            or not self.may_fold_early(tokens)
            or self.has_open_calls
            or not await self.is_newest()
        ):
            return False
        returns = await self.services.store.count_returns(self.session, CACHE_SECONDS[ttl])
        return idle_fold_pays(tokens, self.summary_tokens, self.target, returns, ttl)

    async def is_newest(self) -> bool:
        """Whether all that the store has is in view: no other process continued the conversation."""
        await self.settled()
        store, session = self.services.store, self.session
        return (
            await store.get_compression_tip(session) == session
            and await store.next_seq(session) == self.view.next_seq
            and await store.base(session) == self.view.base
        )

    async def is_cold(self, ttl: str) -> bool:
        """Whether the provider's cache has expired, so that a fold loses none of it; False if `fold_idle` is off."""
        view, options = self.view, self.services.options
        if not options.settings.prompt_caching.fold_idle:
            return False
        if view.sent_at is not None:
            return options.clock() - view.sent_at >= CACHE_SECONDS[ttl]
        # It was just opened, or another process served it: the store has the time of the newest reply.
        replies = (at for at in range(len(view.messages) - 1, -1, -1) if view.messages[at]["role"] == "assistant")
        seq = next((seq for at in replies if (seq := view.seqs[at]) is not None), None)
        if seq is None:
            return False
        (row,) = await self.services.store.messages(self.session, seq, seq + 1)
        return (datetime.now(UTC) - row.at).total_seconds() >= CACHE_SECONDS[ttl]

    async def fold_before_expiry(self) -> bool:
        """Fold the idle conversation with a handoff by the model, if that pays; return whether it was folded.

        A turn that begins meanwhile does not wait; it uses the prepared compaction if it is due.
        """
        ttl, seen, preparer = self.services.cache_policy(self.target).ttl, self.view.next_seq, self.preparer
        if self.is_in_use or not await self.is_worth_folding_idle(ttl):
            return False
        if preparer.task is None:
            preparer.start(CompactionRequest("idle", self.size.tokens), self.settled)
        if (task := preparer.task) is not None:
            await asyncio.wait({task})
        if self.view.next_seq != seen or preparer.task is not task or not await self.is_newest() or self.is_in_use:
            return False
        async with self.locks.compaction:
            tokens = self.size.tokens
            if not preparer.is_ready_by_model:
                await self.drop_prepared()
                return False
            ready = await preparer.claim(tokens)
            done = None if ready is None else await self.compact_or_keep(CompactionRequest("idle", tokens), ready)
            return done is not None and done.changed

    async def _early_reason(self, tokens: int) -> str:
        """The reason to compact below the threshold now, if the handoff is there or needs no model; else empty."""
        options, is_ready = self.services.options, self.preparer.is_ready_by_model
        if is_ready and self.preparer.reason == "finished":
            return "finished"
        if (options.summarizes and not is_ready) or not options.settings.prompt_caching.enabled:
            return ""
        ttl, is_large = self.services.cache_policy(self.target).ttl, tokens >= COLD_AT * self.engine.threshold_tokens
        return "cold" if is_large and cold_fold_pays(tokens, self.target, ttl) and await self.is_cold(ttl) else ""

    def _is_worth_folding_at_end_of_task(self) -> bool:
        tokens = self.size.tokens
        return (
            tokens >= FINISHED_AT * self.engine.threshold_tokens
            and self.may_fold_early(tokens)
            and self.preparer.may_prepare(tokens)
            and reports_finished(self.messages)
            and early_fold_pays(tokens, self.turns, self.summary_tokens, self.target)
        )

    # -- background work -----------------------------------------------------------------------------------------------

    def start_background_work(self) -> None:
        """Start the background work of the engine, unless it is running."""
        is_running = self.background is not None and not self.background.done()
        if not is_running and self.engine.has_background_work:
            self.background = asyncio.create_task(self._work_in_background())

    async def _work_in_background(self) -> None:
        try:
            for notice in await self.engine.work_in_background():
                self.services.tell(Notice(notice))
            await self.store_pending_calls()
            await self.store_engine_state()
        except ClewError as problem:
            self.services.tell(Notice(f"A task in the background failed: {problem}"))

    async def _compact_due(self, request: CompactionRequest) -> None:
        ready = await self.preparer.claim(request.tokens)
        if ready is None:
            await self.store_pending_calls()
        await self.compact_or_keep(request, ready)

    # -- compactions by hand -------------------------------------------------------------------------------------------

    async def compact_now(
        self, focus: str | None = None, *, tokens: int | None = None, force: bool = True
    ) -> Compaction | None:
        """Compact because a person or a host asked; messages that arrive meanwhile stay at the end.

        `tokens` is the size of the whole request, if the host knows it. Without `force` a paused engine does nothing.
        None if another process compacted instead.
        """
        async with self.locks.compaction:
            await self.drop_prepared()
            request = self._manual_request(focus)
            return await self.compact(replace(request, tokens=tokens or request.tokens, force=force))

    async def preview_compaction(self, focus: str | None = None) -> PreparedCompaction:
        """What `compact_now` would do; `apply_compaction` applies exactly this."""
        async with self.locks.compaction:
            await self.drop_prepared()
            await self.settled()
            prepared = await self.preparer.prepare(self._manual_request(focus))
            await self.store_pending_calls()
            return prepared

    async def apply_compaction(self, prepared: PreparedCompaction) -> Compaction | None:
        """Apply a previewed compaction; None if the conversation has changed since."""
        async with self.locks.compaction:
            await self.drop_prepared()
            if not prepared.compaction.changed or not self.view.starts_with(prepared.view):
                return None
            return await self.compact(self._manual_request(prepared.focus), prepared)

    # -- compactions when the host says so -----------------------------------------------------------------------------

    async def prepare_ahead(self) -> PreparedCompaction | None:
        """Prepare a compaction of the current view with a model, while messages may arrive; change nothing.

        None if one is being prepared already, or the model writes none. `use_prepared` keeps messages that arrived
        since. Its cost is recorded.
        """
        if self.preparer.task is not None and not self.preparer.task.done():
            return None
        task = self.preparer.start(CompactionRequest("preflight", self.size.tokens, asks_model=True), self.settled)
        await asyncio.wait({task})
        if self.preparer.task is task:
            self.preparer.task = None
        async with self.locks.compaction:
            await self.store_pending_calls()
        if task.cancelled() or task.exception() is not None:
            return None
        return task.result() if task.result().compaction.changed else None

    async def use_prepared(self, prepared: PreparedCompaction, tokens: int, reason: str = "preflight") -> bool:
        """Apply a prepared compaction to a request of so many tokens; False if it cannot be used any more."""
        async with self.locks.compaction:
            if not self.view.starts_with(prepared.view):
                return False
            measured = prepared.measured(self.view, tokens)
            if measured.compaction.tokens_after >= self.engine.get_status().threshold_tokens:
                return False
            await self.drop_prepared()
            done = await self.compact_or_keep(CompactionRequest(reason, tokens), prepared)
            return done is not None and done.changed

    async def compact_at_once(self, tokens: int, reason: str = "preflight") -> None:
        """Compact a request of so many tokens without waiting for one that is being prepared."""
        async with self.locks.compaction:
            await self.drop_prepared()
            await self.compact_or_keep(CompactionRequest(reason, tokens))

    async def undo_compaction(self) -> bool:
        """Undo the newest compaction; False if none is in effect."""
        async with self.locks.compaction:
            await self.drop_prepared()
            await self.settled()
            if await self.services.store.undo(self.session) is None:
                return False
            await self.reload()
            self.engine.on_compaction_undone()
            await self.store_engine_state()
            self.services.tell(CompactionUndone(self.session))
            return True

    def _manual_request(self, focus: str | None) -> CompactionRequest:
        return CompactionRequest("manual", self.size.tokens, focus, force=True)

    # -- the compaction itself: the caller holds `locks.compaction` ----------------------------------------------------

    async def compact_or_keep(
        self, request: CompactionRequest, ready: PreparedCompaction | None = None
    ) -> Compaction | None:
        """Compact; if that fails, emit a notice and leave the conversation unchanged."""
        try:
            return await self.compact(request, ready)
        except (StaleView, LeaseLost) as lost:
            await self.reload()
            self.services.tell(Notice(f"Another process has compacted this conversation first: {lost}"))
        except ClewError as problem:
            self.services.tell(Notice(f"The conversation was not compacted and is unchanged: {problem}"))
        return None

    async def compact(self, request: CompactionRequest, ready: PreparedCompaction | None = None) -> Compaction | None:
        """Compact now, with the compaction that was prepared, if any; None if another process did it."""
        await self.settled()  # the view is read again where another process has compacted it
        old, tell = self.session, self.services.tell
        base = self.view.base if ready is None else ready.view.base
        outcome, started = Compaction.nothing((), request.tokens), time.monotonic()

        async def commit(prepared: PreparedCompaction, lease: Lease) -> None:
            nonlocal outcome
            await self._commit(prepared, lease)
            outcome = prepared.compaction

        tell(CompactionStarted(old, request.tokens, request.reason))
        try:
            async with compaction_lease(self.services, old, self.reload) as lease:
                if lease is None or self.view.base != base:
                    return None
                # Messages may have arrived since it was prepared.
                prepared = await self.preparer.prepare(request) if ready is None else ready
                prepared = prepared.measured(self.view, request.tokens)
                tell(CompactionPhase(old, "swap" if ready else "summarise", time.monotonic() - started))
                if prepared.compaction.changed:
                    started = time.monotonic()
                    await uninterruptible(commit(prepared, lease))
                    tell(CompactionPhase(old, "commit", time.monotonic() - started))
            if not prepared.compaction.changed:
                outcome = prepared.compaction
                self.engine.restore(outcome.state)
                await self.store_pending_calls()
                await self.store_engine_state()
            return prepared.compaction
        finally:
            # Also if it failed or was cancelled: screens that show it as running must learn that it has ended.
            self._tell_finished(old, outcome)

    async def _commit(self, prepared: PreparedCompaction, lease: Lease) -> None:
        """Store the compaction, which ends the session, and switch to its continuation."""
        old, store, options = self.session, self.services.store, self.services.options
        system = None if options.before_switch is None else await options.before_switch(old)
        calls = tuple(self.pending_calls)
        async with self.locks.write:
            continuation = await store.commit_compaction(
                old,
                prepared.entry(),
                lease=lease,
                calls=calls,
                system=system,
                records=prepared.records(),
                nodes=prepared.nodes(),
            )
            self._forget_stored(calls)
            if system is not None:
                self.view.set_prompt(prompt_message(system))
            await self._show_compacted(prepared, continuation.id)
        engine = self.engine
        engine.restore(prepared.compaction.state)
        engine.on_session_start(SessionStart(continuation.id, continues=old, state=engine.state, host=engine.host))
        await self.store_engine_state()
        if options.after_switch is not None:
            await options.after_switch(old, self.session)

    async def _show_compacted(self, prepared: PreparedCompaction, session: str) -> None:
        """Show the new view as stored, but with the known objects, so that nothing is counted twice."""
        stored = await self.services.store.view(session)
        known = [*prepared.compaction.messages, *self.messages[len(prepared.view.messages) :]]
        is_ours = stored.next_seq == self.view.next_seq and len(known) == len(stored.messages)
        self.engine_sees_all = self.engine_sees_all and is_ours
        self.view.show(stored, known if is_ours else None)

    def _tell_finished(self, old: str, done: Compaction) -> None:
        self.services.tell(
            CompactionFinished(
                old,
                self.session if done.changed else None,
                done.tokens_before,
                done.tokens_after,
                done.written_by,
                done.warnings,
            )
        )
        if self.engine.get_status().paused is not None:
            fixed = ", ".join(self.view.fixed_parts())
            self.services.tell(Notice(f"Automatic compaction is paused. What it cannot make smaller: {fixed}."))

    # -- what the store keeps ------------------------------------------------------------------------------------------

    async def drop_prepared(self) -> None:
        """Drop the compaction that was prepared ahead, and store what it cost."""
        await self.preparer.drop()
        await self.store_pending_calls()

    async def close(self) -> None:
        """Cancel all background work and store what it cost. The conversation can be opened again."""
        await self.preparer.cancel()
        if self.background is not None:
            self.background.cancel()
            await asyncio.gather(self.background, return_exceptions=True)
        await self.settled()
        await self.store_pending_calls()

    async def store_pending_calls(self) -> None:
        """Store calls of the summariser that led to no compaction, since they cost something, too."""
        while self.pending_calls:
            call = self.pending_calls[0]
            try:
                await self.services.store.record_call(self.session, call)
            except UnknownSession:  # it was deleted meanwhile
                await self.services.store.record_call(None, call)
            self._forget_stored((call,))

    def _forget_stored(self, calls: Sequence[ModelCall]) -> None:
        """Remove stored calls of the summariser; others may have removed some of them, or added new ones, meanwhile."""
        stored = set(map(id, calls))
        self.pending_calls[:] = [call for call in self.pending_calls if id(call) not in stored]

    async def store_engine_state(self) -> None:
        """Store the state of the engine, if it has changed."""
        state = dict(self.engine.state)
        if state != self.stored_state:
            learnt = {CALIBRATION_STATE + self.target.model: self.size.calibration.as_plain()}
            await self.services.store.set_state(self.session, {ENGINE_STATE + self.engine.name: state, **learnt})
            self.stored_state = state
