"""Which session a person means: by its id, the beginning or the end of its id, or its title. And where a session ends.

What could be several is an error that names them; nothing is guessed.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from clew.cli.moments import shown
from clew.errors import StoreError
from clew.store import UnknownSession

if TYPE_CHECKING:
    from clew.store import Session, Store, StoredMessage

EVERY_ONE = 2**31
MOST_CANDIDATES = 5
SHORTEST_ID, LONGEST_ID = 10, 20
SHORTEST_ENDING = 4
CUT = "…"
"""Stands before the end of an id that is too long to be shown whole."""
PAGE_ROWS = 500
_GIVEN_PREFIX = "s_"


class AmbiguousSession(StoreError):  # noqa: N818 (reads as what it says)
    """A name that several sessions answer to."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Which messages a session holds: numbers from `first` to below `stop`, and the newest of them."""

    first: int
    stop: int
    newest: StoredMessage | None

    @property
    def count(self) -> int:
        return self.stop - self.first


async def find_session(store: Store, name: str) -> Session:
    """The session that is meant; of a title that a whole conversation bears, the newest."""
    if _can_be_stored(name):
        with contextlib.suppress(UnknownSession):
            return await store.session(name)
    everyone = await store.list_sessions(limit=EVERY_ONE)
    wanted = name.strip()
    if not wanted:
        raise StoreError("an empty name means no session; `clew sessions list` shows those there are")
    for by_id in (_begun(everyone, wanted), _ended(everyone, wanted)):
        if by_id:
            return _the_one(name, by_id, "give more of the id")
    for titled in (_titled(everyone, wanted.casefold(), whole=True), _titled(everyone, wanted.casefold(), whole=False)):
        if titled:
            return _the_one(name, titled, "give the id")
    raise StoreError(_unknown(name, everyone))


async def stretch_of(store: Store, session: Session, siblings: Sequence[Session] | None = None) -> Stretch:
    """The messages that a session holds. `siblings` are the sessions of its conversation, oldest first, if known."""
    family = siblings if siblings is not None else await store.sessions_of(session.conversation)
    place = next((number for number, it in enumerate(family) if it.id == session.id), len(family) - 1)
    if place + 1 < len(family):
        stop = family[place + 1].first_seq
        newest = await store.messages(session.id, stop - 1, stop) if stop > session.first_seq else []
        return Stretch(session.first_seq, stop, newest[0] if newest else None)
    return await _open_end(store, session)


async def rows_of(store: Store, session: str, start: int = 0) -> AsyncIterator[StoredMessage]:
    """The whole history of a session's conversation, read page by page."""
    while page := await store.messages(session, start, start + PAGE_ROWS):
        for row in page:
            yield row
        start = page[-1].seq + 1


def short_ids(ids: Iterable[str], among: Iterable[str] = ()) -> dict[str, str]:
    """Each id as short as it can be shown, and be found by, while all of them, and those `among` which it is, stay
    apart: its beginning, else its end."""
    shown = set(ids)
    every = shown.union(among)
    return {each: _beginning(each, every) or _ending(each, every) for each in shown}


async def every_id(store: Store) -> list[str]:
    return [session.id for session in await store.list_sessions(limit=EVERY_ONE)]


def candidate(session: Session) -> str:
    """A session on a list to choose from."""
    title = f" ({session.title})" if session.title else ""
    return f"{session.id}{title} of {shown(session.created)}"


def _beginning(wanted: str, every: Iterable[str]) -> str:
    """A short beginning that means this id; empty where it would be long, as for ids that go on from another's."""
    others = [each for each in every if not each.startswith(wanted)]
    for length in range(SHORTEST_ID, LONGEST_ID + 1):
        beginning = wanted[:length]
        if not any(each.startswith(beginning) for each in others):
            return beginning
    return ""


def _ending(wanted: str, every: Iterable[str]) -> str:
    """A short end that means this id, marked as one; the whole id where there is none."""
    for length in range(SHORTEST_ID, LONGEST_ID):
        if sum(each.endswith(wanted[-length:]) for each in every) == 1 and length < len(wanted):
            return CUT + wanted[-length:]
    return wanted


def _can_be_stored(name: str) -> bool:
    """Whether a database could have this text at all: no id holds a NUL, or bytes that are no characters."""
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in name)


async def _open_end(store: Store, session: Session) -> Stretch:
    """Feel for the end of the newest session: the store has no count, and to read all for one would be long."""
    first, newest = session.first_seq, await store.messages(session.id, session.first_seq, session.first_seq + 1)
    if not newest:
        return Stretch(first, first, None)
    low, step = first, 1
    while found := await store.messages(session.id, low + step, low + step + 1):
        newest, low, step = found, low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        found = await store.messages(session.id, middle, middle + 1)
        if found:
            newest, low = found, middle
        else:
            high = middle
    return Stretch(first, low + 1, newest[0])


def _begun(sessions: Iterable[Session], wanted: str) -> list[Session]:
    """Sessions whose id begins so. Of ids that go on from one of them, as those of subagents do, that one is meant."""
    found = [it for it in sessions if it.id.startswith((wanted, _GIVEN_PREFIX + wanted))]
    shortest = min(found, key=lambda it: len(it.id), default=None)
    is_root = shortest is not None and all(it.id.startswith(shortest.id) for it in found)
    return [shortest] if shortest is not None and is_root else found


def _ended(sessions: Iterable[Session], wanted: str) -> list[Session]:
    ending = wanted.removeprefix(CUT).removeprefix("...")
    return [it for it in sessions if len(ending) >= SHORTEST_ENDING and it.id.endswith(ending)]


def _titled(sessions: Iterable[Session], folded: str, *, whole: bool) -> list[Session]:
    """Sessions whose title is this, or begins with it; one of each conversation."""
    titles = ((it, (it.title or "").strip().casefold()) for it in sessions)
    return _newest_each(it for it, title in titles if title == folded or (not whole and title.startswith(folded)))


def _newest_each(sessions: Iterable[Session]) -> list[Session]:
    """Of sessions, newest first, the newest of each conversation."""
    newest: dict[int, Session] = {}
    for session in sessions:
        newest.setdefault(session.conversation, session)
    return list(newest.values())


def _the_one(name: str, found: Sequence[Session], remedy: str) -> Session:
    if len(found) == 1:
        return found[0]
    raise AmbiguousSession(f"{name!r} could be {_listed(found)}; {remedy}")


def _listed(found: Sequence[Session]) -> str:
    rest = len(found) - MOST_CANDIDATES
    more = f", or {rest:,} more" if rest > 0 else ""
    return ", ".join(candidate(it) for it in found[:MOST_CANDIDATES]) + more


def _unknown(name: str, everyone: Sequence[Session]) -> str:
    folded = name.strip().casefold()
    near = _newest_each(it for it in everyone if it.title and folded in it.title.casefold())
    if not near:
        by_word = {it.id: it for it in everyone} | {it.title: it for it in reversed(everyone) if it.title}
        near = _newest_each(by_word[word] for word in get_close_matches(name, by_word, MOST_CANDIDATES))
    if near:
        return f"no session {name!r}; near it: {_listed(near)}"
    return f"no session {name!r} in this store; `clew sessions list` shows those there are"
