"""A server for pages that people look at, without an upstream: names, bodies and connections are checked as the
gateway does it. Who asks is told by the pages themselves, by what people sign in with.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from clew.gateway.admission import OwnNames, RequestBounds, is_plain_path, read_body
from clew.gateway.callers import Refusal
from clew.gateway.connections import client_connections, where_it_failed
from clew.gateway.limits import CallLimits, CallMeter
from clew.gateway.problems import problem_of

PAGE_BOUNDS = RequestBounds(body_bytes=8 * 1024 * 1024)
PAGE_LIMITS = CallLimits(per_minute=3_000, at_once=64, total_at_once=256)

_log = logging.getLogger("clew.gateway")


class ServedPages(Protocol):
    """Pages that a server has beside what it is for, with the calls that they make."""

    def add_to(self, application: web.Application) -> None: ...

    def owns(self, path: str) -> bool:
        """Whether a path is one of these pages."""


class PageServer:
    """Listens for pages alone. `async with PageServer(pages, "127.0.0.1", 0) as server: ... server.address ...`."""

    def __init__(self, pages: ServedPages, host: str, port: int, names: frozenset[str] = frozenset()) -> None:
        self._pages = pages
        self._host = host
        self.port = port
        self._names = names
        self._own_names = OwnNames(host, port, names)
        self._meter = CallMeter(PAGE_LIMITS)
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> PageServer:
        application = web.Application(client_max_size=PAGE_BOUNDS.body_bytes, middlewares=[self._checked])
        self._pages.add_to(application)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        assert self._runner.server is not None
        connections = client_connections(self._runner.server, PAGE_BOUNDS)
        try:
            self._listening = await asyncio.get_running_loop().create_server(connections, self._host, self.port)
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._listening.sockets[0].getsockname()[1]
        self._own_names = OwnNames(self._host, self.port, self._names)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check a request before anything is done for it."""
        try:
            self._own_names.check(request)
            if not is_plain_path(request.raw_path) or not self._pages.owns(request.path):
                raise Refusal(404, f"there is nothing at {request.method} {request.path[:200]}")
            with self._meter.admit(request.remote or ""):
                # Kept where aiohttp keeps it, so that no handler reads a body in another way.
                request._read_bytes = await read_body(request, PAGE_BOUNDS)
                return await handler(request)
        except Refusal as refusal:
            return web.json_response(
                problem_of(refusal).as_plain(), status=refusal.status, headers=dict(refusal.headers)
            )
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as problem:
            # The outermost door: what went wrong is told by its place, since its words may quote a message.
            _log.error("a request failed: %s", where_it_failed(problem))
            if request.writer.output_size > 0:
                raise ConnectionError("the response has begun") from None
            failed = Refusal(500, "something failed inside the server")
            return web.json_response(problem_of(failed).as_plain(), status=500)
