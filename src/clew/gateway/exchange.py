"""One request through the gateway: make it fit, send it, pass the reply back, have it recorded.

Whatever fails here before the upstream was asked falls back to the client's own bytes, and is counted and told. Only
overflows are dealt with here; every other refusal passes as it came.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from clew.gateway.bodies import NestedTooDeep, RequestBody, UnreadableBody
from clew.gateway.breakpoints import marked_items, marked_prompt, wants_breakpoints
from clew.gateway.callers import Caller, Callers, Refusal
from clew.gateway.clients import MAX_CLIENT_BYTES, MODE_HEADER, client_of, told_prompt_tokens
from clew.gateway.conversations import OpenConversations, UpstreamRequest
from clew.gateway.fitting import CannotShrink, RequestFitting, fall_back, or_fall_back
from clew.gateway.handles import HistoryHandle, asks_for_handle, handle_events, handle_reply
from clew.gateway.handoffs import Handoffs
from clew.gateway.recording import ReplyRecording
from clew.gateway.records import MODES, ExchangeRecord, GatewayExchange, HandoffWriter, Mode
from clew.gateway.relay import PING_SECONDS, ClientResponse, ReplyReader, UsageTeller
from clew.gateway.upstream import (
    Upstreams,
    UpstreamServer,
    UpstreamUnreachable,
    headers_back,
    passed_headers,
    read_error,
)
from clew.gateway.wires import MAX_MODEL_CHARS, WirePath
from clew.providers import classify_error
from clew.turn import ModelTarget, Runtime, is_overflow, largest_parts

MAX_HELD_BYTES = 1024 * 1024
"""Of events at the beginning of a stream, which are held until it is clear that they are no refusal."""
_ELSEWHERE = frozenset((429, 500, 502, 503, 504, 529))
"""Answers after which the next upstream is asked, where there is one."""

_log = logging.getLogger("clew.gateway")


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
        on_begin: Callable[[], None] = lambda: None,
        on_exchange: Callable[[ExchangeRecord], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        adds_breakpoints: bool = False,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        self.mode: Mode = mode
        self._on_begin = on_begin
        self._clock = clock
        self._upstreams = upstreams
        self._adds_breakpoints = adds_breakpoints
        self._ping_seconds = ping_seconds
        self.handoffs = Handoffs(runtime, upstreams, callers, handoffs, clock)
        self._fitting = RequestFitting(runtime, target, self.handoffs, clock)
        self._recording = ReplyRecording(runtime, callers, target, self.handoffs, on_exchange)

    @property
    def conversations(self) -> OpenConversations:
        return self._fitting.conversations

    async def answer(self, http: web.Request, path: WirePath, caller: Caller, raw: bytes) -> web.StreamResponse:
        """Serve one request that is for a model."""
        self._on_begin()
        headers = {name.lower(): value for name, value in http.headers.items()}
        mode, writer = self._mode_of(headers, caller), self.handoffs.writer_for(headers, caller)
        exchange = GatewayExchange(http, path, caller, raw, client_of(headers), mode, writer)
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
                exchange.opened.waiting -= 1
                exchange.opened.used_at = self._clock()
            self._recording.tell(exchange)

    async def look_after_idle(self) -> None:
        """Fold conversations whose cache is about to expire, and close those that rest. Called every few seconds."""
        self.handoffs.fold_idle(self.conversations.by_use())
        await self.conversations.close_idle()

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
        """The items to send in place of those that came; None where the client's bytes go on."""
        return await or_fall_back(exchange, self._fitting.fit(exchange, headers, response))

    async def _counted(self, exchange: GatewayExchange, headers: Mapping[str, str]) -> Sequence[bytes] | None:
        """The items to count, so that the answer agrees with the usage that the client is told."""
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
        while True:
            max_output = exchange.recovery.max_tokens if exchange.recovery else None
            body = self._body(exchange, items, max_output)
            url, headers = self._addressed(exchange, servers[0], is_fallback=servers[0] is not first)
            try:
                async with servers[0].open(exchange.http.method, url, headers, body) as reply:
                    exchange.status = reply.status
                    if reply.status < 400:
                        self._keep_sent(exchange, url, headers, body)
                        refusal = await self._pass_back(exchange, response, reply)
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
        """Keep with the exchange what went on, so that a handoff can be asked for behind it."""
        if exchange.shown is not None and exchange.request is not None:
            model, caller = exchange.request.model, exchange.caller
            exchange.sent = UpstreamRequest(exchange.path, model, url, headers, body, caller, *exchange.shown)

    def _body(self, exchange: GatewayExchange, items: Sequence[bytes] | None, max_output: int | None) -> bytes:
        """What goes on: the client's bytes, unless something is to be changed in them."""
        request = exchange.request
        if request is None:
            return exchange.raw
        shown = request.items if items is None else items
        if self._adds_breakpoints and exchange.mode != "observe" and wants_breakpoints(request):
            return request.with_items(marked_items(shown), max_output, marked_prompt(request))
        is_same = items is None and max_output in (None, request.max_output)
        return exchange.raw if is_same else request.with_items(shown, max_output)

    async def _refuse(
        self, exchange: GatewayExchange, response: ClientResponse, status: int, text: bytes, headers: CIMultiDict[str]
    ) -> web.StreamResponse:
        """Pass a refusal on as it came; one that we could not recover from says what cannot be made smaller."""
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
        """Pass a reply on while it comes, and record it. The text of a refusal where one came before any content."""
        wire, kind = exchange.path.wire, reply.headers.get("Content-Type", "")
        reader = ReplyReader(wire, kind)
        teller = self._teller(exchange, kind)
        headers = headers_back(reply.headers)
        if exchange.opened is not None and exchange.opened.view.session is not None:
            headers["x-clew-session"] = exchange.opened.view.session
        held = bytearray()
        holds = reader.is_stream and wire.keeps_errors_for_later and exchange.recovery is not None
        if not holds:
            await response.begin(reply.status, headers)
        try:
            async for chunk in reply.content.iter_any():
                reader.feed(chunk)
                if holds:
                    held += chunk
                    if reader.problem and self._is_overflow(exchange, reader.problem):
                        return reader.problem
                    if not reader.has_content and not reader.problem and len(held) < MAX_HELD_BYTES:
                        continue
                    chunk, holds = bytes(held), False
                    await response.begin(reply.status, headers)
                if reader.is_at_end:
                    # Before the client sees the end: its next request must find the reply.
                    self._recording.start(exchange, reader)
                await response.write(teller.feed(chunk) if teller else chunk)
        except (aiohttp.ClientError, TimeoutError) as error:
            # The client sees what the upstream did: a stream that breaks off.
            _log.warning("the upstream broke off: %s", type(error).__name__)
            self._recording.start(exchange, reader)
            await response.begin(reply.status, headers)
            await response.write(bytes(held) if holds else b"")
            if exchange.http.transport is not None:
                exchange.http.transport.abort()
            return None
        except (ConnectionError, asyncio.CancelledError):
            # The client hung up. What came until then was used, and is charged.
            self._recording.start(exchange, reader)
            raise
        reader.end()
        if holds:
            if reader.problem and self._is_overflow(exchange, reader.problem):
                return reader.problem
            await response.begin(reply.status, headers)
            await response.write(teller.feed(bytes(held)) if teller else bytes(held))
        self._recording.start(exchange, reader)
        if teller:
            await response.write(teller.end())
        return None

    def _teller(self, exchange: GatewayExchange, content_type: str) -> UsageTeller | None:
        """What tells the client other usage than came; None where it is told what came."""
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
