"""Keys of a gateway's callers: whose they are, what they may spend, and what is spent. As steps, and as methods.

A key itself is never stored, only its SHA-256 hash; amounts are millionths of a dollar.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from clew.errors import InvalidArgument, UnknownKey
from clew.store.database import (
    Clock,
    Database,
    Row,
    Steps,
    as_datetime,
    as_micros,
    checked_text,
    execute,
    fetch_all,
    fetch_one,
    is_storable,
    micros_of,
    wall_clock,
)

KeyMode: TypeAlias = Literal["observe", "spill", "compact"]
"""What a gateway does with the requests of a key: pass them on, bound new tool results, or compact."""
KeyHandoffs: TypeAlias = Literal["model", "built-in"]
"""Who writes the handoffs of a key's conversations: the model that the caller talks to, or nobody but Clew."""
HASH_BYTES = 32
MOST_MICROS = 10**15
"""A budget or an amount above a thousand million dollars is a mistake, and sums have 64 bits."""
_COLUMNS = "name, owner, mode, budget_micros, spent_micros, created, expires, revoked, used, handoffs"
_SELECT = f"SELECT {_COLUMNS} FROM access_keys"  # noqa: S608 (fixed text)
_INSERT = (
    "INSERT INTO access_keys (name, hash, owner, mode, budget_micros, created, expires, handoffs)"  # noqa: S608
    f" VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING RETURNING {_COLUMNS}"
)
# In one statement, so that two writers cannot both start from the same sum.
_SPEND = f"UPDATE access_keys SET spent_micros = spent_micros + ?, used = ? WHERE name = ? RETURNING {_COLUMNS}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key to store."""

    owner: str
    """Who sees what is recorded under it; several keys may have one owner."""
    hash: bytes
    """SHA-256 of the key."""
    mode: KeyMode | None = None
    """None: the mode of the gateway."""
    budget_micros: int | None = None
    expires: datetime | None = None
    handoffs: KeyHandoffs | None = None
    """None: as the gateway is set."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key as the store has it."""

    id: str
    owner: str
    mode: KeyMode | None
    budget_micros: int | None
    spent_micros: int
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    used: datetime | None
    """When something was last spent with it, be it nothing; None where it was never used."""
    handoffs: KeyHandoffs | None = None


class KeyStore:
    """The keys in a database."""

    def __init__(self, database: Database, clock: Clock = wall_clock) -> None:
        self._database = database
        self._clock = clock

    async def create_key(self, new: NewKey) -> AccessKey:
        """Store a key by its hash; `InvalidArgument` for one that cannot be, or that is there already."""
        now = micros_of(self._clock())
        return await self._database.write(lambda: create(new, now))

    async def find_key(self, hash: bytes) -> AccessKey | None:
        """The key of a hash, revoked and expired ones too; None where there is none."""
        return await self._database.read(lambda: find_by_hash(hash))

    async def key_with_hash(self, key: str) -> tuple[AccessKey, bytes] | None:
        """The key of an id with its hash, revoked and expired ones too; None where there is none."""
        return await self._database.read(lambda: _with_hash(key))

    async def list_keys(self, *, owner: str | None = None) -> list[AccessKey]:
        """All keys, or those of an owner, oldest first."""
        return await self._database.read(lambda: list_all(owner))

    async def revoke_key(self, key: str, *, owner: str | None = None) -> AccessKey:
        """Make a key unusable, by its id; one that is revoked stays as it is. `UnknownKey` where there is none."""
        now = micros_of(self._clock())
        return await self._database.write(lambda: revoke(key, owner, now))

    async def delete_key(self, key: str, *, owner: str | None = None) -> AccessKey:
        """Delete a key, by its id; what was recorded under it stays. `UnknownKey` where there is none."""
        return await self._database.write(lambda: delete(key, owner))

    async def add_spending(self, key: str, micros: int) -> AccessKey:
        """Add to what a key has spent, and say that it was used now; the key afterwards.

        Also from several processes at once nothing is lost. `UnknownKey` where there is none of that id.
        """
        now = micros_of(self._clock())
        return await self._database.write(lambda: add_spending(key, micros, now))


