"""What may come in: under which names, from which pages, in which form, how large and how slowly.

Everything here is decided before a request is understood, from its first line, its headers and the size of its body.
Connections are silent about what came over them: aiohttp bounds the time of neither first nor later headers, and it
logs and answers what it could not parse by its text, where a credential may stand.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import sys
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from importlib import import_module
from typing import Any

from aiohttp import StreamReader, web
from multidict import CIMultiDictProxy

from clew.gateway.callers import Refusal

DEFAULT_PORTS = {"http": 80, "https": 443}
# A path with anything encoded means one thing here and might mean another at the upstream; ids have `:` and `@`.
_ENCODED = re.compile(r"(?i)%(?!3a|40)")
# A model of Bedrock may be named by its ARN, which has one slash, always encoded.
_ARN = re.compile(r"(?i)(/model/arn(?:[a-z0-9:-]|%3a)+)%2f([a-z0-9.:-]+/)")
_NAME = re.compile(r"(?i)(\[[0-9a-f:.]+\]|[\w.-]+)(?::([0-9]{1,5}))?")
# What browsers say about requests that a page of another site, or of another port, has made.
_FOREIGN_SITES = ("cross-site", "same-site")
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """How large a request may be, and how long it may take to come."""

    body_bytes: int = 64 * 1024 * 1024
    """Of a body, unpacked: twice what the largest provider takes."""
    head_seconds: float = 15.0
    """From the first byte of a connection, or of a further request on it, to the end of the headers."""
    silent_seconds: float = 30.0
    """Between two pieces of a body."""
    body_seconds: float = 300.0
    """For a whole body."""
    idle_seconds: float = 75.0
    """Between two requests of a connection."""
    linger_seconds: float = 2.0
    """So long the rest of a refused body is thrown away, so that the client reads its answer before the end."""


class OwnNames:
    """The names under which a gateway may be called. A page that points a name of its own here is refused by it."""

    def __init__(self, host: str, port: int, names: frozenset[str] = frozenset()) -> None:
        """`names` are further ones: with a port, or without one for any."""
        self._host = host.lower()
        self._port = port
        self._is_open = not is_loopback(host)
        self._names = frozenset(name.lower() for name in names)

    def check(self, request: web.Request) -> None:
        """Refuse what was not sent to this gateway by a program, or by a page of its own."""
        if not request.raw_path.startswith("/"):
            raise Refusal(400, "the gateway is no proxy: send a path, not an address")
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1:
            raise Refusal(400, "a request has exactly one Host")
        # Amazon's JavaScript SDK leaves the port out. An address cannot be pointed here by somebody else's name.
        if not self.has(hosts[0], "http") and not self._is_own_address(hosts[0].lower()):
            raise Refusal(403, f"the host {hosts[0][:100]!r} is not a name of this gateway; --name adds one")
        origins = request.headers.getall("Origin", [])
        if not all(map(self._is_own_page, origins)) or request.headers.get("Sec-Fetch-Site") in _FOREIGN_SITES:
            raise Refusal(403, "requests from pages of other sites are not served")

    def has(self, host: str, scheme: str) -> bool:
        """Whether a `Host`, or what is in its place in an address of this scheme, is one of them."""
        found = _NAME.fullmatch(host)
        if found is None:
            return False
        name, port = found[1].lower(), int(found[2] or DEFAULT_PORTS[scheme])
        if name in self._names or f"{name}:{port}" in self._names:
            return True
        return port == self._port and (name == self._host or name == "localhost" or self._is_own_address(name))

    def _is_own_page(self, origin: str) -> bool:
        scheme, separator, host = origin.partition("://")
        return bool(separator) and scheme in DEFAULT_PORTS and self.has(host, scheme)

    def _is_own_address(self, name: str) -> bool:
        """An address is no name that somebody could point elsewhere."""
        try:
            return ipaddress.ip_address(name.strip("[]")).is_loopback or self._is_open
        except ValueError:
            return False


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_plain_path(raw_path: str) -> bool:
    """Whether nothing in a path, as received, could mean another path elsewhere."""
    path = _ARN.sub(r"\1\2", raw_path.partition("?")[0].partition("#")[0], count=1)
    return path.isascii() and "//" not in path and not _ENCODED.search(path)


async def read_body(request: web.Request, bounds: RequestBounds) -> bytes:
    """The body of a request, unpacked; raises `Refusal`, without reading on."""
    encoding = encoding_of(request.headers)
    check_length(request, bounds)
    body = await _pieces_in_time(request.content, bounds)
    if encoding == "identity":
        return body
    return await asyncio.to_thread(unpack, body, encoding, bounds)


async def _pieces_in_time(content: StreamReader, bounds: RequestBounds) -> bytes:
    """A body to its end, unless it is silent for too long, takes too long in all, or is too large."""
    pieces: list[bytes] = []
    size, loop = 0, asyncio.get_running_loop()
    end = loop.time() + bounds.body_seconds
    try:
        async with asyncio.timeout(None) as limit:
            while True:
                limit.reschedule(min(loop.time() + bounds.silent_seconds, end))
                piece = await content.readany()
                if not piece:
                    break
                pieces.append(piece)
                size += len(piece)
                if size > bounds.body_bytes:
                    raise too_large(bounds)
    except TimeoutError:
        raise Refusal(408, "the body of the request came too slowly", {"Connection": "close"}) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_length(request: web.Request, bounds: RequestBounds) -> None:
    """Refuse a body that says itself that it is too large."""
    if (request.content_length or 0) > bounds.body_bytes:
        raise too_large(bounds)


def too_large(bounds: RequestBounds) -> Refusal:
    size = bounds.body_bytes
    told = f"{size // 1024 // 1024} MB" if size >= 1024 * 1024 else f"{size} bytes"
    return Refusal(413, f"the request has more than the {told} that this gateway takes", {"Connection": "close"})


def encoding_of(headers: CIMultiDictProxy[str]) -> str:
    """How a body is packed; raises `Refusal` where it cannot be unpacked."""
    named = ",".join(headers.getall("Content-Encoding", [])).strip().lower() or "identity"
    if named in ("identity", "zstd") or named in _WINDOW_BITS:
        return named
    taken = "gzip, deflate, zstd"
    message = f"a body in {named[:50]!r} is not read here; send it as it is, or in one of: {taken}"
    raise Refusal(415, message, {"Accept-Encoding": taken, "Connection": "close"})


def unpack(body: bytes, encoding: str, bounds: RequestBounds) -> bytes:
    """A packed body, never unpacked further than its bound."""
    refuses: tuple[type[Exception], ...] = (zlib.error, ValueError, EOFError)
    unpacker: Any
    if encoding == "zstd":
        # Python's own since 3.14. It refuses by itself what would need more than 128 MB for its window.
        zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
        unpacker, refuses = zstd.ZstdDecompressor(), (*refuses, zstd.ZstdError)
    else:
        unpacker = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        return _unpacked(unpacker, body, bounds)
    except refuses as error:
        raise Refusal(400, f"the body is not what its Content-Encoding says: {encoding}") from error


def _unpacked(unpacker: Any, body: bytes, bounds: RequestBounds) -> bytes:
    whole = bytearray()
    rest = body
    while not unpacker.eof:
        piece = unpacker.decompress(rest, _PIECE_BYTES)
        # zlib gives back what it has not read; zstd keeps it.
        rest = getattr(unpacker, "unconsumed_tail", b"")
        whole += piece
        if len(whole) > bounds.body_bytes:
            raise too_large(bounds)
        if not piece and not rest and not unpacker.eof:
            raise ValueError("it ends too early")
    if unpacker.unused_data:
        raise ValueError("something follows it")
    return bytes(whole)


_MAX_HEADER_BYTES = 64 * 1024
"""Of one header or of the first line: some agents put much into one."""

_log = logging.getLogger("clew.gateway")


class ClientConnection(web.RequestHandler):
    """One connection. It is closed when headers take too long to come."""

    __slots__ = ("_head_seconds", "_head_timer")

    def __init__(self, manager: web.Server, *, head_seconds: float, **options: Any) -> None:
        super().__init__(manager, **options)
        self._head_seconds = head_seconds
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages or self._current_request is not None:
            self._stop_waiting()
        elif self._head_timer is None:
            self._wait_for_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_timer = self._loop.call_later(self._head_seconds, self.force_close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (it quotes what came)
    ) -> web.StreamResponse:
        """An answer that quotes nothing of a request that could not be parsed or served."""
        _log.log(
            # Whoever hangs up in the middle of an answer is no error of ours.
            logging.ERROR if status >= 500 and not isinstance(exc, ConnectionError) else logging.INFO,
            "a request ended with %d: %s",
            status,
            where_it_failed(exc),
        )
        if request.writer.output_size > 0:
            raise ConnectionError("the response has begun")
        response = web.json_response({"error": {"message": HTTPStatus(status).phrase}}, status=status)
        response.force_close()
        return response

    def log_exception(self, *_: Any, **details: Any) -> None:
        _log.error("a connection failed: %s", where_it_failed(details.get("exc_info")))


def client_connections(manager: web.Server, bounds: RequestBounds) -> Callable[[], ClientConnection]:
    """What makes connections for a server of aiohttp, for `create_server` of a loop."""
    return partial(
        ClientConnection,
        manager,
        loop=asyncio.get_running_loop(),
        head_seconds=bounds.head_seconds,
        access_log=None,
        keepalive_timeout=bounds.idle_seconds,
        lingering_time=bounds.linger_seconds,
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
        # Bodies are unpacked by `read_body`, which refuses what it does not know.
        auto_decompress=False,
    )


def where_it_failed(problem: object) -> str:
    """An exception by its class and its place in the code. Its words are left out: they may quote a message."""
    if not isinstance(problem, BaseException):
        return "unknown"
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" in {frames[-1].name}, line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    return f"{type(problem).__name__}{place}"
