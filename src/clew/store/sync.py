"""A whole history sent again: how much of it is known, and where the rest belongs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from clew.messages import Message
from clew.store import sessions
from clew.store.base import NewMessage, SyncResult
from clew.store.database import Steps, execute, fetch_all, fetch_one, marks
from clew.store.history import Segment, add_rows, end_of, fork_at, position_after, segments_of
from clew.store.rows import FIRST_CHAIN, as_new
from clew.store.sessions import NewSession, SessionRow

_NEWEST_CHAINS = 32
_FIRST_OF_TREE = (
    "SELECT s.name, s.title FROM conversations c JOIN sessions s ON s.conversation = c.id"
    " WHERE c.owner = ? AND substr(c.lineage, 1, ?) = ? ORDER BY s.id LIMIT 1"
)
# Two processes may begin the same history at the same time: the second waits, and finds what the first has written.
_LOCK_BEGINNING = "SELECT pg_advisory_xact_lock(?) FOR_UPDATE"
_NEWEST_SESSION = "SELECT name FROM sessions WHERE conversation = ? ORDER BY id DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class KnownHistory:
    """The newest session of a conversation that holds the first `count` messages of a history."""

    session: str
    count: int


@dataclass(frozen=True, slots=True)
class KnownPrefix:
    """How many messages of a history are known, and in which conversation."""

    count: int
    conversation: int


def sync(
    history: Sequence[Message | NewMessage],
    chains: Sequence[bytes],
    new: NewSession,
    session: str | None,
    is_exact: bool,
    now: int,
) -> Steps[SyncResult]:
    """Add what is new of a history: to its session, to a branch of it, or to a new conversation as `new` says.

    Without a session it is looked for in the conversations of the owner and lineage of `new`. With `is_exact` a
    beginning of what is known becomes a branch too.
    """
    given = None if session is None else (yield from sessions.lock_tip(session, new.owner))
    known = yield from longest_known_prefix(chains, new, given)
    if known is None and chains:
        yield from execute(_LOCK_BEGINNING, _beginning_number(new, chains[0]))
        known = yield from longest_known_prefix(chains, new, given)
    if known is None:
        return (yield from _begin(history, new, given, now))
    found = given
    while found is None or found.conversation != known.conversation:
        # The former holder of the lock may have written more of this history, so look it up again.
        found = yield from _tip_of_conversation(known.conversation)
        known = (yield from longest_known_prefix(chains, new, found)) or known
    next_seq, _ = yield from end_of(found)
    fresh = [as_new(message) for message in history[known.count :]]
    is_branch = known.count < next_seq and (bool(fresh) or is_exact)
    if is_branch:
        found = yield from fork_at(found, known.count, None, now)
    chain = chains[known.count - 1]
    added = yield from add_rows(position_after(found, known.count, chain), fresh, now)
    reached = known.count + added
    return SyncResult(found.session.id, known.count, added, reached, is_branch, is_new=False)


def _beginning_number(new: NewSession, first: bytes) -> int:
    """A number of 64 bits for an owner, a lineage and a first message."""
    named = repr((new.owner, new.lineage, first)).encode("utf-8", "replace")
    return int.from_bytes(blake2b(named, digest_size=8).digest(), signed=True)


def find_known(chains: Sequence[bytes], new: NewSession) -> Steps[KnownHistory | None]:
    """The session that holds the longest beginning of a history, and how much of it; nothing is changed."""
    known = yield from longest_known_prefix(chains, new, None)
    if known is None:
        return None
    row = yield from fetch_one(_NEWEST_SESSION, known.conversation)
    assert row is not None
    return KnownHistory(row[0], known.count)


def longest_known_prefix(
    chains: Sequence[bytes], new: NewSession, given: SessionRow | None
) -> Steps[KnownPrefix | None]:
    """The longest beginning of a history that conversations of this owner and lineage hold.

    Where a chain is known, all before it are, so that few queries suffice: the newest chains, then ever older ones,
    then a binary search between the two.
    """
    low, high = 0, len(chains)
    best: KnownPrefix | None = None
    for probe in _probes(len(chains)):
        wanted = [count for count in probe if low < count <= high]
        if not wanted:
            continue
        known = yield from _greatest_known(chains, wanted, new, given)
        if known is not None:
            best, low = known, known.count
            high = min([high, *(count - 1 for count in wanted if count > known.count)])
            break
        high = min(wanted) - 1
    while low < high:
        middle = (low + high + 1) // 2
        known = yield from _greatest_known(chains, [middle], new, given)
        if known is None:
            high = middle - 1
        else:
            best, low = known, known.count
    return best


def _probes(length: int) -> Iterator[list[int]]:
    """Counts to ask for: the newest few one by one, then in steps that double."""
    newest = list(range(length, max(0, length - _NEWEST_CHAINS), -1))
    yield newest
    step, steps = _NEWEST_CHAINS * 2, list[int]()
    while length - step > 0:
        steps.append(length - step)
        step *= 2
    yield [*steps, 1] if length else []


def _greatest_known(
    chains: Sequence[bytes], counts: Sequence[int], new: NewSession, given: SessionRow | None
) -> Steps[KnownPrefix | None]:
    """The greatest of some counts whose chain is known, in the given conversation where it holds it."""
    found = yield from fetch_all(
        "SELECT m.seq, m.conversation FROM messages m JOIN conversations c ON c.id = m.conversation"  # noqa: S608
        f" WHERE m.chain IN ({marks(counts)}) AND c.owner = ? AND c.lineage = ?",
        *(chains[count - 1] for count in counts),
        new.owner if given is None else given.session.owner,
        new.lineage if given is None else given.lineage,
    )
    matches = [(int(seq) + 1, int(conversation)) for seq, conversation in found]
    if not matches:
        return None
    count = max(match[0] for match in matches)
    holders = [conversation for match, conversation in matches if match == count]
    if given is not None:
        own = {segment.conversation for segment in (yield from segments_of(given)) if _reaches(segment, count)}
        if own & set(holders):
            return KnownPrefix(count, given.conversation)
    return KnownPrefix(count, max(holders))


def _reaches(segment: Segment, count: int) -> bool:
    return segment.start < count and (segment.stop is None or count <= segment.stop)


def _begin(
    history: Sequence[Message | NewMessage], new: NewSession, given: SessionRow | None, now: int
) -> Steps[SyncResult]:
    """Store a history of which nothing is known: in the given session if it is empty, else in a new conversation."""
    if given is not None and (yield from end_of(given))[0] == 0:
        found, is_new = given, False
    elif given is not None and history:
        # Its first message differs: a branch without shared messages.
        found, is_new = (yield from fork_at(given, 0, None, now)), False
    else:
        found, is_new = (yield from sessions.start((yield from _in_tree(new)), now)), True
    position = position_after(found, 0, FIRST_CHAIN)
    added = yield from add_rows(position, [as_new(message) for message in history], now)
    is_branch = given is not None and found.id != given.id
    return SyncResult(found.session.id, 0, added, added, is_branch, is_new)


def _in_tree(new: NewSession) -> Steps[NewSession]:
    """A new session under the first one of its tree, where there is one; with its title, where it has none itself."""
    if not new.tree:
        return new
    first = yield from fetch_one(_FIRST_OF_TREE, new.owner, len(new.tree), new.tree)
    return new if first is None else replace(new, parent=first[0], kind="subagent", title=new.title or first[1])


def _tip_of_conversation(conversation: int) -> Steps[SessionRow]:
    row = yield from fetch_one(_NEWEST_SESSION, conversation)
    assert row is not None
    return (yield from sessions.lock_tip(row[0]))
