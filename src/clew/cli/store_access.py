"""The configuration and the store of a command, and what a session holds.

Reading never creates a database file.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from clew.cli.console import Console
from clew.cli.pages import message_range
from clew.config import LoadedConfig, Settings, load_config, path_exists, store_place
from clew.errors import NoDatabase

if TYPE_CHECKING:
    from clew.store import Session, Store, StoredMessage

FIRST_STEPS = "`clew chat` begins a conversation, `clew import FILE` takes in sessions of other programs"

_PASSWORD = re.compile(r"(?<=//)([^/@:\s]*):[^/@\s]*@")
NO_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The location of the store."""

    url: str
    path: Path | None
    """The file; None for a server."""
    with_vectors: bool = False
    """Whether search uses vectors, if the extra `vectors` is installed."""

    @property
    def label(self) -> str:
        """The location without its password."""
        return _PASSWORD.sub(r"\1@", self.url) if self.path is None else str(self.path)

    @property
    def exists(self) -> bool:
        """Whether the file exists; true for a server, which is checked when it is opened."""
        return self.path is None or path_exists(self.path)

    def require(self, named: str) -> None:
        """Raise `NoDatabase` about the requested object if there is no database."""
        if not self.exists:
            raise NoDatabase(f"{named}: there is no database yet at {self.label}", remedy=FIRST_STEPS)

    @property
    def empty_message(self) -> str:
        """Printed instead of a list if there is no database."""
        return f"Nothing is stored yet: there is no database at {self.label}. {FIRST_STEPS}."

    @asynccontextmanager
    async def open(self, named: str = "") -> AsyncIterator[Store]:
        """Open the store. A missing one is created, unless the name of a requested object is given."""
        if named:
            self.require(named)
        from clew.store import installed_embedder, open_store

        async with open_store(self.url, embedder=installed_embedder(wanted=self.with_vectors)) as store:
            yield store


def load_settings(console: Console) -> LoadedConfig:
    """Load the configuration and print its notices."""
    loaded = load_config(console.environ, console.flags)
    console.notes(loaded.notices)
    return loaded


def configured_store(console: Console) -> StoreLocation:
    """The location in the configuration; its notices are printed."""
    return store_location(load_settings(console).settings, console.environ)


def store_location(settings: Settings, environ: Mapping[str, str]) -> StoreLocation:
    """The location for `store.url`; a relative path is relative to the folder of Clew."""
    place = store_place(settings.store.url, environ)
    return StoreLocation(str(place), place if isinstance(place, Path) else None, settings.store.vectors)


@asynccontextmanager
async def stored_session(console: Console, name: str) -> AsyncIterator[tuple[Store, Session]]:
    """Open the configured store and find a session in it."""
    async with configured_store(console).open(f"session {name!r}") as store:
        yield store, await find_session(store, name)


@dataclass(frozen=True, slots=True)
class SessionRange:
    """The messages of a session: numbers from `first` to below `stop`, and the newest message."""

    first: int
    stop: int
    newest: StoredMessage | None
    created: datetime
    """When the session was created."""

    @property
    def count(self) -> int:
        return self.stop - self.first

    @property
    def numbers(self) -> str:
        """`m4-m12`, or `m4` for one message; empty for none."""
        return message_range([self.first, self.stop - 1]) if self.count else ""

    @property
    def updated(self) -> datetime:
        """The time of the newest message, or of the session if it has none."""
        return self.newest.at if self.newest else self.created


async def find_session(store: Store, name: str) -> Session:
    """The session with this id, the beginning or end of one, or a title."""
    from clew.store import find_session  # late: a database takes longer to import than `--help` should

    return await find_session(store, name)


def short_ids(ids: Iterable[str], among: Iterable[str] = ()) -> dict[str, str]:
    """Each id shortened, unique among these ids and those of `among`."""
    from clew.store import short_ids

    return short_ids(ids, among)


async def session_range(store: Store, session: Session, siblings: Sequence[Session] | None = None) -> SessionRange:
    """The messages of a session. `siblings` are the sessions of its conversation, oldest first, if known."""
    family = siblings if siblings is not None else await store.sessions_of(session.conversation)
    index = next((number for number, it in enumerate(family) if it.id == session.id), len(family) - 1)
    is_last = index + 1 == len(family)
    stop = await store.next_seq(session.id) if is_last else family[index + 1].first_seq
    newest = await store.messages(session.id, stop - 1, stop, keep_damaged=True) if stop > session.first_seq else []
    return SessionRange(session.first_seq, stop, newest[0] if newest else None, session.created)


def damage_notes(rows: Iterable[StoredMessage]) -> Iterator[str]:
    """A line for each message that could not be read."""
    for row in rows:
        if row.damage is not None:
            yield f"m{row.seq} of {row.session} is damaged ({row.damage}); `clew doctor --repair` sets it aside"


async def all_session_ids(store: Store) -> list[str]:
    return [session.id for session in await store.list_sessions(limit=NO_LIMIT)]
