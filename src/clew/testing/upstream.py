"""A mock upstream on loopback that speaks the four real wires, streaming and not, and fails where a test wants it to.

It has them at the paths of Azure, Bedrock, Vertex and ChatGPT too, with what those ask for beside.

It plays its steps in order, one per request on any wire, and keeps every byte that it received. With `UpstreamRules`
it refuses what a provider would. `python -m clew.testing.upstream --help` runs it as a program, for clients that are
programs themselves.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web

from clew.gateway.aws import STREAM_TYPE, event_frame
from clew.testing.upstream_rules import (
    ProviderRefusal,
    UpstreamCache,
    UpstreamRules,
    bound_signature,
    cloud_refusal,
    dropped_thinking,
    first_refusal,
    listed_messages,
    prompt_tokens,
    refusal,
    words_for,
)
from clew.testing.upstream_steps import (
    Answers,
    HangUp,
    RawAnswer,
    ReceivedRequest,
    Step,
    StreamedAnswer,
    UpstreamFault,
)
from clew.testing.upstream_wires import (
    CHAT,
    GEMINI,
    MESSAGES,
    RESPONSES,
    Event,
    UpstreamAnswer,
    anthropic_body,
    anthropic_events,
    as_json,
    chat_body,
    chat_events,
    compacted_body,
    failed_events,
    gemini_body,
    gemini_events,
    model_list,
    model_row,
    responses_body,
    responses_events,
)
from clew.usage import CanonicalUsage

__all__ = [
    "HangUp",
    "RawAnswer",
    "ReceivedRequest",
    "Step",
    "StreamedAnswer",
    "Upstream",
    "UpstreamAnswer",
    "UpstreamFault",
    "UpstreamRules",
]

_EVENTS = {CHAT: chat_events, RESPONSES: responses_events, MESSAGES: anthropic_events, GEMINI: gemini_events}
_BODIES = {CHAT: chat_body, RESPONSES: responses_body, MESSAGES: anthropic_body, GEMINI: gemini_body}
_current: ContextVar[ReceivedRequest] = ContextVar("received")
"""The request that is being answered; each is in a separate task."""
_GEMINI_MODEL = r"/{version:v1|v1beta|v1alpha}/models/{model:[^:]+}"
_VERTEX = r"/{version:v1|v1beta1}{project:(/projects/[^/]+/locations/[^/]+)?}/publishers"
_ANSWERS = (
    *(f"/v1/{name}" for name in (CHAT, RESPONSES, MESSAGES)),
    f"{_GEMINI_MODEL}:{{method:generateContent|streamGenerateContent}}",
    r"/openai/deployments/{model:[^/]+}/chat/completions",
    r"/openai{version:(/v1)?}/{wire:chat/completions|responses}",
    "/anthropic/v1/messages",
    "/backend-api/codex/responses",
    r"/model/{model:.+}/{method:invoke|invoke-with-response-stream}",
    f"{_VERTEX}/anthropic/models/{{model:[^:]+}}:{{method:rawPredict|streamRawPredict}}",
    f"{_VERTEX}/google/models/{{model:[^:]+}}:{{method:generateContent|streamGenerateContent}}",
)


_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Upstream:
    """`async with Upstream(UpstreamAnswer("hello")) as upstream: ... upstream.base_url ... upstream.received`.

    `answers` decides on a step where the script has none. `unknown_fields` are refused with the words of a server
    that has never heard of them. `models` is what its models endpoints list; None: it has none. `port` 0 is any that
    is free. `caches`: prompt tokens and cached tokens in its usage are those of an `UpstreamCache`, not of the
    answer. `rules` say what it refuses. `event_delay` are seconds between two events of every stream. `journal` is a
    file that gets each request as a line of JSON.
    """

    def __init__(
        self,
        *steps: Step,
        answers: Answers | None = None,
        unknown_fields: Sequence[str] = (),
        models: Sequence[Mapping[str, Any]] | None = None,
        port: int = 0,
        caches: bool = False,
        rules: UpstreamRules | None = None,
        event_delay: float = 0.0,
        journal: Path | None = None,
    ) -> None:
        self.received: list[ReceivedRequest] = []
        self.origin = ""
        """Where it listens, without a path: the base of Anthropic's and Google's SDKs."""
        self.base_url = ""
        """The same with /v1, the base of OpenAI's."""
        self.stalled = asyncio.Event()
        """Set when a stream stalls."""
        self.hung_up = asyncio.Event()
        """Set when a client hung up on a stream that stalled."""
        self.rules = rules or UpstreamRules()
        self.port = port
        self._steps = list(steps)
        self._answers = answers
        self._played = 0
        self._unknown = frozenset(unknown_fields)
        self._models = models
        self._cache = UpstreamCache() if caches else None
        self._event_delay = event_delay
        self._journal = journal
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Upstream:
        app = web.Application(client_max_size=256 * 1024 * 1024, middlewares=[self._record])
        app.router.add_head("/", self._greet)
        app.router.add_post(f"{_VERTEX}/anthropic/models/count-tokens:rawPredict", self._count)
        for path in _ANSWERS:
            app.router.add_post(path, self._answer)
        app.router.add_post("/v1/responses/compact", self._compact)
        app.router.add_post("/v1/responses/input_tokens", self._count)
        app.router.add_post("/v1/messages/count_tokens", self._count)
        app.router.add_post(f"{_GEMINI_MODEL}:countTokens", self._count)
        app.router.add_get("/{version:v1|v1beta|v1alpha}/models", self._list_models)
        app.router.add_get("/{version:v1|v1beta|v1alpha}/models/{model:.+}", self._list_models)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.base_url = f"{self.origin}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def then(self, *steps: Step) -> Upstream:
        """Add steps to the script."""
        self._steps += steps
        return self

    @property
    def calls(self) -> list[ReceivedRequest]:
        """The requests that asked the model, without those for counts, models and the like."""
        return [received for received in self.received if received.wire]

    @web.middleware
    async def _record(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Keep a request and the status of its answer; a path that is not served gets a 404 in JSON."""
        raw = await request.read()
        peer = request.transport.get_extra_info("peername") if request.transport else None
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = ReceivedRequest(
            request.path, headers, _as_object(raw), peer, raw, request.method, request.query_string
        )
        self.received.append(received)
        _current.set(received)
        try:
            response = await handler(request)
        except web.HTTPException as refused:
            error = {"error": {"message": f"{request.path}: {refused.reason}"}}
            response = web.json_response(error, status=refused.status)
        else:
            received.status = response.status
        finally:
            if self._journal is not None:
                with self._journal.open("a", encoding="utf-8") as out:
                    out.write(f"{as_json(received.summary())}\n")
        received.status = response.status
        return response

    async def _greet(self, request: web.Request) -> web.StreamResponse:  # noqa: ARG002
        return web.Response()

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        # Google's SDKs ask at /v1 too.
        is_gemini = request.match_info["version"] != "v1" or "x-goog-api-key" in request.headers
        wire = GEMINI if is_gemini else CHAT
        wire = MESSAGES if "anthropic-version" in request.headers else wire
        if self._models is None:
            return web.json_response({"error": {"message": "no such route"}}, status=404)
        named = request.match_info.get("model")
        rows = [model_row(wire, row, self.rules.window) for row in self._models if named in (None, row.get("id"))]
        if named is None:
            return web.json_response(model_list(wire, rows))
        if not rows:
            return _refused(refusal(wire, f"The model '{named}' does not exist", status=404, code="model_not_found"))
        return web.json_response(rows[0])

    async def _count(self, request: web.Request) -> web.StreamResponse:
        body = _current.get().body
        counted = prompt_tokens(body.get("generateContentRequest") or body)
        if request.path.endswith("countTokens"):
            return web.json_response({"totalTokens": counted})
        kind = {"object": "response.input_tokens"} if "responses" in request.path else {}
        return web.json_response({**kind, "input_tokens": counted})

    async def _compact(self, request: web.Request) -> web.StreamResponse:  # noqa: ARG002
        body = _current.get().body
        refused = self._refusal(RESPONSES, _current.get())
        if refused is not None:
            return _refused(refused)
        return web.json_response(compacted_body(self._compaction(RESPONSES, body), body), dumps=as_json)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        received = _current.get()
        wire, body = received.wire, received.body
        unknown = sorted(self._unknown & body.keys())
        if unknown:
            return _refused(refusal(CHAT, f"Unrecognized request argument supplied: {unknown[0]}"))
        if words := cloud_refusal(request.path, request.query, body, received.headers):
            return web.json_response({"message": words}, status=400)
        refused = self._refusal(wire, received)
        if refused is not None:
            in_stream = wire == RESPONSES and body.get("stream") and self.rules.overflow_in_stream
            if in_stream and refused.code == "context_length_exceeded":
                events = failed_events(refused.message, refused.code, body)
                return await self._stream(StreamedAnswer(UpstreamAnswer()), request, events)
            return _refused(refused)
        if _asks_for_compaction(wire, body):
            return await self._play(self._compaction(wire, body), request, received)
        step = self._next_step(received)
        if step is None:
            message = f"the mock upstream's script has {len(self._steps)} steps; add one"
            return web.json_response({"error": {"message": message}}, status=418)
        return await self._play(step, request, received)

    def _next_step(self, received: ReceivedRequest) -> Step | None:
        if self._played < len(self._steps):
            self._played += 1
            return self._steps[self._played - 1]
        return self._answers(received) if self._answers is not None else None

    def _refusal(self, wire: str, received: ReceivedRequest) -> ProviderRefusal | None:
        if self.rules == UpstreamRules():
            return None
        return first_refusal(self.rules, wire, received.body, received.headers, prompt_tokens(received.body))

    def _compaction(self, wire: str, body: dict[str, Any]) -> UpstreamAnswer:
        """The provider's own compaction: a summary that only it can read on one wire, and a signed one on the other."""
        digest = blake2b(as_json(listed_messages(body)).encode(errors="replace"), digest_size=8).hexdigest()
        answer = UpstreamAnswer(compaction=f"summary of {len(listed_messages(body))} messages, {digest}")
        return self._with_usage(answer, wire, body, {})

    def _with_usage(
        self, answer: UpstreamAnswer, wire: str, body: dict[str, Any], headers: Mapping[str, str]
    ) -> UpstreamAnswer:
        """An answer with the usage that was counted, and with signatures that are bound to this request."""
        output = answer.usage.output_tokens if answer.usage else 0
        if self._cache is not None:
            answer = replace(answer, usage=self._cache.usage_of(wire, body, output))
        elif self.rules.window is not None:
            answer = replace(answer, usage=CanonicalUsage(input_tokens=prompt_tokens(body), output_tokens=output))
        if wire == MESSAGES and self.rules.binds_thinking:
            dropped = dropped_thinking(body, headers)
            answer = replace(answer, signature=bound_signature(body), transformations=dropped)
        return answer

    async def _play(self, step: Step, request: web.Request, received: ReceivedRequest) -> web.StreamResponse:
        wire, body = received.wire, received.body
        match step:
            case UpstreamFault():
                return _fault(step, wire)
            case HangUp():
                _close_connection(request)
                return web.Response()
            case RawAnswer():
                return await _send(request, iter(step.pieces), step.content_type)
            case UpstreamAnswer() if not received.is_streamed:
                answer = self._with_usage(step, wire, body, received.headers)
                return web.json_response(_BODIES[wire](answer, body), dumps=as_json)
            case UpstreamAnswer():
                step = StreamedAnswer(step)
        answer = self._with_usage(step.answer, wire, body, received.headers)
        events = _EVENTS[wire](answer, body)
        if wire == GEMINI and request.query.get("alt") != "sse":
            return await _send(request, _as_json_list(events), "application/json")
        return await self._stream(step, request, events)

    async def _stream(self, step: StreamedAnswer, request: web.Request, events: Iterator[Event]) -> web.StreamResponse:
        encode = _encode_frame if _current.get().is_framed else _encode_event
        response = await _started(request, STREAM_TYPE if _current.get().is_framed else "text/event-stream")
        await asyncio.sleep(step.first_delay)
        pause = step.event_delay or self._event_delay
        for count, event in enumerate(events):
            if count and pause:
                await asyncio.sleep(pause)
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
                await response.write(encode(step.error, step))
                break
            for piece in _chunks(encode(event, step), step.chunk_bytes):
                await response.write(piece)
        await response.write_eof()
        return response

    async def _stall(self) -> None:
        self.stalled.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.hung_up.set()


def _as_object(raw: bytes) -> dict[str, Any]:
    try:
        read = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _asks_for_compaction(wire: str, body: Mapping[str, Any]) -> bool:
    if wire == MESSAGES:
        return isinstance(body.get("compaction"), dict)
    return wire == RESPONSES and any(item.get("type") == "compaction_trigger" for item in listed_messages(body))


def _refused(refused: ProviderRefusal) -> web.Response:
    return web.json_response(refused.body, status=refused.status)


def _fault(step: UpstreamFault, wire: str) -> web.Response:
    if step.body is None:
        headers = {"retry-after": "2", **step.headers} if step.status == 429 else step.headers
        return web.json_response(words_for(wire, step.status).body, status=step.status, headers=headers)
    text = step.body if isinstance(step.body, str) else as_json(step.body)
    kind = "text/plain" if isinstance(step.body, str) else "application/json"
    return web.Response(status=step.status, text=text, content_type=kind, headers=step.headers)


def _as_json_list(events: Iterator[Event]) -> Iterator[bytes]:
    """The events of a stream of Gemini's wire that was not asked to be one of server-sent events."""
    for count, (_, value) in enumerate(events):
        yield f"{',' if count else '['}{as_json(value)}\r\n".encode()
    yield b"]"


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


def _encode_frame(event: Event, how: StreamedAnswer) -> bytes:  # noqa: ARG001
    return event_frame(as_json(event[1]).encode()).encode()


def _chunks(text: bytes, size: int | None) -> Iterator[bytes]:
    for at in range(0, len(text), size or len(text)):
        yield text[at : at + (size or len(text))]


if __name__ == "__main__":
    from clew.testing.upstream_program import main

    main()
