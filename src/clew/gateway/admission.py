"""Who may send requests, and which: host names, pages, sizes, times, credentials, keys and call limits.

All of it is decided before a request is parsed. Connections log nothing of what they received: aiohttp limits the time
of neither first nor later headers, and it logs and answers what it could not parse with its text, which may hold a
credential.

With a key of Clew a caller is the owner of the key, and the upstream's own credential is sent in its place. Without
keys a caller is identified by its own credential, which passes. Once there is a key, callers without one are refused. A
request that is signed for Amazon is served where the gateway has the credential that signed it. A key is long and
random, so a plain SHA-256 of it can be stored and looked up.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import math
import re
import secrets
import string
import sys
import time
import traceback
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from importlib import import_module
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote_plus

from aiohttp import StreamReader, web
from multidict import CIMultiDict, CIMultiDictProxy

from clew.errors import ClewError, ConflictingCredentials, StoreError
from clew.gateway.aws import AwsCredential, is_signed, is_signed_with
from clew.gateway.wires import GEMINI, is_models_path, wire_path
from clew.store import AccessKey, CallBucket, KeyHandoffs, KeyMode, KeyRecall, KeyStore, Store, TakenCalls

DEFAULT_PORTS = {"http": 80, "https": 443}
# An encoded path might mean another path at the upstream; only ids with `:` and `@` are encoded.
_ENCODED = re.compile(r"(?i)%(?!3a|40)")
# A model of Bedrock may be named by its ARN, which has one slash, always encoded.
_ARN = re.compile(r"(?i)(/model/arn(?:[a-z0-9:-]|%3a)+)%2f([a-z0-9.:-]+/)")
_NAME = re.compile(r"(?i)(\[[0-9a-f:.]+\]|[\w.-]+)(?::([0-9]{1,5}))?")
# Values of Sec-Fetch-Site for requests from pages of another site or port.
_FOREIGN_SITES = ("cross-site", "same-site")
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PIECE_BYTES = 256 * 1024

_log = logging.getLogger("clew.gateway")


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """How large a request may be, and how long it may take to be received."""

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
    """How long the rest of a refused body is read and dropped, so that the client reads its answer."""


class OwnNames:
    """The host names of a gateway. A page with a DNS name that points to this address is refused (DNS rebinding)."""

    def __init__(self, host: str, port: int, names: frozenset[str] = frozenset()) -> None:
        """`names` are further ones: with a port, or without one for any."""
        self._host = host.lower()
        self._port = port
        self._is_open = not is_loopback(host)
        self._names = frozenset(name.lower() for name in names)

    def check(self, request: web.Request) -> None:
        """Refuse a request for another host, and one from a page of another site."""
        if not request.raw_path.startswith("/"):
            raise Refusal(400, "the gateway is no proxy: send a path, not an address")
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1:
            raise Refusal(400, "a request has exactly one Host")
        # Amazon's JavaScript SDK leaves the port out. An IP address is safe: no DNS name is involved.
        if not self.has(hosts[0], "http") and not self._is_own_address(hosts[0].lower()):
            raise Refusal(403, f"the host {hosts[0][:100]!r} is not a name of this gateway; --name adds one")
        origins = request.headers.getall("Origin", [])
        if not all(map(self._is_own_page, origins)) or request.headers.get("Sec-Fetch-Site") in _FOREIGN_SITES:
            raise Refusal(403, "requests from pages of other sites are not served")

    def has(self, host: str, scheme: str) -> bool:
        """Whether a `Host`, or the host of an `Origin` with this scheme, is a name of this gateway."""
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
        """Whether a host is an IP address of this gateway."""
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
    """Whether a path, as received, cannot mean another path at the upstream."""
    path = _ARN.sub(r"\1\2", raw_path.partition("?")[0].partition("#")[0], count=1)
    return path.isascii() and "//" not in path and not _ENCODED.search(path)


async def read_body(request: web.Request, bounds: RequestBounds) -> bytes:
    """The decompressed body of a request; raises `Refusal` without reading further."""
    encoding = encoding_of(request.headers)
    check_length(request, bounds)
    body = await _pieces_in_time(request.content, bounds)
    if encoding == "identity":
        return body
    return await asyncio.to_thread(unpack, body, encoding, bounds)


async def _pieces_in_time(content: StreamReader, bounds: RequestBounds) -> bytes:
    """A whole body; raises `Refusal` where it pauses or takes too long, or is too large."""
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
        raise Refusal(408, "the body of the request was sent too slowly", {"Connection": "close"}) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_length(request: web.Request, bounds: RequestBounds) -> None:
    """Refuse a body whose Content-Length is too large."""
    if (request.content_length or 0) > bounds.body_bytes:
        raise too_large(bounds)


def too_large(bounds: RequestBounds) -> Refusal:
    size = bounds.body_bytes
    told = f"{size // 1024 // 1024} MB" if size >= 1024 * 1024 else f"{size} bytes"
    return Refusal(413, f"the request has more than the {told} that this gateway takes", {"Connection": "close"})


def encoding_of(headers: CIMultiDictProxy[str]) -> str:
    """The encoding of a body; raises `Refusal` for one that is not supported."""
    named = ",".join(headers.getall("Content-Encoding", [])).strip().lower() or "identity"
    if named in ("identity", "zstd") or named in _WINDOW_BITS:
        return named
    taken = "gzip, deflate, zstd"
    message = f"a body in {named[:50]!r} is not read here; send it as it is, or in one of: {taken}"
    raise Refusal(415, message, {"Accept-Encoding": taken, "Connection": "close"})


def unpack(body: bytes, encoding: str, bounds: RequestBounds) -> bytes:
    """Decompress a body, and stop at the bound."""
    refuses: tuple[type[Exception], ...] = (zlib.error, ValueError, EOFError)
    unpacker: Any
    if encoding == "zstd":
        # In the standard library since 3.14. It refuses windows of more than 128 MB.
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
        # zlib gives the unread input back; zstd keeps it.
        rest = getattr(unpacker, "unconsumed_tail", b"")
        whole += piece
        if len(whole) > bounds.body_bytes:
            raise too_large(bounds)
        if not piece and not rest and not unpacker.eof:
            raise ValueError("it ends too early")
    if unpacker.unused_data:
        raise ValueError("something follows it")
    return bytes(whole)


# -- connections -------------------------------------------------------------------------------------------------------

_MAX_HEADER_BYTES = 64 * 1024
"""Of one header or of the first line: some agents send long ones."""


class ClientConnection(web.RequestHandler):
    """A connection that is closed when headers are not received in time."""

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
        message: str | None = None,  # noqa: ARG002 (it quotes the request)
    ) -> web.StreamResponse:
        """Answer without a quote of a request that could not be parsed or served."""
        _log.log(
            # A client that hangs up is no error of the gateway.
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
    """The protocol factory for `create_server`."""
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
        # `read_body` decompresses bodies, and refuses unknown encodings.
        auto_decompress=False,
    )


def where_it_failed(problem: object) -> str:
    """The class of an exception and its place in the code, without its text, which may quote a message."""
    if not isinstance(problem, BaseException):
        return "unknown"
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" in {frames[-1].name}, line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    return f"{type(problem).__name__}{place}"


# -- callers -----------------------------------------------------------------------------------------------------------

_REMEMBERED_SECONDS = 2.0
"""How long a looked-up key is reused: a revoked key may be accepted for so long."""
RESERVED_SECONDS = 900.0
"""How long a reservation of a killed process lasts."""
RESERVED_OUTPUT = 4_000
"""Output tokens that are reserved at most: few replies are longer, and clients ask for far more."""
_MAX_REMEMBERED = 10_000
_READINESS = "\0readyz"
"""A name for the readiness check among counted callers; no caller has it."""
_FEWEST_CHARS = 24
"""Shorter credentials are placeholders that several callers may send: providers' keys have 32 and more."""
_WHY = {
    "revoked": (401, "this key of Clew was revoked"),
    "expired": (401, "this key of Clew has expired"),
    "over_budget": (402, "the budget of this key of Clew is spent"),
}


