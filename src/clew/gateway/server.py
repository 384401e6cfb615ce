"""The gateway's server: which paths there are, who may call them, and how large a request may be.

No policy of conversations is here: a request is checked, handed to `Exchanges`, and its answer passed back.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict

from clew.gateway.callers import Caller, Callers, Refusal
from clew.gateway.exchange import Exchanges
from clew.gateway.upstream import UpstreamServer, UpstreamUnreachable, headers_back, passed_headers
from clew.gateway.wires import CHAT, wire_path

MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Twice what the largest provider takes."""
MAX_HEADER_SECONDS = 15.0
IDLE_CHECK_SECONDS = 15.0

_log = logging.getLogger("clew.gateway")


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """How a gateway listens."""

    host: str = "127.0.0.1"
    port: int = 0
    names: frozenset[str] = frozenset()
    """Names beside the loopback ones under which clients may call it."""


class GatewayServer:
    """Listens, and closes what it opened. `async with GatewayServer(...) as server: ... server.address ...`."""

    def __init__(
        self, exchanges: Exchanges, callers: Callers, upstream: UpstreamServer, options: GatewayOptions | None = None
    ) -> None:
        self.exchanges = exchanges
        self.callers = callers
        self.options = options or GatewayOptions()
        self.port = self.options.port
        self._upstream = upstream
        self._runner: web.AppRunner | None = None
        self._idle: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> GatewayServer:
        self._runner = web.AppRunner(self.application(), access_log=None, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.options.host, self.options.port)
        await site.start()
        server = site._server
        assert isinstance(server, asyncio.Server)
        self.port = server.sockets[0].getsockname()[1]
        self._idle = asyncio.create_task(self._close_idle())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._idle is not None:
            self._idle.cancel()
            with suppress(asyncio.CancelledError):
                await self._idle
        if self._runner is not None:
            await self._runner.cleanup()
        await self.exchanges.close()
        await self._upstream.close()

    def application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=[self._checked])
        application.router.add_get("/", self._alive)
        application.router.add_get("/healthz", self._alive)
        application.router.add_route("*", "/{path:.*}", self._serve)
        return application

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_CHECK_SECONDS)
            await self.exchanges.conversations.close_idle()

    # -- checks --------------------------------------------------------------------------------------------------------

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        path = wire_path(request.path)
        wire = path.wire if path else CHAT
        try:
            self._check_host(request)
            return await handler(request)
        except Refusal as refusal:
            return web.json_response(
                wire.error(refusal.status, str(refusal)), status=refusal.status, headers=refusal.headers
            )
        except web.HTTPRequestEntityTooLarge:
            limit = f"{MAX_REQUEST_BYTES // 1024 // 1024} MB"
            return web.json_response(wire.error(413, f"the request is larger than {limit}"), status=413)

    def _check_host(self, request: web.Request) -> None:
        """Refuse what a page in a browser could send here: another name for this address, or another origin."""
        if not self._is_own_name(request.host):
            raise Refusal(403, f"the host {request.host[:100]!r} is not a name of this gateway; --name adds one")
        origin = request.headers.get("Origin")
        if origin is not None and not self._is_own_name(origin.partition("://")[2]):
            raise Refusal(403, "requests from pages of other sites are not served")

    def _is_own_name(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").lower()
        if name == "localhost" or name in self.options.names or name == self.options.host:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # An address is no name that somebody could point elsewhere.
        return address.is_loopback or self.options.host not in ("127.0.0.1", "::1", "localhost")

    # -- paths ---------------------------------------------------------------------------------------------------------

    async def _alive(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = wire_path(request.path)
        if path is not None and request.method == "POST":
            caller = await self.callers.of(request)
            return await self.exchanges.answer(request, path, caller, await request.read())
        if request.method in ("GET", "HEAD") and _is_models(request.path):
            return await self._pass(request, await self.callers.of(request))
        raise Refusal(404, f"the gateway does not serve {request.method} {request.path[:200]}")

    async def _pass(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """A request that is no conversation, as it is."""
        headers = passed_headers(request.headers, caller.withhold)
        headers.update(caller.credential)
        url = self._upstream.url(request.path, caller.query(request.query_string))
        try:
            async with self._upstream.open(request.method, url, headers, None) as reply:
                response = web.StreamResponse(status=reply.status, headers=CIMultiDict(headers_back(reply.headers)))
                await response.prepare(request)
                async for chunk in reply.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except UpstreamUnreachable as problem:
            raise Refusal(502, str(problem)) from problem


def _is_models(path: str) -> bool:
    parts = path.strip("/").split("/")
    if parts and parts[0].startswith("v1"):
        parts = parts[1:]
    return bool(parts) and parts[0] == "models" and ".." not in parts
