"""The history: appending, recognising what is known, branching, reading rows. As steps, for any database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import InvalidArgument
from clew.messages import Message
from clew.store import sessions
from clew.store.base import COMPRESSION, Appended, NewMessage, Session, StoredMessage
from clew.store.calls import ModelCall, record_calls
from clew.store.clock import as_datetime
from clew.store.encoding import message_of
from clew.store.identity import FIRST_CHAIN, chains_after
from clew.store.problems import StaleHistory, UnknownSession
from clew.store.rowtext import (
    BODY,
    INSERT_MESSAGE,
    as_new,
    items_of,
    message_rows,
    read_messages,
    tool_names,
    tools_of,
    unnamed_results,
)
from clew.store.sessions import Found, Payer
from clew.store.steps import Steps, one, rows, run, run_many

_LAST = "SELECT seq, chain FROM messages WHERE conversation = ? ORDER BY seq DESC LIMIT 1"
_LOCK = "SELECT s.id FROM sessions s JOIN conversations c ON c.id = s.conversation WHERE s.name = ? FOR_UPDATE"
_PLACE = (
    "SELECT s.id, s.name, s.conversation, s.ended, s.end_reason, c.owner, m.seq, m.chain"
    " FROM sessions s JOIN conversations c ON c.id = s.conversation LEFT JOIN messages m"
    " ON m.conversation = s.conversation"
    " AND m.seq = (SELECT max(l.seq) FROM messages l WHERE l.conversation = s.conversation) WHERE s.name = ?"
)
_CHAIN_AT = "SELECT chain FROM messages WHERE conversation = ? AND seq = ?"
_LAST_CALLER = (
    "SELECT body, dialect FROM messages WHERE conversation = ? AND role = 'assistant' ORDER BY seq DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows below `stop` of one conversation; a branch is read as its origin's segment and its own."""

    conversation: int
    start: int
    stop: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next message of a conversation goes, and what it follows."""

    payer: Payer
    session: str
    has_ended: bool
    next_seq: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Addition:
    """Messages for the end of a session, and the calls that brought them."""

    session: str
    messages: Sequence[Message | NewMessage]
    after: int | None = None
    calls: Sequence[tuple[int, ModelCall]] = ()
    """Each with the place, among these messages, of the one it brought."""
    owner: str | None = None
    names: Mapping[str, str] | None = None
    """Tools by the ids of calls that the caller remembers; a result whose call is not among them is looked up."""


def append(addition: Addition, now: int) -> Steps[Appended]:
    """Put messages at the end of a session, or of its tip when it was compacted meanwhile."""
    place = yield from _place_in(addition.session, addition.owner)
    news = [as_new(message) for message in addition.messages]
    if addition.after is not None and addition.after != place.next_seq:
        return (yield from _already_there(place, news, addition.after))
    added = yield from add_rows(place, news, now, addition.names)
    reached = place.next_seq + added
    brought = [(place.next_seq + at if added else None, call) for at, call in addition.calls]
    yield from record_calls(place.payer, brought, now)
    return Appended(place.session, place.next_seq, reached, added)


def calls_in_order(count: int, last: ModelCall | None, calls: Mapping[int, ModelCall]) -> list[tuple[int, ModelCall]]:
    """Calls with the places, among so many messages, of those they brought; `last` brought the last one."""
    for at in calls:
        if not 0 <= at < count:
            raise InvalidArgument(f"a call cannot have brought message {at} of {count}; count the messages from 0")
    return [*sorted(calls.items(), key=lambda it: it[0]), *([] if last is None else [(count - 1, last)])]


def place_behind(found: Found, next_seq: int, chain: bytes) -> Place:
    return Place(found.payer, found.session.id, found.session.ended is not None, next_seq, chain)


def _place_in(session: str, owner: str | None) -> Steps[Place]:
    """The end of a session's conversation, held against other writers, in one look."""
    yield from run(_LOCK, session)
    row = yield from one(_PLACE, session)
    if row is None or (owner is not None and row[5] != owner):
        raise UnknownSession(session)
    if row[4] == COMPRESSION or row[6] is None:
        found = yield from sessions.lock_tip(session, owner)
        return place_behind(found, *(yield from end_of(found)))
    return Place(Payer(row[5], row[2], row[0]), row[1], row[3] is not None, int(row[6]) + 1, bytes(row[7]))


