"""Who sends a request: one way for every header style and every route.

With a key of Clew a caller is the key's owner, and the upstream's own credential goes on in its place. Where there are
no keys a caller is told by its own credential, which passes. Once there is a key, nobody is served without one. A
request that is signed for Amazon is served where the gateway has the credential that it was signed with.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote_plus

from aiohttp import web
from multidict import CIMultiDict

from clew.errors import ConflictingCredentials, StoreError
from clew.gateway.aws import AwsCredential, is_signed, is_signed_with
from clew.gateway.keys import (
    KEY_PREFIX,
    CallerCredential,
    hash_key,
    is_access_key,
    owner_of_credential,
    read_credential,
    state_of_key,
)
from clew.gateway.wires import GEMINI, is_models_path, wire_path
from clew.store import AccessKey, KeyHandoffs, KeyMode, Store

_REMEMBERED_SECONDS = 2.0
"""So long a key that was revoked, or has spent its budget, may still be taken."""
_MAX_REMEMBERED = 10_000
_NO_KEY = bytes(32)
_FEWEST_CHARS = 24
"""Of a credential that only one caller has: providers' keys have 32 and more, what is sent in place of one has not."""
_WHY = {
    "revoked": (401, "this key of Clew was revoked"),
    "expired": (401, "this key of Clew has expired"),
    "over_budget": (402, "the budget of this key of Clew is spent"),
}

_log = logging.getLogger("clew.gateway")


class Refusal(Exception):  # noqa: N818 (reads as what it says)
    """A request that is not served, and why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request."""

    owner: str
    mode: KeyMode | None = None
    key: str | None = None
    """The id of the key of Clew that was used; None where the caller's own credential passes."""
    places: tuple[str, ...] = ()
    """Where its credential stood: headers, in small letters, and `?key` for the query."""
    handoffs: KeyHandoffs | None = None
    is_guessable: bool = False
    """Whether others may have the same credential: it has none, or a usual filler such as `ollama`."""
    is_signed: bool = False
    """Whether its requests are signed for Amazon, which the gateway checks and does anew."""

    @property
    def credential_id(self) -> str:
        """What tells the credential that the upstream is asked with from others; none of it is readable."""
        return self.owner if self.key is None else "ours"

    def withheld(self, *, is_fallback: bool = False) -> frozenset[str]:
        """The places that do not go on: those of a key of Clew, and of any credential to another upstream than its."""
        return frozenset(self.places) if self.key is not None or is_fallback else frozenset()

    def credential(self, ours: str | None) -> CIMultiDict[str]:
        """The upstream's credential, where a key of Clew stood."""
        headers = CIMultiDict[str]()
        for place in self.places if self.key is not None and ours else ():
            if place == "authorization":
                headers["Authorization"] = f"Bearer {ours}"
            else:
                headers["x-goog-api-key" if place == "?key" else place] = ours or ""
        return headers

    def query(self, raw: str, *, is_fallback: bool = False) -> str:
        """The query, given as it came, as it goes on: without what holds a key of Clew, wherever that stands."""
        withheld = "?key" in self.withheld(is_fallback=is_fallback)
        return "&".join(pair for pair in raw.split("&") if not _is_withheld(pair, has_key=withheld))


class Callers:
    """Tells callers apart, by their credentials and by the keys in the store."""

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
        self._store = store
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
        """Refuse a request that is not signed with the gateway's own credential of Amazon's."""
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
        """Whether there are keys, so that nobody is served without one."""
        now = self._clock()
        if self._any is None or now - self._any[0] > _REMEMBERED_SECONDS:
            try:
                self._any = (now, bool(await self._store.list_keys()))
            except StoreError as problem:
                # Nothing can have changed in a store that is away: what was known holds.
                if self._any is None:
                    raise _away(problem) from problem
        return self._any[1]

    async def reach_store(self) -> None:
        """Ask the store for something; raises what it raises."""
        await self._store.find_key(_NO_KEY)

    async def _with_key(self, credential: CallerCredential) -> Caller:
        key = await self._find(hash_key(credential.secret))
        if key is None:
            raise Refusal(401, "this key of Clew is not known here")
        state = state_of_key(key, datetime.now(UTC))
        if state != "valid":
            raise Refusal(*_WHY[state])
        return Caller(key.owner, key.mode, key.id, credential.places, key.handoffs)

    def upstream_credential(self, request: web.Request, caller: Caller) -> str | None:
        """What the upstream is asked with for a caller whose request does not pass; None: ours, or none."""
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

    async def add_spending(self, caller: Caller, micros: int) -> bool:
        """What a request of a caller cost, where it used a key; whether it may go on spending."""
        if caller.key is None:
            return True
        spent = await self._store.add_spending(caller.key, micros)
        self._keys = {hash: it for hash, it in self._keys.items() if it[1] is None or it[1].id != spent.id}
        return state_of_key(spent, datetime.now(UTC)) == "valid"


def _is_withheld(pair: str, *, has_key: bool) -> bool:
    name, _, value = pair.partition("=")
    return KEY_PREFIX in unquote_plus(value) or (has_key and unquote_plus(name) == "key")


def _away(problem: StoreError) -> Refusal:
    _log.error("callers cannot be told apart: %s", problem)
    return Refusal(503, "the gateway cannot look up its keys now; try again", {"Retry-After": "2"})
