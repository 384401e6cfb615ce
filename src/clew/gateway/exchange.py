"""One request through the gateway: make it fit, send it, pass the reply back, have it recorded.

Whatever fails here before the upstream was asked falls back to the client's own bytes, and is counted and told. Only
overflows are dealt with here; every other refusal passes as received.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, replace
from typing import Any, TypeVar

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from clew.errors import ClewError, StoreError, UnknownSession
from clew.gateway.admission import RESERVED_OUTPUT, Caller, Callers, Refusal, where_it_failed
from clew.gateway.clients import (
    MAX_CLIENT_BYTES,
    MAX_NAME_CHARS,
    MODE_HEADER,
    SESSION_HEADER,
    client_by_prompt,
    client_of,
    lineage_of,
    own_compaction,
    session_named,
    told_prompt_tokens,
)
from clew.gateway.conversations import (
    MODES,
    MUST_FOLD,
    ConversationKey,
    ExchangeRecord,
    GatewayExchange,
    HandoffWriter,
    Mode,
    OpenConversation,
    OpenConversations,
    UpstreamRequest,
    pays_back,
)
from clew.gateway.handoffs import Handoffs
from clew.gateway.items import (
    HistoryHandle,
    asks_for_handle,
    binds_thinking,
    handle_events,
    handle_reply,
    is_native,
    marked_items,
    marked_prompt,
    refuses_thinking,
    wants_breakpoints,
    without_handle,
    without_thinking,
)
from clew.gateway.merged_replies import RecallTurn
from clew.gateway.recall import RECALL_HINT, GatewayRecall
from clew.gateway.upstream import (
    CHARS_PER_TOKEN,
    PING_SECONDS,
    ClientResponse,
    HeldEnd,
    ReplyReader,
    Upstreams,
    UpstreamServer,
    UpstreamUnreachable,
    UsageTeller,
    headers_back,
    passed_headers,
    read_error,
)
from clew.gateway.wires import MAX_MODEL_CHARS, NestedTooDeep, RequestBody, UnreadableBody, WirePath, WireRequest
from clew.portable import release_memory
from clew.providers import ErrorClass, classify_error
from clew.store import CACHE_TTL_STATE, CLIENT_STATE, WINDOW_STATE, ModelCall, StoredWindow
from clew.turn import (
    COLD_AT,
    Conversation,
    ModelTarget,
    Recovery,
    Runtime,
    TurnOptions,
    bound_newest,
    call_of,
    cold_fold_pays,
    is_overflow,
    largest_parts,
)
from clew.usage import CanonicalUsage

HOLD_SECONDS = 2.0
"""How long the end of a reply waits at most until the reply is stored."""
RELEASED_BYTES = 8 * 1024 * 1024
"""Of conversations that were closed: the memory of so many is returned to the system."""
RETRY_SECONDS = (0.2, 1.0, 5.0)
"""How long to wait before a reply is stored again, where the store was away."""

_Value = TypeVar("_Value")
_log = logging.getLogger("clew.gateway")


class ReplyRecording:
    """Keeps replies, and tells what came of each exchange. One for each gateway process."""

    def __init__(
        self,
        runtime: Runtime,
        callers: Callers,
        target: Callable[[str, str], ModelTarget],
        handoffs: Handoffs,
        on_exchange: Callable[[ExchangeRecord], None] | None = None,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._runtime = runtime
        self._callers = callers
        self._target = target
        self._handoffs = handoffs
        self._retry_seconds = retry_seconds
        self._hold_seconds = hold_seconds
        self._closing = asyncio.Event()
        self._on_exchange = on_exchange or (lambda _: None)
        self._under_way: set[asyncio.Task[None]] = set()

    async def reserve(self, exchange: GatewayExchange) -> None:
        """Reserve what a request will probably cost, where its caller has a budget; raises `Refusal`."""
        if not exchange.caller.has_budget or exchange.path.action == "count":
            return
        request, conversation = exchange.request, exchange.conversation
        asked = request.max_output if request is not None else None
        prompt = conversation.size.tokens if conversation else len(exchange.raw) // CHARS_PER_TOKEN
        usage = CanonicalUsage(input_tokens=prompt, output_tokens=min(asked or RESERVED_OUTPUT, RESERVED_OUTPUT))
        cost = call_of(usage, self._target(exchange.model, exchange.path.kind), "gateway").cost_micros
        exchange.reservation = await self._callers.reserve(exchange.caller, cost or 0)

    def release(self, exchange: GatewayExchange) -> None:
        """Give back what was reserved for a request, unless it was charged or its reply is still to be recorded."""
        if exchange.reservation is not None and (exchange.recording is None or exchange.is_stored.is_set()):
            self._watch(asyncio.create_task(self._callers.release(exchange.reservation)))
            exchange.reservation = None

    def start(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        """Begin to keep a reply, once."""
        if exchange.recording is None:
            exchange.recording = asyncio.create_task(self._record(exchange, reader))
            self._watch(exchange.recording)

    async def stored(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        """Begin to keep a reply, and wait until it is stored; a store that is slow or away is not waited for longer."""
        if exchange.recording is not None:
            return
        self.start(exchange, reader)
        with suppress(TimeoutError):
            await asyncio.wait_for(exchange.is_stored.wait(), self._hold_seconds)

    def tell(self, exchange: GatewayExchange) -> None:
        """Tell what came of an exchange, once all of it is kept: a client may hang up before that."""
        last = exchange.recording or exchange.writing
        if last is None or last.done():
            self._on_exchange(exchange.record())
        else:
            self._watch(last)
            last.add_done_callback(lambda _: self._on_exchange(exchange.record()))

    async def close(self) -> None:
        """Wait until everything that came is kept; what waits for the store is tried once more."""
        self._closing.set()
        while self._under_way:
            await asyncio.gather(*self._under_way, return_exceptions=True)

    def _watch(self, task: asyncio.Task[None]) -> None:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _record(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        """Keep the reply and charge what it took. Nothing that fails here is the client's concern."""
        try:
            await self._keep(exchange, reader)
        finally:
            exchange.is_stored.set()
            self.release(exchange)

    async def _keep(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        stated = reader.usage()
        exchange.usage = usage = stated or _estimated_usage(exchange, reader)
        if usage is None or exchange.path.action == "count":
            return
        try:
            call = await self._call(exchange, usage)
            exchange.cost_micros = call.cost_micros
            if exchange.recall is not None and exchange.recall.rounds:
                exchange.usage = usage + exchange.recall.spent
                exchange.cost_micros = (
                    None if call.cost_micros is None else call.cost_micros + exchange.recall.cost_micros
                )
            await self._store_or_retry(lambda: self._store(exchange, reader, stated, call))
            reservation, exchange.reservation = exchange.reservation, None
            if reservation is None:
                exchange.is_stored.set()
            # Who has a budget gets the end of the reply after it was charged: the next request is then admitted by it.
            spending, cost = self._callers.add_spending, call.cost_micros or 0
            may_go_on = await self._store_or_retry(lambda: spending(exchange.caller, cost, reservation))
            exchange.is_stored.set()
            await self._keep_facts(exchange)
            if reader.is_complete:
                self._handoffs.prepare_if_due(exchange, may_ask=bool(may_go_on))
        except ClewError as problem:
            exchange.is_fallback = True
            _log.error("a reply could not be kept: %s", where_it_failed(problem))

    async def _call(self, exchange: GatewayExchange, usage: CanonicalUsage) -> ModelCall:
        conversation, opened = exchange.conversation, exchange.opened
        if conversation is None or opened is None:
            return call_of(usage, self._target(exchange.model, exchange.path.kind), "gateway")
        # The client's own request would have had no reply but the last one.
        asked = exchange.recall.first_usage if exchange.recall and exchange.recall.first_usage else usage
        direct = await opened.direct_usage(conversation, replace(asked, output_tokens=usage.output_tokens))
        return call_of(usage, conversation.target, "gateway", direct=direct)

    async def _store(
        self, exchange: GatewayExchange, reader: ReplyReader, stated: CanonicalUsage | None, call: ModelCall
    ) -> None:
        """Store the reply with its call; the call alone where no conversation can take the reply."""
        conversation, opened, owner = exchange.conversation, exchange.opened, exchange.caller.owner
        if conversation is None or opened is None:
            await self._runtime.store.record_call(None, call, owner=owner)
            return
        conversation.note_sent()
        if reader.is_complete:
            async with opened.lock:
                if await opened.record(reader.items(), stated, call, exchange.taken):
                    return
        try:
            await self._runtime.store.record_call(conversation.session, call)
        except UnknownSession:  # deleted meanwhile
            await self._runtime.store.record_call(None, call, owner=owner)

    async def _keep_facts(self, exchange: GatewayExchange) -> None:
        """Store whose program's conversation it is and the window that was used, for lists and pages."""
        conversation, opened = exchange.conversation, exchange.opened
        if conversation is None or opened is None:
            return
        window, threshold = conversation.window, conversation.engine.get_status().threshold_tokens
        is_folded = exchange.mode == "compact" and self._runtime.options.settings.compression.enabled
        used = StoredWindow(window.tokens, threshold if is_folded else None, window.source)
        now: dict[str, Any] = {WINDOW_STATE: asdict(used)}
        if exchange.client.name:
            now[CLIENT_STATE] = exchange.client.name
        if exchange.sent and exchange.sent.cache_ttl not in (None, "5m"):
            now[CACHE_TTL_STATE] = exchange.sent.cache_ttl
        if now != opened.kept:
            await self._runtime.store.set_state(conversation.session, now)
            opened.kept = now

    async def _store_or_retry(self, store: Callable[[], Awaitable[_Value]]) -> _Value | None:
        """Store something now; later, without anybody waiting for it, where the store is away: then None."""
        try:
            return await store()
        except StoreError as problem:
            _log.warning("a reply is stored later: %s", where_it_failed(problem))
            self._watch(asyncio.create_task(self._retry(store)))
            return None

    async def _retry(self, store: Callable[[], Awaitable[object]]) -> None:
        for seconds in self._retry_seconds:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)
            try:
                await store()
                return
            except StoreError as problem:
                last = problem
        _log.error("a reply could not be kept: %s", where_it_failed(last))


