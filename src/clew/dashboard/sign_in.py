"""Signing in to the dashboard: the cookie of a visitor, and the token that every change needs.

A cookie names its visitor and its expiry, and is signed with a secret of that visitor. The server does not store it,
several processes accept the same one, and it ends with the secret. The secret never leaves the server; the token
against cross-site requests is derived from the secret and the cookie, and is sent to the page only.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, Protocol, TypeAlias

from aiohttp import web

SignInKind: TypeAlias = Literal["launch", "key"]
COOKIE = "clew_dashboard_{port}"
"""Browsers send a cookie to every port of a host; the port keeps two dashboards on one machine apart."""
COOKIE_PATH = "/dashboard"
CSRF_HEADER = "X-Clew-CSRF"
SIGNED_IN_SECONDS = 12 * 3600
_TOKEN_BYTES = 32
_PARTS = 4
_MAX_COOKIE_CHARS = 512


class DashboardRefusal(Exception):  # noqa: N818 (reads as what it says)
    """A refused request: a status, a kind for programs, a message and a remedy for people."""

    def __init__(self, status: int, kind: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person who has signed in, and the data that they may see."""

    name: str
    """What the cookie names them by."""
    secret: bytes = field(repr=False)
    """Signs the cookie."""
    owner: str | None = None
    """The owner whose conversations are shown; None: all of the store."""
    read_only_reason: str | None = None
    """Why they cannot change anything; None where they can."""


class SignIn(Protocol):
    """How people sign in to one dashboard."""

    kind: SignInKind

    async def admit(self, secret: str) -> Visitor:
        """The visitor with this secret; raises `DashboardRefusal`."""

    async def visitor(self, name: str) -> Visitor | None:
        """The visitor of a cookie, if they still have access."""

    async def note(self) -> str | None:
        """Why sign-in is impossible now; None where it is possible."""


class LaunchSignIn:
    """Sign-in with the link that the command prints: for the person at this terminal only.

    A link is good once. `on_used` then gets the next one, for another browser.
    """

    kind: SignInKind = "launch"

    def __init__(self, on_used: Callable[[str], None] | None = None, read_only_reason: str | None = None) -> None:
        self._visitor = Visitor("local", secrets.token_bytes(_TOKEN_BYTES), read_only_reason=read_only_reason)
        self._on_used = on_used
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)

    async def admit(self, secret: str) -> Visitor:
        if not hmac.compare_digest(secret.encode(), self.token.encode()):
            remedy = "The terminal where `clew dashboard` runs shows a new one."
            raise DashboardRefusal(401, "sign_in", "this link is not known, or was used already", remedy)
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        if self._on_used is not None:
            self._on_used(self.token)
        return self._visitor

    async def visitor(self, name: str) -> Visitor | None:
        return self._visitor if name == self._visitor.name else None

    async def note(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A visitor with the cookie of their request."""

    visitor: Visitor
    cookie: str = field(repr=False)

    @property
    def owner(self) -> str | None:
        return self.visitor.owner

    @property
    def csrf(self) -> str:
        """The token that every change needs."""
        return _mac(self.visitor.secret, f"csrf.{self.cookie}")


class CookieSessions:
    """Makes and reads cookies."""

    def __init__(self, sign_in: SignIn, clock: Callable[[], float] = time.time) -> None:
        self.sign_in = sign_in
        self._clock = clock
        self._ended: dict[str, float] = {}
        """Cookies of visitors who signed out at this process, each with its expiry."""

    def start(self, visitor: Visitor) -> SignedIn:
        """A cookie for a visitor who has just signed in."""
        body = f"{visitor.name}.{int(self._clock()) + SIGNED_IN_SECONDS}.{secrets.token_hex(8)}"
        return SignedIn(visitor, f"{body}.{_mac(visitor.secret, body)}")

    def end(self, signed_in: SignedIn) -> None:
        """Reject a cookie from now on."""
        now = self._clock()
        self._ended = {cookie: until for cookie, until in self._ended.items() if until > now}
        self._ended[signed_in.cookie] = now + SIGNED_IN_SECONDS

    async def find(self, request: web.Request) -> SignedIn | None:
        """The visitor who sent a request; None without a sign-in."""
        cookie = request.cookies.get(_cookie_name(request), "")
        body, _, mac = cookie.rpartition(".")
        parts = body.split(".")
        if len(cookie) > _MAX_COOKIE_CHARS or len(parts) != _PARTS - 1 or not parts[1].isdecimal():
            return None
        if len(parts[1]) > 15 or int(parts[1]) < self._clock() or cookie in self._ended:
            return None
        visitor = await self.sign_in.visitor(parts[0])
        if visitor is None or not _is_same(mac, _mac(visitor.secret, body)):
            return None
        return SignedIn(visitor, cookie)

    async def require(self, request: web.Request, *, is_change: bool = True) -> SignedIn:
        """The visitor who sent a request; `DashboardRefusal` if they are not signed in, or a change has no token.

        `is_change` False: the request changes nothing in the store, so visitors with read access may send it.
        """
        found = await self.find(request)
        if found is None:
            raise DashboardRefusal(401, "sign_in", "nobody is signed in", "Sign in, and try again.")
        if request.method not in ("GET", "HEAD"):
            _check_token(request, found)
            if is_change and found.visitor.read_only_reason is not None:
                raise DashboardRefusal(403, "read_only", found.visitor.read_only_reason)
        return found


def _check_token(request: web.Request, signed_in: SignedIn) -> None:
    """Refuse a request that the page itself has not sent."""
    if not _is_same(request.headers.get(CSRF_HEADER, ""), signed_in.csrf):
        remedy = "Load the page again."
        raise DashboardRefusal(403, "csrf", f"a change needs the token of the page in {CSRF_HEADER}", remedy)


def set_cookie(request: web.Request, response: web.StreamResponse, signed_in: SignedIn) -> None:
    """Set the cookie of a visitor, for the dashboard only and unreadable by scripts."""
    response.set_cookie(
        _cookie_name(request),
        signed_in.cookie,
        max_age=SIGNED_IN_SECONDS,
        path=COOKIE_PATH,
        httponly=True,
        samesite="Strict",
        secure=request.secure,
    )


def forget_cookie(request: web.Request, response: web.StreamResponse) -> None:
    response.del_cookie(_cookie_name(request), path=COOKIE_PATH, httponly=True, samesite="Strict")


def _cookie_name(request: web.Request) -> str:
    return COOKIE.format(port=request.url.port or 0)


def _mac(secret: bytes, text: str) -> str:
    return hmac.new(secret, text.encode("utf-8", "surrogatepass"), sha256).hexdigest()


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode())
