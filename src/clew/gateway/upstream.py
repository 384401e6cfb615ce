"""Requests to the upstreams, and their replies back to the client.

Upstreams are configured, each for some wires and models; a request cannot choose another one. Redirects are not
followed, since they would carry the credential and the conversation to a host that is not configured. A reply passes as
received and is parsed at the same time: only the usage that a client is shown may differ from the upstream's.
"""

from __future__ import annotations

import asyncio
import re
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from clew.errors import InvalidArgument
from clew.gateway.admission import KEY_PREFIX
from clew.gateway.aws import STREAM_TYPE, AwsCredential, FrameReader, event_frame, signed_headers, without_signature
from clew.gateway.wires import KINDS, Change, GatewayWire, UnreadableBody, read_json, write_json
from clew.providers import ConnectionFailed, ErrorInReply, EventTooLong, Reply, Request, SseReader
from clew.usage import CanonicalUsage

MAX_ERROR_BYTES = 1024 * 1024
CONNECT_SECONDS = 15.0
REACHED_SECONDS = 60.0
"""How long an answer of the upstream shows that it can be reached."""
SILENT_SECONDS = 600.0
"""The longest silence of the upstream: models think for minutes."""
_PIECE_BYTES = 256 * 1024
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# For Clew, or with the addresses of callers, which providers do not get.
_NOT_PASSED_BEGINNINGS = ("x-clew-", "x-forwarded-")
# Of one connection, or of the encoding of the body between the client and the gateway.
_NOT_PASSED = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade"
    " host content-length content-encoding accept-encoding expect forwarded via x-real-ip".split()
)
_NOT_PASSED_BACK = frozenset(
    "connection keep-alive proxy-authenticate te trailer transfer-encoding upgrade content-length date server".split()
)


class UpstreamUnreachable(Exception):  # noqa: N818 (reads as what it says)
    """The upstream could not be reached, or hung up before it answered."""


# The wires at the addresses of providers, for several upstreams without configured wires.
_SERVED = (
    (re.compile(r"api\.anthropic\.com"), "messages"),
    (re.compile(r"api\.openai\.com"), "chat responses"),
    (re.compile(r"chatgpt\.com"), "responses"),
    (re.compile(r"generativelanguage\.googleapis\.com"), "gemini chat"),
    (re.compile(r"(?:.+[-.])?aiplatform\.googleapis\.com"), "vertex"),
    (re.compile(r".+\.(?:openai|cognitiveservices|services\.ai)\.azure\.com"), "azure chat responses messages"),
    (re.compile(r"bedrock-runtime\..+\.amazonaws\.com(?:\.cn)?"), "bedrock"),
)
_VERSION = re.compile(r"/v\d+(?:beta|alpha)?\d*$")
_OF_OPENAI = re.compile(r"(?:/v1)?(/chat/completions|/responses(?:/compact)?|/models(?:/.*)?)")
_OF_ANTHROPIC = re.compile(r"(?:/anthropic)?(?:/v1)?(/messages(?:/count_tokens)?|/models(?:/.*)?)")


def _known_at(host: str) -> str:
    return next((kinds for pattern, kinds in _SERVED if pattern.fullmatch(host)), "")


