"""What the providers of all wires share: sending a request, reading the reply, retries, typed errors.

A wire is a subclass of `HttpProvider`, which encodes requests, and one of `ReplyAccumulator`, which puts replies
together. The functions at the end read JSON that servers send; a field of the wrong type never breaks a reply.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from clew.errors import CalledEndpoint, InvalidArgument, ProviderRefused
from clew.messages import DialectName, Message
from clew.providers.base import Delta, FinishReason, OnDelta, Provider, Reply, Request
from clew.providers.errors import ErrorClass, classify_error
from clew.providers.http.connection import (
    MAX_ERROR_BYTES,
    ConnectionFailed,
    ConnectionTimedOut,
    EventTooLong,
    HttpConnection,
    HttpResponse,
    RetryPolicy,
    SseEvent,
    SseReader,
    StreamTooLong,
)
from clew.usage import CanonicalUsage, normalize_usage

_SHOWN_BODY_CHARS = 20_000
_UNKNOWN_WORDS = (
    r"unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|extra|"
    r"invalid (?:field|param)"
)


class ApiKey:
    """An API key, or none. It is shown in no repr, error or log; `reveal` is called where a header is made."""

    __slots__ = ("_value",)

    def __init__(self, value: str | None) -> None:
        self._value = (value or "").strip()
        if not self._value.isascii() or any(character.isspace() for character in self._value):
            raise InvalidArgument(
                "the API key holds a blank, a line end or a letter that no key has",
                remedy="copy it again, without quotes",
            )

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "ApiKey(set)" if self._value else "ApiKey(none)"

    def reveal(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """The text without the key: some servers quote in their errors what they were given."""
        return text.replace(self._value, "[REDACTED]") if self._value else text


class ErrorInReply(Exception):  # noqa: N818 (reads as what it says)
    """An error with status 200: as an event of the stream, or as the body."""

    def __init__(self, status: int | None, body: str) -> None:
        super().__init__(body[:200])
        self.status = status
        self.body = body


class ReplyAccumulator(ABC):
    """Puts the reply to one request together while it arrives."""

    dialect: ClassVar[DialectName]
    finishes: ClassVar[Mapping[str, FinishReason]] = {}
    """The wire's words for why a reply ended; no word at all means `stop`."""

    def __init__(self, provider: str) -> None:
        self.content_chars = 0
        """The size of the reply so far. It grows with every piece of a text or a call, and with nothing else."""
        self.is_at_end = False
        """Whether the wire has signalled the end."""
        self._provider = provider
        self._model = ""
        self._usage: Any = None
        self._finish = ""

    @abstractmethod
    def add_event(self, event: SseEvent) -> Iterator[Delta]:
        """Add an event of the stream; raises `ErrorInReply`."""

    @abstractmethod
    def add_body(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        """Add a reply that was not streamed; raises `ErrorInReply`."""

    @property
    def is_complete(self) -> bool:
        """Whether the model has finished: only usage may be missing."""
        return bool(self._finish) or self.is_at_end

    @abstractmethod
    def message(self) -> Message | None:
        """The message so far; None before its first part."""

    @abstractmethod
    def items(self) -> list[Any]:
        """The message so far, as the items in which a client of this wire sends it back."""

    def usage(self) -> CanonicalUsage | None:
        """The usage as far as it was stated, also by a reply that broke off; None where it was not."""
        return normalize_usage(self._usage, self._provider, self.dialect) if self._usage else None

    def reply(self, request: Request) -> Reply:
        """The complete reply."""
        message: Message = self.message() or {"role": "assistant", "content": ""}
        return Reply(message, self.usage(), self.finish_reason(message), self._model or request.model)

    def finish_reason(self, message: Message) -> FinishReason:
        """Why the reply ended. Some servers say `stop` for a reply with calls."""
        finish = self.finishes.get(self._finish, "other") if self._finish else "stop"
        return "tool_calls" if finish == "stop" and message.get("tool_calls") else finish


@dataclass(frozen=True, slots=True)
class OptionalField:
    """A request field that some servers of a wire refuse: left out, or written otherwise, once one has done so."""

    name: str
    refusal: re.Pattern[str]


def refusal_pattern(field: str) -> re.Pattern[str]:
    """Matches what servers say about a field that they do not know, before its name or behind it."""
    words = _UNKNOWN_WORDS
    return re.compile(rf"(?i)(?:{field})[^.]{{0,80}}?(?:{words})|(?:{words}|does not support)[^.]{{0,80}}?(?:{field})")


class HttpProvider(Provider):
    """A provider behind HTTP."""

    default_base_url: ClassVar[str] = ""
    default_key_env: ClassVar[str] = ""
    default_key_header: ClassVar[str] = "Authorization"
    optional_fields: ClassVar[tuple[OptionalField, ...]] = ()

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        api_key_env: str | None = None,
        key_header: str | None = None,
        name: str | None = None,
        stream: bool = True,
        headers: Mapping[str, str] | None = None,
        retry_policy: RetryPolicy | None = None,
        environ: Mapping[str, str] | None = None,
        key_source: str | None = None,
    ) -> None:
        """The key is `api_key`, else what the variable `api_key_env` holds; servers without keys need neither.

        `key_source` says where the key is from, for people. `key_header` is the header of the key: `Authorization`
        has it as a bearer token, any other as it is.
        """
        variable = api_key_env or (self.default_key_env if base_url is None else "")
        self._key = ApiKey(api_key or (environ if environ is not None else os.environ).get(variable))
        self._key_source = key_in_variable(variable) if key_source is None else key_source
        self._key_header = key_header or self.default_key_header
        self._retry_policy = retry_policy or RetryPolicy()
        self._connection = HttpConnection(base_url or self.default_base_url, self._retry_policy)
        self._stream = stream
        self._headers = dict(headers or {})
        self._refused_fields: set[tuple[str, str]] = set()
        """Model and field name."""
        self.name = name or self._connection.host

    def with_key(self, key: str | None) -> Self:
        """The same provider on the same connections, with another key; None: without one."""
        other = copy(self)
        other._key = ApiKey(key)
        return other

    @property
    def endpoint_called(self) -> CalledEndpoint:
        """The address of calls and the source of their key, for people."""
        return CalledEndpoint(self._connection.address, self._key_source, bool(self._key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._key!r})"

    @abstractmethod
    def encode(self, request: Request, omit: frozenset[str]) -> dict[str, Any]:
        """The request body as this wire writes it; `omit` names the optional fields that the server has refused."""

    @abstractmethod
    def accumulator(self) -> ReplyAccumulator:
        """A new accumulator for the reply to one request."""

    @abstractmethod
    def endpoint(self) -> str:
        """The address that requests are posted to."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        retries = 0
        while True:
            try:
                return await self._attempt(request, on_delta)
            except ProviderRefused as refused:
                if refused.partial is not None:
                    raise  # what was shown cannot be taken back
                if self._omit_refused_field(request.model, refused):
                    continue
                wait = None if request.is_single_attempt else self._retry_policy.wait_before(retries, refused.fault)
                if wait is None:
                    raise
                retries += 1
            await self._retry_policy.sleep(wait)

    async def models(self) -> list[Mapping[str, Any]]:
        try:
            async with self._connection.open("GET", self._models_url(), self._all_headers(), None) as response:
                body = await response.read_body()
                if response.status in (404, 405, 501):
                    return []
                if response.status != 200:
                    raise self._refusal(response.status, _decode(body), response.headers)
        except ConnectionFailed as failed:
            raise self._network_refusal(str(failed), None) from failed
        listed = _parse_json(_decode(body))
        entries = listed.get("data") or listed.get("models") if isinstance(listed, dict) else listed
        return [entry for entry in json_list(entries) if isinstance(entry, dict)]

    async def close(self) -> None:
        await self._connection.close()

    def _models_url(self) -> str:
        return self._connection.url("/models")

    def _all_headers(self) -> dict[str, str]:
        accepted = "text/event-stream, application/json" if self._stream else "application/json"
        shared = {"Content-Type": "application/json", "Accept": accepted, "User-Agent": "clew"}
        return {**shared, **self._auth_headers(), **self._headers}

    def _auth_headers(self) -> dict[str, str]:
        if not self._key:
            return {}
        return {self._key_header: ("Bearer " if self._key_header == "Authorization" else "") + self._key.reveal()}

    async def _attempt(self, request: Request, on_delta: OnDelta | None) -> Reply:
        omit = frozenset(name for model, name in self._refused_fields if model == request.model)
        body = self.encode(request, omit)
        streams = bool(body.get("stream"))
        accumulator = self.accumulator()
        headers: Mapping[str, str] = {}
        has_begun = False
        try:
            async with self._connection.open(
                "POST", self.endpoint(), self._all_headers(), encode_json(body)
            ) as response:
                headers = response.headers
                if response.status != 200:
                    raise self._refusal(response.status, _decode(await response.read_body(MAX_ERROR_BYTES)), headers)
                async for delta in _read_deltas(response, accumulator, streams, self._retry_policy):
                    has_begun = True
                    if on_delta is not None:
                        on_delta(delta)
        except ErrorInReply as error:
            raise self._refusal(error.status, error.body, headers, _partial(accumulator, has_begun)) from error
        except StreamTooLong as failed:
            fault = ErrorClass("other", matched="length")
            partial = _partial(accumulator, has_begun)
            raise ProviderRefused(self.name, fault, str(failed), partial, self.endpoint_called) from failed
        except (ConnectionFailed, EventTooLong) as failed:
            if not accumulator.is_complete:
                raise self._network_refusal(str(failed), _partial(accumulator, has_begun)) from failed
        if not accumulator.is_complete:
            problem = "the connection closed before the reply was complete"
            raise self._network_refusal(problem, _partial(accumulator, has_begun))
        return accumulator.reply(request)

    def _refusal(
        self, status: int | None, body: str, headers: Mapping[str, str], partial: Message | None = None
    ) -> ProviderRefused:
        shown = self._key.redact(body)[:_SHOWN_BODY_CHARS]
        fault = classify_error(status, body, self.name, headers=headers)
        shown = shown or f"status {status} and no word"
        return ProviderRefused(self.name, fault, shown, partial, self.endpoint_called, status)

    def _network_refusal(self, problem: str, partial: Message | None) -> ProviderRefused:
        fault = ErrorClass("network", matched="connection")
        return ProviderRefused(self.name, fault, problem, partial, self.endpoint_called)

    def _omit_refused_field(self, model: str, refused: ProviderRefused) -> bool:
        """Remember an optional field that the server refused; False where the error is about something else."""
        if refused.fault.kind not in ("bad_request", "other"):
            return False
        for field in self.optional_fields:
            if (model, field.name) not in self._refused_fields and field.refusal.search(refused.body):
                self._refused_fields.add((model, field.name))
                return True
        return False


def key_in_variable(variable: str) -> str:
    """The place of a key in words; empty without a variable."""
    return f"the environment variable {variable}" if variable else ""


def _partial(accumulator: ReplyAccumulator, has_begun: bool) -> Message | None:
    """The message so far; an empty one where only reasoning arrived that cannot be sent again."""
    return accumulator.message() or ({"role": "assistant", "content": ""} if has_begun else None)


async def _read_chunks(
    response: HttpResponse, accumulator: ReplyAccumulator, limits: RetryPolicy
) -> AsyncIterator[bytes]:
    """The bytes of a stream until it ends or reaches its limits; after the end of the text, for a moment more."""
    import asyncio

    loop = asyncio.get_running_loop()
    total, known, since = 0, 0, loop.time()
    while True:
        if accumulator.content_chars != known:
            known, since = accumulator.content_chars, loop.time()
        seconds = limits.usage_seconds if accumulator.is_complete else since + limits.content_seconds - loop.time()
        try:
            async with asyncio.timeout(seconds):
                chunk = await response.read_chunk()
        except TimeoutError:
            if accumulator.is_complete:
                return
            raise ConnectionTimedOut(
                f"no part of the reply arrived for {limits.content_seconds:g} s, keep-alives aside: timed out"
            ) from None
        if not chunk:
            return
        yield chunk[: limits.max_stream_bytes - total]
        total += len(chunk)
        if total > limits.max_stream_bytes and not accumulator.is_complete:
            raise StreamTooLong(f"the reply went beyond {limits.max_stream_bytes:,} bytes and was cut there")


async def _read_deltas(
    response: HttpResponse, accumulator: ReplyAccumulator, streams: bool, limits: RetryPolicy
) -> AsyncIterator[Delta]:
    """Read the body into the accumulator; stops at the end that the wire signals, whatever the server still sends."""
    if not response.is_event_stream(streams):
        text = _decode(await response.read_body())
        body = _parse_json(text)
        if not isinstance(body, dict):
            raise ErrorInReply(None, f"the answer is no JSON object: {text}")
        for delta in accumulator.add_body(body):
            yield delta
        return
    reader = SseReader()
    async for chunk in _read_chunks(response, accumulator, limits):
        for event in reader.feed(chunk):
            for delta in accumulator.add_event(event):
                yield delta
        if accumulator.is_at_end:
            await response.drain()
            return
    for event in reader.end():
        for delta in accumulator.add_event(event):
            yield delta


def encode_json(body: Mapping[str, Any]) -> bytes:
    """JSON without blanks; in ASCII only where a lone surrogate leaves no other way."""
    try:
        try:
            return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            return json.dumps(body, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"the request holds values that JSON does not have ({error})", remedy="pass plain values"
        ) from error


def _decode(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def event_json(event: SseEvent) -> dict[str, Any]:
    """The data of an event; empty where it is no object, as keep-alives are. Raises where it is cut off."""
    value = _parse_json(event.data)
    if value is None and event.data.lstrip().startswith("{"):
        raise ConnectionFailed(f"an event of the stream is cut: {event.data[:200]}")
    return value if isinstance(value, dict) else {}


_STATUSES = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "INVALID_ARGUMENT": 400,
    "authentication_error": 401,
    "UNAUTHENTICATED": 401,
    "billing_error": 402,
    "permission_error": 403,
    "PERMISSION_DENIED": 403,
    "not_found_error": 404,
    "NOT_FOUND": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "RESOURCE_EXHAUSTED": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What the types of errors of all wires mean as a status."""