class Refusal(Exception):  # noqa: N818 (reads as what it says)
    """A request that is not served, with its status and the reason."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request."""

    owner: str
    mode: KeyMode | None = None
    key: str | None = None
    """The id of the key of Clew that was used; None where the caller's own credential passes."""
    places: tuple[str, ...] = ()
    """The places of its credential: headers in lower case, and `?key` for the query."""
    handoffs: KeyHandoffs | None = None
    recall: KeyRecall | None = None
    is_guessable: bool = False
    """Whether others may send the same credential: none, or a usual placeholder such as `ollama`."""
    is_signed: bool = False
    """Whether its requests are signed for Amazon: the gateway checks the signature, and signs again."""
    has_budget: bool = False

    @property
    def credential_id(self) -> str:
        """An id of the credential for the upstream, from which the credential cannot be derived."""
        return self.owner if self.key is None else "ours"

    def withheld(self, *, is_fallback: bool = False) -> frozenset[str]:
        """The places that are not forwarded: those of a key of Clew, and of a credential for another upstream."""
        return frozenset(self.places) if self.key is not None or is_fallback else frozenset()

    def credential(self, ours: str | None) -> CIMultiDict[str]:
        """The upstream's credential in the places of a key of Clew."""
        headers = CIMultiDict[str]()
        for place in self.places if self.key is not None and ours else ():
            if place == "authorization":
                headers["Authorization"] = f"Bearer {ours}"
            else:
                headers["x-goog-api-key" if place == "?key" else place] = ours or ""
        return headers

    def query(self, raw: str, *, is_fallback: bool = False) -> str:
        """The query to forward: the received one without keys of Clew."""
        withheld = "?key" in self.withheld(is_fallback=is_fallback)
        return "&".join(pair for pair in raw.split("&") if not _is_withheld(pair, has_key=withheld))


