"""The line to a provider: one POST or GET at a time over kept connections, bytes as they come.

The only place that knows the HTTP client, which is imported when the first request is sent. Every fault of the line
becomes a `LineBroken`; what a status or a body means is not known here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from clew.errors import InvalidArgument

if TYPE_CHECKING:
    import aiohttp

    from clew.providers.patience import Patience

LARGEST_BODY_BYTES = 64 * 1024 * 1024
LARGEST_ERROR_BYTES = 1024 * 1024
_QUERY = re.compile(r"\?\S*")
_LAST_BYTES_SECONDS = 0.1
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class LineBroken(Exception):  # noqa: N818 (reads as what it says)
    """The connection could not be made, or did not last."""


class LineSilent(LineBroken):
    """Nothing came in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answers: its status and headers, and the body while it comes."""

    status: int
    headers: Mapping[str, str]
    _response: aiohttp.ClientResponse

    def is_stream(self, asked: bool) -> bool:
        """Whether events come; a server that does not say what it sends is taken to do what was asked."""
        kind = self.headers.get("content-type", "").lower()
        return "event-stream" in kind or (asked and "json" not in kind and "html" not in kind)

    async def piece(self) -> bytes:
        """The next bytes, as soon as there are some; none at the end."""
        with _translated(self._response.url.host or "the server"):
            return await self._response.content.readany()

    async def whole(self, most_bytes: int = LARGEST_BODY_BYTES) -> bytes:
        """The body, and no more of it than this."""
        body = bytearray()
        while len(body) <= most_bytes and (piece := await self.piece()):
            body += piece
        return bytes(body[:most_bytes])

    async def ends(self) -> None:
        """Wait a moment for the end behind the last event: a line that is read to its end can be used again."""
        import asyncio

        with suppress(TimeoutError, LineBroken):
            async with asyncio.timeout(_LAST_BYTES_SECONDS):
                while await self.piece():
                    pass


@contextmanager
def _translated(host: str) -> Iterator[None]:
    """What a broken line raises, as `LineBroken`. Stands around what waits for the line, and nothing else."""
    import aiohttp

    try:
        yield
    except TimeoutError as error:
        raise LineSilent(f"{host} sent nothing in time: timed out ({type(error).__name__})") from error
    except (aiohttp.ClientError, OSError) as error:
        # The words may hold the address; what stands behind its question mark can be a key.
        told = _QUERY.sub("?", str(error))
        raise LineBroken(f"connection error with {host}: {type(error).__name__}: {told}") from error


@dataclass(slots=True)
class _Attempt:
    on_kept_connection: bool = False


async def _note_kept(_session: object, context: Any, _params: object) -> None:
    context.trace_request_ctx.on_kept_connection = True


class Line:
    """Connections to one base URL."""

    def __init__(self, base_url: str, patience: Patience) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument("the base_url of a provider begins with http:// or https:// and names a host")
        if parts.username or parts.password:
            raise InvalidArgument(
                f"the base_url for {parts.hostname} holds a user name or password; put the key into api_key_env instead"
            )
        self.host = parts.hostname.lower()
        self._parts = parts
        self._patience = patience
        self._session: aiohttp.ClientSession | None = None
        self._loop: object = None

    def url(self, path: str, *, inner: str = "", query: str = "") -> str:
        """The address of an endpoint.

        A base URL that names no path gets the version, as every server has it; one that does gets `inner` behind it,
        unless it ends so already.
        """
        base = self._parts.path.rstrip("/") or "/v1"
        if inner and not base.endswith(inner):
            base += inner
        asked = "&".join(part for part in (self._parts.query, query) if part)
        return urlunsplit((self._parts.scheme, self._parts.netloc, base + path, asked, ""))

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[Answer]:
        """An answer, for as long as the block lasts; leaving it early, by an error or a cancel, hangs up."""
        response = await self._respond(method, url, headers, body)
        try:
            yield Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, response)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def _respond(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        session = await self._ready_session()
        while True:
            attempt = _Attempt()
            # As a file, because the client warns of large bodies that it must send at once.
            sent = None if body is None else BytesIO(body)
            try:
                with _translated(self.host):
                    # A redirect would carry the key and the conversation to a place that nobody configured.
                    return await session.request(
                        method, url, headers=headers, data=sent, allow_redirects=False, trace_request_ctx=attempt
                    )
            except LineBroken as broken:
                # A kept connection that the server had closed meanwhile says nothing about the server. Each one
                # that fails is gone, so this ends.
                if isinstance(broken, LineSilent) or not attempt.on_kept_connection:
                    raise

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ready_session(self) -> aiohttp.ClientSession:
        import asyncio

        import aiohttp

        loop = asyncio.get_running_loop()
        if self._session is not None and self._loop is not loop:
            # A program that calls asyncio.run again: connections belong to the loop that is gone.
            await self.close()
        if self._session is None:
            patience = self._patience
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=patience.connect_seconds, sock_read=patience.idle_seconds
            )
            options: dict[str, Any] = {"timeout": timeout, "trust_env": self.host not in _LOOPBACK}
            kept = aiohttp.TraceConfig()
            kept.on_connection_reuseconn.append(_note_kept)
            self._session = aiohttp.ClientSession(read_bufsize=2**18, trace_configs=[kept], **options)
            self._loop = loop
        return self._session
