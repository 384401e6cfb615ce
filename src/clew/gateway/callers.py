"""Who sends a request: one way for every header style and every route.

With a key of Clew a caller is the key's owner, and the upstream's own credential goes on in its place. Where there are
no keys a caller is told by its own credential, which passes. Once there is a key, nobody is served without one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import unquote_plus

from aiohttp import web
from multidict import CIMultiDict

from clew.errors import ConflictingCredentials, StoreError
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
    withhold: frozenset[str] = frozenset()
    """Headers that carried a key of Clew: they do not go on. `?key` stands for the query."""
    credential: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The headers that go on in their place."""
    handoffs: KeyHandoffs | None = None

    @property
    def credential_id(self) -> str:
        """What tells the credential that the upstream is asked with from others; none of it is readable."""
        return self.owner if self.key is None else "ours"

    def query(self, raw: str) -> str:
        """The query, given as it came, as it goes on: without what holds a key of Clew, wherever that stands."""
        return "&".join(pair for pair in raw.split("&") if not self._is_withheld(pair))

    def _is_withheld(self, pair: str) -> bool:
        name, _, value = pair.partition("=")
        return KEY_PREFIX in unquote_plus(value) or ("?key" in self.withhold and unquote_plus(name) == "key")


class Callers:
    """Tells callers apart, by their credentials and by the keys in the store."""

    def __init__(
        self,
        store: Store,
        upstream_key: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_private: bool = False,
    ) -> None:
        """`is_private`: callers without a key of Clew are served even where there are keys."""
        self._is_private = is_private
        self._store = store
        self._upstream_key = upstream_key
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
        return Caller(owner_of_credential(credential))

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
        places, own = frozenset(credential.places), self._own_credential(credential)
        return Caller(key.owner, key.mode, key.id, places, own, key.handoffs)

    def upstream_credential(self, request: web.Request, caller: Caller) -> str | None:
        """What the upstream is asked with for a caller whose request does not pass: ours where it has a key of Clew."""
        if caller.key is not None:
            return self._upstream_key
        credential = read_credential(request.headers.items())
        return None if credential is None else credential.secret

    def _own_credential(self, credential: CallerCredential) -> CIMultiDict[str]:
        """The upstream's credential, where the caller's stood."""
        if not self._upstream_key:
            return CIMultiDict()
        headers = CIMultiDict[str]()
        for place in credential.places:
            if place == "authorization":
                headers["Authorization"] = f"Bearer {self._upstream_key}"
            else:
                headers["x-goog-api-key" if place == "?key" else place] = self._upstream_key
        return headers

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


def _away(problem: StoreError) -> Refusal:
    _log.error("callers cannot be told apart: %s", problem)
    return Refusal(503, "the gateway cannot look up its keys now; try again", {"Retry-After": "2"})