def add_rows(
    place: Place, news: Sequence[NewMessage], now: int, remembered: Mapping[str, str] | None = None
) -> Steps[int]:
    """Write rows at the end of a conversation; how many."""
    if not news:
        return 0
    messages = [new.message for new in news]
    chains = chains_after(place.chain, messages)
    names = {**tool_names(messages), **(remembered or {})}
    if unnamed_results(messages, names):
        names = (yield from _names_before(place.payer.conversation)) | names
    tools = tools_of(messages, names)
    where = (place.payer.conversation, place.next_seq, place.payer.session)
    written = message_rows(where, news, chains, tools, now)
    if len(written) == 1:
        yield from run(INSERT_MESSAGE, *written[0])
    else:
        yield from run_many(INSERT_MESSAGE, written)
    if place.has_ended:
        # Whoever writes to a session that had ended goes on with it.
        yield from run("UPDATE sessions SET ended = NULL, end_reason = NULL WHERE id = ?", place.payer.session)
    return len(written)


def end_of(found: Found) -> Steps[tuple[int, bytes]]:
    """The next number of a conversation, and the chain it goes on from."""
    last = yield from one(_LAST, found.conversation)
    if last is not None:
        return int(last[0]) + 1, bytes(last[1])
    return found.origin_seq, (yield from chain_before(found, found.origin_seq))


def chain_before(found: Found, seq: int) -> Steps[bytes]:
    """The chain of all messages below a number."""
    if seq == 0:
        return FIRST_CHAIN
    for segment in (yield from segments_of(found)):
        if segment.start < seq and (segment.stop is None or seq <= segment.stop):
            row = yield from one(_CHAIN_AT, segment.conversation, seq - 1)
            if row is not None:
                return bytes(row[0])
    raise InvalidArgument(f"session {found.session.id!r} has no message {seq - 1}")


def segments_of(found: Found) -> Steps[list[Segment]]:
    """Where the rows of a conversation are, oldest first."""
    segments = [Segment(found.conversation, found.origin_seq, None)]
    origin, stop = found.origin, found.origin_seq
    while origin is not None:
        row = yield from one("SELECT origin, origin_seq FROM conversations WHERE id = ?", origin)
        assert row is not None
        segments.append(Segment(origin, min(int(row[1]), stop), stop))
        stop = min(int(row[1]), stop)
        origin = row[0]
    return [segment for segment in reversed(segments) if segment.stop is None or segment.start < segment.stop]


def rows_between(segments: Sequence[Segment], start: int, stop: int) -> Steps[list[tuple[int, str, str | None, int]]]:
    """(number, body, dialect, part) of a range of rows."""
    found: list[tuple[int, str, str | None, int]] = []
    for segment in segments:
        low = max(start, segment.start)
        high = stop if segment.stop is None else min(stop, segment.stop)
        if low < high:
            found += yield from rows(
                f"SELECT m.seq, {BODY}, m.dialect, m.part FROM messages m"  # noqa: S608 (fixed text)
                " WHERE m.conversation = ? AND m.seq >= ? AND m.seq < ? ORDER BY m.seq",
                segment.conversation,
                low,
                high,
            )
    return found


def stored_messages(name: str, start: int, stop: int, owner: str | None) -> Steps[list[StoredMessage]]:
    """Rows of a session's conversation with everything known about them."""
    found = yield from sessions.find(name, owner)
    stored: list[StoredMessage] = []
    for segment in (yield from segments_of(found)):
        high = stop if segment.stop is None else min(stop, segment.stop)
        read = yield from rows(
            f"SELECT m.seq, {BODY}, m.dialect, m.part, s.name, m.at, m.tool, m.tokens, m.chain"  # noqa: S608
            " FROM messages m JOIN sessions s ON s.id = m.session"
            " WHERE m.conversation = ? AND m.seq >= ? AND m.seq < ? ORDER BY m.seq",
            segment.conversation,
            max(start, segment.start),
            high,
        )
        messages = read_messages((row[1], row[2], row[3]) for row in read)
        stored += [_stored(row, message) for row, message in zip(read, messages, strict=True)]
    return stored


