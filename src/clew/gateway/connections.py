"""Connections of clients: bounded in the time that headers may take, and silent about what came over them.

aiohttp bounds the time of neither first nor later headers, and it logs and answers what it could not parse by its text,
where a credential may stand.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import web

from clew.gateway.admission import RequestBounds

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
