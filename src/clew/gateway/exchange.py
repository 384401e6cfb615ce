"""One request through the gateway: find its conversation, make it fit, send it, pass the reply back, record it.

Until something is folded the client's own bytes go on. Whatever fails here before the upstream was asked falls back to
those bytes, and is counted and told. Only overflows are dealt with here; every other refusal passes as it came.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from clew.errors import ClewError
from clew.gateway.bodies import NestedTooDeep, RequestBody, UnreadableBody
from clew.gateway.breakpoints import marked_items, marked_prompt, wants_breakpoints
from clew.gateway.callers import Caller, Callers, Refusal
from clew.gateway.clients import (
    MODE_HEADER,
    ClientProgram,
    client_of,
    is_compaction_request,
    session_named,
    told_prompt_tokens,
)
from clew.gateway.connections import where_it_failed
from clew.gateway.conversations import ConversationKey, OpenConversation, OpenConversations
from clew.gateway.handles import (
    HistoryHandle,
    asks_for_handle,
    handle_events,
    handle_reply,
    is_native,
    without_handle,
)
from clew.gateway.lineage import lineage_of
from clew.gateway.records import MODES, ExchangeRecord, Mode
from clew.gateway.relay import ClientResponse, ReplyReader, UsageTeller
from clew.gateway.savings import MUST_FOLD, pays_back
from clew.gateway.thinking import binds_thinking, refuses_thinking, without_thinking
from clew.gateway.upstream import (
    PassedProvider,
    UpstreamServer,
    UpstreamUnreachable,
    headers_back,
    passed_headers,
    read_error,
)
from clew.gateway.wires import WirePath, WireRequest
from clew.providers import ErrorClass, classify_error
from clew.turn import (
    Conversation,
    ModelTarget,
    Recovery,
    Runtime,
    TurnOptions,
    bound_newest,
    call_of,
    is_overflow,
    largest_parts,
)
from clew.usage import CanonicalUsage

FEWEST_MESSAGES = 4
"""A conversation with fewer is not compacted."""

_log = logging.getLogger("clew.gateway")


@dataclass(slots=True)
class GatewayExchange:
    """What is known of a request while it is under way."""

    http: web.Request
    path: WirePath
    caller: Caller
    raw: bytes
    client: ClientProgram
    mode: Mode
    started: float = field(default_factory=time.monotonic)
    request: WireRequest | None = None
    opened: OpenConversation | None = None
    conversation: Conversation | None = None
    recovery: Recovery | None = None
    is_folded: bool = False
    is_fallback: bool = False
    drops_thinking: bool = False
    status: int = 0
    usage: CanonicalUsage | None = None
    cost_micros: int | None = None
    recording: asyncio.Task[None] | None = None
    """Keeps the reply, while its end is still passed to the client."""

    def record(self) -> ExchangeRecord:
        return ExchangeRecord(
            self.path.wire.name,
            self.path.action,
            self.client.name,
            self.mode,
            self.request.model if self.request else "",
            self.status,
            time.monotonic() - self.started,
            len(self.raw),
            self.opened.view.session if self.opened else None,
            self.is_folded,
            self.is_fallback,
            len(self.recovery.tried) if self.recovery else 0,
            self.usage,
            self.cost_micros,
        )


class Exchanges:
    """Runs exchanges. One for each gateway process."""

    def __init__(
        self,
        runtime: Runtime,
        upstream: UpstreamServer,
        callers: Callers,
        *,
        mode: Mode = "compact",
        target: Callable[[str], ModelTarget] | None = None,
        on_exchange: Callable[[ExchangeRecord], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        adds_breakpoints: bool = False,
    ) -> None:
        self.conversations = OpenConversations(runtime, clock)
        self._clock = clock
        self._runtime = runtime
        self._upstream = upstream
        self._callers = callers
        self.mode: Mode = mode
        self._provider = PassedProvider(upstream.host)
        self._target = target or (lambda model: ModelTarget(self._provider, model, upstream.address))
        self._on_exchange = on_exchange
        self._adds_breakpoints = adds_breakpoints
        self._binding: set[tuple[str, str]] = set()
        """Owners and models that were found to bind thinking."""
        self._recordings: set[asyncio.Task[None]] = set()

    async def answer(self, http: web.Request, path: WirePath, caller: Caller, raw: bytes) -> web.StreamResponse:
        """Serve one request that is for a model."""
        headers = {name.lower(): value for name, value in http.headers.items()}
        exchange = GatewayExchange(http, path, caller, raw, client_of(headers), self._mode_of(headers, caller))
        try:
            if path.action == "count":
                return await self._count(exchange, headers)
            response = ClientResponse(http, path.wire, is_stream=self._read(exchange))
            if path.action == "compact":
                return await self._send(exchange, response, None)
            if exchange.request is not None and exchange.mode != "observe" and asks_for_handle(exchange.request):
                return await self._give_handle(exchange, exchange.request, response, headers)
            return await self._send(exchange, response, await self._fitted(exchange, headers, response))
        finally:
            if exchange.opened is not None:
                exchange.opened.waiting -= 1
                exchange.opened.used_at = self._clock()
            self._tell(exchange)

    def _tell(self, exchange: GatewayExchange) -> None:
        """Tell what came of an exchange, once its reply is kept: a client may hang up before that."""
        if self._on_exchange is None:
            return
        on_exchange, recording = self._on_exchange, exchange.recording
        if recording is None or recording.done():
            on_exchange(exchange.record())
        else:
            recording.add_done_callback(lambda _: on_exchange(exchange.record()))

    # -- before the upstream is asked ----------------------------------------------------------------------------------

    def _mode_of(self, headers: Mapping[str, str], caller: Caller) -> Mode:
        """The mode of this request, of this caller, or of the gateway, in this order."""
        asked = headers.get(MODE_HEADER, "").strip().lower()
        return next((mode for mode in MODES if mode == asked), None) or caller.mode or self.mode

    def _read(self, exchange: GatewayExchange) -> bool:
        """Read the request as far as needed; whether its reply is a stream. What cannot be read passes."""
        try:
            body = RequestBody(exchange.raw)
            exchange.request = exchange.path.wire.read(body, exchange.path)
        except NestedTooDeep:
            exchange.status = 400
            raise Refusal(400, "the values of the request are nested too deep") from None
        except UnreadableBody:
            exchange.request = None
            return False
        if exchange.request is None:
            return body.field("stream") == b"true"
        return exchange.request.is_streamed

    async def _fitted(
        self, exchange: GatewayExchange, headers: Mapping[str, str], response: ClientResponse
    ) -> Sequence[bytes] | None:
        """The items to send in place of those that came; None where the client's bytes go on."""
        request = exchange.request
        if request is None or not request.items or not request.model:
            return None
        try:
            if is_native(request):
                exchange.mode = "observe"
            return await response.waiting_for(self._take(exchange, request, headers))
        except ClewError as problem:
            self._fall_back(exchange, problem)
            if exchange.mode == "compact":
                # What was folded stays folded, also while the store is away.
                known = self.conversations.project(self._key(exchange, request, headers), request.items)
                exchange.is_folded = known is not None
                return known
        except Exception as problem:
            # The outermost door of what is done before the upstream is asked: the client's request comes first.
            self._fall_back(exchange, problem)
        return None

    def _fall_back(self, exchange: GatewayExchange, problem: Exception) -> None:
        exchange.is_fallback, exchange.conversation = True, None
        _log.error("a request passes as it came: %s", where_it_failed(problem))

    async def _take(
        self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]
    ) -> Sequence[bytes] | None:
        whole = await without_handle(request, self._runtime.store, exchange.caller.owner)
        is_expanded, request = whole is not request, whole
        exchange.request = request
        key = self._key(exchange, request, headers)
        exchange.opened = opened = self.conversations.find(key, request)
        opened.waiting += 1
        async with opened.lock:
            target = replace(self._target(request.model), max_tokens=request.max_output, reserves_unasked=False)
            exchange.conversation = conversation = await opened.take(request, target)
            if exchange.mode == "observe":
                opened.show(conversation, request.items)
                return None
            if exchange.mode == "spill":
                await bound_newest(conversation)
            else:
                await self._fit(exchange, request, conversation)
            shown = await self._shown(exchange, request, opened, conversation)
            return list(request.items) if shown is None and is_expanded else shown

    async def _fit(self, exchange: GatewayExchange, request: WireRequest, conversation: Conversation) -> None:
        """Fold where the window is nearly full, and that is worth it. Real usage of the last turn counts first."""
        options = TurnOptions(tools=request.tools, prompt=request.prompt)
        exchange.recovery = Recovery(conversation, options, request.max_output)
        tokens, window = conversation.measure(options), conversation.window.tokens
        if len(conversation.messages) < FEWEST_MESSAGES:
            return
        turns = sum(message["role"] == "assistant" for message in conversation.messages)
        must = tokens + (conversation.model.max_output or 0) >= MUST_FOLD * window
        provider = self._upstream.host
        if must or not conversation.engine.should_compress(tokens) or pays_back(tokens, turns, request.model, provider):
            await conversation.fit(options)

    async def _give_handle(
        self, exchange: GatewayExchange, request: WireRequest, response: ClientResponse, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Fold the conversation now, and give the client a handle for it."""
        exchange.request = request = replace(request, items=request.items[:-1])
        await response.waiting_for(self._take(exchange, request, headers))
        conversation, opened = exchange.conversation, exchange.opened
        assert conversation is not None and opened is not None
        async with opened.lock:
            await response.waiting_for(conversation.compact_now())
            handle = HistoryHandle(conversation.session, conversation.view.next_seq)
        reply = handle_reply(handle, request.model, conversation.size.tokens)
        exchange.status, exchange.is_folded = 200, True
        if not request.is_streamed:
            return web.json_response(reply)
        await response.begin(200, CIMultiDict({"Content-Type": "text/event-stream"}))
        for event in handle_events(reply):
            await response.write(event)
        return await response.end()

    def _key(self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]) -> ConversationKey:
        named = session_named(exchange.client, headers, request.body)
        has_tools = request.has_tools or is_compaction_request(headers) or asks_for_handle(request)
        return ConversationKey(exchange.caller.owner, lineage_of(request, named, has_tools=has_tools))

    async def _shown(
        self, exchange: GatewayExchange, request: WireRequest, opened: OpenConversation, conversation: Conversation
    ) -> Sequence[bytes] | None:
        """What goes on for the view as it is now; the caller holds the lock."""
        before = None
        binds = (exchange.caller.owner, request.model) in self._binding or binds_thinking(request.model)
        if request.wire.dialect == "anthropic" and (binds or exchange.drops_thinking):
            before = await opened.first_item_since_fold(conversation)
            if before is None and exchange.drops_thinking:
                before = len(request.items)
        items = opened.show(conversation, request.items, without_thinking, before or 0)
        exchange.is_folded = items is not None
        return items

    # -- the upstream --------------------------------------------------------------------------------------------------

    async def _send(
        self, exchange: GatewayExchange, response: ClientResponse, items: Sequence[bytes] | None
    ) -> web.StreamResponse:
        """Send, and pass the reply back; an overflow is recovered from as often as the ladder allows."""
        http, caller = exchange.http, exchange.caller
        headers = passed_headers(http.headers, caller.withhold)
        headers.update(caller.credential)
        url = self._upstream.url(http.path, caller.query(http.rel_url.raw_query_string))
        max_output = None
        while True:
            body = self._body(exchange, items, max_output)
            try:
                async with self._upstream.open(http.method, url, headers, body) as reply:
                    exchange.status = reply.status
                    if reply.status < 400:
                        refusal = await self._pass_back(exchange, response, reply)
                        if refusal is None:
                            return await self._finish(exchange, response)
                        status, text = 400, refusal.encode()
                    else:
                        status, text = reply.status, await read_error(reply)
                    answer_headers = headers_back(reply.headers)
            except UpstreamUnreachable as problem:
                exchange.status = 502
                return await response.fail(502, str(problem))
            again = await self._recover(exchange, status, text, answer_headers, response)
            if again is None:
                return await self._refuse(exchange, response, status, text, answer_headers)
            items, max_output = again.items, again.max_output

    def _body(self, exchange: GatewayExchange, items: Sequence[bytes] | None, max_output: int | None) -> bytes:
        """What goes on: the client's bytes, unless something is to be changed in them."""
        request = exchange.request
        if request is None:
            return exchange.raw
        shown = request.items if items is None else items
        if self._adds_breakpoints and exchange.mode != "observe" and wants_breakpoints(request):
            return request.with_items(marked_items(shown), max_output, marked_prompt(request))
        return exchange.raw if items is None and max_output is None else request.with_items(shown, max_output)

    async def _refuse(
        self, exchange: GatewayExchange, response: ClientResponse, status: int, text: bytes, headers: CIMultiDict[str]
    ) -> web.StreamResponse:
        """Pass a refusal on as it came; one that we could not recover from says what cannot be made smaller."""
        fault = classify_error(status, text.decode("utf-8", "replace"), self._upstream.host, headers=headers)
        recovery, conversation = exchange.recovery, exchange.conversation
        if recovery is not None and conversation is not None and recovery.tried and is_overflow(fault):
            large = ", ".join(largest_parts(conversation, recovery.options))
            exchange.status = 400
            return await response.fail(400, f"Clew could not make this request small enough. It has: {large}.")
        if response.has_begun:
            return await response.fail(status, text.decode("utf-8", "replace")[:2_000])
        return web.Response(status=status, body=text, headers=headers)

    async def _pass_back(
        self, exchange: GatewayExchange, response: ClientResponse, reply: aiohttp.ClientResponse
    ) -> str | None:
        """Pass a reply on while it comes, and record it. The text of a refusal where one came before any content."""
        wire, kind = exchange.path.wire, reply.headers.get("Content-Type", "")
        is_stream = "event-stream" in kind
        reader = ReplyReader(wire, is_stream=is_stream)
        teller = self._teller(exchange, is_stream=is_stream)
        headers = headers_back(reply.headers)
        if exchange.opened is not None and exchange.opened.view.session is not None:
            headers["x-clew-session"] = exchange.opened.view.session
        held = bytearray()
        holds = is_stream and wire.keeps_errors_for_later and exchange.recovery is not None
        if not holds:
            await response.begin(reply.status, headers)
        try:
            async for chunk in reply.content.iter_any():
                reader.feed(chunk)
                if holds:
                    held += chunk
                    if reader.problem and self._is_overflow(reader.problem):
                        return reader.problem
                    if not reader.has_content and not reader.problem:
                        continue
                    chunk, holds = bytes(held), False
                    await response.begin(reply.status, headers)
                if reader.is_at_end:
                    # Before the client sees the end: its next request must find the reply.
                    self._start_recording(exchange, reader)
                await response.write(teller.feed(chunk) if teller else chunk)
        except (aiohttp.ClientError, TimeoutError) as error:
            # The client sees what the upstream did: a stream that breaks off.
            _log.warning("the upstream broke off: %s", type(error).__name__)
            if exchange.http.transport is not None:
                exchange.http.transport.abort()
            return None
        reader.end()
        if holds:
            if reader.problem and self._is_overflow(reader.problem):
                return reader.problem
            await response.begin(reply.status, headers)
            await response.write(teller.feed(bytes(held)) if teller else bytes(held))
        self._start_recording(exchange, reader)
        if teller:
            await response.write(teller.end())
        return None

    def _teller(self, exchange: GatewayExchange, *, is_stream: bool) -> UsageTeller | None:
        """What tells the client other usage than came; None where it is told what came."""
        conversation = exchange.conversation
        if exchange.mode == "observe" or conversation is None:
            return None
        window, size, client = conversation.window.tokens, len(exchange.raw), exchange.client
        if told_prompt_tokens(client, window, window, size) == window:
            return None  # nothing that fits the window is told otherwise
        return UsageTeller(
            exchange.path.wire, lambda real: told_prompt_tokens(client, window, real, size), is_stream=is_stream
        )

    def _is_overflow(self, text: str) -> bool:
        return is_overflow(classify_error(400, text, self._upstream.host))

    # -- after the upstream was asked ----------------------------------------------------------------------------------

    async def _finish(self, exchange: GatewayExchange, response: ClientResponse) -> web.StreamResponse:
        finished = await response.end()
        if exchange.recording is not None:
            # A client that hangs up now has its reply, and it is kept.
            await asyncio.shield(exchange.recording)
        return finished

    def _start_recording(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        if exchange.recording is None:
            exchange.recording = task = asyncio.create_task(self._record(exchange, reader))
            self._recordings.add(task)
            task.add_done_callback(self._recordings.discard)

    async def close(self) -> None:
        """Wait until every reply that came is kept."""
        await asyncio.gather(*self._recordings)

    async def _record(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        """Keep the reply and what it took. Nothing that fails here is the client's concern."""
        conversation, opened = exchange.conversation, exchange.opened
        reply = reader.reply(exchange.request.model if exchange.request else "")
        if conversation is None or opened is None or reply is None:
            return
        exchange.usage = reply.usage
        call = None
        try:
            async with opened.lock:
                if reply.usage is not None:
                    direct = await opened.direct_usage(conversation, reply.usage)
                    call = call_of(reply.usage, conversation.target, "gateway", direct=direct)
                    exchange.cost_micros = call.cost_micros
                is_kept = await opened.record(reader.items(), reply.usage, call)
            if not is_kept and call is not None:
                await self._runtime.store.record_call(conversation.session, call)
            await self._callers.add_spending(exchange.caller, exchange.cost_micros or 0)
        except ClewError as problem:
            exchange.is_fallback = True
            _log.error("a reply could not be kept: %s", where_it_failed(problem))

    async def _recover(
        self, exchange: GatewayExchange, status: int, text: bytes, headers: CIMultiDict[str], response: ClientResponse
    ) -> Resend | None:
        """What to send instead after a refusal; None where it passes to the client."""
        request, opened, conversation = exchange.request, exchange.opened, exchange.conversation
        recovery = exchange.recovery
        if request is None or opened is None or conversation is None or recovery is None:
            return None
        words = text.decode("utf-8", "replace")
        if status == 400 and not exchange.drops_thinking and refuses_thinking(words):
            exchange.drops_thinking = True
            self._binding.add((exchange.caller.owner, request.model))
        else:
            fault: ErrorClass = classify_error(status, words, self._upstream.host, headers=headers)
            if not await response.waiting_for(recovery.make_smaller(fault)):
                return None
        async with opened.lock:
            return Resend(await self._shown(exchange, request, opened, conversation), recovery.max_tokens)

    # -- counting ------------------------------------------------------------------------------------------------------

    async def _count(self, exchange: GatewayExchange, headers: Mapping[str, str]) -> web.StreamResponse:
        """Count what would be sent, so that the answer agrees with the usage that the client is told."""
        self._read(exchange)
        request, response = exchange.request, ClientResponse(exchange.http, exchange.path.wire, is_stream=False)
        items = None
        if request is not None and exchange.mode != "observe":
            items = await self.conversations.project_for_count(self._key(exchange, request, headers), request)
        return await self._send(exchange, response, items)


@dataclass(frozen=True, slots=True)
class Resend:
    """What to send after a refusal."""

    items: Sequence[bytes] | None
    max_output: int | None
