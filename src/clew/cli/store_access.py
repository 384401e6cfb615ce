"""The store of a command: where the config says it is, opening it, and finding the session that a person means.

Reading never creates a database file. A session is found by an id, the beginning or end of one, or a title; a name that
several sessions match is an error that lists them.
"""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clew.cli.console import Console
from clew.cli.views.amounts import format_time, message_range
from clew.config import Settings, load_config, path_exists, store_place
from clew.errors import AmbiguousSession, NoDatabase, StoreError

if TYPE_CHECKING:
    from clew.store import Session, Store, StoredMessage

T = TypeVar("T")
FIRST_STEPS = "`clew chat` begins a conversation, `clew import FILE` takes in sessions of other programs"

_PASSWORD = re.compile(r"(?<=//)([^/@:\s]*):[^/@\s]*@")
NO_LIMIT = 2**31
MAX_CANDIDATES = 5
MIN_SHORT_ID, MAX_SHORT_ID = 10, 20
MIN_SUFFIX = 4
ELLIPSIS = "…"
"""Stands before the end of an id that is too long to be shown whole."""
_ID_PREFIX = "s_"


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
        return NoDatabase(f"{what}: there is no database yet at {self.label}; {FIRST_STEPS}")

    @property
    def empty_message(self) -> str:
        """What is printed instead of a list, where there is no database yet."""
        return f"Nothing is kept yet: there is no database at {self.label}. {FIRST_STEPS}."


def configured_store(arguments: argparse.Namespace, console: Console) -> StoreLocation:
    """The location that the config names; notices of the config are printed."""
    loaded = load_config(console.environ, arguments.flags)
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


def run_with_store(location: StoreLocation, work: Callable[[Store], Awaitable[T]], *, named: str) -> T:
    """Run `work` with a store that has to exist; `named` says what was asked for in the error where it does not."""
    if not location.exists:
        raise location.missing_error(named)

    import asyncio

    async def run() -> T:
        async with open_location(location) as store:
            return await work(store)

    return asyncio.run(run())


# -- sessions ----------------------------------------------------------------------------------------------------------


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
    """The session that is meant; of a title that a whole conversation bears, the newest."""
    # Late, because a database takes longer to import than `--help` should.
    from clew.store import UnknownSession

    with contextlib.suppress(UnknownSession):
        return await store.session(name)
    everyone = await store.list_sessions(limit=NO_LIMIT)
    wanted = name.strip()
    if not wanted:
        raise StoreError("an empty name means no session; `clew sessions list` shows those there are")
    for by_id in (_by_id_prefix(everyone, wanted), _by_id_suffix(everyone, wanted)):
        if by_id:
            return _only_match(name, by_id, "give more of the id")
    for titled in (
        _by_title(everyone, wanted.casefold(), whole=True),
        _by_title(everyone, wanted.casefold(), whole=False),
    ):
        if titled:
            return _only_match(name, titled, "give the id")
    raise UnknownSession(name, _near_sessions(name, everyone))


async def session_range(store: Store, session: Session, siblings: Sequence[Session] | None = None) -> SessionRange:
    """The messages that a session holds. `siblings` are the sessions of its conversation, oldest first, if known."""
    family = siblings if siblings is not None else await store.sessions_of(session.conversation)
    index = next((number for number, it in enumerate(family) if it.id == session.id), len(family) - 1)
    if index + 1 < len(family):
        stop = family[index + 1].first_seq
        newest = await store.messages(session.id, stop - 1, stop, keep_damaged=True) if stop > session.first_seq else []
        return SessionRange(session.first_seq, stop, newest[0] if newest else None, session.created)
    return await _find_end(store, session)


def damage_notes(rows: Iterable[StoredMessage]) -> Iterator[str]:
    """A line for each message that could not be read, so that a note was given in its place."""
    for row in rows:
        if row.damage is not None:
            yield f"m{row.seq} of {row.session} is damaged ({row.damage}); `clew doctor --repair` sets it aside"


def short_ids(ids: Iterable[str], among: Iterable[str] = ()) -> dict[str, str]:
    """Each id shortened to a beginning, else an end, that no other of these ids and of those `among` has."""
    wanted = set(ids)
    every = wanted.union(among)
    return {each: _unique_prefix(each, every) or _unique_suffix(each, every) for each in wanted}