def status_in(error: object) -> int | None:
    """The HTTP status that an error inside a reply represents: its code, where that is one, else by its type."""
    if not isinstance(error, Mapping):
        return None
    for name in ("code", "status", "status_code", "type"):
        value = error.get(name)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
        if isinstance(value, str) and value in _STATUSES:
            return _STATUSES[value]
    return None


def json_object(value: object) -> Mapping[str, Any]:
    """A JSON object; empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def json_list(value: object) -> list[Any]:
    """A JSON list; empty for anything else."""
    return value if isinstance(value, list) else []


def json_text(value: object) -> str:
    """A JSON string; empty for anything else."""
    return value if isinstance(value, str) else ""


def json_index(value: object, default: int) -> int:
    """An index into a list of the reply; `default` for anything that is no integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default


_PIECES_AT_ONCE = 64


class GrowingText:
    """A text that arrives in thousands of pieces; joined when it is read.

    Small pieces are joined to larger ones on the way: as objects they would take five times the text.
    """

    __slots__ = ("_joined", "_pieces")

    def __init__(self, first: str = "") -> None:
        self._joined = [first]
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        if len(self._pieces) >= _PIECES_AT_ONCE:
            self._join()

    def __str__(self) -> str:
        self._join()
        if len(self._joined) > 1:
            self._joined[:] = ["".join(self._joined)]
        return self._joined[0]

    def _join(self) -> None:
        if self._pieces:
            self._joined.append("".join(self._pieces))
            self._pieces.clear()


def join_texts(value: Any) -> Any:
    """The value with every `GrowingText` in it as a string."""
    if isinstance(value, GrowingText):
        return str(value)
    if isinstance(value, dict):
        return {name: join_texts(inner) for name, inner in value.items()}
    return value


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