class UpstreamServer:
    """One provider behind the gateway."""

    def __init__(
        self,
        url: str,
        *,
        wires: Sequence[str] = (),
        models: Sequence[str] = (),
        key: str | None = None,
        aws: AwsCredential | None = None,
    ) -> None:
        """`wires` and `models`, which may have `*`, limit what it serves. `key` is the gateway's own for it."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(
                f"the upstream {url!r} is no address", remedy="give one that begins with https:// or http://"
            )
        if parts.username or parts.password or parts.query:
            raise InvalidArgument(
                "the address of the upstream holds a password or a query",
                remedy="put the key into model.api_key_env instead",
            )
        if unknown := sorted(set(wires) - KINDS):
            raise InvalidArgument(f"there is no wire {unknown[0]!r}", remedy=f"there are {', '.join(sorted(KINDS))}")
        self.written = url
        """The configured address."""
        self.key = key
        self.aws = aws
        self.models = tuple(models)
        self.wires = frozenset(wires)
        self._parts = parts
        self._path = parts.path.rstrip("/")
        self._root = _VERSION.sub("", self._path)
        self._session: aiohttp.ClientSession | None = None
        self._reached_at: float | None = None
        self._proxy: URL | None = None
        self._proxy_auth: aiohttp.BasicAuth | None = None
        self._find_proxy()

    def serves(self, kind: str, model: str) -> bool:
        """Whether it serves requests of a kind for a model; without a kind the model alone decides."""
        wanted = model.rpartition("/")[2].lower()
        is_for_model = not self.models or any(fnmatchcase(wanted, each.lower()) for each in self.models)
        return is_for_model and (not kind or not self.wires or kind in self.wires)

    @property
    def is_bedrock(self) -> bool:
        """Whether requests are signed for it."""
        return self.wires == {"bedrock"} or _known_at(self.host) == "bedrock"

    def limit_to_host(self) -> None:
        """Without configured wires, use those of its address."""
        if not self.wires:
            self.wires = frozenset(_known_at(self.host).split())

    def _find_proxy(self) -> None:
        """Use the proxy that the environment names. aiohttp would look for it with each request, and read `.netrc`
        too: the operator's credential would be in requests of callers.
        """
        named = None if self.host in _LOOPBACK or proxy_bypass(self.host) else getproxies().get(self._parts.scheme)
        if named:
            proxy = URL(named)
            self._proxy = proxy.with_user(None)
            if proxy.user:
                self._proxy_auth = aiohttp.BasicAuth(proxy.user, proxy.password or "")

    @property
    def address(self) -> str:
        return urlunsplit((self._parts.scheme, self._parts.netloc, self._root, "", ""))

    @property
    def base_url(self) -> str:
        """The address that OpenAI's paths follow."""
        return urlunsplit((self._parts.scheme, self._parts.netloc, self._path or "/v1", "", ""))

    @property
    def host(self) -> str:
        return (self._parts.hostname or "").lower()

    def url(self, path: str, query: str, kind: str = "") -> str:
        """The address of a path that a client asked for, with or without the version that the wire has.

        The upstream is configured as for the SDK of its wire: OpenAI's paths follow it unchanged, Anthropic's with a
        version. A path of a cloud is forwarded as received, since `is_plain_path` has checked it. So is the query.
        """
        if kind == "messages" and (found := _OF_ANTHROPIC.fullmatch(path)):
            own = "/anthropic" if path.startswith("/anthropic/") and not self._root.endswith("/anthropic") else ""
            whole = f"{self._root}{own}/v1{found[1]}"
        elif found := _OF_OPENAI.fullmatch(path):
            whole = (self._path or "/v1") + found[1]
        else:
            whole = path if path.startswith(f"{self._root}/") else self._root + path
        return urlunsplit((self._parts.scheme, self._parts.netloc, whole, query, ""))

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the response is open as long as the block lasts, and leaving it early hangs up."""
        if self.aws is not None and not headers.get("Authorization", "").lower().startswith("bearer "):
            # Signed last: a signature covers the body, and is valid for minutes.
            signed = signed_headers(self.aws, method, url, headers.items(), body or b"", datetime.now(UTC))
            headers = CIMultiDict([*without_signature(headers.items()), *signed.items()])
        try:
            response = await self._client().request(
                method,
                # Encoded already: aiohttp must not decode, quote or resolve anything in it.
                URL(url, encoded=True),
                headers=headers,
                data=None if body is None else BodyPayload(body),
                allow_redirects=False,
                proxy=self._proxy,
                proxy_auth=self._proxy_auth,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UpstreamUnreachable(f"{self.address} cannot be reached: {_words(error)}") from error
        self._reached_at = time.monotonic()
        try:
            yield response
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    def has(self, url: str) -> bool:
        """Whether an address belongs to this server."""
        return url.startswith(f"{urlunsplit((*self._parts[:2], '', '', ''))}/")

    async def resolve(self) -> None:
        """Resolve its host, unless it has answered recently; raises `OSError`."""
        if self._reached_at is not None and time.monotonic() - self._reached_at < REACHED_SECONDS:
            return
        port = self._parts.port or {"http": 80, "https": 443}[self._parts.scheme]
        host, port = (self._proxy.host or "", self._proxy.port or port) if self._proxy else (self.host, port)
        await asyncio.get_running_loop().getaddrinfo(host, port)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS),
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                auto_decompress=False,
                read_bufsize=2**18,
                # A cookie of one caller must not be sent with the requests of another.
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


class Upstreams:
    """The providers behind the gateway, in the order in which they are asked."""

    def __init__(self, servers: Sequence[UpstreamServer]) -> None:
        self.servers = tuple(servers)
        if len(self.servers) > 1:
            for server in self.servers:
                server.limit_to_host()

    @property
    def first(self) -> UpstreamServer:
        return self.servers[0]

    def route(self, kind: str, model: str = "") -> list[UpstreamServer]:
        """The servers for a request: the others are asked where the first one cannot answer. May be empty."""
        return [server for server in self.servers if server.serves(kind, model)]

    def of_model(self, model: str, kind: str = "") -> UpstreamServer:
        """The server of a model; the first upstream where none is for it."""
        return next(iter(self.route(kind, model)), self.first)

    def at(self, url: str) -> UpstreamServer:
        """The server of an address that `UpstreamServer.url` gave."""
        return next((server for server in self.servers if server.has(url)), self.first)

    async def resolve(self) -> None:
        """Resolve the hosts of all servers that have not answered recently; raises `OSError`."""
        await asyncio.gather(*(server.resolve() for server in self.servers))

    async def close(self) -> None:
        for server in self.servers:
            await server.close()


class BodyPayload(Payload):
    """Bytes that are sent in pieces. aiohttp's payload for bytes warns of large ones, that for files copies."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        whole = memoryview(self._value)[:content_length]
        for start in range(0, len(whole), _PIECE_BYTES):
            await writer.write(whole[start : start + _PIECE_BYTES])


