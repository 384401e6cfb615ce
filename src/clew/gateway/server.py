"""The HTTP server of a gateway: its paths, and the checks of every request.

A request for a model is checked and given to `Exchanges`; this module knows nothing of conversations.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, Self

from aiohttp import web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict
from yarl import URL

from clew import __version__
from clew.errors import ClewError
from clew.gateway.admission import (
    Caller,
    Callers,
    CallLimits,
    CallMeter,
    OwnNames,
    Refusal,
    RequestBounds,
    check_length,
    client_connections,
    is_plain_path,
    is_same_secret,
    read_body,
    where_it_failed,
)
from clew.gateway.exchange import Exchanges
from clew.gateway.hosted_api import DESCRIPTION_PATH, is_hosting_path, refused
from clew.gateway.hosted_http import HostingRoutes, add_hosting
from clew.gateway.observe import METRICS_TYPE, GatewayMetrics, GatewayObserver, Observers
from clew.gateway.upstream import Upstreams, UpstreamUnreachable, headers_back, passed_headers
from clew.gateway.wires import CHAT, is_models_path, wire_path
from clew.store import KeyStore

PAGE_BOUNDS = RequestBounds(body_bytes=8 * 1024 * 1024)
PAGE_LIMITS = CallLimits(per_minute=3_000, at_once=64, total_at_once=256)
HOME = "/dashboard/"
"""The bare address of a page server redirects to it."""
IDLE_CHECK_SECONDS = 15.0
TOKEN_HEADER = "x-clew-token"  # noqa: S105 (a name)
READY_SECONDS = 2.0
"""How long the store and the resolver may take to answer, and how long their answers are reused."""
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", DESCRIPTION_PATH})
"""Answered without a credential: they say only that the gateway is there, and describe its API."""
_CALLER = web.RequestKey("caller", Caller)
_EVERYTHING = "/{path}"

_log = logging.getLogger("clew.gateway")


class ServedPages(Protocol):
    """Pages that a server has beside its own routes, with the calls that they make."""

    @property
    def path(self) -> str:
        """The path that all of them are below."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of their responses, unless a response sets them itself."""

    def add_to(self, application: web.Application) -> None: ...


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How a server listens."""

    host: str = "127.0.0.1"
    port: int = 0
    names: frozenset[str] = frozenset()
    """Further host names under which clients may call it, beside the loopback ones."""
    limits: CallLimits = field(default_factory=CallLimits)
    bounds: RequestBounds = field(default_factory=RequestBounds)
    is_port_shared: bool = False
    """Whether several processes answer on the port."""
    token: str = field(default="", repr=False)
    """The token that a caller without a distinctive credential must send, in `x-clew-token` or as the first part of the
    path, since any user of this machine could be it. Empty: no token is needed."""
    needs_token: bool = False
    """Whether every request needs the token, and not only those that read conversations."""


class _Listener(ABC):
    """Listens, checks requests before they are handled, and answers failures."""

    def __init__(self, options: GatewayOptions, keys: KeyStore | None = None, pages: ServedPages | None = None) -> None:
        self.options = options
        self._pages = pages
        self.port = options.port
        self.meter = CallMeter(options.limits, store=keys)
        self._names = OwnNames(options.host, self.port, options.names)
        self._application: web.Application | None = None
        self._listening: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None

    @property
    def address(self) -> str:
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"http://{host}:{self.port}"

    @abstractmethod
    def application(self) -> web.Application:
        """The routes, with `_checked` before them."""

    def _add_pages(self, application: web.Application) -> None:
        if self._pages is not None:
            self._pages.add_to(application)
            application.on_response_prepare.append(self._add_page_headers)

    def _is_page(self, path: str) -> bool:
        return self._pages is not None and (path == self._pages.path or path.startswith(f"{self._pages.path}/"))

    async def _add_page_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        if self._pages is not None and self._is_page(request.path):
            for name, value in self._pages.headers.items():
                response.headers.setdefault(name, value)

    @abstractmethod
    async def _served(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check a request and have it handled; raises `Refusal`."""

    @abstractmethod
    def _refused(self, request: web.Request, refusal: Refusal) -> web.Response:
        """The response to a refused request."""

    async def __aenter__(self) -> Self:
        self._application = self.application()
        self._runner = web.AppRunner(self._application, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        assert self._runner.server is not None
        connections = client_connections(self._runner.server, self.options.bounds)
        host, port, is_shared = self.options.host, self.options.port, self.options.is_port_shared or None
        loop = asyncio.get_running_loop()
        try:
            self._listening = await loop.create_server(connections, host, port, backlog=1_024, reuse_port=is_shared)
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._listening.sockets[0].getsockname()[1]
        self._names = OwnNames(host, self.port, self.options.names)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await self._served(request, handler)
        except Refusal as refusal:
            return self._refused(request, refusal)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as problem:
            # The outermost door. The log has the place of the failure only: its text may quote a message.
            _log.error("a request failed: %s", where_it_failed(problem))
            if request.writer.output_size > 0:
                raise ConnectionError("the response has begun") from None
            return self._refused(request, Refusal(500, "something failed inside the gateway"))


class PageServer(_Listener):
    """Serves pages alone. `async with PageServer(pages, "127.0.0.1", 0) as server: ... server.address ...`.

    The pages identify callers by their own sign-in.
    """

    def __init__(
        self,
        pages: ServedPages,
        host: str,
        port: int,
        names: frozenset[str] = frozenset(),
        bounds: RequestBounds = PAGE_BOUNDS,
    ) -> None:
        super().__init__(GatewayOptions(host, port, names, PAGE_LIMITS, bounds), pages=pages)

    def application(self) -> web.Application:
        application = web.Application(client_max_size=self.options.bounds.body_bytes, middlewares=[self._checked])
        self._add_pages(application)
        return application

    async def _served(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._names.check(request)
        if request.path == "/":
            return web.Response(status=302, headers={"Location": HOME})
        if not is_plain_path(request.raw_path) or not self._is_page(request.path):
            raise Refusal(404, f"there is nothing at {request.method} {request.path[:200]}")
        async with self.meter.admit(request.remote or ""):
            # Set where aiohttp keeps it, so that no handler reads the body in another way.
            request._read_bytes = await read_body(request, self.options.bounds)
            return await handler(request)

    def _refused(self, _: web.Request, refusal: Refusal) -> web.Response:
        return web.json_response(refused(refusal).as_plain(), status=refusal.status, headers=refusal.headers)


class GatewayServer(_Listener):
    """Serves the wires, the hosted conversations and pages. `async with GatewayServer(...) as server: ...`."""

    def __init__(
        self,
        exchanges: Exchanges,
        callers: Callers,
        upstreams: Upstreams,
        options: GatewayOptions | None = None,
        metrics: GatewayMetrics | None = None,
        observers: GatewayObserver | None = None,
        hosting: HostingRoutes | None = None,
        pages: ServedPages | None = None,
    ) -> None:
        super().__init__(options or GatewayOptions(), callers.keys, pages)
        self.exchanges = exchanges
        self.callers = callers
        self.metrics = metrics or GatewayMetrics()
        self.metrics.watch("open_conversations", "Conversations in memory", lambda: exchanges.conversations.count)
        self.metrics.watch("requests_under_way", "Requests that have not ended", lambda: self.meter.under_way)
        self.observers = observers or Observers([self.metrics])
        self._readiness: tuple[float, dict[str, str]] | None = None
        self._hosting = hosting
        self._upstreams = upstreams
        self._idle: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._idle = asyncio.create_task(self._look_after_idle())
        return self

    async def __aexit__(self, *raised: object) -> None:
        if self._idle is not None:
            self._idle.cancel()
            with suppress(asyncio.CancelledError):
                await self._idle
        await super().__aexit__(*raised)
        await self.exchanges.close()
        await self.exchanges.handoffs.close()
        await self._upstreams.close()

    def application(self) -> web.Application:
        bounds = self.options.bounds
        application = web.Application(client_max_size=bounds.body_bytes, middlewares=[self._checked])
        application.router.add_get("/", self._alive)
        application.router.add_get("/healthz", self._alive)
        application.router.add_get("/readyz", self._ready)
        application.router.add_get("/metrics", self._show_metrics)
        if self._hosting is not None:
            add_hosting(application, self._hosting)
        self._add_pages(application)
        application.router.add_route("*", "/{path:.*}", self._serve, expect_handler=self._expected)
        return application

    async def _look_after_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_CHECK_SECONDS)
            await self.meter.forget_resting()
            await self.exchanges.look_after_idle()

    async def _served(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Identify the caller of every path that is not open, and check its limits."""
        arrived, request, handler = request, *await self._without_token(request, handler)
        self._names.check(request)
        has_token = request is not arrived or self._is_token(request.headers.get(TOKEN_HEADER, ""))
        if request.path in OPEN_PATHS:
            return await handler(request)
        if self.options.needs_token and not has_token:
            raise Refusal(401, "this gateway is for one program, which has its token")
        if not is_plain_path(request.raw_path) or not _is_served(request):
            if wire_path(request.path) is not None and request.headers.get("Upgrade", "").lower() == "websocket":
                # Codex tries this first. After a 426 it uses POST at once, after a 404 it tries seven times.
                raise Refusal(426, "the gateway has no WebSocket here: send a POST", {"Upgrade": "HTTP/1.1"})
            raise Refusal(404, f"the gateway does not serve {request.method} {request.path[:200]}")
        if self._is_page(request.path):
            # A page for people: its calls identify the caller by the sign-in.
            async with self.meter.admit(f"page:{request.remote}"):
                request._read_bytes = await read_body(request, PAGE_BOUNDS)
                response = await handler(request)
            self.observers.sent(_sent_bytes(response))
            return response
        request[_CALLER] = caller = await self.callers.of(request)
        if self.options.token and not has_token and caller.is_guessable and is_hosting_path(request.path):
            raise Refusal(
                401,
                f"any user of this machine could send this credential: send {TOKEN_HEADER} too, with what is in "
                "gateway.token in Clew's folder, or use a key (`clew keys create`)",
            )
        async with self.meter.admit(caller.key or caller.owner):
            # Set where aiohttp keeps it, so that no handler reads the body in another way.
            request._read_bytes = await read_body(request, self.options.bounds)
            if caller.is_signed:
                self.callers.check_signature(arrived, request._read_bytes)
            response = await handler(request)
        self.observers.sent(_sent_bytes(response))
        return response

    def _refused(self, request: web.Request, refusal: Refusal) -> web.Response:
        request = self._request_without_token(request)
        path = wire_path(request.path)
        if refusal.status != 500:
            self.observers.refused(refusal.status, path.wire.name if path else "none")
        wire = path.wire if path else CHAT
        is_hosting = is_hosting_path(request.path)
        body = refused(refusal).as_plain() if is_hosting else wire.error(refusal.status, str(refusal))
        return web.json_response(body, status=refusal.status, headers=refusal.headers)

    async def _without_token(self, request: web.Request, handler: Handler) -> tuple[web.Request, Handler]:
        """The request and its handler, without the token where the path begins with it."""
        plain = self._request_without_token(request)
        if plain is request:
            return request, handler
        assert self._application is not None
        found = await self._application.router.resolve(plain)
        found.add_app(self._application)
        plain._match_info = found
        return plain, found.handler

    def _request_without_token(self, request: web.Request) -> web.Request:
        first, slash, rest = request.raw_path[1:].partition("/")
        is_token = slash and self._is_token(first)
        return request.clone(rel_url=URL(f"/{rest}", encoded=True)) if is_token else request

    def _is_token(self, shown: str) -> bool:
        return bool(self.options.token) and is_same_secret(shown, self.options.token)

    async def _expected(self, request: web.Request) -> None:
        """Answer `Expect: 100-continue`, unless the body is too large."""
        with suppress(Refusal):
            check_length(request, self.options.bounds)
            assert request.transport is not None
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def _alive(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {"gateway": "clew", "version": __version__, "mode": self.exchanges.mode, "status": "ok"}
        )

    async def _ready(self, _request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        if self._readiness is None or now - self._readiness[0] > READY_SECONDS:
            store, upstream = await asyncio.gather(
                _state_of(self.callers.reach_store()), _state_of(self._upstreams.resolve())
            )
            self._readiness = (now, {"store": store, "upstream": upstream})
        parts = self._readiness[1]
        is_ready = set(parts.values()) == {"ok"}
        body = {"status": "ok" if is_ready else "unavailable", **parts}
        return web.json_response(body, status=200 if is_ready else 503)

    async def _show_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self.metrics.page(), headers={"Content-Type": METRICS_TYPE})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path, caller = wire_path(request.path), caller_of(request)
        if path is None:
            return await self._pass(request, caller)
        return await self.exchanges.answer(request, path, caller, await request.read())

    async def _pass(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Pass a request for the list of models unchanged."""
        kind = _models_kind(request)
        upstream = self._upstreams.of_model("", kind)
        headers = passed_headers(request.headers, caller.withheld())
        headers.update(caller.credential(upstream.key))
        url = upstream.url(request.rel_url.raw_path, caller.query(request.rel_url.raw_query_string), kind)
        try:
            async with upstream.open(request.method, url, headers, None) as reply:
                response = web.StreamResponse(status=reply.status, headers=CIMultiDict(headers_back(reply.headers)))
                await response.prepare(request)
                async for chunk in reply.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except UpstreamUnreachable as problem:
            raise Refusal(502, str(problem)) from problem


def _sent_bytes(response: web.StreamResponse) -> int:
    body = response.body if isinstance(response, web.Response) else None
    return len(body) if isinstance(body, bytes | bytearray) else response.body_length


async def _state_of(asked: Awaitable[None]) -> str:
    """`ok`, or a short reason; the log has the details."""
    try:
        await asyncio.wait_for(asked, READY_SECONDS)
    except TimeoutError:
        return "no answer"
    except (ClewError, OSError) as problem:
        _log.warning("not ready: %s", where_it_failed(problem))
        return "fails"
    return "ok"


def _models_kind(request: web.Request) -> str:
    """The kind of upstream whose models are listed."""
    if "anthropic-version" in request.headers:
        return "messages"
    if request.path.startswith("/openai"):
        return "azure"
    is_gemini = request.path.startswith(("/v1beta", "/v1alpha")) or "x-goog-api-key" in request.headers
    return "gemini" if is_gemini else "responses" if "codex" in request.path else "chat"


def _is_served(request: web.Request) -> bool:
    """Whether a path is served: by a route, by a wire, or as a list of models."""
    route = request.match_info.route
    if route.resource is not None and route.resource.canonical != _EVERYTHING:
        return True
    if request.method == "POST":
        return wire_path(request.path) is not None
    return request.method in ("GET", "HEAD") and is_models_path(request.path)


def caller_of(request: web.Request) -> Caller:
    """The caller of a request to any path that is not open."""
    return request[_CALLER]