class Callers:
    """Identifies callers by their credentials and by the keys in the store."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_private: bool = False,
        aws: AwsCredential | None = None,
    ) -> None:
        """`is_private`: callers without a key of Clew are served even where there are keys."""
        self._is_private = is_private
        self.keys = self._store = store
        self._aws = aws
        self._clock = clock
        self._keys: dict[bytes, tuple[float, AccessKey | None]] = {}
        self._any: tuple[float, bool] | None = None

    async def of(self, request: web.Request) -> Caller:
        """The caller of a request; raises `Refusal`."""
        path = wire_path(request.path)
        has_query = (path is not None and path.wire is GEMINI) or is_models_path(request.path)
        query = request.query.items() if has_query else ()
        try:
            credential = read_credential(request.headers.items(), query)
        except ConflictingCredentials as conflict:
            raise Refusal(401, str(conflict)) from conflict
        if credential is not None and is_access_key(credential.secret):
            return await self._with_key(credential)
        if not self._is_private and await self.has_keys():
            raise Refusal(401, "this gateway is for callers with a key of Clew; `clew keys create` makes one")
        if credential is None:
            return Caller(owner_of_credential(None), is_guessable=True)
        if is_signed(credential.secret):
            return Caller(
                f"caller:aws:{self._aws.key_id if self._aws else ''}", places=credential.places, is_signed=True
            )
        is_guessable = len(credential.secret) < _FEWEST_CHARS
        return Caller(owner_of_credential(credential), places=credential.places, is_guessable=is_guessable)

    def check_signature(self, request: web.Request, body: bytes) -> None:
        """Refuse a request that is not signed with the gateway's own Amazon credential."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        url = f"http://{headers.get('host', '')}{request.raw_path}"
        aws, now = self._aws, datetime.now(UTC)
        if aws is None or not is_signed_with(aws, request.method, url, headers, body, now):
            raise Refusal(
                401,
                "a signature covers the host, so the gateway has to sign anew, and it does that for callers who signed "
                "with its own credential (AWS_ACCESS_KEY_ID); give it the same one, or send a bearer token or a key of "
                "Clew",
            )

    async def has_keys(self) -> bool:
        """Whether there are keys, so that callers without one are refused."""
        now = self._clock()
        if self._any is None or now - self._any[0] > _REMEMBERED_SECONDS:
            try:
                self._any = (now, bool(await self._store.list_keys()))
            except StoreError as problem:
                # While the store fails, the last known state is used.
                if self._any is None:
                    raise _away(problem) from problem
        return self._any[1]

    async def reach_store(self) -> None:
        """Write to the store, and raise its error, also where it has become read-only."""
        await self._store.take_calls(_READINESS, 1)

    async def _with_key(self, credential: CallerCredential) -> Caller:
        key = await self._find(hash_key(credential.secret))
        if key is None:
            raise Refusal(401, "this key of Clew is not known here")
        state = state_of_key(key, datetime.now(UTC))
        if state != "valid":
            raise Refusal(*_WHY[state])
        has_budget = key.budget_micros is not None
        return Caller(key.owner, key.mode, key.id, credential.places, key.handoffs, key.recall, has_budget=has_budget)

    def upstream_credential(self, request: web.Request, caller: Caller) -> str | None:
        """The caller's own credential for requests that the gateway makes; None: the gateway's own, or none."""
        if caller.key is not None:
            return None
        credential = read_credential(request.headers.items())
        return None if credential is None else credential.secret

    async def _find(self, hash: bytes) -> AccessKey | None:
        now, known = self._clock(), self._keys.get(hash)
        if known is not None and now - known[0] <= _REMEMBERED_SECONDS:
            return known[1]
        try:
            found = await self._store.find_key(hash)
        except StoreError as problem:
            if known is None:
                raise _away(problem) from problem
            return known[1]
        if len(self._keys) >= _MAX_REMEMBERED:
            self._keys.clear()
        self._keys[hash] = (now, found)
        return found

    async def reserve(self, caller: Caller, micros: int) -> str | None:
        """Reserve the probable cost of a request, where its caller has a budget; raises `Refusal`.

        None where nothing has to be reserved, or the store fails.
        """
        if caller.key is None or not caller.has_budget or not micros:
            return None
        try:
            reserved = await self._store.reserve_spending(caller.key, micros, RESERVED_SECONDS)
        except ClewError as problem:
            _log.error("nothing is reserved: %s", problem)
            return None
        if reserved.id is None:
            self._forget(reserved.key)
            if state_of_key(reserved.key, datetime.now(UTC)) == "over_budget":
                raise Refusal(*_WHY["over_budget"])
            raise Refusal(429, "requests under way may use up the budget of this key of Clew", {"Retry-After": "2"})
        return reserved.id

    async def release(self, reservation: str) -> None:
        """Release the reservation of a request without cost."""
        try:
            await self._store.release_spending(reservation)
        except StoreError as problem:
            _log.error("a reservation ends later: %s", problem)

    async def add_spending(self, caller: Caller, micros: int, reservation: str | None = None) -> bool:
        """Charge a key for a request; whether it may spend more."""
        if caller.key is None:
            return True
        spent = await self._store.add_spending(caller.key, micros, reservation)
        self._forget(spent)
        return state_of_key(spent, datetime.now(UTC)) == "valid"

    def _forget(self, key: AccessKey) -> None:
        """Look a key up again with the next request."""
        self._keys = {hash: it for hash, it in self._keys.items() if it[1] is None or it[1].id != key.id}


