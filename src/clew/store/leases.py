"""Leases: one compaction per conversation at a time, across processes. As steps, for any database.

A courtesy between processes that saves a summary from being written twice; what protects the history is the check
inside the commit. The clock that counts is the database's, as `now` tells it.
"""

from __future__ import annotations

from clew.errors import InvalidArgument
from clew.store import sessions
from clew.store.base import Lease
from clew.store.problems import LeaseLost
from clew.store.steps import Steps, one, run

# Taken in the future means that the clock was set back: such a lease would last too long.
_IS_FREE = "leases.expires <= excluded.taken OR leases.taken > excluded.taken OR leases.holder = excluded.holder"


def take_lease(session: str, holder: str, seconds: float, now: int) -> Steps[Lease | None]:
    """The lease on a session's conversation, or None while another holds it. One's own is prolonged."""
    if seconds <= 0 or not holder:
        raise InvalidArgument(f"a lease needs a holder and a time, not {holder!r} for {seconds} s")
    found = yield from sessions.find(session)
    row = yield from one(
        "INSERT INTO leases (conversation, holder, token, taken, expires) VALUES (?, ?, 1, ?, ?)"  # noqa: S608
        " ON CONFLICT (conversation) DO UPDATE SET holder = excluded.holder, token = leases.token + 1,"
        f" taken = excluded.taken, expires = excluded.expires WHERE {_IS_FREE} RETURNING token",
        found.conversation,
        holder,
        now,
        now + int(seconds * 1_000_000),
    )
    return None if row is None else Lease(found.conversation, holder, int(row[0]), seconds)


def release_lease(lease: Lease) -> Steps[bool]:
    """Give a lease back; False when it was another's already."""
    row = yield from one(
        # The row stays, so that tokens never repeat.
        "UPDATE leases SET expires = 0, holder = '' WHERE conversation = ? AND holder = ? AND token = ?"
        " RETURNING token",
        lease.conversation,
        lease.holder,
        lease.token,
    )
    return row is not None


def renew_lease(lease: Lease, now: int) -> Steps[bool]:
    """Prolong a lease; False when it is no longer ours."""
    row = yield from one(
        "UPDATE leases SET taken = ?, expires = ? WHERE conversation = ? AND holder = ? AND token = ? AND expires > ?"
        " RETURNING token",
        now,
        now + int(lease.seconds * 1_000_000),
        lease.conversation,
        lease.holder,
        lease.token,
        now,
    )
    return row is not None


def lease_holder(session: str, now: int) -> Steps[str | None]:
    """Who compacts a session's conversation now."""
    found = yield from sessions.find(session)
    row = yield from one(
        "SELECT holder FROM leases WHERE conversation = ? AND expires > ? AND taken <= ?", found.conversation, now, now
    )
    return None if row is None else row[0]


def require_lease(lease: Lease, now: int) -> Steps[None]:
    """Refuse, inside a commit, what another may be doing as well."""
    row = yield from one(
        "SELECT token FROM leases WHERE conversation = ? AND holder = ? AND token = ? AND expires > ?",
        lease.conversation,
        lease.holder,
        lease.token,
        now,
    )
    if row is None:
        raise LeaseLost(
            f"the lease of {lease.holder!r} on conversation {lease.conversation} ran out after {lease.seconds:g} s; "
            "load the view again, or take the lease for longer"
        )
    yield from run("UPDATE leases SET expires = 0, holder = '' WHERE conversation = ?", lease.conversation)
