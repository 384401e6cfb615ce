"""One request through the gateway: read, fold, send, pass the reply back, store and charge it.

`GatewayExchange.run` is the walk, and the sections below it are its steps in their order. Where a step before the
upstream's call fails, the client's own bytes are sent, and the failure is counted and logged. Only overflows are
recovered from; every other refusal of the upstream passes as received.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from clew.errors import ClewError, StoreError, UnknownSession
from clew.gateway.admission import RESERVED_OUTPUT, Caller, Callers, Refusal, where_it_failed
from clew.gateway.clients import (
    HANDOFFS_HEADER,
    MAX_CLIENT_BYTES,
    MAX_NAME_CHARS,
    MODE_HEADER,
    RECALL_HEADER,
    SESSION_HEADER,
    ClientProgram,
    OwnCompaction,
    client_by_prompt,
    client_of,
    lineage_of,
    own_compaction,
    session_named,
    told_prompt_tokens,
)
from clew.gateway.conversations import (
    MUST_FOLD,
    ConversationKey,
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
from clew.gateway.observe import ExchangeRecord, GatewayObserver
from clew.gateway.recall import RECALL_HINT, GatewayRecall, turn_for
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
from clew.gateway.wires import (
    MAX_MODEL_CHARS,
    NestedTooDeep,
    RequestBody,
    UnreadableBody,
    WirePath,
    WireRequest,
)
from clew.portable import release_memory
from clew.providers import ErrorClass, classify_error
from clew.store import CACHE_TTL_STATE, CLIENT_STATE, WINDOW_STATE, ModelCall, StoredWindow, View
from clew.turn import (
    COLD_AT,
    FINISHED_AT,
    IDLE_AT,
    Conversation,
    ModelTarget,
    Recovery,
    Runtime,
    TakenHistory,
    TurnOptions,
    bound_newest,
    call_of,
    cold_fold_pays,
    is_overflow,
    largest_parts,
)
from clew.usage import CanonicalUsage

Mode: TypeAlias = Literal["observe", "spill", "compact"]
MODES: tuple[Mode, ...] = ("observe", "spill", "compact")
HandoffWriter: TypeAlias = Literal["model", "built-in"]
HANDOFF_WRITERS: tuple[HandoffWriter, ...] = ("model", "built-in")
RecallChoice: TypeAlias = Literal["on", "off"]
RECALL_CHOICES: tuple[RecallChoice, ...] = ("on", "off")
FoldDelay: TypeAlias = Literal["payback", "handoff"]
"""Why a fold that is due waits until `MUST_FOLD`: it would not pay back, or its model is still writing the handoff."""

HOLD_SECONDS = 2.0
"""How long the end of a reply waits at most until the reply is stored."""
RETRY_SECONDS = (0.2, 1.0, 5.0)
"""How long to wait before a reply is stored again, where the store failed."""
RELEASED_BYTES = 8 * 1024 * 1024
"""After conversations of so many bytes were closed, memory is returned to the system."""
FEWEST_MESSAGES = 4
"""A conversation with fewer is not compacted."""
LONG_WINDOW_BETA = b"context-1m"
"""In the beta header of Anthropic's wire: the client uses the long window of a model."""
LONG_WINDOW = 1_000_000
MAX_HELD_BYTES = 1024 * 1024
"""Of events at the beginning of a stream, which are held until it is clear that they are no refusal."""
_ELSEWHERE = frozenset((429, 500, 502, 503, 504, 529))
"""Statuses after which the next upstream is asked, where there is one."""
_MAX_MODELS = 1_000
_LEAST_MARGIN = 256
"""Tokens by which our count of a prompt may be too low."""
_LEAST_OUTPUT = 1_024
"""With less room, the client's own output cap is sent: the upstream's refusal makes the conversation smaller."""

_Value = TypeVar("_Value")
_Choice = TypeVar("_Choice", bound=str)
_log = logging.getLogger("clew.gateway")


class CannotShrink(Exception):  # noqa: N818 (reads as what it says)
    """A refused request cannot be made smaller, or has no conversation: the refusal passes to the client."""


@dataclass(frozen=True, slots=True)
class ExchangeOptions:
    """How a gateway serves requests. A caller's key and a request's headers may choose the first three otherwise."""

    mode: Mode = "compact"
    handoffs: HandoffWriter = "model"
    recall: RecallChoice = "on"
    adds_breakpoints: bool = False
    ping_seconds: float = PING_SECONDS
    hold_seconds: float = HOLD_SECONDS
    clock: Callable[[], float] = time.monotonic