def _is_withheld(pair: str, *, has_key: bool) -> bool:
    name, _, value = pair.partition("=")
    return KEY_PREFIX in unquote_plus(value) or (has_key and unquote_plus(name) == "key")


def _away(problem: StoreError) -> Refusal:
    _log.error("callers cannot be distinguished: %s", problem)
    return Refusal(503, "the gateway cannot look up its keys now; try again", {"Retry-After": "2"})


# -- keys --------------------------------------------------------------------------------------------------------------

KEY_PREFIX = "clew_sk_"
KeyState: TypeAlias = Literal["valid", "revoked", "expired", "over_budget"]
_KEY_CHARS = string.ascii_letters + string.digits
# 62 ** 43 is a little more than 2 ** 256.
_RANDOM_CHARS = 43
_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_AUTHORIZATION = "authorization"
_KEY_QUERY = "key"
_BEARER = "bearer"
_OWNER_CHARS = 32


@dataclass(frozen=True, slots=True)
class CallerCredential:
    """The credential of a caller."""

    secret: str = field(repr=False)
    """A key of Clew or of a provider; an `Authorization` of another scheme than Bearer, whole."""
    places: tuple[str, ...]
    """Header names in lower case, or `?key`. A key of Clew is removed there before a request is forwarded."""


def make_key() -> str:
    """A new random key."""
    return KEY_PREFIX + "".join(secrets.choice(_KEY_CHARS) for _ in range(_RANDOM_CHARS))


