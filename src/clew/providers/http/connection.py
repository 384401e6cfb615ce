"""HTTP connections to a provider: requests over kept connections, bodies as they arrive, time limits and retries.

This is the only file of the room that talks to aiohttp, which is imported with the first request. Every connection
error becomes `ConnectionFailed`; what a status or a body means is decided by the callers.
"""

from __future__ import annotations

import codecs
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from clew.errors import InvalidArgument
from clew.providers.errors import ErrorClass

if TYPE_CHECKING:
    import aiohttp


LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_ERROR_BYTES = 1024 * 1024
TRANSIENT_KINDS = frozenset({"rate_limit", "overloaded", "network"})
"""Errors that another try may not meet again."""
_QUERY = re.compile(r"\?\S*")
_DRAIN_SECONDS = 0.1

Sleep = Callable[[float], Awaitable[None]]


async def sleep(seconds: float) -> None:
    """`asyncio.sleep`, imported when it is first needed."""
    import asyncio

    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is tried again, how long to wait before that, and the time limits of a connection.

    Only requests that failed before the first byte of a reply are tried again. Tests pass their own `sleep` and
    `jitter`.
    """

    retries: int = 3
    first_wait_seconds: float = 0.5
    max_wait_seconds: float = 60.0
    """Where a provider asks for a longer wait, the error is raised at once, so that the user decides."""
    connect_seconds: float = 15.0
    idle_seconds: float = 300.0
    """The longest silence before and between the pieces of a reply: models think for minutes."""
    content_seconds: float = 900.0
    """The longest time without a piece of the reply itself, whatever keep-alives arrive meanwhile."""
    max_stream_bytes: int = 256 * 1024 * 1024
    """Many times the longest reply; a longer stream is cut, and the reply so far is kept."""
    usage_seconds: float = 5.0
    """How long to wait for usage after the end of the text: some servers neither send it nor hang up."""
    sleep: Sleep = sleep
    jitter: Callable[[], float] = random.random
    """Returns a number from 0 up to 1."""

    def wait_before(self, retry: int, fault: ErrorClass) -> float | None:
        """Seconds to wait before this retry, the first being 0; None where the request is not tried again."""
        if retry >= self.retries or fault.kind not in TRANSIENT_KINDS:
            return None
        return self.delay(retry, fault.retry_after)

    def delay(self, retry: int, retry_after: float | None = None) -> float | None:
        """Seconds to wait before this retry, doubled each time; None where the provider asks for a longer wait than
        the maximum."""
        doubled = min(self.first_wait_seconds * 2.0**retry, self.max_wait_seconds)
        if retry_after is None:
            return doubled * (0.5 + 0.5 * self.jitter())
        if retry_after > self.max_wait_seconds:
            return None
        # Never sooner than asked, and not all clients at the same moment.
        return retry_after + self.jitter() * min(1.0, doubled)


class ConnectionFailed(Exception):  # noqa: N818 (reads as what it says)
    """The connection could not be made, or broke."""


class StreamTooLong(Exception):  # noqa: N818 (reads as what it says)
    """A streamed reply that does not end."""


class ConnectionTimedOut(ConnectionFailed):
    """Nothing arrived within the time limit."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Status and headers of a response, and its body while it arrives."""

    status: int
    headers: Mapping[str, str]
    _response: aiohttp.ClientResponse

    def is_event_stream(self, requested: bool) -> bool:
        """Whether the body is a stream of events; without a content type, whether one was requested."""
        kind = self.headers.get("content-type", "").lower()
        return "event-stream" in kind or (requested and "json" not in kind and "html" not in kind)

    async def read_chunk(self) -> bytes:
        """The next bytes, as soon as there are some; empty at the end."""
        with _translate_errors(self._response.url.host or "the server"):
            return await self._response.content.readany()

    async def read_body(self, max_bytes: int = MAX_BODY_BYTES) -> bytes:
        """The body, cut at `max_bytes`."""
        body = bytearray()
        while len(body) <= max_bytes and (chunk := await self.read_chunk()):
            body += chunk
        return bytes(body[:max_bytes])

    async def drain(self) -> None:
        """Wait a moment for the end of the body: a connection that was read to its end can be used again."""
        import asyncio

        with suppress(TimeoutError, ConnectionFailed):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while await self.read_chunk():
                    pass


@contextmanager
def _translate_errors(host: str) -> Iterator[None]:
    """Raise connection errors as `ConnectionFailed`. Put it around waits for the network, and nothing else."""
    import aiohttp

    try:
        yield
    except TimeoutError as error:
        raise ConnectionTimedOut(f"{host} sent nothing in time: timed out ({type(error).__name__})") from error
    except (aiohttp.ClientError, OSError) as error:
        # The text may hold the address, and its query can hold a key.
        problem = _QUERY.sub("?", str(error))
        raise ConnectionFailed(f"connection error with {host}: {type(error).__name__}: {problem}") from error


@dataclass(slots=True)
class _RequestTrace:
    reused_connection: bool = False


async def _note_reuse(_session: object, context: Any, _params: object) -> None:
    context.trace_request_ctx.reused_connection = True