def branch(name: str, at: int | None, new_name: str | None, owner: str | None, now: int) -> Steps[Session]:
    """A session of its own that shares the first `at` messages with another; all of them when `at` is not given."""
    found = yield from sessions.find(name, owner)
    next_seq, _ = yield from end_of(found)
    fork = next_seq if at is None else at
    if not 0 <= fork <= next_seq:
        raise InvalidArgument(f"session {name!r} has {next_seq} messages; branch at 0 to {next_seq}, not {fork}")
    made = yield from fork_at(found, fork, new_name, now)
    # What must not be forgotten of a conversation, pins first of all, holds for what goes on from it too.
    child = yield from sessions.find(made.id)
    yield from run(
        "INSERT INTO states (conversation, name, value, at)"
        " SELECT CAST(? AS BIGINT), name, value, at FROM states WHERE conversation = ?",
        child.conversation,
        found.conversation,
    )
    return made


def fork_at(found: Found, fork: int, new_name: str | None, now: int) -> Steps[Session]:
    base = yield from base_below(found, fork)
    session = found.session
    conversation = yield from sessions.new_conversation(session.owner, now, found.conversation, fork, base)
    name = new_name or sessions.new_name()
    row = (conversation, found.id, "branch", fork, now, session.title, session.source, session.model, found.system)
    yield from sessions.insert(name, row)
    return (yield from sessions.find(name)).session


def base_in_effect(found: Found, upto_session: int | None = None) -> Steps[int | None]:
    """The compaction in effect in a conversation, now or when one of its sessions ended."""
    last = yield from one(
        "SELECT CASE kind WHEN 'compaction' THEN id ELSE base END FROM entries"
        " WHERE conversation = ? AND session <= ? ORDER BY id DESC LIMIT 1",
        found.conversation,
        upto_session if upto_session is not None else 2**62,
    )
    return found.first_base if last is None else last[0]


def base_below(found: Found, seq: int) -> Steps[int | None]:
    """The newest compaction in effect that considered nothing at or behind a number."""
    base = yield from base_in_effect(found)
    while base is not None:
        row = yield from one("SELECT until, previous FROM entries WHERE id = ?", base)
        if row is None or row[0] <= seq:
            break
        base = row[1]
    return base


def _names_before(conversation: int) -> Steps[dict[str, str]]:
    """The calls of the newest assistant message: a result that comes alone mostly answers one of them."""
    caller = yield from one(_LAST_CALLER, conversation)
    if caller is None or caller[0] is None or caller[1] is not None:
        return {}
    return tool_names([message_of(caller[0])])


def _already_there(place: Place, news: Sequence[NewMessage], after: int) -> Steps[Appended]:
    """Messages that were appended before, and whose acknowledgement was lost, add nothing."""
    next_seq = place.next_seq
    if after >= 0 and after + len(news) <= next_seq and news:
        found = yield from sessions.find(place.session)
        before = yield from chain_before(found, after)
        wanted = chains_after(before, [new.message for new in news])[-1]
        if wanted == (yield from chain_before(found, after + len(news))):
            return Appended(place.session, after, after + len(news), 0)
    raise StaleHistory(place.session, after, next_seq)


def _stored(row: tuple[Any, ...], message: Message) -> StoredMessage:
    return StoredMessage(
        seq=row[0],
        message=message,
        session=row[4],
        at=as_datetime(row[5]),
        tool=row[6],
        tokens=row[7],
        chain=bytes(row[8]),
        dialect=row[2],
        items=items_of(row[1], row[2]),
        part=row[3],
    )