def hash_key(key: str) -> bytes:
    """The hash by which a key is stored and found."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def is_access_key(secret: str) -> bool:
    """Whether a secret has the form of a key of Clew: such a secret is never sent to a provider."""
    return secret.startswith(KEY_PREFIX)


def is_same_secret(one: str, other: str) -> bool:
    """Whether two secrets are equal, compared in constant time."""
    return hmac.compare_digest(hash_key(one), hash_key(other))


def owner_of_credential(credential: CallerCredential | None) -> str:
    """The owner for a caller without a key of Clew: a hash of its credential."""
    if credential is None:
        return "caller:none"
    return f"caller:{hash_key(credential.secret).hex()[:_OWNER_CHARS]}"


def read_credential(
    headers: Iterable[tuple[str, str]], query: Iterable[tuple[str, str]] = ()
) -> CallerCredential | None:
    """The credential of a request; None where it has none. `ConflictingCredentials` where two of them differ.

    It is in `Authorization: Bearer`, `x-api-key`, `x-goog-api-key` or Azure's `api-key`, or, as Gemini's clients
    may write it, in the query as `key`: give `query` on Gemini's routes only. Every occurrence of a header counts, also
    a repeated one.
    """
    found = [*_in_headers(headers), *(("?key", value.strip()) for name, value in query if name == _KEY_QUERY)]
    named = [(place, secret) for place, secret in found if secret]
    if not named:
        return None
    places = tuple(dict.fromkeys(place for place, _ in named))
    first = named[0][1]
    if not all(is_same_secret(first, secret) for _, secret in named):
        raise ConflictingCredentials(places)
    return CallerCredential(first, places)


def state_of_key(key: AccessKey, now: datetime) -> KeyState:
    """Whether a key may be used: the first reason why not."""
    if key.revoked is not None:
        return "revoked"
    if key.expires is not None and key.expires <= now:
        return "expired"
    if key.budget_micros is not None and key.spent_micros >= key.budget_micros:
        return "over_budget"
    return "valid"


def _in_headers(headers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for written, value in headers:
        name = written.lower()
        if name in _KEY_HEADERS:
            yield name, value.strip()
        elif name == _AUTHORIZATION:
            scheme, _, rest = value.strip().partition(" ")
            # The SDKs write a bare "Bearer" where they were given an empty key.
            yield name, rest.strip() if scheme.lower() == _BEARER else value.strip()


# -- call limits -------------------------------------------------------------------------------------------------------

MAX_CALLERS = 10_000
"""Callers in memory; beyond it the longest unused ones are dropped."""
_PORTIONS = 64
"""A portion is this part of the requests per minute."""
_KEPT_SECONDS = 5.0
"""After that, the rest of a portion is dropped."""
_EVERYBODY = ""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """None is no limit."""

    per_minute: int | None = 6_000
    at_once: int | None = 256
    total_per_minute: int | None = None
    total_at_once: int | None = 1_024


@dataclass(slots=True)
class _CallerCount:
    """The requests of a caller in this process."""

    under_way: int = 0
    portion: int = 0
    """Requests that were taken from the store and not used yet."""
    until: float = 0.0
    bucket: CallBucket | None = None
    """Counts where there is no store."""


class CallMeter:
    """Counts requests, and refuses those beyond the limits."""

    def __init__(
        self,
        limits: CallLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        store: KeyStore | None = None,
    ) -> None:
        self.limits = limits or CallLimits()
        self._clock = clock
        self._store = store
        self._total = _CallerCount()
        self._callers: OrderedDict[str, _CallerCount] = OrderedDict()
        self._has_taken = False

    @property
    def under_way(self) -> int:
        """Requests of this process that have not ended."""
        return self._total.under_way

    @property
    def callers(self) -> int:
        """Callers in memory."""
        return len(self._callers)

    @asynccontextmanager
    async def admit(self, caller: str) -> AsyncIterator[None]:
        """Count a request during the block; raises `Refusal` above the limits."""
        limits, total = self.limits, self._total
        calls = self._callers.setdefault(caller, _CallerCount())
        self._callers.move_to_end(caller)
        _check_at_once(calls, limits.at_once, "this caller")
        _check_at_once(total, limits.total_at_once, "this gateway")
        for one in (calls, total):
            one.under_way += 1
        try:
            self._forget_one()
            await self._take(calls, caller, limits.per_minute, "this caller")
            await self._take(total, _EVERYBODY, limits.total_per_minute, "this gateway")
            yield
        finally:
            for one in (calls, total):
                one.under_way -= 1

    async def forget_resting(self) -> None:
        """Drop callers without requests under way and without a portion."""
        now, minute = self._clock(), 60.0
        for caller, calls in list(self._callers.items()):
            rested = now - (calls.until - _KEPT_SECONDS)
            if not calls.under_way and (calls.bucket is None or rested >= minute) and now >= calls.until:
                del self._callers[caller]
        if self._store is not None and self._has_taken:
            self._has_taken = False
            try:
                await self._store.forget_resting_callers()
            except StoreError:
                self._has_taken = True

    async def _take(self, calls: _CallerCount, caller: str, per_minute: int | None, whose: str) -> None:
        """Use one request of a portion, or take another portion first."""
        if per_minute is None:
            return
        now = self._clock()
        if calls.portion <= 0 or now >= calls.until:
            taken = await self._portion(calls, caller, per_minute, now)
            if not taken.count:
                seconds = max(1, math.ceil(round(taken.seconds, 3)))
                message = f"{whose} has sent {per_minute} requests in a minute, which is the limit"
                raise Refusal(429, message, {"Retry-After": str(seconds)})
            calls.portion, calls.until = taken.count, now + _KEPT_SECONDS
        calls.portion -= 1

    async def _portion(self, calls: _CallerCount, caller: str, per_minute: int, now: float) -> TakenCalls:
        wanted = max(1, per_minute // _PORTIONS)
        if self._store is None:
            micros = int(now * 1_000_000)
            calls.bucket = calls.bucket or CallBucket(float(per_minute), micros)
            return calls.bucket.take(per_minute, wanted, micros)
        self._has_taken = True
        try:
            return await self._store.take_calls(caller, per_minute, wanted)
        except StoreError as problem:
            # While the store fails, requests are served without counting.
            _log.error("requests are not counted: %s", problem)
            return TakenCalls(wanted)

    def _forget_one(self) -> None:
        if len(self._callers) > MAX_CALLERS:
            resting = next((caller for caller, calls in self._callers.items() if not calls.under_way), None)
            if resting is not None:
                del self._callers[resting]


def _check_at_once(calls: _CallerCount, at_once: int | None, whose: str) -> None:
    if at_once is not None and calls.under_way >= at_once:
        raise Refusal(429, f"{whose} has {at_once} requests under way, which is the limit", {"Retry-After": "1"})
