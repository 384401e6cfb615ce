"""The store of a command: where the config says it is, opening it, and what a session holds.

Reading never creates a database file.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clew.cli.console import Console
from clew.cli.pages import message_range
from clew.config import Settings, load_config, path_exists, store_place
from clew.errors import NoDatabase

if TYPE_CHECKING:
    from clew.store import Session, Store, StoredMessage

T = TypeVar("T")
FIRST_STEPS = "`clew chat` begins a conversation, `clew import FILE` takes in sessions of other programs"

_PASSWORD = re.compile(r"(?<=//)([^/@:\s]*):[^/@\s]*@")
NO_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where the store is, or will be."""

    url: str
    path: Path | None
    """The file; None for a server."""
    with_vectors: bool = False
    """Whether questions are searched by their meaning too, where the extra `vectors` is installed."""

    @property
    def label(self) -> str:
        """For people: without the password."""
        return _PASSWORD.sub(r"\1@", self.url) if self.path is None else str(self.path)

    @property
    def exists(self) -> bool:
        """Whether there is something to read; true for a server, which is asked when it is opened."""
        return self.path is None or path_exists(self.path)

    def missing_error(self, what: str) -> NoDatabase:
        """The error for a named thing in a database that is not there."""
        return NoDatabase(f"{what}: there is no database yet at {self.label}", remedy=FIRST_STEPS)

    @property
    def empty_message(self) -> str:
        """What is printed instead of a list, where there is no database yet."""
        return f"Nothing is stored yet: there is no database at {self.label}. {FIRST_STEPS}."


def configured_store(flags: Sequence[str], console: Console) -> StoreLocation:
    """The location that the config names; notices of the config are printed."""
    loaded = load_config(console.environ, flags)
    console.notes(loaded.notices)
    return store_location(loaded.settings, console.environ)


def store_location(settings: Settings, environ: Mapping[str, str]) -> StoreLocation:
    """What `store.url` means; a relative path counts from the folder of Clew, whatever the folder one is in."""
    place = store_place(settings.store.url, environ)
    return StoreLocation(str(place), place if isinstance(place, Path) else None, settings.store.vectors)


@asynccontextmanager
async def open_location(location: StoreLocation) -> AsyncIterator[Store]:
    """The store, created if it does not exist."""
    from clew.store import installed_embedder, open_store

    async with open_store(location.url, embedder=installed_embedder(wanted=location.with_vectors)) as store:
        yield store


def run_with_store(
    location: StoreLocation, work: Callable[[Store], Awaitable[T]], *, named: str, creates: bool = False
) -> T:
    """Run `work` with a store that has to exist unless this `creates` it; `named` is the thing asked for, in errors."""
    if not location.exists and not creates:
        raise location.missing_error(named)

    import asyncio

    async def run() -> T:
        async with open_location(location) as store:
            return await work(store)

    return asyncio.run(run())


@dataclass(frozen=True, slots=True)
class SessionRange:
    """Which messages a session holds: numbers from `first` to below `stop`, and the newest of them."""

    first: int
    stop: int
    newest: StoredMessage | None
    created: datetime
    """Of the session."""

    @property
    def count(self) -> int:
        return self.stop - self.first

    @property
    def numbers(self) -> str:
        """`m4-m12`, `m4` for one; empty for no message."""
        return message_range([self.first, self.stop - 1]) if self.count else ""

    @property
    def updated(self) -> datetime:
        """The time of the newest message, or of the session without messages."""
        return self.newest.at if self.newest else self.created


async def find_session(store: Store, name: str) -> Session:
    """The session that is meant, by an id, the beginning or end of one, or a title."""
    from clew.store import find_session  # late: a database takes longer to import than `--help` should

    return await find_session(store, name)


def short_ids(ids: Iterable[str], among: Iterable[str] = ()) -> dict[str, str]:
    """Each id shortened so that it means no other of these ids and of those `among`."""
    from clew.store import short_ids

    return short_ids(ids, among)


async def session_range(store: Store, session: Session, siblings: Sequence[Session] | None = None) -> SessionRange:
    """The messages that a session holds. `siblings` are the sessions of its conversation, oldest first, if known."""
    family = siblings if siblings is not None else await store.sessions_of(session.conversation)
    index = next((number for number, it in enumerate(family) if it.id == session.id), len(family) - 1)
    is_last = index + 1 == len(family)
    stop = await store.next_seq(session.id) if is_last else family[index + 1].first_seq
    newest = await store.messages(session.id, stop - 1, stop, keep_damaged=True) if stop > session.first_seq else []
    return SessionRange(session.first_seq, stop, newest[0] if newest else None, session.created)


def damage_notes(rows: Iterable[StoredMessage]) -> Iterator[str]:
    """A line for each message that could not be read, so that a note was given in its place."""
    for row in rows:
        if row.damage is not None:
            yield f"m{row.seq} of {row.session} is damaged ({row.damage}); `clew doctor --repair` sets it aside"


async def all_session_ids(store: Store) -> list[str]:
    return [session.id for session in await store.list_sessions(limit=NO_LIMIT)]