def create(new: NewKey, now: int) -> Steps[AccessKey]:
    """Insert a key."""
    if not checked_text(new.owner, "owner").strip():
        raise InvalidArgument("a key needs an owner; name who will use it")
    if len(new.hash) != HASH_BYTES:
        raise InvalidArgument(f"the hash of a key has {len(new.hash)} bytes; pass its SHA-256, of {HASH_BYTES}")
    if new.mode is not None and new.mode not in get_args(KeyMode):
        raise InvalidArgument(f"mode {new.mode!r} is not allowed; use {', '.join(get_args(KeyMode))}, or None")
    if new.handoffs is not None and new.handoffs not in get_args(KeyHandoffs):
        raise InvalidArgument(
            f"handoffs {new.handoffs!r} is not allowed; use {', '.join(get_args(KeyHandoffs))}, or None"
        )
    if new.budget_micros is not None and not 0 < new.budget_micros <= MOST_MICROS:
        raise InvalidArgument(f"a budget of {new.budget_micros} millionths of a dollar cannot be; pass 1 or more")
    made = yield from fetch_one(
        _INSERT,
        "k_" + secrets.token_hex(6),
        new.hash,
        new.owner,
        new.mode,
        new.budget_micros,
        now,
        None if new.expires is None else as_micros(new.expires),
        new.handoffs,
    )
    if made is None:
        raise InvalidArgument("this key is stored already; make another")
    return _key(made)


def find_by_hash(digest: bytes) -> Steps[AccessKey | None]:
    row = yield from fetch_one(_SELECT + " WHERE hash = ?", digest)
    return None if row is None else _key(row)


def list_all(owner: str | None) -> Steps[list[AccessKey]]:
    """Keys, oldest first."""
    read = yield from fetch_all(_SELECT + " ORDER BY id")
    return [key for row in read if (key := _key(row)).owner == owner or owner is None]


def revoke(key: str, owner: str | None, now: int) -> Steps[AccessKey]:
    """Set when a key was revoked, once."""
    found = yield from _find_by_name(key)
    if owner is not None and found.owner != owner:
        raise UnknownKey(key)
    yield from execute("UPDATE access_keys SET revoked = ? WHERE name = ? AND revoked IS NULL", now, key)
    return (yield from _find_by_name(key))


def delete(key: str, owner: str | None) -> Steps[AccessKey]:
    """Remove a key, its hash and what it has spent."""
    found = yield from _find_by_name(key)
    if owner is not None and found.owner != owner:
        raise UnknownKey(key)
    yield from execute("DELETE FROM access_keys WHERE name = ?", key)
    return found


def add_spending(key: str, micros: int, now: int) -> Steps[AccessKey]:
    """Add an amount, and set when the key was last used."""
    if micros < 0:
        raise InvalidArgument(f"{micros} millionths of a dollar cannot be spent; pass 0 or more")
    row = yield from fetch_one(_SPEND, min(micros, MOST_MICROS), now, key)
    if row is None:
        raise UnknownKey(key)
    return _key(row)


def _with_hash(name: str) -> Steps[tuple[AccessKey, bytes] | None]:
    try:
        found = yield from _find_by_name(name)
    except UnknownKey:
        return None
    row = yield from fetch_one("SELECT hash FROM access_keys WHERE name = ?", name)
    return None if row is None else (found, bytes(row[0]))


def _find_by_name(name: str) -> Steps[AccessKey]:
    row = (yield from fetch_one(_SELECT + " WHERE name = ?", name)) if is_storable(name) else None
    if row is None:
        raise UnknownKey(name)
    return _key(row)


def _key(row: Row) -> AccessKey:
    created, expires, revoked, used = (None if at is None else as_datetime(at) for at in row[5:9])
    assert created is not None
    return AccessKey(row[0], row[1], row[2], row[3], int(row[4]), created, expires, revoked, used, row[9])
