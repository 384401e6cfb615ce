"""The dashboard over HTTP: the page, signing in, what it shows as JSON, and what changes as events.

Every answer with data is limited to the owner who is signed in. Nothing here changes a session: that is
done by the API of hosted conversations, which is served below `/dashboard` with the same cookie and token.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from clew import __version__
from clew.dashboard.catalog import SessionCatalog
from clew.dashboard.insights import InsightsQuery, insights_page
from clew.dashboard.live import LiveChanges
from clew.dashboard.messages import MessageQuery, handoff_page, handoff_view, message_page, whole_message
from clew.dashboard.queries import HandoffBody, SignInBody, read_json_body, read_query, refuse
from clew.dashboard.session_list import SearchQuery, SessionListQuery, list_sessions, search_messages
from clew.dashboard.session_page import (
    TimelineQuery,
    WhyNotChanged,
    context_page,
    session_page,
    timeline_page,
    tree_page,
)
from clew.dashboard.sign_in import (
    COOKIE_PATH,
    CookieSessions,
    DashboardRefusal,
    SignedIn,
    Visitor,
    forget_cookie,
    set_cookie,
)
from clew.errors import ClewError, DatabaseBusy, UnknownSession
from clew.handoff import Handoff
from clew.store import ConversationOverview

PAGE_FOLDER: Final = Path(__file__).parent / "page"
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PING_SECONDS: Final = 15.0
_MAX_DIGITS: Final = 15
PAGE_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What keeps a browser from running, framing or keeping anything else; a response may choose another cache."""
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain",
    ".json": "application/json",
}
_FILE_NAME: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SIGNED_OUT: Final = {"is_signed_in": False, "csrf": None, "label": "", "version": __version__}
_REMEDY_OF_STORE: Final = "`clew doctor` says more."

Serve: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Show: TypeAlias = Callable[[web.Request, SignedIn], Awaitable[dict[str, Any]]]
ShowSession: TypeAlias = Callable[[web.Request, SignedIn, ConversationOverview], Awaitable[dict[str, Any]]]
_log = logging.getLogger("clew.dashboard")


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """The label of a dashboard, and which sessions may be changed on it."""

    label: str
    """Which store it shows; only signed-in visitors see it."""
    why_not: WhyNotChanged = lambda overview: None  # noqa: ARG005


