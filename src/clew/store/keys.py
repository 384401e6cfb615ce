"""Keys of a gateway's callers: whose they are, what they may spend and send, and what is spent.

A key itself is never stored, only its SHA-256 hash; amounts are millionths of a dollar.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Literal, TypeAlias, get_args

from clew.errors import InvalidArgument, UnknownKey
from clew.store.database import (
    Operations,
    Row,
    Steps,
    as_datetime,
    as_micros,
    checked_text,
    execute,
    fetch_all,
    fetch_number,
    fetch_one,
    is_storable,
    reads,
    writes,
)

KeyMode: TypeAlias = Literal["observe", "spill", "compact"]
"""What a gateway does with the requests of a key: pass them on, bound new tool results, or compact."""
KeyHandoffs: TypeAlias = Literal["model", "built-in"]
"""Who writes the handoffs of a key's conversations: the model that the caller talks to, or Clew alone."""
KeyRecall: TypeAlias = Literal["on", "off"]
"""Whether a gateway offers recall to the models of a key's conversations."""
HASH_BYTES = 32
_MINUTE = 60_000_000
MOST_MICROS = 10**15
"""A budget or an amount above a thousand million dollars is a mistake, and sums have 64 bits."""
_COLUMNS = "name, owner, mode, budget_micros, spent_micros, created, expires, revoked, used, handoffs, recall"
_SELECT = f"SELECT {_COLUMNS} FROM access_keys"  # noqa: S608 (fixed text)
_INSERT = (
    "INSERT INTO access_keys (name, hash, owner, mode, budget_micros, created, expires, handoffs, recall)"  # noqa: S608
    f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING RETURNING {_COLUMNS}"
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
    recall: KeyRecall | None = None
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
    """When it was last charged, even with 0; None where it was never used."""
    handoffs: KeyHandoffs | None = None
    recall: KeyRecall | None = None


@dataclass(frozen=True, slots=True)
class TakenCalls:
    """Requests that a caller may send now."""

    count: int
    seconds: float = 0.0
    """How long to wait for the next one, where there is none."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The probable cost of a request in progress, reserved from the budget of its key."""

    id: str | None
    """None where the budget is used up by spending and reservations, so that nothing was reserved."""
    key: AccessKey
    """The key at that moment."""


@dataclass(slots=True)
class CallBucket:
    """The requests that a caller may still send: filled steadily, up to those of a minute."""

    available: float
    filled: int
    """When, in microseconds."""

    def take(self, per_minute: int, wanted: int, now: int) -> TakenCalls:
        """Take up to so many requests. A clock that was set back fills nothing."""
        passed = max(0, now - self.filled)
        self.available = min(float(per_minute), self.available + passed * per_minute / _MINUTE)
        self.filled = now
        count = min(wanted, int(self.available))
        self.available -= count
        return TakenCalls(count, 0.0 if count else (1 - self.available) * _MINUTE / per_minute / 1_000_000)


class KeyStore(Operations):
    """The keys in a database. `UnknownKey` where none has the id that is given."""

    @writes
    def create_key(self, new: NewKey) -> Steps[AccessKey]:
        """Store a key by its hash; `InvalidArgument` for one that cannot be, or that is there already."""
        _check(new)
        made = yield from fetch_one(
            _INSERT,
            "k_" + secrets.token_hex(6),
            new.hash,
            new.owner,
            new.mode,
            new.budget_micros,
            self._now(),
            None if new.expires is None else as_micros(new.expires),
            new.handoffs,
            new.recall,
        )
        if made is None:
            raise InvalidArgument("this key is stored already", remedy="make another")
        return _key(made)

    @reads
    def find_key(self, hash: bytes) -> Steps[AccessKey | None]:
        """The key of a hash, revoked and expired ones too; None where there is none."""
        row = yield from fetch_one(_SELECT + " WHERE hash = ?", hash)
        return None if row is None else _key(row)

    @reads
    def key_with_hash(self, key: str) -> Steps[tuple[AccessKey, bytes] | None]:
        """The key of an id with its hash, revoked and expired ones too; None where there is none."""
        found = f"SELECT {_COLUMNS}, hash FROM access_keys WHERE name = ?"  # noqa: S608 (fixed text)
        row = (yield from fetch_one(found, key)) if is_storable(key) else None
        return None if row is None else (_key(row), bytes(row[-1]))

    @reads
    def list_keys(self, *, owner: str | None = None) -> Steps[list[AccessKey]]:
        """All keys, or those of an owner, oldest first."""
        read = yield from fetch_all(_SELECT + " ORDER BY id")
        return [key for row in read if (key := _key(row)).owner == owner or owner is None]

    @writes
    def revoke_key(self, key: str, *, owner: str | None = None) -> Steps[AccessKey]:
        """Make a key unusable, by its id; one that is revoked stays as it is."""
        yield from _find(key, owner)
        yield from execute("UPDATE access_keys SET revoked = ? WHERE name = ? AND revoked IS NULL", self._now(), key)
        return (yield from _find(key))

    @writes
    def delete_key(self, key: str, *, owner: str | None = None) -> Steps[AccessKey]:
        """Delete a key, by its id; what was recorded under it stays."""
        found = yield from _find(key, owner)
        yield from execute("DELETE FROM access_keys WHERE name = ?", key)
        return found

    @writes
    def take_calls(self, caller: str, per_minute: int, wanted: int = 1) -> Steps[TakenCalls]:
        """Take requests from what a caller may send in a minute; all processes of a store take from the same."""
        name, now = blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=16).digest(), self._now()
        # A new caller may send all. The update changes nothing: it locks the row of a caller that is known.
        row = yield from fetch_one(
            "INSERT INTO call_buckets (caller, available, filled) VALUES (?, ?, ?) ON CONFLICT (caller)"
            " DO UPDATE SET filled = call_buckets.filled RETURNING available, filled",
            name,
            float(per_minute),
            now,
        )
        assert row is not None
        bucket = CallBucket(float(row[0]), int(row[1]))
        taken = bucket.take(per_minute, wanted, now)
        update = "UPDATE call_buckets SET available = ?, filled = ? WHERE caller = ?"
        yield from execute(update, bucket.available, bucket.filled, name)
        return taken

    @writes
    def forget_resting_callers(self) -> Steps[None]:
        """Delete the buckets of callers who sent nothing for two minutes: those are full again."""
        yield from execute("DELETE FROM call_buckets WHERE filled < ?", self._now() - 2 * _MINUTE)

    @writes
    def reserve_spending(self, key: str, micros: int, seconds: float) -> Steps[Reservation]:
        """Reserve something of a key's budget until it is spent or released, or so many seconds have passed.

        All processes of a store reserve from the same. Of a budget that has something left, one reservation may take
        more than that: a request costs what it costs.
        """
        now = self._now()
        yield from execute("SELECT id FROM access_keys WHERE name = ? FOR_UPDATE", key)
        found = yield from _find(key)
        yield from execute("DELETE FROM reservations WHERE expires <= ?", now)
        reserved = yield from fetch_number("SELECT sum(micros) FROM reservations WHERE access_key = ?", key)
        if found.budget_micros is not None and found.spent_micros + reserved >= found.budget_micros:
            return Reservation(None, found)
        name = "r_" + secrets.token_hex(12)
        insert = "INSERT INTO reservations (name, access_key, micros, expires) VALUES (?, ?, ?, ?)"
        yield from execute(insert, name, key, min(micros, MOST_MICROS), now + int(seconds * 1_000_000))
        return Reservation(name, found)

    @writes
    def release_spending(self, reservation: str) -> Steps[None]:
        """Give back what was reserved and not spent; nothing where it was given back already."""
        yield from execute("DELETE FROM reservations WHERE name = ?", reservation)

    @writes
    def add_spending(self, key: str, micros: int, reservation: str | None = None) -> Steps[AccessKey]:
        """Add to what a key has spent, and say that it was used now; the key afterwards.

        Also from several processes at once nothing is lost. What was reserved for it is given back.
        """
        if micros < 0:
            raise InvalidArgument(f"{micros} millionths of a dollar cannot be spent", remedy="pass 0 or more")
        if reservation is not None:
            yield from execute("DELETE FROM reservations WHERE name = ?", reservation)
        row = yield from fetch_one(_SPEND, min(micros, MOST_MICROS), self._now(), key)
        if row is None:
            raise UnknownKey(key)
        return _key(row)