def _estimated_usage(exchange: GatewayExchange, reader: ReplyReader) -> CanonicalUsage | None:
    """The usage of a reply that states none, by our own count; None where no reply came."""
    if not reader.has_content:
        return None
    conversation = exchange.conversation
    prompt = conversation.size.tokens if conversation else len(exchange.raw) // CHARS_PER_TOKEN
    return CanonicalUsage(input_tokens=prompt, output_tokens=reader.output_tokens)


FEWEST_MESSAGES = 4
"""A conversation with fewer is not compacted."""

LONG_WINDOW_BETA = "context-1m"
"""In the beta header of Anthropic's wire: the client has the long window of a model."""
LONG_WINDOW = 1_000_000
_MAX_OUTPUT_LIMITS = 1_000
_LEAST_MARGIN = 256
"""Tokens that our count of a prompt may be too low by."""
_LEAST_OUTPUT = 1_024
"""Where less room is left, the client's own figure is sent: the upstream's refusal makes the conversation smaller."""


class RequestFitting:
    """Makes requests fit. One for each gateway process."""

    def __init__(
        self,
        runtime: Runtime,
        target: Callable[[str, str], ModelTarget],
        handoffs: Handoffs,
        recall: GatewayRecall,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.conversations = OpenConversations(runtime, clock)
        self._runtime = runtime
        self._target = target
        self._handoffs = handoffs
        self._recall = recall
        self._binding: set[tuple[str, str]] = set()
        """Owners and models that were found to bind thinking."""
        self._output_limits: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        """By owner and model: the window that the upstream counts output into, and the most output it allows."""

    async def fit(
        self, exchange: GatewayExchange, headers: Mapping[str, str], response: ClientResponse
    ) -> Sequence[bytes] | None:
        """The items to send in place of those that were received; None where the client's bytes are sent unchanged."""
        request = exchange.request
        if request is None or not request.items or not request.model:
            return None
        if is_native(request):
            exchange.mode = "observe"
        try:
            try:
                return await response.waiting_for(self._take(exchange, request, headers))
            except UnknownSession:
                # The conversation was deleted after it was taken: what its client still sends begins a new one.
                return await response.waiting_for(self._take(exchange, request, headers))
        except ClewError as problem:
            fall_back(exchange, problem)
        if exchange.mode != "compact":
            return None
        # What was folded stays folded, also while the store is away.
        known = self.conversations.project(self._key(exchange, request, headers), request.items)
        exchange.is_folded = known is not None
        return known

    async def fold_for_handle(
        self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]
    ) -> HistoryHandle:
        """Fold the conversation of a request now, and give a handle that represents it."""
        await self._take(exchange, request, headers)
        conversation, opened = exchange.conversation, exchange.opened
        assert conversation is not None and opened is not None
        async with opened.lock:
            ready = await self._handoffs.ready(conversation)
            if ready is None or not await conversation.use_prepared(ready, conversation.size.tokens):
                await conversation.compact_now()
            if (own := await opened.view.own(conversation)) is not conversation:
                self._use(exchange, own)
                await own.compact_now()
            return HistoryHandle(own.session, own.view.next_seq)

    async def count(
        self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]
    ) -> Sequence[bytes] | None:
        """The items that would be sent for a request that is only counted; None for the client's bytes."""
        shown = await self.conversations.project_for_count(self._key(exchange, request, headers), request)
        return self._recall.count(exchange, request, headers, shown)

    async def show_again(self, exchange: GatewayExchange) -> Sequence[bytes] | None:
        """The items to send for the view as it is, after something was decided otherwise for the exchange."""
        request, opened, conversation = exchange.request, exchange.opened, exchange.conversation
        assert request is not None and opened is not None and conversation is not None  # something was offered
        async with opened.lock:
            return await self._shown(exchange, request, opened, conversation)

    async def make_smaller(
        self, exchange: GatewayExchange, fault: ErrorClass, words: str, response: ClientResponse
    ) -> Sequence[bytes] | None:
        """The items to send after a refusal, or None for the client's bytes; `CannotShrink` where it is to pass."""
        request, opened, conversation = exchange.request, exchange.opened, exchange.conversation
        recovery = exchange.recovery
        if request is None or opened is None or conversation is None or recovery is None:
            raise CannotShrink
        if refuses_thinking(words) and not exchange.drops_all_thinking:
            # An undo may have changed what precedes thoughts since the fold: then those go as well.
            exchange.drops_all_thinking = exchange.drops_thinking or self._binds(exchange, request)
            exchange.drops_thinking = True
            self._binding.add((exchange.caller.owner, request.model))
        elif not await response.waiting_for(recovery.make_smaller(fault)):
            raise CannotShrink
        if fault.kind == "output_cap_too_large" and (fault.limit or fault.output_cap):
            if len(self._output_limits) >= _MAX_OUTPUT_LIMITS:
                self._output_limits.clear()
            self._output_limits[exchange.caller.owner, request.model] = (fault.limit, fault.output_cap)
        async with opened.lock:
            if (own := await opened.view.own(conversation)) is not conversation:
                self._use(exchange, own)
                recovery.conversation = own
            return await self._shown(exchange, request, opened, own)

    # -- one request ---------------------------------------------------------------------------------------------------

    async def _take(
        self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]
    ) -> Sequence[bytes] | None:
        whole = await without_handle(request, self._runtime.store, exchange.caller.owner)
        is_expanded, request = whole is not request, whole
        exchange.request = request
        async with self.conversations.matched(self._key(exchange, request, headers), request) as matched:
            opened = matched.opened
            exchange.hold(opened)
            target = self._target_of(exchange, request, headers)
            conversation = await opened.take(request, matched, target)
            exchange.may_recall = self._recall.may_offer(exchange, request, headers)
            self._use(exchange, conversation)
            self._watch_writing(exchange, conversation.writing)
            exchange.taken = opened.view.taken
            if exchange.mode == "observe":
                return None
            if exchange.mode == "spill":
                await bound_newest(conversation)
            else:
                await self._fold_if_due(exchange, request, conversation)
                if (own := await opened.view.own(conversation)) is not conversation:
                    self._use(exchange, conversation := own)
                    await self._fold_if_due(exchange, request, conversation)
                self._lower_output(exchange, conversation)
            shown = await self._shown(exchange, request, opened, conversation)
            return list(request.items) if shown is None and is_expanded else shown

    def _use(self, exchange: GatewayExchange, conversation: Conversation) -> None:
        exchange.conversation = conversation
        conversation.engine.recall_hint = RECALL_HINT if exchange.may_recall else ""

    def _target_of(self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]) -> ModelTarget:
        """The model of a request, with the window that its headers ask for."""
        target = self._target(request.model, exchange.path.kind)
        betas = headers.get("anthropic-beta", "").encode() + request.body.field(
            "anthropic_beta"
        )  # Bedrock: in the body
        if LONG_WINDOW_BETA.encode() in betas and target.endpoint is None:
            target = replace(target, endpoint={"context_length": LONG_WINDOW})
        return replace(target, max_tokens=request.max_output, account=exchange.caller.owner)

    def _lower_output(self, exchange: GatewayExchange, conversation: Conversation) -> None:
        """Ask for less output at once, where the upstream has refused as much before."""
        recovery = exchange.recovery
        known = self._output_limits.get((exchange.caller.owner, conversation.target.model))
        if recovery is None or recovery.max_tokens is None or known is None:
            return
        window, most = known
        prompt = conversation.size.tokens
        room = recovery.max_tokens if window is None else window - prompt - max(_LEAST_MARGIN, prompt // 32)
        cap = min(recovery.max_tokens, room, most or room)
        if _LEAST_OUTPUT <= cap < recovery.max_tokens:
            recovery.max_tokens = cap

    def _watch_writing(self, exchange: GatewayExchange, writing: asyncio.Task[None] | None) -> None:
        """Log a failure to store the new messages; the client sends them again with the next request."""
        if writing is None:
            return

        def tell(written: asyncio.Task[None]) -> None:
            problem = None if written.cancelled() else written.exception()
            if problem is not None:
                exchange.is_fallback = True
                _log.error("a request could not be kept: %s", where_it_failed(problem))

        exchange.writing = writing
        writing.add_done_callback(tell)

    async def _fold_if_due(self, exchange: GatewayExchange, request: WireRequest, conversation: Conversation) -> None:
        """Fold where the window is nearly full, and that is worth it. Real usage of the last turn counts first.

        Where a model writes handoffs, one that is ready is used, and none is waited for. Below the threshold that may
        be too: behind a finished task, and where the provider's cache has expired, so that all would be read anew.
        """
        options = TurnOptions(tools=request.tools, prompt=request.prompt)
        exchange.recovery = Recovery(conversation, options, request.max_output)
        tokens, window = conversation.measure(options), conversation.window.tokens
        if len(conversation.messages) < FEWEST_MESSAGES and tokens < window:
            return
        is_due = conversation.is_due(tokens)
        is_by_model = self._handoffs.is_by_model(exchange, conversation)
        must = tokens + (conversation.model.max_output or 0) >= MUST_FOLD * window
        if is_due and not must:
            target = conversation.target
            if not pays_back(tokens, conversation.turns, request.model, target.served_by):
                exchange.fold_waits_for = "payback"
                return
        if not is_by_model:
            if conversation.preparer.task is not None and conversation.preparer.asks_model:
                await conversation.drop_prepared()
            await conversation.fit(options)
        if not is_due:
            await self._fold_early(exchange, request, conversation, tokens)
            return
        if is_by_model:
            ready = await self._handoffs.ready(conversation)
            is_used = ready is not None and await conversation.use_prepared(ready, tokens)
            if must and not is_used:
                await conversation.compact_at_once(tokens)
            elif not is_used:
                exchange.fold_waits_for = "handoff"

    async def _fold_early(
        self, exchange: GatewayExchange, request: WireRequest, conversation: Conversation, tokens: int
    ) -> None:
        """Fold a request below the threshold where its handoff costs nothing more, and it pays."""
        threshold, opened = conversation.engine.threshold_tokens, exchange.opened
        if not conversation.may_fold_early(tokens):
            return
        is_by_model = self._handoffs.is_by_model(exchange, conversation)
        ttl = request.wire.cache_ttl(request.body.raw)
        is_cold = (
            ttl is not None
            and COLD_AT * threshold <= tokens < threshold
            and cold_fold_pays(tokens, conversation.target, ttl)
            and await conversation.is_cold(ttl)
        )
        if is_cold:
            ready = await self._handoffs.ready(conversation) if is_by_model else None
            is_used = ready is not None and await conversation.use_prepared(ready, tokens, "cold")
            # A model that can open what was folded continues as well with a built-in handoff.
            if not is_used and (not is_by_model or exchange.may_recall):
                await conversation.compact_at_once(tokens, "cold")
        elif opened is not None and opened.has_finished_task:
            # Once only: in the middle of the next task a fold waits for the threshold.
            opened.has_finished_task = False
            if is_by_model and (ready := await self._handoffs.ready(conversation)):
                await conversation.use_prepared(ready, tokens, "finished")

    async def _shown(
        self, exchange: GatewayExchange, request: WireRequest, opened: OpenConversation, conversation: Conversation
    ) -> Sequence[bytes] | None:
        """The items to send for the view as it is now; the caller holds the lock."""
        before = None
        if request.wire.dialect == "anthropic" and (exchange.drops_thinking or self._binds(exchange, request)):
            before = await opened.first_item_since_fold(conversation)
            if exchange.drops_all_thinking or (before is None and exchange.drops_thinking):
                before = len(request.items)
        shown = opened.show(conversation, request.items, without_thinking, before or 0)
        items = await self._recall.offer(exchange, request, opened, conversation, shown)
        exchange.shown = (conversation.view.stored, len(conversation.messages))
        exchange.is_folded = items is not None
        exchange.taken = opened.view.taken
        return items

    def _binds(self, exchange: GatewayExchange, request: WireRequest) -> bool:
        return (exchange.caller.owner, request.model) in self._binding or binds_thinking(request.model)

    def _key(self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]) -> ConversationKey:
        joined = headers.get(SESSION_HEADER, "").strip()[:MAX_NAME_CHARS]
        named = joined or session_named(exchange.client, headers, request.body)
        has_tools = request.has_tools or exchange.own_compaction == "asked" or asks_for_handle(request)
        lineage = lineage_of(request, named, has_tools=has_tools, is_joined=bool(joined))
        return ConversationKey(exchange.caller.owner, lineage.name, lineage.tree)


