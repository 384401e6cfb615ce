"""A whole history sent again: how much of it is known, and where the rest belongs. As steps, for any database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clew.messages import Message
from clew.store import sessions
from clew.store.base import NewMessage, Synced
from clew.store.history import Segment, add_rows, end_of, fork_at, place_behind, segments_of
from clew.store.identity import FIRST_CHAIN
from clew.store.rowtext import as_new
from clew.store.sessions import Found, NewSession
from clew.store.steps import Steps, one, rows

_NEWEST_CHAINS = 32


@dataclass(frozen=True, slots=True)
class Known:
    """How much of a history is known, and where it stands."""

    count: int
    conversation: int


def sync(
    history: Sequence[Message | NewMessage], chains: Sequence[bytes], new: NewSession, session: str | None, now: int
) -> Steps[Synced]:
    """Add what is new of a history: to its session, to a branch of it, or to a new conversation."""
    given = (yield from sessions.lock_tip(session, new.owner)) if session is not None else None
    known = yield from longest_known(chains, new.owner, given)
    if known is None:
        return (yield from _begin(history, new, given, now))
    found = given
    if found is None or found.conversation != known.conversation:
        found = yield from _tip_of_conversation(known.conversation)
    next_seq, _ = yield from end_of(found)
    fresh = [as_new(message) for message in history[known.count :]]
    is_branch = bool(fresh) and known.count < next_seq
    if is_branch:
        made = yield from fork_at(found, known.count, None, now)
        found = yield from sessions.find(made.id)
    chain = chains[known.count - 1]
    added = yield from add_rows(place_behind(found, known.count, chain), fresh, now)
    reached = known.count + added
    return Synced(found.session.id, known.count, added, reached, is_branch, is_new=False)


def longest_known(chains: Sequence[bytes], owner: str, given: Found | None) -> Steps[Known | None]:
    """The longest beginning of a history that this owner's conversations hold.

    A chain is known only together with all before it, so that a few looks suffice: at the newest, then ever further
    back, then between the two.
    """
    low, high = 0, len(chains)
    best: Known | None = None
    for probe in _probes(len(chains)):
        wanted = [count for count in probe if low < count <= high]
        if not wanted:
            continue
        known = yield from _deepest(chains, wanted, owner, given)
        if known is not None:
            best, low = known, known.count
            high = min([high, *(count - 1 for count in wanted if count > known.count)])
            break
        high = min(wanted) - 1
    while low < high:
        middle = (low + high + 1) // 2
        known = yield from _deepest(chains, [middle], owner, given)
        if known is None:
            high = middle - 1
        else:
            best, low = known, known.count
    return best


def _probes(length: int) -> Iterator[list[int]]:
    """Numbers of messages to ask for: the newest few one by one, then in steps that double."""
    newest = list(range(length, max(0, length - _NEWEST_CHAINS), -1))
    yield newest
    step, steps = _NEWEST_CHAINS * 2, list[int]()
    while length - step > 0:
        steps.append(length - step)
        step *= 2
    yield [*steps, 1] if length else []


def _deepest(chains: Sequence[bytes], counts: Sequence[int], owner: str, given: Found | None) -> Steps[Known | None]:
    """The greatest of these counts whose chain is known, preferably in the conversation that was given."""
    marks = ", ".join("?" * len(counts))
    found = yield from rows(
        "SELECT m.seq, m.conversation FROM messages m JOIN conversations c ON c.id = m.conversation"  # noqa: S608
        f" WHERE m.chain IN ({marks}) AND c.owner = ?",
        *(chains[count - 1] for count in counts),
        owner,
    )
    matches = [(int(seq) + 1, int(conversation)) for seq, conversation in found]
    if not matches:
        return None
    count = max(match[0] for match in matches)
    holders = [conversation for match, conversation in matches if match == count]
    if given is not None:
        own = {segment.conversation for segment in (yield from segments_of(given)) if _reaches(segment, count)}
        if own & set(holders):
            return Known(count, given.conversation)
    return Known(count, max(holders))


def _reaches(segment: Segment, count: int) -> bool:
    return segment.start < count and (segment.stop is None or count <= segment.stop)


def _begin(history: Sequence[Message | NewMessage], new: NewSession, given: Found | None, now: int) -> Steps[Synced]:
    """Nothing of it is known: fill the given session while it is empty, else begin a conversation."""
    if given is not None and (yield from end_of(given))[0] == 0:
        found, is_new = given, False
    elif given is not None and history:
        # Its first message differs: a branch that shares nothing.
        made = yield from fork_at(given, 0, None, now)
        found, is_new = (yield from sessions.find(made.id)), False
    else:
        started = yield from sessions.start(new, now)
        found, is_new = (yield from sessions.find(started.id)), True
    place = place_behind(found, 0, FIRST_CHAIN)
    added = yield from add_rows(place, [as_new(message) for message in history], now)
    is_branch = given is not None and found.id != given.id
    return Synced(found.session.id, 0, added, added, is_branch, is_new)


def _tip_of_conversation(conversation: int) -> Steps[Found]:
    row = yield from one("SELECT name FROM sessions WHERE conversation = ? ORDER BY id DESC LIMIT 1", conversation)
    assert row is not None
    return (yield from sessions.lock_tip(row[0]))