class HttpConnection:
    """Connections to one base URL."""

    def __init__(self, base_url: str, retry_policy: RetryPolicy) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument("the base_url of a provider begins with http:// or https:// and names a host")
        if parts.username or parts.password:
            raise InvalidArgument(
                f"the base_url for {parts.hostname} holds a user name or password",
                remedy="put the key into api_key_env instead",
            )
        self.host = parts.hostname.lower()
        self._parts = parts
        self._retry_policy = retry_policy
        self._session: aiohttp.ClientSession | None = None
        self._loop: object = None

    @property
    def address(self) -> str:
        """The base URL without its query, which may be secret."""
        return urlunsplit((self._parts.scheme, self._parts.netloc, self._parts.path, "", ""))

    def url(self, path: str, *, version: str = "", query: str = "") -> str:
        """The address of an endpoint.

        A base URL without a path gets `/v1`; one with a path gets `version` appended, unless it ends so already.
        """
        base = self._parts.path.rstrip("/") or "/v1"
        if version and not base.endswith(version):
            base += version
        queries = "&".join(part for part in (self._parts.query, query) if part)
        return urlunsplit((self._parts.scheme, self._parts.netloc, base + path, queries, ""))

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[HttpResponse]:
        """Send a request; the response is open as long as the block lasts, and leaving it early hangs up."""
        response = await self._request(method, url, headers, body)
        try:
            yield HttpResponse(response.status, {k.lower(): v for k, v in response.headers.items()}, response)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        session = await self._open_session()
        while True:
            trace = _RequestTrace()
            # As a file, because the client warns of large bodies that it must send at once.
            data = None if body is None else BytesIO(body)
            try:
                with _translate_errors(self.host):
                    # A redirect would send the key and the conversation to a host that is not configured.
                    return await session.request(
                        method, url, headers=headers, data=data, allow_redirects=False, trace_request_ctx=trace
                    )
            except ConnectionFailed as failed:
                # A kept connection that the server had closed meanwhile says nothing about the server. Each one
                # that fails is dropped from the pool, so this ends.
                if isinstance(failed, ConnectionTimedOut) or not trace.reused_connection:
                    raise

    async def _open_session(self) -> aiohttp.ClientSession:
        import asyncio

        import aiohttp

        loop = asyncio.get_running_loop()
        if self._session is not None and self._loop is not loop:
            # A program that calls asyncio.run again: connections belong to the loop that is gone.
            await self.close()
        if self._session is None:
            limits = self._retry_policy
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=limits.connect_seconds, sock_read=limits.idle_seconds
            )
            options: dict[str, Any] = {"timeout": timeout, "trust_env": self.host not in LOOPBACK_HOSTS}
            reuse = aiohttp.TraceConfig()
            reuse.on_connection_reuseconn.append(_note_reuse)
            self._session = aiohttp.ClientSession(read_bufsize=2**18, trace_configs=[reuse], **options)
            self._loop = loop
        return self._session


MAX_EVENT_CHARS = 64 * 1024 * 1024
"""Many times a whole reply: a longer event is a fault of the server."""


_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: its name ("" where the server gave none) and its data, lines joined."""

    name: str
    data: str


class EventTooLong(ValueError):  # noqa: N818 (reads as what it says)
    """An event that does not end."""


class SseReader:
    """Takes bytes in any pieces and gives the events that are complete."""

    def __init__(self) -> None:
        # The network may cut a character in two; bytes that are no UTF-8 become U+FFFD.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._name = ""
        self._data: list[str] = []
        self._chars = 0
        self._is_first = True

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """The events that these bytes complete; raises `EventTooLong`."""
        yield from self._events(self._decoder.decode(chunk))

    def end(self) -> Iterator[SseEvent]:
        """The last event, where the server left out the blank line behind it."""
        yield from self._events(self._decoder.decode(b"", final=True) + "\n\n")

    def _events(self, text: str) -> Iterator[SseEvent]:
        for line in self._lines(text):
            event = self._event_after(line)
            if event is not None:
                yield event

    def _lines(self, text: str) -> list[str]:
        """The complete lines; the rest is kept. A piece without a line end costs the same however much is kept."""
        if self._is_first and text:
            self._is_first, text = False, text.removeprefix("\ufeff")
        waits_for_lf = bool(self._pieces) and self._pieces[-1].endswith("\r")
        self._chars += len(text)
        if self._chars > MAX_EVENT_CHARS:
            raise EventTooLong(f"an event of the stream has more than {MAX_EVENT_CHARS:,} characters")
        self._pieces.append(text)
        if not waits_for_lf and "\n" not in text and "\r" not in text:
            return []
        *lines, rest = _LINE_END.split("".join(self._pieces))
        if rest == "" and text.endswith("\r") and lines:
            rest = lines.pop() + "\r"  # its line feed may be in the next piece
        self._pieces = [rest]
        return lines

    def _event_after(self, line: str) -> SseEvent | None:
        if not line:
            event = SseEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._chars = "", [], sum(map(len, self._pieces))
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None