class CannotShrink(Exception):  # noqa: N818 (reads as what it says)
    """A request that was refused cannot be made smaller, or is no conversation: the refusal passes to the client."""


async def or_fall_back(exchange: GatewayExchange, work: Awaitable[_Value]) -> _Value | None:
    """The result of the work before the upstream is called; None if it fails, so that the client's bytes are sent."""
    try:
        return await work
    except Refusal:
        raise
    except Exception as problem:
        # The outermost door: the client's request comes first, whatever is wrong here.
        fall_back(exchange, problem)
        return None


def fall_back(exchange: GatewayExchange, problem: Exception) -> None:
    """Send the client's bytes, since something failed. The log names the place only: the text may quote a message."""
    exchange.is_fallback, exchange.conversation = True, None
    _log.error("a request passes as it came: %s", where_it_failed(problem))


MAX_HELD_BYTES = 1024 * 1024
"""Of events at the beginning of a stream, which are held until it is clear that they are no refusal."""
_ELSEWHERE = frozenset((429, 500, 502, 503, 504, 529))
"""Answers after which the next upstream is asked, where there is one."""


class Exchanges:
    """Runs exchanges. One for each gateway process."""

    def __init__(
        self,
        runtime: Runtime,
        upstreams: Upstreams,
        callers: Callers,
        *,
        target: Callable[[str, str], ModelTarget],
        mode: Mode = "compact",
        handoffs: HandoffWriter = "model",
        recall: bool = True,
        on_begin: Callable[[], None] = lambda: None,
        on_exchange: Callable[[ExchangeRecord], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        adds_breakpoints: bool = False,
        ping_seconds: float = PING_SECONDS,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self.mode: Mode = mode
        self._runtime = runtime
        self._on_begin = on_begin
        self._clock = clock
        self._upstreams = upstreams
        self._adds_breakpoints = adds_breakpoints
        self._ping_seconds = ping_seconds
        self.handoffs = Handoffs(runtime, upstreams, callers, handoffs, clock)
        self._recall = GatewayRecall(runtime, callers, is_on=recall)
        self._fitting = RequestFitting(runtime, target, self.handoffs, self._recall, clock)
        self._recording = ReplyRecording(
            runtime, callers, target, self.handoffs, on_exchange, hold_seconds=hold_seconds
        )

    @property
    def conversations(self) -> OpenConversations:
        return self._fitting.conversations

    async def answer(self, http: web.Request, path: WirePath, caller: Caller, raw: bytes) -> web.StreamResponse:
        """Serve one request that is for a model."""
        self._on_begin()
        headers = {name.lower(): value for name, value in http.headers.items()}
        mode, writer = self._mode_of(headers, caller), self.handoffs.writer_for(headers, caller)
        exchange = GatewayExchange(http, path, caller, raw, client_of(headers), mode, writer)
        exchange.own_compaction = own_compaction(headers)
        try:
            if path.action == "count":
                self._read(exchange)
                response = ClientResponse(http, path.wire, is_stream=False)
                return await self._send(exchange, response, await self._counted(exchange, headers))
            is_stream = self._read(exchange)
            response = ClientResponse(http, path.wire, is_stream=is_stream, ping_seconds=self._ping_seconds)
            if path.action == "compact":
                return await self._send(exchange, response, None)
            if (handle := await self._handle(exchange, headers, response)) is not None:
                return await self._give_handle(exchange, handle, response)
            return await self._send(exchange, response, await self._fitted(exchange, headers, response))
        finally:
            if exchange.opened is not None:
                exchange.opened.waiting -= 1  # it stays named in the record
                exchange.opened.used_at = self._clock()
            self._recording.release(exchange)
            self._recording.tell(exchange)

    async def look_after_idle(self) -> None:
        """Fold conversations whose cache is about to expire, and close those that rest. Called every few seconds."""
        self.handoffs.fold_idle(self.conversations.by_use())
        if await self.conversations.close_idle() > RELEASED_BYTES:
            await self._runtime.in_thread(release_memory)

    async def close(self) -> None:
        """Wait until every reply that came is kept."""
        await self._recording.close()

    # -- before the upstream is asked ----------------------------------------------------------------------------------

    def _mode_of(self, headers: Mapping[str, str], caller: Caller) -> Mode:
        """The mode of this request, of this caller, or of the gateway, in this order."""
        asked = headers.get(MODE_HEADER, "").strip().lower()
        return next((mode for mode in MODES if mode == asked), None) or caller.mode or self.mode

    def _read(self, exchange: GatewayExchange) -> bool:
        """Read the request as far as needed; whether its reply is a stream. What cannot be read passes."""
        try:
            body = RequestBody(exchange.raw)
            exchange.model = (exchange.path.model or body.text("model"))[:MAX_MODEL_CHARS]
            exchange.request = exchange.path.wire.read(body, exchange.path)
            if exchange.request is not None and not exchange.client.name:
                exchange.client = client_by_prompt(exchange.request.prompt)
        except NestedTooDeep:
            exchange.status = 400
            raise Refusal(400, "the values of the request are nested too deep") from None
        except UnreadableBody:
            exchange.request = None
            return False
        except Exception as problem:
            fall_back(exchange, problem)
            return b'"stream":true' in exchange.raw.replace(b" ", b"")
        if exchange.request is None:
            is_streamed = exchange.path.is_streamed
            return body.field("stream") == b"true" if is_streamed is None else is_streamed
        return exchange.request.is_streamed

    async def _fitted(
        self, exchange: GatewayExchange, headers: Mapping[str, str], response: ClientResponse
    ) -> Sequence[bytes] | None:
        """The items to send in place of those that were received; None where the client's bytes are sent unchanged."""
        return await or_fall_back(exchange, self._fitting.fit(exchange, headers, response))

    async def _counted(self, exchange: GatewayExchange, headers: Mapping[str, str]) -> Sequence[bytes] | None:
        """The items to count, so that the answer agrees with the usage that the client receives."""
        if exchange.request is None or exchange.mode == "observe":
            return None
        return await or_fall_back(exchange, self._fitting.count(exchange, exchange.request, headers))

    async def _handle(
        self, exchange: GatewayExchange, headers: Mapping[str, str], response: ClientResponse
    ) -> HistoryHandle | None:
        """A handle for the conversation, which is folded now; None where the client asks for none, or that fails."""
        request = exchange.request
        if request is None or exchange.mode == "observe" or not asks_for_handle(request):
            return None
        asked = replace(request, items=request.items[:-1])
        folded = self._fitting.fold_for_handle(exchange, asked, headers)
        handle = await or_fall_back(exchange, response.waiting_for(folded))
        exchange.request = request if handle is None else asked
        return handle

    async def _give_handle(
        self, exchange: GatewayExchange, handle: HistoryHandle, response: ClientResponse
    ) -> web.StreamResponse:
        """Answer with a handle for the conversation, and nothing else."""
        assert exchange.conversation is not None and exchange.request is not None
        reply = handle_reply(handle, exchange.request.model, exchange.conversation.size.tokens)
        exchange.status, exchange.is_folded = 200, True
        if not response.is_stream:
            return web.json_response(reply)
        await response.begin(200, CIMultiDict({"Content-Type": "text/event-stream"}))
        for event in handle_events(reply):
            await response.write(event)
        return await response.end()

    # -- the upstream --------------------------------------------------------------------------------------------------

    async def _send(
        self, exchange: GatewayExchange, response: ClientResponse, items: Sequence[bytes] | None
    ) -> web.StreamResponse:
        """Send, and pass the reply back; an overflow is recovered from as often as the ladder allows."""
        servers = self._servers(exchange)
        first = servers[0]
        try:
            await self._recording.reserve(exchange)
        except Refusal as over_budget:
            exchange.status = over_budget.status
            if not response.has_begun:
                raise
            return await response.fail(over_budget.status, str(over_budget))
        while True:
            max_output = exchange.recovery.max_tokens if exchange.recovery else None
            body = self._body(exchange, items, max_output)
            url, headers = self._addressed(exchange, servers[0], is_fallback=servers[0] is not first)
            try:
                async with AsyncExitStack() as connection:
                    opening = connection.enter_async_context(servers[0].open(exchange.http.method, url, headers, body))
                    is_later = exchange.recall is not None and exchange.recall.rounds > 0
                    reply = await (response.waiting_for(opening) if is_later else opening)
                    exchange.status = reply.status
                    if reply.status < 400:
                        self._keep_sent(exchange, url, headers, body)
                        refusal = await self._pass_back(exchange, response, reply)
                        if exchange.recall is not None and exchange.recall.asks_again:
                            continue
                        if refusal is None:
                            return await self._finish(exchange, response)
                        status, text = 400, refusal.encode()
                    else:
                        status, text = reply.status, await read_error(reply)
                    answer_headers = headers_back(reply.headers)
            except UpstreamUnreachable as problem:
                if self._is_left(servers, str(problem)):
                    continue
                exchange.status = 502
                return await response.fail(502, str(problem))
            if status in _ELSEWHERE and self._is_left(servers, f"{servers[0].host} answers {status}"):
                continue
            words = text.decode("utf-8", "replace")
            fault = classify_error(status, words, exchange.host, headers=answer_headers, request=exchange.raw)
            if not is_overflow(fault) and self._recall.refuse(exchange, status, words):
                items = await or_fall_back(exchange, self._fitting.show_again(exchange))
                continue
            try:
                items = await self._fitting.make_smaller(exchange, fault, words if status == 400 else "", response)
            except CannotShrink:
                return await self._refuse(exchange, response, status, text, answer_headers)
            except Exception as problem:
                fall_back(exchange, problem)
                return await self._refuse(exchange, response, status, text, answer_headers)

    def _servers(self, exchange: GatewayExchange) -> list[UpstreamServer]:
        """The upstreams to ask, one after the other. A caller's own credential goes to the first one only."""
        path, caller = exchange.path, exchange.caller
        servers = self._upstreams.route(path.kind, exchange.model)
        if not servers:
            exchange.status = 404
            raise Refusal(404, f"no upstream of this gateway serves {exchange.model[:100]!r} on the wire {path.kind}")
        if caller.key is None:
            # Without its credential, and without ours either.
            servers[1:] = [server for server in servers[1:] if server.key is None and server.aws is None]
        return servers

    def _is_left(self, servers: list[UpstreamServer], problem: str) -> bool:
        """Whether another upstream is left to ask; it is the first one then."""
        if len(servers) > 1:
            _log.warning("%s; asking %s", problem, servers[1].host)
            del servers[0]
            return True
        return False

    def _addressed(
        self, exchange: GatewayExchange, server: UpstreamServer, *, is_fallback: bool
    ) -> tuple[str, CIMultiDict[str]]:
        """The address and the headers of a request to an upstream."""
        http, caller, exchange.host = exchange.http, exchange.caller, server.host
        headers = passed_headers(http.headers, caller.withheld(is_fallback=is_fallback))
        headers.update(caller.credential(server.key))
        is_bearer = headers.get("Authorization", "").lower().startswith("bearer ")
        if server.aws is not None and not (is_bearer or caller.is_signed or caller.key):
            exchange.status = 401
            raise Refusal(401, "the gateway signs for callers with a key of Clew, and for signed requests")
        query = caller.query(http.rel_url.raw_query_string, is_fallback=is_fallback)
        return server.url(http.rel_url.raw_path, query, exchange.path.kind), headers

    def _keep_sent(self, exchange: GatewayExchange, url: str, headers: CIMultiDict[str], body: bytes) -> None:
        """Keep the sent request with the exchange, so that a handoff can be requested after it."""
        is_first = exchange.recall is None or not exchange.recall.rounds
        if exchange.shown is not None and exchange.request is not None and is_first:
            model, caller = exchange.request.model, exchange.caller
            exchange.sent = UpstreamRequest(exchange.path, model, url, headers, body, caller, *exchange.shown)

    def _body(self, exchange: GatewayExchange, items: Sequence[bytes] | None, max_output: int | None) -> bytes:
        """The body to send: the client's bytes, unless something has to be changed in them."""
        request = exchange.request
        if request is None:
            return exchange.raw
        shown = request.items if items is None else items
        fields: dict[str, bytes] = {}
        if exchange.recall is not None:
            shown, fields = exchange.recall.items(shown), exchange.recall.fields()
        if self._adds_breakpoints and exchange.mode != "observe" and wants_breakpoints(request):
            return request.with_items(marked_items(shown), max_output, {**marked_prompt(request), **fields})
        is_same = items is None and max_output in (None, request.max_output) and not fields
        return exchange.raw if is_same else request.with_items(shown, max_output, fields)

    async def _refuse(
        self, exchange: GatewayExchange, response: ClientResponse, status: int, text: bytes, headers: CIMultiDict[str]
    ) -> web.StreamResponse:
        """Pass a refusal on as received; one that we could not recover from says what cannot be made smaller."""
        words = text.decode("utf-8", "replace")
        fault = classify_error(status, words, exchange.host, headers=headers, request=exchange.raw)
        recovery, conversation = exchange.recovery, exchange.conversation
        is_tried = recovery is not None and recovery.tried and not recovery.has_failed
        if is_tried and recovery is not None and conversation is not None and is_overflow(fault):
            large = ", ".join(largest_parts(conversation, recovery.options))
            exchange.status = 400
            return await response.fail(400, f"Clew could not make this request small enough. It has: {large}.")
        if response.has_begun:
            return await response.fail(status, text.decode("utf-8", "replace")[:2_000])
        return web.Response(status=status, body=text, headers=headers)

    async def _pass_back(
        self, exchange: GatewayExchange, response: ClientResponse, reply: aiohttp.ClientResponse
    ) -> str | None:
        """Pass a reply on while it comes, and its end when it is stored.

        The text of a refusal where one preceded any content.
        """
        wire, kind = exchange.path.wire, reply.headers.get("Content-Type", "")
        reader = ReplyReader(wire, kind)
        recall = None if exchange.path.action == "count" else exchange.recall
        if recall is not None:
            recall.begin_reply(reader, kind)
        teller = self._teller(exchange, kind)
        headers = headers_back(reply.headers)
        if exchange.opened is not None and exchange.opened.view.session is not None:
            headers["x-clew-session"] = exchange.opened.view.session
        end, held = HeldEnd(reader), bytearray()
        holds = reader.is_stream and wire.keeps_errors_for_later and exchange.recovery is not None
        # A body is given whole: until then an error of a later reply has its own status.
        waits = recall is not None and not reader.is_stream
        if not holds and not waits:
            await response.begin(reply.status, headers)
        try:
            is_later = recall is not None and recall.rounds > 0
            async for chunk in response.chunks_of(reply.content) if is_later else reply.content.iter_any():
                if recall is None:
                    chunk = end.feed(chunk)
                else:
                    reader.feed(chunk)
                    chunk = recall.feed(chunk)
                if holds:
                    held += chunk
                    if reader.problem and self._is_overflow(exchange, reader.problem):
                        return reader.problem
                    if not reader.has_content and not reader.problem and len(held) < MAX_HELD_BYTES:
                        continue
                    chunk, holds = bytes(held), False
                    await response.begin(reply.status, headers)
                await response.write(teller.feed(chunk) if teller else chunk)
                if reader.is_at_end and recall is None:
                    await self._recording.stored(exchange, reader)
                    last = end.take()
                    await response.write(teller.feed(last) if teller else last)
        except (aiohttp.ClientError, TimeoutError) as error:
            # The client sees what the upstream did: a stream that breaks off.
            _log.warning("the upstream broke off: %s", type(error).__name__)
            await self._recording.stored(exchange, recall.reader() if recall else reader)
            last = (bytes(held) if holds else b"") + end.take()
            with suppress(ConnectionError):  # the client may have gone, too
                await response.begin(reply.status, headers)
                await response.write(teller.feed(last) if teller else last)
            if exchange.http.transport is not None:
                exchange.http.transport.abort()
            return None
        except (ConnectionError, asyncio.CancelledError):
            # The client hung up. What came until then was used, and is charged.
            self._recording.start(exchange, recall.reader() if recall else reader)
            raise
        reader.end()
        if holds:
            if reader.problem and self._is_overflow(exchange, reader.problem):
                return reader.problem
            await response.begin(reply.status, headers)
            await response.write(teller.feed(bytes(held)) if teller else bytes(held))
        last = end.take()
        if recall is not None:
            last = await response.waiting_for(self._recalled(exchange, recall, reader))
            if recall.asks_again:
                await response.write(teller.feed(last) if teller else last)
                return None
        await self._recording.stored(exchange, recall.recorded(reader) if recall else reader)
        await response.begin(reply.status, headers)
        response.write_last(teller.feed(last) + teller.end() if teller else last)
        return None

    async def _recalled(self, exchange: GatewayExchange, recall: RecallTurn, reader: ReplyReader) -> bytes:
        """What the client gets at the end of a reply whose model may recall."""
        if await self._recall.goes_on(exchange, reader):
            return recall.next_reply()
        last = recall.end()
        await self._recall.keep(exchange, reader)
        return last

    def _teller(self, exchange: GatewayExchange, content_type: str) -> UsageTeller | None:
        """Rewrites the usage that the client is shown; None where it is shown unchanged."""
        conversation = exchange.conversation
        if exchange.mode == "observe" or conversation is None:
            return None
        window, size, client = conversation.window.tokens, len(exchange.raw), exchange.client
        if size <= MAX_CLIENT_BYTES and told_prompt_tokens(client, window, window, size) == window:
            return None  # nothing that fits the window is told otherwise
        return UsageTeller(
            exchange.path.wire, lambda real: told_prompt_tokens(client, window, real, size), content_type
        )

    def _is_overflow(self, exchange: GatewayExchange, text: str) -> bool:
        return is_overflow(classify_error(400, text, exchange.host, request=exchange.raw))

    async def _finish(self, exchange: GatewayExchange, response: ClientResponse) -> web.StreamResponse:
        finished = await response.end()
        if exchange.recording is not None:
            # A client that hangs up now has its reply, and it is kept.
            await asyncio.shield(exchange.recording)
        return finished