def passed_headers(headers: CIMultiDictProxy[str], withhold: frozenset[str] = frozenset()) -> CIMultiDict[str]:
    """The headers to forward with a request; `withhold` names, in lower case, those that were for the gateway.

    A key of Clew is not forwarded, whatever header it is in.
    """
    named = {name.strip().lower() for value in headers.getall("Connection", []) for name in value.split(",")}
    passed = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if (lower := name.lower()) not in _NOT_PASSED
        and lower not in withhold
        and lower not in named
        and not lower.startswith(_NOT_PASSED_BEGINNINGS)
        and KEY_PREFIX not in value
    )
    # Replies are parsed while they pass, so they must not be compressed.
    passed["Accept-Encoding"] = "identity"
    return passed


def headers_back(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The headers of a reply to send to the client."""
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _NOT_PASSED_BACK)


async def read_error(response: aiohttp.ClientResponse) -> bytes:
    """The body of a refusal, up to `MAX_ERROR_BYTES`, or as far as received."""
    body = bytearray()
    with suppress(aiohttp.ClientError, TimeoutError):
        while len(body) < MAX_ERROR_BYTES and (chunk := await response.content.readany()):
            body += chunk
    return bytes(body)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


# -- replies -----------------------------------------------------------------------------------------------------------

PING_SECONDS = 10.0
"""Between two pings while a request waits for a compaction."""
MAX_READ_BYTES = 64 * 1024 * 1024
"""Of a reply: a longer one passes and is not stored."""
CHARS_PER_TOKEN = 4
"""For the usage of a request that cannot be counted and whose reply states none."""
_EVENT_END = re.compile(rb"\r?\n\r?\n")
_LONGEST_END = 4
_END_EVENTS = 3
"""Held back once the model has finished: the finish reason, the usage and the wire's own end."""
_SHORT_BODY = 64 * 1024
"""A body of no more bytes is sent at once."""
_NOT_READABLE = (ErrorInReply, ConnectionFailed, EventTooLong, ValueError)
_Value = TypeVar("_Value")


class ReplyReader:
    """Parses a reply while it passes; a reply that cannot be parsed passes as well."""

    def __init__(self, wire: GatewayWire, content_type: str) -> None:
        self._accumulator = wire.accumulator()
        self._events = _events_of(content_type)
        self.is_stream = self._events is not None
        self._wire = wire
        self._body = bytearray()
        self._came = 0
        self._before: tuple[CanonicalUsage | None, int] = (None, 0)
        """The usage and the characters of the part that was parsed and dropped."""
        self.problem = ""
        """Why it is not parsed to the end: an error inside the reply, or a malformed event."""

    @property
    def has_content(self) -> bool:
        return self._before[1] > 0 or self._accumulator.content_chars > 0 or self._accumulator.is_complete

    @property
    def is_at_end(self) -> bool:
        return self._accumulator.is_at_end

    def feed(self, chunk: bytes) -> None:
        if self.problem:
            return
        self._came += len(chunk)
        if self._came > MAX_READ_BYTES:
            self._before = self._accumulator.usage(), self._accumulator.content_chars or self._came
            self._accumulator, self._body = self._wire.accumulator(), bytearray()
            self.problem = f"a reply of more than {MAX_READ_BYTES:,} bytes"
            return
        if self._events is None:
            self._body += chunk
            return
        self._guard(lambda events=self._events: self._add_events(events.feed(chunk)))

    def end(self) -> None:
        if self.problem:
            return
        if self._events is not None:
            self._guard(lambda events=self._events: self._add_events(events.end()))
        else:
            self._guard(lambda: list(self._accumulator.add_body(read_json(bytes(self._body)))))

    @property
    def is_complete(self) -> bool:
        return not self.problem and self._accumulator.is_complete

    def usage(self) -> CanonicalUsage | None:
        """The stated usage; for an incomplete reply with at least the received output. None where none was stated."""
        stated = self._before[0] or self._accumulator.usage()
        if stated is None or self.is_complete:
            return stated
        return replace(stated, output_tokens=max(stated.output_tokens, self.output_tokens))

    @property
    def output_tokens(self) -> int:
        """An estimate of the received output."""
        return (self._before[1] + self._accumulator.content_chars) // CHARS_PER_TOKEN

    def reply(self, model: str) -> Reply | None:
        """The reply; None where it is incomplete."""
        if not self.is_complete:
            return None
        return self._accumulator.reply(Request(model, ()))

    def items(self) -> list[Any]:
        """The reply as the client will send it back."""
        return self._accumulator.items()

    def _add_events(self, events: Any) -> None:
        for event in events:
            list(self._accumulator.add_event(event))

    def _guard(self, read: Any) -> None:
        try:
            read()
        except ErrorInReply as error:
            self.problem = error.body
        except _NOT_READABLE as error:
            self.problem = str(error) or type(error).__name__
        except (TypeError, AttributeError, KeyError, IndexError, RecursionError) as error:
            self.problem = f"{type(error).__name__} in a reply that no accumulator knows"


def _events_of(content_type: str) -> SseReader | FrameReader | None:
    """The parser for a stream of this type; None for a body."""
    if STREAM_TYPE in content_type:
        return FrameReader()
    return SseReader() if "event-stream" in content_type else None


class HeldEnd:
    """Parses a reply and passes it on without its end, which the client gets once the reply is stored.

    Of a stream the events from the finish reason on are held; of a body its last byte, or all of a short one.
    """

    def __init__(self, reader: ReplyReader) -> None:
        self._reader = reader
        self._held: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """Parse a chunk; the bytes to pass on now."""
        if not self._reader.is_stream:
            self._reader.feed(chunk)
            whole = self.take() + chunk
            end = max(0, len(whole.rstrip()) - 1) if len(whole) > _SHORT_BODY else 0
            self._held = [whole[end:]]
            return whole[:end]
        passed = []
        for event in _split_events(chunk):
            self._reader.feed(event)
            if not self._reader.is_complete:
                passed.append(event)
                continue
            self._held.append(event)
            if len(self._held) > _END_EVENTS:
                # A reply with several choices continues after the first of them has finished.
                passed.append(self._held.pop(0))
        return b"".join(passed)

    def take(self) -> bytes:
        """The held bytes, which are not held any more."""
        held, self._held = b"".join(self._held), []
        return held


def _split_events(chunk: bytes) -> list[bytes]:
    """Split a chunk of a stream after each blank line."""
    ends = [0, *(found.end() for found in _EVENT_END.finditer(chunk)), len(chunk)]
    return [chunk[start:end] for start, end in pairwise(ends) if start < end]


class StreamEvents:
    """Splits a stream into its events, and encodes others like them."""

    def __init__(self, content_type: str) -> None:
        self._frames = FrameReader() if STREAM_TYPE in content_type else None
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The events that these bytes complete: the data of each, and its bytes."""
        if self._frames is not None:
            try:
                for frame, raw in self._frames.frames(chunk):
                    yield frame.event or b"", raw
            except (ValueError, IndexError, struct.error, EventTooLong):
                # These are no frames: the bytes pass as received.
                yield b"", self._frames.take_rest()
            return
        # A blank line may begin in the bytes that were searched before.
        start = max(0, len(self._rest) - _LONGEST_END)
        self._rest += chunk
        at = 0
        for end in [found.end() for found in _EVENT_END.finditer(self._rest, start)]:
            raw = bytes(self._rest[at:end])
            at = end
            lines = (line.rstrip(b"\r") for line in raw.split(b"\n"))
            yield b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:")), raw
        del self._rest[:at]
        if len(self._rest) > MAX_READ_BYTES:
            yield b"", self.take_rest()  # no event is so long

    def encode(self, data: bytes, name: str = "") -> bytes:
        """An event with this data, and with a name where its wire has one."""
        if self._frames is not None:
            return event_frame(data).encode()
        return (b"event: %s\n" % name.encode() if name else b"") + b"data: " + data + b"\n\n"

    def take_rest(self) -> bytes:
        """The bytes of an event that is not complete."""
        if self._frames is not None:
            return self._frames.take_rest()
        rest, self._rest = bytes(self._rest), bytearray()
        return rest


def stream_events(content_type: str) -> StreamEvents | None:
    """Splits a stream of this type; None where it is none."""
    return StreamEvents(content_type) if STREAM_TYPE in content_type or "event-stream" in content_type else None


class UsageTeller:
    """Shows the client other prompt tokens; everything else passes as received."""

    def __init__(self, wire: GatewayWire, change: Change, content_type: str) -> None:
        self._wire = wire
        self._change = change
        self._events = stream_events(content_type)
        self._body = b""

    def feed(self, chunk: bytes) -> bytes:
        """The bytes to pass on now: whole events of a stream, or nothing of a body before its end."""
        if self._events is None:
            self._body += chunk
            return b""
        return b"".join(self._event(data, raw) for data, raw in self._events.feed(chunk))

    def end(self) -> bytes:
        return self._told(self._body) if self._events is None else self._events.take_rest()

    def _event(self, data: bytes, raw: bytes) -> bytes:
        told = self._told(data) if b"sage" in data else data
        if told is data or self._events is None:
            return raw
        return raw.replace(data, told, 1) if data in raw else self._events.encode(told)

    def _told(self, raw: bytes) -> bytes:
        try:
            value = read_json(raw)
        except UnreadableBody:
            return raw
        if not isinstance(value, dict) or not self._wire.tell_prompt_tokens(value, self._change):
            return raw
        return write_json(value)


class ClientResponse:
    """The response to one request: begun when its status is known, or earlier where the client has to wait."""

    def __init__(
        self, request: web.Request, wire: GatewayWire, *, is_stream: bool, ping_seconds: float = PING_SECONDS
    ) -> None:
        self._ping_seconds = ping_seconds
        self.request = request
        self.wire = wire
        self.is_stream = is_stream
        self._response: web.StreamResponse | None = None
        self._last = b""
        self._next_ping: asyncio.TimerHandle | None = None
        self._pinging: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        return self._response is not None

    async def begin(self, status: int, headers: CIMultiDict[str]) -> None:
        if self._response is None:
            self._response = web.StreamResponse(status=status, headers=headers)
            await self._response.prepare(self.request)

    async def write(self, chunk: bytes) -> None:
        if self._response is not None and chunk:
            await self._response.write(chunk)

    def write_last(self, chunk: bytes) -> None:
        """Set the bytes that are sent together with the end."""
        self._last = chunk

    async def end(self) -> web.StreamResponse:
        assert self._response is not None
        await self._response.write_eof(self._last)
        return self._response

    async def fail(self, status: int, message: str) -> web.StreamResponse:
        """Send an error of the gateway: with its status, or as an event where the response has begun."""
        if self._response is None:
            return web.json_response(self.wire.error(status, message), status=status)
        await self.write(self.wire.error_event(status, message))
        return await self.end()

    async def waiting_for(self, work: Awaitable[_Value]) -> _Value:
        """The result of work that may take long; a client that wants a stream gets pings until then."""
        if not self.is_stream:
            return await work
        self._ping_in_a_while()
        try:
            return await work
        finally:
            if self._next_ping is not None:
                self._next_ping.cancel()
            if self._pinging is not None:
                # The reply must not begin inside a ping.
                await asyncio.wait({self._pinging})

    async def chunks_of(self, content: StreamReader) -> AsyncIterator[bytes]:
        """The chunks of a reply; a client that wants a stream gets pings between them."""
        while chunk := await self.waiting_for(content.readany()):
            yield chunk

    def _ping_in_a_while(self) -> None:
        self._next_ping = asyncio.get_running_loop().call_later(self._ping_seconds, self._start_ping)

    def _start_ping(self) -> None:
        self._pinging = asyncio.create_task(self._ping())
        self._ping_in_a_while()

    async def _ping(self) -> None:
        with suppress(ConnectionError):  # the server cancels the exchange of a client that hung up
            await self.begin(200, CIMultiDict({"Content-Type": self.wire.stream_type, "Cache-Control": "no-cache"}))
            await self.write(self.wire.ping)