async def all_session_ids(store: Store) -> list[str]:
    return [session.id for session in await store.list_sessions(limit=NO_LIMIT)]


def describe_candidate(session: Session) -> str:
    """A session on a list to choose from."""
    title = f" ({session.title})" if session.title else ""
    return f"{session.id}{title} of {format_time(session.created)}"


def _unique_prefix(wanted: str, every: Iterable[str]) -> str:
    """A short beginning that means this id; empty where it would be long, as for ids that go on from another's."""
    others = [each for each in every if not each.startswith(wanted)]
    for length in range(MIN_SHORT_ID, MAX_SHORT_ID + 1):
        beginning = wanted[:length]
        if not any(each.startswith(beginning) for each in others):
            return beginning
    return ""


def _unique_suffix(wanted: str, every: Iterable[str]) -> str:
    """A short end that means this id, marked as one; the whole id where there is none."""
    for length in range(MIN_SHORT_ID, MAX_SHORT_ID):
        if sum(each.endswith(wanted[-length:]) for each in every) == 1 and length < len(wanted):
            return ELLIPSIS + wanted[-length:]
    return wanted


async def _find_end(store: Store, session: Session) -> SessionRange:
    """Find the end of the newest session by doubling steps: the store has no count, and reading all would be slow."""
    first, newest = (
        session.first_seq,
        await store.messages(session.id, session.first_seq, session.first_seq + 1, keep_damaged=True),
    )
    if not newest:
        return SessionRange(first, first, None, session.created)
    low, step = first, 1
    while found := await store.messages(session.id, low + step, low + step + 1, keep_damaged=True):
        newest, low, step = found, low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        found = await store.messages(session.id, middle, middle + 1, keep_damaged=True)
        if found:
            newest, low = found, middle
        else:
            high = middle
    return SessionRange(first, low + 1, newest[0], session.created)


def _by_id_prefix(sessions: Iterable[Session], wanted: str) -> list[Session]:
    """Sessions whose id begins so. Of ids that go on from one of them, as those of subagents do, that one is meant."""
    found = [it for it in sessions if it.id.startswith((wanted, _ID_PREFIX + wanted))]
    shortest = min(found, key=lambda it: len(it.id), default=None)
    is_root = shortest is not None and all(it.id.startswith(shortest.id) for it in found)
    return [shortest] if shortest is not None and is_root else found


def _by_id_suffix(sessions: Iterable[Session], wanted: str) -> list[Session]:
    ending = wanted.removeprefix(ELLIPSIS).removeprefix("...")
    return [it for it in sessions if len(ending) >= MIN_SUFFIX and it.id.endswith(ending)]


def _by_title(sessions: Iterable[Session], folded: str, *, whole: bool) -> list[Session]:
    """Sessions whose title is this, or begins with it; one of each conversation."""
    titles = ((it, (it.title or "").strip().casefold()) for it in sessions)
    return _newest_per_conversation(
        it for it, title in titles if title == folded or (not whole and title.startswith(folded))
    )


def _newest_per_conversation(sessions: Iterable[Session]) -> list[Session]:
    """Of sessions, newest first, the newest of each conversation."""
    newest: dict[int, Session] = {}
    for session in sessions:
        newest.setdefault(session.conversation, session)
    return list(newest.values())


def _only_match(name: str, found: Sequence[Session], remedy: str) -> Session:
    if len(found) == 1:
        return found[0]
    raise AmbiguousSession(f"{name!r} could be {_candidates_text(found)}; {remedy}")


def _candidates_text(found: Sequence[Session]) -> str:
    rest = len(found) - MAX_CANDIDATES
    more = f", or {rest:,} more" if rest > 0 else ""
    return ", ".join(describe_candidate(it) for it in found[:MAX_CANDIDATES]) + more


def _near_sessions(name: str, everyone: Sequence[Session]) -> str:
    """Sessions that may have been meant, as a list; empty where none is like it."""
    folded = name.strip().casefold()
    near = _newest_per_conversation(it for it in everyone if it.title and folded in it.title.casefold())
    if not near:
        by_word = {it.id: it for it in everyone} | {it.title: it for it in reversed(everyone) if it.title}
        near = _newest_per_conversation(by_word[word] for word in get_close_matches(name, by_word, MAX_CANDIDATES))
    return _candidates_text(near)
