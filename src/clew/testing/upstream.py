"""A mock upstream on loopback that speaks the three real wires, streaming and not, and fails where a test wants it to.

It plays its steps in order, one per request, whichever wire a request comes on, and keeps what it received.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from aiohttp import web

from clew.testing.upstream_cache import UpstreamCache
from clew.testing.upstream_wires import (
    Event,
    UpstreamAnswer,
    anthropic_body,
    anthropic_events,
    as_json,
    chat_body,
    chat_events,
    responses_body,
    responses_events,
)

__all__ = [
    "HangUp",
    "RawAnswer",
    "ReceivedRequest",
    "Step",
    "StreamedAnswer",
    "Upstream",
    "UpstreamAnswer",
    "UpstreamFault",
]

_EVENTS = {"chat/completions": chat_events, "responses": responses_events, "messages": anthropic_events}


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer whose stream is sent in an unusual way, or breaks. Counts are of events."""

    answer: UpstreamAnswer
    cut_after: int | None = None
    """The connection is closed after so many events."""
    stall_after: int | None = None
    """After so many events nothing more comes, until the client hangs up."""
    keep_alives_after: int | None = None
    """After so many events only `keep_alive` comes, again and again, until the client hangs up."""
    keep_alive: bytes = b": keep-alive\n\n"
    error_after: int | None = None
    error: Event = ("", "")
    """Sent after so many events, and then the stream ends."""
    chunk_bytes: int | None = None
    """The bytes go out in chunks of this size, wherever that cuts a line or a character."""
    line_end: str = "\n"
    comments: bool = False
    """A keep-alive comment before every event."""


@dataclass(frozen=True, slots=True)
class UpstreamFault:
    """A refusal with a status."""

    status: int
    body: Any = ""
    """JSON, or a text as it is."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Given bytes, piece by piece, with status 200."""

    pieces: Sequence[bytes]
    content_type: str = "text/event-stream"


@dataclass(frozen=True, slots=True)
class HangUp:
    """The connection is closed before the first byte of the answer."""


Step: TypeAlias = UpstreamAnswer | StreamedAnswer | UpstreamFault | RawAnswer | HangUp


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    peer: object = None
    """The other end of the connection: the same for requests that came over one."""
    raw: bytes = field(default=b"", repr=False)
    """The body as it came."""


class Upstream:
    """`async with Upstream(UpstreamAnswer("hello")) as upstream: ... upstream.base_url ... upstream.received`.

    `unknown_fields` are refused with the words of a server that has never heard of them. `models` is what its models
    endpoint lists; None: it has none. `port` 0 is any that is free. `caches`: the prompt tokens that it tells, and how
    many of them were cached, are those of an `UpstreamCache`, in place of what an answer says.
    """

    def __init__(
        self,
        *steps: Step,
        unknown_fields: Sequence[str] = (),
        models: Sequence[Mapping[str, Any]] | None = None,
        port: int = 0,
        caches: bool = False,
    ) -> None:
        self.received: list[ReceivedRequest] = []
        self.base_url = ""
        self.stalled = asyncio.Event()
        """Set when a stream has come to where it stalls."""
        self.hung_up = asyncio.Event()
        """Set when a client hung up on a stream that stalled."""
        self._steps = list(steps)
        self._played = 0
        self._unknown = frozenset(unknown_fields)
        self._models = models
        self._cache = UpstreamCache() if caches else None
        self.port = port
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Upstream:
        app = web.Application(client_max_size=256 * 1024 * 1024)
        for name in _EVENTS:
            app.router.add_post(f"/v1/{name}", self._answer)
        app.router.add_get("/v1/models", self._list_models)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.base_url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def then(self, *steps: Step) -> Upstream:
        """Add steps to the script."""
        self._steps += steps
        return self

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        self.received.append(ReceivedRequest(request.path_qs, _headers(request), {}))
        if self._models is None:
            return web.json_response({"error": {"message": "no such route"}}, status=404)
        return web.json_response({"object": "list", "data": list(self._models)})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw)
        peer = request.transport.get_extra_info("peername") if request.transport else None
        self.received.append(ReceivedRequest(request.path, _headers(request), body, peer, raw))
        unknown = sorted(self._unknown & body.keys())
        if unknown:
            refusal = f"Unrecognized request argument supplied: {unknown[0]}"
            return web.json_response({"error": {"message": refusal, "type": "invalid_request_error"}}, status=400)
        if self._played >= len(self._steps):
            refusal = f"the mock upstream's script has {len(self._steps)} steps; add one"
            return web.json_response({"error": {"message": refusal}}, status=418)
        step = self._steps[self._played]
        self._played += 1
        return await self._play(step, request, body)

    async def _play(self, step: Step, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        wire = request.path.removeprefix("/v1/")
        if self._cache is not None and isinstance(step, UpstreamAnswer):
            output = step.usage.output_tokens if step.usage else 0
            step = replace(step, usage=self._cache.usage_of(wire, body, output))
        match step:
            case UpstreamFault():
                text = step.body if isinstance(step.body, str) else as_json(step.body)
                kind = "text/plain" if isinstance(step.body, str) else "application/json"
                return web.Response(status=step.status, text=text, content_type=kind, headers=step.headers)
            case HangUp():
                _close_connection(request)
                return web.Response()
            case RawAnswer():
                return await _send(request, iter(step.pieces), step.content_type)
            case UpstreamAnswer() if not body.get("stream"):
                return web.json_response(_body(step, wire, body), dumps=as_json)
            case UpstreamAnswer():
                step = StreamedAnswer(step)
        return await self._stream(step, request, _EVENTS[wire](step.answer, body))

    async def _stream(self, step: StreamedAnswer, request: web.Request, events: Iterator[Event]) -> web.StreamResponse:
        response = await _started(request, "text/event-stream")
        for count, event in enumerate(events):
            if count == step.cut_after:
                _close_connection(request)
                return response
            if count == step.stall_after:
                await self._stall()
            if count == step.keep_alives_after:
                while True:
                    await response.write(step.keep_alive)
                    await asyncio.sleep(0.005)
            if count == step.error_after:
                await response.write(_encode_event(step.error, step))
                break
            for piece in _chunks(_encode_event(event, step), step.chunk_bytes):
                await response.write(piece)
        await response.write_eof()
        return response

    async def _stall(self) -> None:
        self.stalled.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.hung_up.set()


def _body(answer: UpstreamAnswer, wire: str, body: dict[str, Any]) -> dict[str, Any]:
    if wire == "chat/completions":
        return chat_body(answer)
    return anthropic_body(answer) if wire == "messages" else responses_body(answer, body)


async def _started(request: web.Request, content_type: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": content_type, "Cache-Control": "no-cache"})
    await response.prepare(request)
    return response


async def _send(request: web.Request, pieces: Iterator[bytes], content_type: str) -> web.StreamResponse:
    response = await _started(request, content_type)
    for piece in pieces:
        await response.write(piece)
    await response.write_eof()
    return response


def _close_connection(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _encode_event(event: Event, how: StreamedAnswer) -> bytes:
    name, value = event
    lines = [": keep-alive"] if how.comments else []
    if name:
        lines.append(f"event: {name}")
    lines.append(f"data: {value if isinstance(value, str) else as_json(value)}")
    return (how.line_end.join(lines) + how.line_end * 2).encode()


def _chunks(text: bytes, size: int | None) -> Iterator[bytes]:
    for at in range(0, len(text), size or len(text)):
        yield text[at : at + (size or len(text))]


def _headers(request: web.Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}
