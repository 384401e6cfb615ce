"""The way to the upstreams: which of them a request goes to, headers as received, bytes as they come back.

Upstreams are configured, each for some wires and models, and no request chooses another. Redirects are not followed,
since they would carry the credential and the conversation to a host that nobody configured.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from clew.errors import InvalidArgument
from clew.gateway.aws import AwsCredential, signed_headers, without_signature
from clew.gateway.callers import KEY_PREFIX
from clew.gateway.wires import KINDS

MAX_ERROR_BYTES = 1024 * 1024
CONNECT_SECONDS = 15.0
REACHED_SECONDS = 60.0
"""So long an answer of the upstream shows that it can be reached."""
SILENT_SECONDS = 600.0
"""The longest silence of the upstream: models think for minutes."""
_PIECE_BYTES = 256 * 1024
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# For Clew, or with the addresses of callers, which are not a provider's business.
_NOT_PASSED_BEGINNINGS = ("x-clew-", "x-forwarded-")
# Of one connection, or of the body as it was between the client and us.
_NOT_PASSED = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade"
    " host content-length content-encoding accept-encoding expect forwarded via x-real-ip".split()
)
_NOT_PASSED_BACK = frozenset(
    "connection keep-alive proxy-authenticate te trailer transfer-encoding upgrade content-length date server".split()
)


class UpstreamUnreachable(Exception):  # noqa: N818 (reads as what it says)
    """The upstream could not be reached, or hung up before it answered."""


# What is served at the addresses of providers, where several upstreams are named without saying what each is for.
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
        """`wires` and `models`, which may have `*`, say what it serves: everything without. `key` is ours for it."""
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
        """The address as it was given."""
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
        """Whether requests of a kind for a model go here; without a kind the model alone decides."""
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
        """The proxy that the environment names. aiohttp would look for it with each request, and read `.netrc` too:
        the credential of whoever runs this, in requests of others.
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
        """Where OpenAI's paths begin."""
        return urlunsplit((self._parts.scheme, self._parts.netloc, self._path or "/v1", "", ""))

    @property
    def host(self) -> str:
        return (self._parts.hostname or "").lower()

    def url(self, path: str, query: str, kind: str = "") -> str:
        """The address of a path that a client asked for, with or without the version that the wire has.

        The upstream is written as for the SDK of its wire: OpenAI's paths follow it as it is, Anthropic's behind
        it with a version. A path of a cloud is forwarded as received. It was checked: no character of it means anything
        else elsewhere. The query is as received.
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
            # As late as this: a signature covers the body, and is good for minutes.
            signed = signed_headers(self.aws, method, url, headers.items(), body or b"", datetime.now(UTC))
            headers = CIMultiDict([*without_signature(headers.items()), *signed.items()])
        try:
            response = await self._client().request(
                method,
                # Encoded: nothing in it is decoded, quoted or resolved once more.
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
        """Whether an address is one of this server's."""
        return url.startswith(f"{urlunsplit((*self._parts[:2], '', '', ''))}/")

    async def resolve(self) -> None:
        """Look its address up, unless it has answered lately; raises `OSError`."""
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
                # A cookie that the upstream gives one caller is not sent with the requests of another.
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
        """Those that serve a request: the first one is asked, the others where it cannot answer. May be empty."""
        return [server for server in self.servers if server.serves(kind, model)]

    def of_model(self, model: str, kind: str = "") -> UpstreamServer:
        """Where a model is asked; the first upstream where none is for it."""
        return next(iter(self.route(kind, model)), self.first)

    def at(self, url: str) -> UpstreamServer:
        """The one that an address of `UpstreamServer.url` belongs to."""
        return next((server for server in self.servers if server.has(url)), self.first)

    async def resolve(self) -> None:
        """Look all addresses up, but for those that have answered lately; raises `OSError`."""
        await asyncio.gather(*(server.resolve() for server in self.servers))

    async def close(self) -> None:
        for server in self.servers:
            await server.close()


class BodyPayload(Payload):
    """A body that is there already, sent in pieces. aiohttp's own for bytes warns of large ones, and its own for files
    copies them.
    """

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
    # Replies are read while they pass: in plain bytes, which the wires compress badly anyhow.
    passed["Accept-Encoding"] = "identity"
    return passed


def headers_back(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The headers of a reply as they go back."""
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _NOT_PASSED_BACK)


async def read_error(response: aiohttp.ClientResponse) -> bytes:
    """The body of a refusal, as far as anybody reads one, or as far as received."""
    body = bytearray()
    with suppress(aiohttp.ClientError, TimeoutError):
        while len(body) < MAX_ERROR_BYTES and (chunk := await response.content.readany()):
            body += chunk
    return bytes(body)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
