"""Names of sessions: finding the one that a person means, and short ids.

A session is found by an id, the beginning or end of one, or a title; a name that several sessions match is an error
that lists them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from clew.errors import AmbiguousSession, StoreError, UnknownSession

if TYPE_CHECKING:
    from clew.store.base import Session
    from clew.store.store import Store

NO_LIMIT = 2**31
MAX_CANDIDATES = 5
MIN_SHORT_ID, MAX_SHORT_ID = 10, 20
MIN_SUFFIX = 4
ELLIPSIS = "…"
"""Precedes the end of an id that is too long to be shown whole."""
_ID_PREFIX = "s_"


def plugin_session_id(program: str, session: str) -> str:
    """The id of a session that a plugin inside a program stores; `session` is the program's own id of it."""
    return f"{program}-plugin-{session}"


async def find_session(store: Store, name: str) -> Session:
    """The session that a name means; of sessions of one conversation with the same title, the newest."""
    with contextlib.suppress(UnknownSession):
        return await store.session(name)
    everyone = await store.list_sessions(limit=NO_LIMIT)
    wanted = name.strip()
    if not wanted:
        raise StoreError("an empty name means no session", remedy="`clew sessions list` shows those there are")
    if by_id := sessions_by_id(everyone, wanted):
        return _only_match(name, by_id, "give more of the id")
    for titled in (
        _by_title(everyone, wanted.casefold(), whole=True),
        _by_title(everyone, wanted.casefold(), whole=False),
    ):
        if titled:
            return _only_match(name, titled, "give the id")
    raise UnknownSession(name, _near_sessions(name, everyone))


def short_ids(ids: Iterable[str], among: Iterable[str] = ()) -> dict[str, str]:
    """Each id shortened to a beginning, else an end, that no other of these ids and of those `among` has."""
    wanted = set(ids)
    every = wanted.union(among)
    return {each: _unique_prefix(each, every) or _unique_suffix(each, every) for each in wanted}


def describe_candidate(session: Session) -> str:
    """A session on a list to choose from."""
    title = f" ({session.title})" if session.title else ""
    return f"{session.id}{title} of {session.created.astimezone():%Y-%m-%d %H:%M}"


def _unique_prefix(wanted: str, every: Iterable[str]) -> str:
    """A short beginning that only this id has; empty where it would be long, as for ids that extend another id."""
    others = [each for each in every if not each.startswith(wanted)]
    for length in range(MIN_SHORT_ID, MAX_SHORT_ID + 1):
        beginning = wanted[:length]
        if not any(each.startswith(beginning) for each in others):
            return beginning
    return ""


def _unique_suffix(wanted: str, every: Iterable[str]) -> str:
    """A short end that only this id has, after an ellipsis; the whole id where there is none."""
    for length in range(MIN_SHORT_ID, MAX_SHORT_ID):
        if sum(each.endswith(wanted[-length:]) for each in every) == 1 and length < len(wanted):
            return ELLIPSIS + wanted[-length:]
    return wanted


def sessions_by_id(sessions: Sequence[Session], wanted: str) -> list[Session]:
    """Sessions whose id begins so, else those whose id ends so.

    Of ids that continue from one of them, as those of subagents do, that one is meant.
    """
    found = [it for it in sessions if it.id.startswith((wanted, _ID_PREFIX + wanted))]
    shortest = min(found, key=lambda it: len(it.id), default=None)
    is_root = shortest is not None and all(it.id.startswith(shortest.id) for it in found)
    if shortest is not None:
        return [shortest] if is_root else found
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
    raise AmbiguousSession(f"{name!r} could be {_candidates_text(found)}", remedy=remedy)


def _candidates_text(found: Sequence[Session]) -> str:
    rest = len(found) - MAX_CANDIDATES
    more = f", or {rest:,} more" if rest > 0 else ""
    return ", ".join(describe_candidate(it) for it in found[:MAX_CANDIDATES]) + more


def _near_sessions(name: str, everyone: Sequence[Session]) -> str:
    """A list of sessions with a similar name; empty where there is none."""
    folded = name.strip().casefold()
    near = _newest_per_conversation(it for it in everyone if it.title and folded in it.title.casefold())
    if not near:
        by_word = {it.id: it for it in everyone} | {it.title: it for it in reversed(everyone) if it.title}
        near = _newest_per_conversation(by_word[word] for word in get_close_matches(name, by_word, MAX_CANDIDATES))
    return _candidates_text(near)