def _check(new: NewKey) -> None:
    if not checked_text(new.owner, "owner").strip():
        raise InvalidArgument("a key needs an owner", remedy="name who will use it")
    if len(new.hash) != HASH_BYTES:
        raise InvalidArgument(
            f"the hash of a key has {len(new.hash)} bytes", remedy=f"pass its SHA-256, of {HASH_BYTES}"
        )
    for name, value, allowed in (
        ("mode", new.mode, get_args(KeyMode)),
        ("handoffs", new.handoffs, get_args(KeyHandoffs)),
        ("recall", new.recall, get_args(KeyRecall)),
    ):
        if value is not None and value not in allowed:
            raise InvalidArgument(f"{name} {value!r} is not allowed", remedy=f"use {', '.join(allowed)}, or None")
    if new.budget_micros is not None and not 0 < new.budget_micros <= MOST_MICROS:
        raise InvalidArgument(
            f"a budget of {new.budget_micros} millionths of a dollar cannot be", remedy="pass 1 or more"
        )


def _find(name: str, owner: str | None = None) -> Steps[AccessKey]:
    row = (yield from fetch_one(_SELECT + " WHERE name = ?", name)) if is_storable(name) else None
    if row is None or (owner is not None and row[1] != owner):
        raise UnknownKey(name)
    return _key(row)


def _key(row: Row) -> AccessKey:
    created, expires, revoked, used = (None if at is None else as_datetime(at) for at in row[5:9])
    assert created is not None
    return AccessKey(row[0], row[1], row[2], row[3], int(row[4]), created, expires, revoked, used, row[9], row[10])