class DashboardRoutes:
    """The dashboard of one store."""

    def __init__(self, catalog: SessionCatalog, sessions: CookieSessions, options: DashboardOptions) -> None:
        self.sessions = sessions
        self._catalog = catalog
        self._options = options
        self.live = LiveChanges(catalog)
        self._reading: asyncio.Task[None] | None = None

    def add_to(self, application: web.Application) -> None:
        """Serve everything below `/dashboard`."""
        router = application.router
        router.add_get(COOKIE_PATH, self._move_in)
        router.add_get(f"{COOKIE_PATH}/", self._index)
        router.add_get(f"{COOKIE_PATH}/page/{{path:.+}}", self._file)
        api = f"{COOKIE_PATH}/api"
        router.add_get(f"{api}/me", self._answered(self._me))
        router.add_post(f"{api}/sign-in", self._answered(self._sign_in))
        router.add_post(f"{api}/sign-out", self._answered(self._sign_out))
        router.add_get(f"{api}/events", self._answered(self._events))
        for path, show in self._pages().items():
            router.add_get(f"{api}{path}", self._answered(self._shown(show)))
        router.add_post(f"{api}/handoff", self._answered(self._shown(self._previewed_handoff)))
        router.add_route("*", f"{COOKIE_PATH}/{{path:.*}}", self._answered(_nothing_here))
        application.on_shutdown.append(self._end)

    async def _end(self, _application: web.Application) -> None:
        await self.live.end()
        if self._reading is not None:
            self._reading.cancel()

    def read_ahead(self) -> None:
        """Begin to read what lists and searches will need."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._catalog.read_ahead())
            self._reading.add_done_callback(_log_failure)

    def _answered(self, serve: Serve) -> Serve:
        """Turn every failure into an answer."""

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                return await serve(request)
            except DashboardRefusal as refusal:
                return refusal_answer(refusal)
            except UnknownSession:
                return refusal_answer(DashboardRefusal(404, "not_found", "there is no such session"))
            except DatabaseBusy:
                busy = DashboardRefusal(503, "overloaded", "the store is busy", "Try again in a moment.")
                return refusal_answer(busy)
            except ClewError as problem:
                _log.warning("a call of the dashboard failed: %s", type(problem).__name__)
                return refusal_answer(DashboardRefusal(500, "store", str(problem), _REMEDY_OF_STORE))
            except (web.HTTPException, ConnectionError):
                raise
            except Exception as problem:
                # The outermost door. A trace might quote messages.
                _log.error("a call of the dashboard failed: %s", type(problem).__name__)
                return refusal_answer(DashboardRefusal(500, "internal", "something failed inside the dashboard"))

        return answer

    def _shown(self, show: Show) -> Serve:
        """Serve data to a visitor who is signed in."""

        async def serve(request: web.Request) -> web.StreamResponse:
            return json_answer(await show(request, await self.sessions.require(request)))

        return serve

    async def _move_in(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(status=308, headers={"Location": f"{COOKIE_PATH}/"})

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return _file_answer(request, "index.html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return _file_answer(request, request.match_info["path"])

    async def _me(self, request: web.Request) -> web.StreamResponse:
        found = await self.sessions.find(request)
        if found is not None:
            return json_answer(self._plain_visitor(found))
        sign_in = self.sessions.sign_in
        return json_answer({**_SIGNED_OUT, "sign_in": sign_in.kind, "note": await sign_in.note()})

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        given = await read_json_body(request, SignInBody)
        secret = given.launch if self.sessions.sign_in.kind == "launch" else given.key
        visitor: Visitor = await self.sessions.sign_in.admit(secret.strip())
        signed_in = self.sessions.start(visitor)
        self.read_ahead()
        response = json_answer(self._plain_visitor(signed_in))
        set_cookie(request, response, signed_in)
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        self.sessions.end(await self.sessions.require(request, is_change=False))
        response = web.Response(status=204)
        forget_cookie(request, response)
        return response

    def _plain_visitor(self, signed_in: SignedIn) -> dict[str, Any]:
        reason = signed_in.visitor.read_only_reason
        return {
            "is_signed_in": True,
            "sign_in": self.sessions.sign_in.kind,
            "csrf": signed_in.csrf,
            "owner": signed_in.owner,
            "label": self._options.label,
            "version": __version__,
            "can_change": reason is None,
            "read_only_reason": reason,
            "now": datetime.now(UTC).isoformat(),
        }

    def _pages(self) -> Mapping[str, Show]:
        """The handler of each path."""
        catalog, why_not = self._catalog, self._options.why_not

        def of_session(show: ShowSession) -> Show:
            async def serve(request: web.Request, by: SignedIn) -> dict[str, Any]:
                return await show(request, by, await catalog.find(by.owner, request.match_info["id"]))

            return serve

        def number(request: web.Request) -> int:
            text = request.match_info["number"]
            if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
                raise DashboardRefusal(404, "not_found", f"there is no number {text[:100]!r}")
            return int(text)

        return {
            "/sessions": lambda ask, by: list_sessions(catalog, by.owner, read_query(ask, SessionListQuery)),
            "/search": lambda ask, by: search_messages(catalog, by.owner, read_query(ask, SearchQuery)),
            "/insights": lambda ask, by: insights_page(catalog, by.owner, read_query(ask, InsightsQuery).days),
            "/sessions/{id}": of_session(
                lambda _, by, it: session_page(catalog, by.owner, it, why_not, by.visitor.read_only_reason)
            ),
            "/sessions/{id}/timeline": of_session(
                lambda ask, _, it: timeline_page(catalog, it, read_query(ask, TimelineQuery))
            ),
            "/sessions/{id}/tree": of_session(lambda _, by, it: tree_page(catalog, by.owner, it)),
            "/sessions/{id}/context": of_session(lambda _, __, it: context_page(catalog, it)),
            "/sessions/{id}/messages": of_session(
                lambda ask, _, it: message_page(catalog, it, read_query(ask, MessageQuery))
            ),
            "/sessions/{id}/messages/{number}": of_session(lambda ask, _, it: whole_message(catalog, it, number(ask))),
            "/sessions/{id}/compactions/{number}": of_session(
                lambda ask, _, it: handoff_page(catalog, it, number(ask))
            ),
        }

    async def _previewed_handoff(self, request: web.Request, signed_in: SignedIn) -> dict[str, Any]:
        """The handoff of a preview, as the page shows one."""
        given = await read_json_body(request, HandoffBody)
        found = await self._catalog.find(signed_in.owner, given.session)
        try:
            handoff = Handoff.of_json(given.handoff_sections)
        except (TypeError, ValueError, OverflowError) as error:
            raise refuse("handoff_sections is not what a preview gives") from error
        return handoff_view(handoff, range(found.next_seq))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        signed_in = await self.sessions.require(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        async with self.live.follow(signed_in.owner) as follower:
            await _tell(response, "hello", {"now": datetime.now(UTC).isoformat()})
            while not self.live.is_ending.is_set():
                event = await follower.next_event(PING_SECONDS)
                if self.live.is_ending.is_set():
                    break
                if await self.sessions.find(request) is None:
                    await _tell(response, "reload", {"reason": "the sign-in is over"})
                    break
                if event is not None:
                    await _tell(response, event.name, event.fields)
                else:
                    await response.write(b": keep-alive\n\n")
        await response.write_eof()
        return response


def is_dashboard_path(path: str) -> bool:
    """Whether a path belongs to the dashboard, whether it exists or not."""
    return path == COOKIE_PATH or path.startswith(f"{COOKIE_PATH}/")


def json_answer(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=_json(value), status=status, content_type="application/json")


def refusal_answer(refusal: DashboardRefusal) -> web.Response:
    fields = {"kind": refusal.kind, "message": str(refusal), "remedy": refusal.remedy}
    return json_answer({"error": fields}, refusal.status)


async def _tell(response: web.StreamResponse, name: str, fields: Mapping[str, Any]) -> None:
    await response.write(b"event: " + name.encode() + b"\ndata: " + _json(fields) + b"\n\n")


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8 form; as an escape a browser reads it.
        return json.dumps(value, separators=(",", ":")).encode()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.info("reading ahead ended: %s", type(problem).__name__)


async def _nothing_here(request: web.Request) -> web.StreamResponse:
    what = f"the dashboard does not serve {request.method} {request.path[:200]}"
    return refusal_answer(DashboardRefusal(404, "not_found", what))


def _file_answer(request: web.Request, name: str) -> web.StreamResponse:
    """A file of the page: it holds no data, so it needs no sign-in."""
    path = PAGE_FOLDER / name
    if not _FILE_NAME.fullmatch(name) or path.suffix not in _TYPES or not path.is_file():
        return refusal_answer(DashboardRefusal(404, "not_found", f"there is no file {name[:100]!r}"))
    body = path.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers=headers)
    charset = None if path.suffix in (".png", ".woff2") else "utf-8"
    return web.Response(body=body, content_type=_TYPES[path.suffix], charset=charset, headers=headers)