class Exchanges:
    """What all exchanges of a gateway process share."""

    def __init__(
        self,
        runtime: Runtime,
        upstreams: Upstreams,
        callers: Callers,
        target: Callable[[str, str], ModelTarget],
        options: ExchangeOptions,
        observers: GatewayObserver,
    ) -> None:
        """`target` gives a model by its name and the kind of the path that asks for it."""
        self.runtime = runtime
        self.upstreams = upstreams
        self.callers = callers
        self.target = lru_cache(_MAX_MODELS)(target)
        self.options = options
        self.observers = observers
        self.conversations = OpenConversations(runtime, options.clock)
        self.handoffs = Handoffs(runtime, upstreams, callers, options.clock)
        self.recall = GatewayRecall(runtime, callers)
        self.binding: set[tuple[str, str]] = set()
        """Owners and models that were found to bind thinking."""
        self._output_limits: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        """By owner and model: the window that the upstream counts output into, and the most output it allows."""
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def mode(self) -> Mode:
        return self.options.mode

    async def answer(self, http: web.Request, path: WirePath, caller: Caller, raw: bytes) -> web.StreamResponse:
        """Serve one request for a model."""
        self.observers.began()
        exchange = GatewayExchange(self, http, path, caller, raw)
        try:
            return await exchange.run()
        finally:
            exchange.end()

    async def look_after_idle(self) -> None:
        """Fold conversations whose cache is about to expire, and close idle ones. Called every few seconds."""
        self.handoffs.fold_idle(self.conversations.by_use())
        if await self.conversations.close_idle() > RELEASED_BYTES:
            await self.runtime.in_thread(release_memory)

    async def close(self) -> None:
        """Wait until every reply is stored; a reply that waits for the store is tried once more."""
        self._closing.set()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Have `close` wait for a task."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def store_or_retry(self, store: Callable[[], Awaitable[_Value]]) -> _Value | None:
        """Store something now; where the store fails, later and in the background: then None."""
        try:
            return await store()
        except StoreError as problem:
            _log.warning("a reply is stored later: %s", where_it_failed(problem))
            self.watch(asyncio.create_task(self._retry(store)))
            return None

    async def _retry(self, store: Callable[[], Awaitable[object]]) -> None:
        for seconds in RETRY_SECONDS:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)
            try:
                await store()
                return
            except StoreError as problem:
                last = problem
        _log.error("a reply could not be kept: %s", where_it_failed(last))

    def note_output_limit(self, owner: str, model: str, fault: ErrorClass) -> None:
        """Remember what a refusal says about the output that may be asked for."""
        if fault.kind == "output_cap_too_large" and (fault.limit or fault.output_cap):
            if len(self._output_limits) >= _MAX_MODELS:
                self._output_limits.clear()
            self._output_limits[owner, model] = (fault.limit, fault.output_cap)

    def output_cap(self, owner: str, model: str, asked: int, prompt: int) -> int:
        """The output to ask for with a prompt of so many tokens, by what the upstream has refused before."""
        window, most = self._output_limits.get((owner, model), (None, None))
        room = asked if window is None else window - prompt - max(_LEAST_MARGIN, prompt // 32)
        cap = min(asked, room, most or room)
        return cap if cap >= _LEAST_OUTPUT else asked


@dataclass(slots=True)
class GatewayExchange:
    """A request while it is served, and what was done for it so far."""

    gateway: Exchanges
    http: web.Request
    path: WirePath
    caller: Caller
    raw: bytes
    started: float = field(default_factory=time.monotonic)
    headers: Mapping[str, str] = field(init=False)
    """Of the request, by their names in lower case."""
    client: ClientProgram = field(init=False)
    mode: Mode = field(init=False)
    handoffs: HandoffWriter = field(init=False)
    is_recall_on: bool = field(init=False)
    own_compaction: OwnCompaction | None = field(init=False)
    response: ClientResponse = field(init=False)
    model: str = ""
    host: str = ""
    """Of the upstream that is asked."""
    request: WireRequest | None = None
    """The request as far as it was parsed; None where its history cannot be read."""
    had_handle: bool = False
    """Whether `request` has the messages of a handle that the client sent: the handle itself is never sent on."""
    key: ConversationKey | None = None
    """Under which its conversation is looked up, once that is known."""
    opened: OpenConversation | None = None
    conversation: Conversation | None = None
    taken: TakenHistory | None = None
    """The history that the reply belongs behind."""
    recovery: Recovery | None = None
    shown: tuple[View, int] | None = None
    """The view that the request was made from, and how many of its messages are sent."""
    may_recall: bool = False
    """Whether the model may be offered recall, once the conversation is folded."""
    recall: RecallTurn | None = None
    """Where recall is offered."""
    sent: UpstreamRequest | None = None
    drops_thinking: bool = False
    """Whether thinking from before the newest fold is left out."""
    drops_all_thinking: bool = False
    is_folded: bool = False
    is_fallback: bool = False
    fold_waits_for: FoldDelay | None = None
    status: int = 0
    usage: CanonicalUsage | None = None
    cost_micros: int | None = None
    reservation: str | None = None
    """What is reserved for it of the budget of its key."""
    writing: asyncio.Task[None] | None = None
    """Stores the new messages while the upstream is asked."""
    recording: asyncio.Task[None] | None = None
    """Stores the reply."""
    is_stored: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the reply is stored, or will be later: the client may have its end."""

    def __post_init__(self) -> None:
        self.headers = headers = {name.lower(): value for name, value in self.http.headers.items()}
        caller, options = self.caller, self.gateway.options
        self.client, self.own_compaction = client_of(headers), own_compaction(headers)
        self.mode = _chosen(headers, MODE_HEADER, MODES) or caller.mode or options.mode
        self.handoffs = _chosen(headers, HANDOFFS_HEADER, HANDOFF_WRITERS) or caller.handoffs or options.handoffs
        recall = _chosen(headers, RECALL_HEADER, RECALL_CHOICES) or caller.recall or options.recall
        self.is_recall_on = recall == "on"

    async def run(self) -> web.StreamResponse:
        """Serve the request."""
        is_stream = self._read() and self.path.action != "count"
        ping_seconds = self.gateway.options.ping_seconds
        self.response = ClientResponse(self.http, self.path.wire, is_stream=is_stream, ping_seconds=ping_seconds)
        if self.path.action == "count":
            return await self._send(await self.or_fall_back(self._count()))
        if self.path.action == "compact":
            return await self._send(None)
        if self.path.wire.has_handles and (handle := await self._handle()) is not None:
            return await self._give_handle(handle)
        return await self._send(await self.or_fall_back(self._fit(), self._folded_before))

    def end(self) -> None:
        """Let go of the conversation, and report the exchange once all of it is stored."""
        if self.opened is not None:
            self.opened.waiting -= 1  # it stays named in the record
            self.opened.used_at = self.gateway.options.clock()
        self._release()
        last = self.recording or self.writing
        if last is None or last.done():
            self.gateway.observers.exchange(self.record())
        else:
            self.gateway.watch(last)
            last.add_done_callback(lambda _: self.gateway.observers.exchange(self.record()))

    def record(self) -> ExchangeRecord:
        """The figures of the exchange, for metrics and logs."""
        return ExchangeRecord(
            self.path.wire.name,
            self.path.action,
            self.client.name,
            self.mode,
            self.model,
            self.status,
            time.monotonic() - self.started,
            len(self.raw),
            self.opened.view.session if self.opened else None,
            self.is_folded,
            self.is_fallback,
            len(self.recovery.tried) if self.recovery else 0,
            self.usage,
            self.cost_micros,
            self.fold_waits_for,
            self.own_compaction,
        )

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self) -> bool:
        """Parse the request as far as needed; whether its reply is a stream. What cannot be parsed passes."""
        path = self.path
        try:
            body = RequestBody(self.raw)
            self.model = (path.model or body.text("model"))[:MAX_MODEL_CHARS]
            self.request = path.wire.read(body, path)
            if self.request is not None and not self.client.name:
                self.client = client_by_prompt(self.request.prompt)
        except NestedTooDeep:
            self.status = 400
            raise Refusal(400, "the values of the request are nested too deep") from None
        except UnreadableBody:
            self.request = None
            return False
        except Exception as problem:
            self.fall_back(problem)
            return b'"stream":true' in self.raw.replace(b" ", b"")
        return path.wire.is_streamed(body, path) if self.request is None else self.request.is_streamed

    async def or_fall_back(
        self, work: Awaitable[_Value], otherwise: Callable[[], _Value | None] = lambda: None
    ) -> _Value | None:
        """The result of a step before the upstream's call; without one, `otherwise` or the client's bytes are sent."""
        try:
            return await work
        except Refusal:
            raise
        except Exception as problem:
            # The outermost door: the client's request comes first, whatever is wrong here.
            self.fall_back(problem)
        try:
            return otherwise()
        except Exception as problem:
            self.fall_back(problem)
            self.is_folded = False
            return None

    def fall_back(self, problem: Exception) -> None:
        """Send the client's bytes. The log names the place of the failure only: its text may quote a message."""
        self.is_fallback, self.conversation = True, None
        _log.error("a request passes unchanged: %s", where_it_failed(problem))

    # -- the conversation ----------------------------------------------------------------------------------------------

    async def _fit(self) -> Sequence[bytes] | None:
        """The items to send in place of the received ones; None where the client's bytes are sent unchanged."""
        request = self.request
        if request is None or not request.items or not request.model:
            return None
        if request.wire.compacts_natively and is_native(request):
            self.mode = "observe"
        try:
            return await self.response.waiting_for(self._take(request))
        except UnknownSession:
            # The conversation was deleted after it was taken: what its client still sends begins a new one, with the
            # messages of a handle, which were read before.
            return await self.response.waiting_for(self._take(self.request or request))

    def _folded_before(self) -> Sequence[bytes] | None:
        """The items to send where the request could not be taken: what was folded stays folded."""
        if self.request is None or self.key is None or self.mode != "compact":
            return None
        known = self.gateway.conversations.project(self.key, self.request.items)
        self.is_folded = known is not None
        return known

    async def _take(self, request: WireRequest) -> Sequence[bytes] | None:
        """Bring the request into its conversation, fold that where due, and give the items to send."""
        if request.wire.has_handles:
            received = request
            request = await without_handle(received, self.gateway.runtime.store, self.caller.owner)
            self.had_handle = self.had_handle or request is not received
        self.request, self.key = request, self._key(request)
        async with self.gateway.conversations.matched(self.key, request) as matched:
            opened = matched.opened
            self._hold(opened)
            self.conversation = conversation = await opened.take(request, matched, self._target_of(request))
            self._watch_writing(conversation.writing)
            self.taken = opened.view.taken
            if self.mode == "observe":
                return None
            if self.mode == "spill":
                await bound_newest(conversation)
            else:
                await self._fold_if_due(request, opened, conversation)
                if (own := await opened.view.own(conversation)) is not conversation:
                    self.conversation = conversation = own
                    await self._fold_if_due(request, opened, conversation)
                self._lower_output(conversation)
            return await self._show(request, opened, conversation)

    def _key(self, request: WireRequest) -> ConversationKey:
        """Under which the conversation of a request is looked up."""
        joined = self.headers.get(SESSION_HEADER, "").strip()[:MAX_NAME_CHARS]
        named = joined or session_named(self.client, self.headers, request.body)
        is_summary = self.own_compaction == "asked" or (request.wire.has_handles and asks_for_handle(request))
        lineage = lineage_of(request, named, has_tools=request.has_tools or is_summary, is_joined=bool(joined))
        return ConversationKey(self.caller.owner, lineage.name, lineage.tree)

    def _hold(self, opened: OpenConversation) -> None:
        """Keep a conversation open until the exchange ends, in place of the one that was held."""
        if self.opened is not None:
            self.opened.waiting -= 1
        opened.waiting += 1
        self.opened = opened

    def _target_of(self, request: WireRequest) -> ModelTarget:
        """The model of a request, with the window that its headers ask for."""
        target = self.gateway.target(request.model, self.path.kind)
        # Bedrock has the betas in the body.
        betas = self.headers.get("anthropic-beta", "").encode() + request.body.field("anthropic_beta")
        if LONG_WINDOW_BETA in betas and target.endpoint is None:
            target = replace(target, endpoint={"context_length": LONG_WINDOW})
        return replace(target, max_tokens=request.max_output, account=self.caller.owner)

    def _watch_writing(self, writing: asyncio.Task[None] | None) -> None:
        """Log a failure to store the new messages; the client sends them again with the next request."""
        if writing is None:
            return

        def log_failure(written: asyncio.Task[None]) -> None:
            problem = None if written.cancelled() else written.exception()
            if problem is not None:
                self.is_fallback = True
                _log.error("a request could not be kept: %s", where_it_failed(problem))

        self.writing = writing
        writing.add_done_callback(log_failure)

    # -- folding -------------------------------------------------------------------------------------------------------

    async def _fold_if_due(self, request: WireRequest, opened: OpenConversation, conversation: Conversation) -> None:
        """Fold where the window is nearly full and it pays. Real usage of the last turn is used where there is some.

        Where a model writes handoffs, one that is ready is used, and none is waited for.
        """
        options = TurnOptions(tools=request.tools, prompt=request.prompt)
        self.recovery = Recovery(conversation, options, request.max_output)
        tokens, window = conversation.measure(options), conversation.window.tokens
        if len(conversation.messages) < FEWEST_MESSAGES and tokens < window:
            return
        is_due = conversation.is_due(tokens)
        if not is_due and tokens < min(IDLE_AT * window, FINISHED_AT * conversation.engine.threshold_tokens):
            return  # too small for a fold of any kind
        self._allow_recall(conversation)
        must = tokens + (conversation.model.max_output or 0) >= MUST_FOLD * window
        if is_due and not must:
            served_by = conversation.target.served_by
            if not pays_back(tokens, conversation.turns, request.model, served_by):
                self.fold_waits_for = "payback"
                return
        is_by_model = self._is_by_model
        if not is_by_model:
            if conversation.preparer.task is not None and conversation.preparer.asks_model:
                await conversation.drop_prepared()
            await conversation.fit(options)
        if not is_due:
            await self._fold_early(request, opened, conversation, tokens, is_by_model=is_by_model)
        elif is_by_model:
            may_wait = opened.is_preparing or conversation.is_worth_asking(tokens)
            if await self._use_ready(conversation, tokens):
                return
            if must or not may_wait:
                await conversation.compact_at_once(tokens)
            else:
                self.fold_waits_for = "handoff"

    async def _fold_early(
        self,
        request: WireRequest,
        opened: OpenConversation,
        conversation: Conversation,
        tokens: int,
        *,
        is_by_model: bool,
    ) -> None:
        """Fold below the threshold where it pays: behind a finished task, or where the provider's cache has expired."""
        threshold = conversation.engine.threshold_tokens
        if not conversation.may_fold_early(tokens):
            return
        ttl = request.wire.cache_ttl(request.body.raw)
        is_cold = (
            ttl is not None
            and COLD_AT * threshold <= tokens < threshold
            and cold_fold_pays(tokens, conversation.target, ttl)
            and await conversation.is_cold(ttl)
        )
        if is_cold:
            is_used = is_by_model and await self._use_ready(conversation, tokens, "cold")
            # A model that can open what was folded continues as well with a built-in handoff.
            if not is_used and (not is_by_model or self.may_recall):
                await conversation.compact_at_once(tokens, "cold")
        elif opened.has_finished_task:
            # Once only: in the middle of the next task a fold waits for the threshold.
            opened.has_finished_task = False
            if is_by_model:
                await self._use_ready(conversation, tokens, "finished")

    async def _use_ready(self, conversation: Conversation, tokens: int, *reason: str) -> bool:
        """Fold with the handoff that a model has written; whether there is one that can be used."""
        ready = await self.gateway.handoffs.ready(conversation)
        return ready is not None and await conversation.use_prepared(ready, tokens, *reason)

    @property
    def _is_by_model(self) -> bool:
        """Whether a model writes the handoff of the conversation, so that a fold may wait for it."""
        return self.handoffs == "model" and self.gateway.handoffs.is_possible(self)

    def _allow_recall(self, conversation: Conversation) -> None:
        """Find out whether recall may be offered, and let the engine name its tools in a handoff."""
        self.may_recall = self.gateway.recall.may_offer(self)
        conversation.engine.recall_hint = RECALL_HINT if self.may_recall else ""

    def _lower_output(self, conversation: Conversation) -> None:
        """Ask for less output at once, where the upstream has refused as much before."""
        recovery = self.recovery
        if recovery is not None and recovery.max_tokens is not None:
            owner, model = self.caller.owner, conversation.target.model
            recovery.max_tokens = self.gateway.output_cap(owner, model, recovery.max_tokens, conversation.size.tokens)

    async def _show(
        self, request: WireRequest, opened: OpenConversation, conversation: Conversation
    ) -> Sequence[bytes] | None:
        """The items to send for the view as it is now; None where they are the client's. The caller holds the lock."""
        before = None
        if request.wire.dialect == "anthropic" and (self.drops_thinking or self._binds(request)):
            before = await opened.first_item_since_fold(conversation)
            if self.drops_all_thinking or (before is None and self.drops_thinking):
                before = len(request.items)
        items: Sequence[bytes] | None = opened.show(conversation, request.items, without_thinking, before or 0)
        turn, self.recall = self.recall, None
        if items is not None and conversation.is_compacted:
            self._allow_recall(conversation)
            items = await self.gateway.recall.offer(self, turn, items)
        self.shown = (conversation.view.stored, len(conversation.messages))
        self.is_folded = items is not None
        self.taken = opened.view.taken
        return items

    def _binds(self, request: WireRequest) -> bool:
        return (self.caller.owner, request.model) in self.gateway.binding or binds_thinking(request.model)

    # -- counts and handles --------------------------------------------------------------------------------------------

    async def _count(self) -> Sequence[bytes] | None:
        """The items to count, so that the answer agrees with the usage that the client receives."""
        request = self.request
        if request is None or self.mode == "observe":
            return None
        items = await self.gateway.conversations.project_for_count(self._key(request), request)
        if items is not None and self.gateway.recall.may_offer(self):
            self.recall = turn_for(request)
        return items

    async def _handle(self) -> HistoryHandle | None:
        """A handle for the conversation, which is folded now; None where the client asks for none, or that fails."""
        request = self.request
        if request is None or self.mode == "observe" or not asks_for_handle(request):
            return None
        asked = replace(request, items=request.items[:-1])
        handle = await self.or_fall_back(self.response.waiting_for(self._fold_for_handle(asked)))
        self.request = request if handle is None else asked
        return handle

    async def _fold_for_handle(self, request: WireRequest) -> HistoryHandle:
        """Fold the conversation of a request now, and give a handle that represents it."""
        await self._take(request)
        conversation, opened = self.conversation, self.opened
        assert conversation is not None and opened is not None
        async with opened.lock:
            self._allow_recall(conversation)
            if not await self._use_ready(conversation, conversation.size.tokens):
                await conversation.compact_now()
            if (own := await opened.view.own(conversation)) is not conversation:
                self.conversation = own
                self._allow_recall(own)
                await own.compact_now()
            return HistoryHandle(own.session, own.view.next_seq)

    async def _give_handle(self, handle: HistoryHandle) -> web.StreamResponse:
        """Answer with a handle for the conversation, and nothing else."""
        assert self.conversation is not None and self.request is not None
        reply = handle_reply(handle, self.request.model, self.conversation.size.tokens)
        self.status, self.is_folded = 200, True
        if not self.response.is_stream:
            return web.json_response(reply)
        await self.response.begin(200, CIMultiDict({"Content-Type": "text/event-stream"}))
        for event in handle_events(reply):
            await self.response.write(event)
        return await self.response.end()

    # -- the upstream --------------------------------------------------------------------------------------------------

    async def _send(self, items: Sequence[bytes] | None) -> web.StreamResponse:
        """Send, and pass the reply back; an overflow is recovered from as often as the ladder allows."""
        response, servers = self.response, self._servers()
        first = servers[0]
        try:
            await self._reserve()
        except Refusal as over_budget:
            self.status = over_budget.status
            if not response.has_begun:
                raise
            return await response.fail(over_budget.status, str(over_budget))
        while True:
            body = self._body(items)
            url, headers = self._addressed(servers[0], is_fallback=servers[0] is not first)
            try:
                async with AsyncExitStack() as connection:
                    opening = connection.enter_async_context(servers[0].open(self.http.method, url, headers, body))
                    reply = await (response.waiting_for(opening) if self._is_later_round else opening)
                    self.status = reply.status
                    if reply.status < 400:
                        self._keep_sent(url, headers, body)
                        refusal = await self._pass_back(reply)
                        if self.recall is not None and self.recall.asks_again:
                            continue
                        if refusal is None:
                            return await self._finish()
                        status, text = 400, refusal.encode()
                    else:
                        status, text = reply.status, await read_error(reply)
                    answer_headers = headers_back(reply.headers)
            except UpstreamUnreachable as problem:
                if _moves_on(servers, str(problem)):
                    continue
                self.status = 502
                return await response.fail(502, str(problem))
            if status in _ELSEWHERE and _moves_on(servers, f"{servers[0].host} answers {status}"):
                continue
            words = text.decode("utf-8", "replace")
            fault = classify_error(status, words, self.host, headers=answer_headers, request=self.raw)
            if not is_overflow(fault) and self.gateway.recall.refuse(self, status, words):
                items = await self.or_fall_back(self._show_again())
                continue
            try:
                items = await self._make_smaller(fault, words if status == 400 else "")
            except Exception as problem:
                if not isinstance(problem, CannotShrink):
                    self.fall_back(problem)
                return await self._refuse(fault, status, text, answer_headers)

    @property
    def _is_later_round(self) -> bool:
        """Whether replies that only recalled preceded this one."""
        return self.recall is not None and self.recall.rounds > 0

    def _servers(self) -> list[UpstreamServer]:
        """The upstreams to ask, one after the other. A caller's own credential goes to the first one only."""
        servers = self.gateway.upstreams.route(self.path.kind, self.model)
        if not servers:
            self.status = 404
            message = f"no upstream of this gateway serves {self.model[:100]!r} on the wire {self.path.kind}"
            raise Refusal(404, message)
        if self.caller.key is None:
            # Without its credential, and without ours either.
            servers[1:] = [server for server in servers[1:] if server.key is None and server.aws is None]
        return servers

    def _addressed(self, server: UpstreamServer, *, is_fallback: bool) -> tuple[str, CIMultiDict[str]]:
        """The address and the headers of a request to an upstream."""
        http, caller, self.host = self.http, self.caller, server.host
        headers = passed_headers(http.headers, caller.withheld(is_fallback=is_fallback))
        headers.update(caller.credential(server.key))
        is_bearer = headers.get("Authorization", "").lower().startswith("bearer ")
        if server.aws is not None and not (is_bearer or caller.is_signed or caller.key):
            self.status = 401
            raise Refusal(401, "the gateway signs for callers with a key of Clew, and for signed requests")
        query = caller.query(http.rel_url.raw_query_string, is_fallback=is_fallback)
        return server.url(http.rel_url.raw_path, query, self.path.kind), headers

    def _body(self, items: Sequence[bytes] | None) -> bytes:
        """The body to send: the client's bytes, unless something has to be changed in them."""
        request = self.request
        if request is None:
            return self.raw
        max_output = self.recovery.max_tokens if self.recovery else None
        shown = request.items if items is None else items
        fields: dict[str, bytes] = {}
        if self.recall is not None:
            shown, fields = self.recall.items(shown), self.recall.fields()
        if self.gateway.options.adds_breakpoints and self.mode != "observe" and wants_breakpoints(request):
            return request.with_items(marked_items(shown), max_output, {**marked_prompt(request), **fields})
        is_same = items is None and not self.had_handle and max_output in (None, request.max_output) and not fields
        return self.raw if is_same else request.with_items(shown, max_output, fields)

    def _keep_sent(self, url: str, headers: CIMultiDict[str], body: bytes) -> None:
        """Keep the sent request, so that a handoff can be requested after it."""
        if self.shown is not None and self.request is not None and not self._is_later_round:
            model = self.request.model
            self.sent = UpstreamRequest(self.path, model, url, headers, body, self.caller, *self.shown)

    async def _show_again(self) -> Sequence[bytes] | None:
        """The items to send for the view as it is, without what the upstream has refused."""
        request, opened, conversation = self.request, self.opened, self.conversation
        assert request is not None and opened is not None and conversation is not None  # something was offered
        async with opened.lock:
            return await self._show(request, opened, conversation)

    async def _make_smaller(self, fault: ErrorClass, words: str) -> Sequence[bytes] | None:
        """The items to send after a refusal, or None for the client's bytes; `CannotShrink` where it is to pass."""
        request, opened, conversation, recovery = self.request, self.opened, self.conversation, self.recovery
        if request is None or opened is None or conversation is None or recovery is None:
            raise CannotShrink
        if refuses_thinking(words) and not self.drops_all_thinking:
            # An undo may have changed what precedes thinking since the fold: then that is left out as well.
            self.drops_all_thinking = self.drops_thinking or self._binds(request)
            self.drops_thinking = True
            self.gateway.binding.add((self.caller.owner, request.model))
        else:
            self._allow_recall(conversation)
            if not await self.response.waiting_for(recovery.make_smaller(fault)):
                raise CannotShrink
        self.gateway.note_output_limit(self.caller.owner, request.model, fault)
        async with opened.lock:
            if (own := await opened.view.own(conversation)) is not conversation:
                self.conversation = recovery.conversation = own
            return await self._show(request, opened, own)

    async def _refuse(
        self, fault: ErrorClass, status: int, text: bytes, headers: CIMultiDict[str]
    ) -> web.StreamResponse:
        """Pass a refusal on as received; after a recovery that failed, say what cannot be made smaller."""
        recovery, conversation, response = self.recovery, self.conversation, self.response
        is_tried = recovery is not None and recovery.tried and not recovery.has_failed
        if is_tried and recovery is not None and conversation is not None and is_overflow(fault):
            large = ", ".join(largest_parts(conversation, recovery.options))
            self.status = 400
            return await response.fail(400, f"Clew could not make this request small enough. It has: {large}.")
        if response.has_begun:
            return await response.fail(status, text.decode("utf-8", "replace")[:2_000])
        return web.Response(status=status, body=text, headers=headers)

    # -- the reply -----------------------------------------------------------------------------------------------------

    async def _pass_back(self, reply: aiohttp.ClientResponse) -> str | None:
        """Pass a reply on as it is received, and its end when it is stored; the text of a refusal that preceded any
        content.
        """
        response, wire, kind = self.response, self.path.wire, reply.headers.get("Content-Type", "")
        reader = ReplyReader(wire, kind)
        recall = None if self.path.action == "count" else self.recall
        if recall is not None:
            recall.begin_reply(reader, kind)
        teller = self._teller(kind)
        headers = headers_back(reply.headers)
        if self.opened is not None and self.opened.view.session is not None:
            headers["x-clew-session"] = self.opened.view.session
        end, held = HeldEnd(reader), bytearray()
        holds = reader.is_stream and wire.keeps_errors_for_later and self.recovery is not None
        # A body is sent whole: until then an error of a later reply has its own status.
        waits = recall is not None and not reader.is_stream

        async def write(chunk: bytes) -> None:
            await response.write(teller.feed(chunk) if teller else chunk)

        if not holds and not waits:
            await response.begin(reply.status, headers)
        try:
            content = reply.content
            async for chunk in response.chunks_of(content) if self._is_later_round else content.iter_any():
                if recall is None:
                    chunk = end.feed(chunk)
                else:
                    reader.feed(chunk)
                    chunk = recall.feed(chunk)
                if holds:
                    held += chunk
                    if self._is_overflow(reader.problem):
                        return reader.problem
                    if not reader.has_content and not reader.problem and len(held) < MAX_HELD_BYTES:
                        continue
                    chunk, holds = bytes(held), False
                    await response.begin(reply.status, headers)
                await write(chunk)
                if reader.is_at_end and recall is None:
                    await self._stored(reader)
                    await write(end.take())
        except (aiohttp.ClientError, TimeoutError) as error:
            # The client sees what the upstream did: a stream that breaks off.
            _log.warning("the upstream broke off: %s", type(error).__name__)
            await self._stored(recall.reader() if recall else reader)
            with suppress(ConnectionError):  # the client may have gone, too
                await response.begin(reply.status, headers)
                await write((bytes(held) if holds else b"") + end.take())
            if self.http.transport is not None:
                self.http.transport.abort()
            return None
        except (ConnectionError, asyncio.CancelledError):
            # The client hung up. What was received until then was used, and is charged.
            self._start_recording(recall.reader() if recall else reader)
            raise
        reader.end()
        if holds:
            if self._is_overflow(reader.problem):
                return reader.problem
            await response.begin(reply.status, headers)
            await write(bytes(held))
        last = end.take()
        if recall is not None:
            last = await response.waiting_for(self._end_of_recall(recall, reader))
            if recall.asks_again:
                await write(last)
                return None
        await self._stored(recall.recorded(reader) if recall else reader)
        await response.begin(reply.status, headers)
        response.write_last(teller.feed(last) + teller.end() if teller else last)
        return None

    async def _end_of_recall(self, recall: RecallTurn, reader: ReplyReader) -> bytes:
        """The bytes for the client at the end of a reply whose model may recall."""
        if await self.gateway.recall.goes_on(self, recall, reader):
            return recall.next_reply()
        last = recall.end()
        await self.gateway.recall.keep(self, recall, reader)
        return last

    def _teller(self, content_type: str) -> UsageTeller | None:
        """Rewrites the usage that the client is shown; None where it is shown unchanged."""
        conversation = self.conversation
        if self.mode == "observe" or conversation is None:
            return None
        window, size, client = conversation.window.tokens, len(self.raw), self.client
        if size <= MAX_CLIENT_BYTES and told_prompt_tokens(client, window, window, size) == window:
            return None  # any usage that fits the window is shown unchanged
        wire = self.path.wire
        return UsageTeller(wire, lambda real: told_prompt_tokens(client, window, real, size), content_type)

    def _is_overflow(self, problem: str) -> bool:
        """Whether an error inside a stream says that the request is too large."""
        return bool(problem) and is_overflow(classify_error(400, problem, self.host, request=self.raw))

    async def _finish(self) -> web.StreamResponse:
        finished = await self.response.end()
        if self.recording is not None:
            # The client has its whole reply: if it hangs up now, the reply is still stored.
            await asyncio.shield(self.recording)
        return finished

    # -- storing and charging ------------------------------------------------------------------------------------------

    async def _reserve(self) -> None:
        """Reserve what the request will probably cost, where its caller has a budget; raises `Refusal`."""
        if not self.caller.has_budget or self.path.action == "count":
            return
        asked = self.request.max_output if self.request is not None else None
        usage = CanonicalUsage(self._counted_prompt, min(asked or RESERVED_OUTPUT, RESERVED_OUTPUT))
        cost = call_of(usage, self.gateway.target(self.model, self.path.kind), "gateway").cost_micros
        self.reservation = await self.gateway.callers.reserve(self.caller, cost or 0)

    def _release(self) -> None:
        """Release what was reserved, unless it was charged or the reply is still to be recorded."""
        if self.reservation is not None and (self.recording is None or self.is_stored.is_set()):
            self.gateway.watch(asyncio.create_task(self.gateway.callers.release(self.reservation)))
            self.reservation = None

    @property
    def _counted_prompt(self) -> int:
        """The tokens of the prompt by our own count."""
        return self.conversation.size.tokens if self.conversation else len(self.raw) // CHARS_PER_TOKEN

    def _start_recording(self, reader: ReplyReader) -> None:
        """Begin to record the reply, once."""
        if self.recording is None:
            self.recording = asyncio.create_task(self._record(reader))
            self.gateway.watch(self.recording)

    async def _stored(self, reader: ReplyReader) -> None:
        """Begin to record the reply, and wait until it is stored, but not longer than `hold_seconds`."""
        if self.recording is None:
            self._start_recording(reader)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.is_stored.wait(), self.gateway.options.hold_seconds)

    async def _record(self, reader: ReplyReader) -> None:
        """Store the reply and charge its cost. No failure here reaches the client."""
        try:
            await self._store_and_charge(reader)
        except ClewError as problem:
            self.is_fallback = True
            _log.error("a reply could not be kept: %s", where_it_failed(problem))
        finally:
            self.is_stored.set()
            self._release()

    async def _store_and_charge(self, reader: ReplyReader) -> None:
        gateway, stated = self.gateway, reader.usage()
        self.usage = usage = stated or self._estimated_usage(reader)
        if usage is None or self.path.action == "count":
            return
        call = await self._call(usage)
        self.cost_micros = call.cost_micros
        if self.recall is not None and self.recall.rounds:
            self.usage = usage + self.recall.spent
            self.cost_micros = None if call.cost_micros is None else call.cost_micros + self.recall.cost_micros
        await gateway.store_or_retry(lambda: self._store(reader, stated, call))
        reservation, self.reservation = self.reservation, None
        if reservation is None:
            self.is_stored.set()
        # With a budget the end of the reply waits for the charge, so that the next request is admitted by it.
        spending, cost = gateway.callers.add_spending, call.cost_micros or 0
        may_go_on = await gateway.store_or_retry(lambda: spending(self.caller, cost, reservation))
        self.is_stored.set()
        conversation, opened = self.conversation, self.opened
        if conversation is None or opened is None:
            return
        await self._store_facts(opened, conversation)
        if reader.is_complete and self.mode == "compact":
            self._prepare_handoff(opened, conversation, may_ask=bool(may_go_on))

    def _estimated_usage(self, reader: ReplyReader) -> CanonicalUsage | None:
        """The usage of a reply that states none, by our own count; None for a reply without content."""
        return CanonicalUsage(self._counted_prompt, reader.output_tokens) if reader.has_content else None

    async def _call(self, usage: CanonicalUsage) -> ModelCall:
        """The call with its cost, and with the cost of the client's own request where there is a conversation."""
        conversation, opened = self.conversation, self.opened
        if conversation is None or opened is None:
            return call_of(usage, self.gateway.target(self.model, self.path.kind), "gateway")
        # Of the replies of one turn, the client's own request would have had only the last.
        asked = self.recall.first_usage if self.recall and self.recall.first_usage else usage
        direct = await opened.direct_usage(conversation, replace(asked, output_tokens=usage.output_tokens))
        return call_of(usage, conversation.target, "gateway", direct=direct)

    async def _store(self, reader: ReplyReader, stated: CanonicalUsage | None, call: ModelCall) -> None:
        """Store the reply with its call; the call alone where no conversation can take the reply."""
        conversation, opened, store = self.conversation, self.opened, self.gateway.runtime.store
        if conversation is None or opened is None:
            await store.record_call(None, call, owner=self.caller.owner)
            return
        conversation.note_sent()
        if reader.is_complete:
            async with opened.lock:
                if await opened.record(reader.items(), stated, call, self.taken):
                    return
        try:
            await store.record_call(conversation.session, call)
        except UnknownSession:  # deleted meanwhile
            await store.record_call(None, call, owner=self.caller.owner)

    async def _store_facts(self, opened: OpenConversation, conversation: Conversation) -> None:
        """Store which program's conversation it is and the window that was used, for lists and pages."""
        window, threshold = conversation.window, conversation.engine.get_status().threshold_tokens
        is_folded = self.mode == "compact" and self.gateway.runtime.options.settings.compression.enabled
        used = StoredWindow(window.tokens, threshold if is_folded else None, window.source)
        facts: dict[str, Any] = {WINDOW_STATE: asdict(used)}
        if self.client.name:
            facts[CLIENT_STATE] = self.client.name
        if self.sent and self.sent.cache_ttl not in (None, "5m"):
            facts[CACHE_TTL_STATE] = self.sent.cache_ttl
        if facts != opened.stored_facts:
            await self.gateway.runtime.store.set_state(conversation.session, facts)
            opened.stored_facts = facts

    def _prepare_handoff(self, opened: OpenConversation, conversation: Conversation, *, may_ask: bool) -> None:
        """Have a handoff prepared where the window is filling; `may_ask`: whether the caller may spend more."""
        opened.sent = opened.cached_until = None
        is_large = conversation.size.tokens >= IDLE_AT * conversation.window.tokens
        if may_ask and is_large and self.sent is not None and self._is_by_model:
            self._allow_recall(conversation)
            opened.sent = self.sent
            self.gateway.handoffs.prepare_if_due(opened, self.sent, conversation, time.monotonic() - self.started)


def _chosen(headers: Mapping[str, str], name: str, choices: Sequence[_Choice]) -> _Choice | None:
    """The choice that a header names; None where it names none."""
    asked = headers.get(name, "").strip().lower()
    return next((it for it in choices if it == asked), None)


def _moves_on(servers: list[UpstreamServer], problem: str) -> bool:
    """Whether another upstream is left to ask; it is the first one then."""
    if len(servers) > 1:
        _log.warning("%s; asking %s", problem, servers[1].host)
        del servers[0]
        return True
    return False
