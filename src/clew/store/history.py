"""The history of a conversation: appending messages, reading rows, branching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clew.errors import InvalidArgument, StaleHistory, UnknownSession
from clew.messages import Message
from clew.store import sessions
from clew.store.base import COMPRESSION, AppendResult, NewMessage, Session, StoredMessage
from clew.store.calls import ModelCall, record_calls
from clew.store.database import (
    NO_END,
    Operations,
    Row,
    RowDamage,
    Steps,
    as_datetime,
    execute,
    execute_many,
    fetch_all,
    fetch_number,
    fetch_one,
    is_storable,
    reads,
    require_ascending,
    writes,
)
from clew.store.rows import (
    BODY,
    FIRST_CHAIN,
    INSERT_MESSAGE,
    as_new,
    chains_after,
    damaged_message,
    has_unnamed_results,
    items_of,
    message_rows,
    note_in_place,
    read_message,
    read_messages,
    tool_names,
    tools_of,
)
from clew.store.sessions import SessionKey, SessionRow

_LAST = "SELECT seq, chain FROM messages WHERE conversation = ? ORDER BY seq DESC LIMIT 1"
_LOCK = "SELECT s.id FROM sessions s JOIN conversations c ON c.id = s.conversation WHERE s.name = ? FOR_UPDATE"
_POSITION = (
    "SELECT s.id, s.name, s.conversation, s.ended, s.end_reason, c.owner, m.seq, m.chain, s.source"
    " FROM sessions s JOIN conversations c ON c.id = s.conversation LEFT JOIN messages m"
    " ON m.conversation = s.conversation"
    " AND m.seq = (SELECT max(l.seq) FROM messages l WHERE l.conversation = s.conversation) WHERE s.name = ?"
)
_CHAIN_AT = "SELECT chain FROM messages WHERE conversation = ? AND seq = ?"
_LAST_CALLER = (
    "SELECT body, dialect FROM messages WHERE conversation = ? AND role = 'assistant' ORDER BY seq DESC LIMIT 1"
)

_BASE_BY_NAME = (
    "SELECT c.owner, CASE WHEN e.id IS NULL THEN c.first_base WHEN e.kind = 'compaction' THEN e.id ELSE e.base END"
    " FROM sessions s JOIN conversations c ON c.id = s.conversation"
    " LEFT JOIN entries e ON e.id = (SELECT max(n.id) FROM entries n WHERE n.conversation = s.conversation)"
    " WHERE s.name = ?"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows from `start` to `stop` of one conversation. A branch is its origin's segments and its own."""

    conversation: int
    start: int
    stop: int | None


@dataclass(frozen=True, slots=True)
class AppendPosition:
    """The end of a conversation: the session, the next number and the chain so far."""

    key: SessionKey
    session: str
    has_ended: bool
    next_seq: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class AppendRequest:
    """Messages to append to a session, with the model calls that brought them."""

    session: str
    messages: Sequence[Message | NewMessage]
    after: int | None = None
    calls: Sequence[tuple[int, ModelCall]] = ()
    """Each with the index in `messages` of the one it brought."""
    owner: str | None = None
    names: Mapping[str, str] | None = None
    """Tool names by call id, where known: the tool of any other result is looked up in the history."""


def append(request: AppendRequest, now: int) -> Steps[AppendResult]:
    """Append messages to a session, or to its tip when it was compacted meanwhile."""
    position = yield from _find_position(request.session, request.owner)
    new_messages = [as_new(message) for message in request.messages]
    if request.after is not None and request.after != position.next_seq:
        repeated = yield from _repeated_append(position, new_messages, request.after)
        # These messages may have been written without their calls; a call with an id is not stored twice.
        known = [(request.after + at, call) for at, call in request.calls if call.id is not None]
        yield from record_calls(position.key, known, now)
        return repeated
    added = yield from add_rows(position, new_messages, now, request.names)
    reached = position.next_seq + added
    brought = [(position.next_seq + at if added else None, call) for at, call in request.calls]
    yield from record_calls(position.key, brought, now)
    return AppendResult(position.session, position.next_seq, reached, added)


def calls_in_order(count: int, last: ModelCall | None, calls: Mapping[int, ModelCall]) -> list[tuple[int, ModelCall]]:
    """Calls with the indexes of the messages they brought, in order; `last` brought the last of `count` messages."""
    for at in calls:
        if not 0 <= at < count:
            raise InvalidArgument(
                f"a call cannot have brought message {at} of {count}", remedy="count the messages from 0"
            )
    return [*sorted(calls.items(), key=lambda it: it[0]), *([] if last is None else [(count - 1, last)])]


def position_after(found: SessionRow, next_seq: int, chain: bytes) -> AppendPosition:
    return AppendPosition(found.key, found.session.id, found.session.ended is not None, next_seq, chain)


def _find_position(session: str, owner: str | None) -> Steps[AppendPosition]:
    """The end of a session's conversation, locked against other writers; one query in the usual case."""
    if not is_storable(session):
        raise UnknownSession(session)
    yield from execute(_LOCK, session)
    row = yield from fetch_one(_POSITION, session)
    if row is None or (owner is not None and row[5] != owner):
        raise UnknownSession(session)
    if row[4] == COMPRESSION or row[6] is None:
        found = yield from sessions.lock_tip(session, owner)
        return position_after(found, *(yield from end_of(found)))
    key = SessionKey(row[5], row[2], row[0], row[8])
    return AppendPosition(key, row[1], row[3] is not None, int(row[6]) + 1, bytes(row[7]))


def add_rows(
    position: AppendPosition, new_messages: Sequence[NewMessage], now: int, remembered: Mapping[str, str] | None = None
) -> Steps[int]:
    """Insert messages at the end of a conversation; how many."""
    if not new_messages:
        return 0
    messages = [new.message for new in new_messages]
    chains = chains_after(position.chain, new_messages)
    names = {**tool_names(messages), **(remembered or {})}
    if has_unnamed_results(messages, names):
        names = (yield from _names_before(position.key.conversation)) | names
    tools = tools_of(messages, names)
    where = (position.key.conversation, position.next_seq, position.key.session)
    written = message_rows(where, new_messages, chains, tools, now)
    if len(written) == 1:
        yield from execute(INSERT_MESSAGE, *written[0])
    else:
        yield from execute_many(INSERT_MESSAGE, written)
    if position.has_ended:
        # Appending to a session that had ended opens it again.
        yield from execute("UPDATE sessions SET ended = NULL, end_reason = NULL WHERE id = ?", position.key.session)
    return len(written)


def end_of(found: SessionRow) -> Steps[tuple[int, bytes]]:
    """The next number of a conversation, and the chain of all messages before it."""
    last = yield from fetch_one(_LAST, found.conversation)
    if last is not None:
        return int(last[0]) + 1, bytes(last[1])
    return found.origin_seq, (yield from chain_before(found, found.origin_seq))


def chain_before(found: SessionRow, seq: int) -> Steps[bytes]:
    """The chain of all messages below a number; refuses a number that the session does not reach."""
    if seq == 0:
        return FIRST_CHAIN
    for segment in (yield from segments_of(found)):
        if segment.start < seq and (segment.stop is None or seq <= segment.stop):
            row = yield from fetch_one(_CHAIN_AT, segment.conversation, seq - 1)
            if row is not None:
                return bytes(row[0])
    raise InvalidArgument(f"session {found.session.id!r} has no message {seq - 1}")


def segments_of(found: SessionRow) -> Steps[list[Segment]]:
    """The segments that a conversation is made of, oldest first."""
    segments = [Segment(found.conversation, found.origin_seq, None)]
    branch, origin, stop = found.conversation, found.origin, found.origin_seq
    while origin is not None:
        require_ascending(origin, branch, "conversation")
        row = yield from fetch_one("SELECT origin, origin_seq FROM conversations WHERE id = ?", origin)
        assert row is not None
        segments.append(Segment(origin, min(int(row[1]), stop), stop))
        stop = min(int(row[1]), stop)
        branch, origin = origin, row[0]
    return [segment for segment in reversed(segments) if segment.stop is None or segment.start < segment.stop]


def parts_of(segments: Sequence[Segment], start: int = 0, stop: int = NO_END) -> list[tuple[int, int, int]]:
    """A range of numbers as ranges of single conversations: each with its conversation, start and end."""
    parts = [
        (it.conversation, max(start, it.start), stop if it.stop is None else min(stop, it.stop)) for it in segments
    ]
    return [part for part in parts if part[1] < part[2]]


def rows_between(
    segments: Sequence[Segment], start: int, stop: int
) -> Steps[list[tuple[int, str, str | None, int, str]]]:
    """(number, body, dialect, part, role) of a range of rows."""
    found: list[tuple[int, str, str | None, int, str]] = []
    for part in parts_of(segments, start, stop):
        found += yield from fetch_all(
            f"SELECT m.seq, {BODY}, m.dialect, m.part, m.role FROM messages m"  # noqa: S608 (fixed text)
            " WHERE m.conversation = ? AND m.seq >= ? AND m.seq < ? ORDER BY m.seq",
            *part,
        )
    return found


def fork_at(found: SessionRow, fork: int, new_name: str | None, now: int) -> Steps[SessionRow]:
    """A branch with the messages below `fork`, what engines keep about those alone, and the states."""
    base = yield from base_below(found, fork)
    session = found.session
    conversation = yield from sessions.new_conversation(session.owner, now, found, fork, base)
    name = new_name or sessions.new_name()
    row = (conversation, found.id, "branch", fork, now, session.title, session.source, session.model, found.system)
    made = yield from sessions.insert(name, row)
    yield from execute(
        "INSERT INTO engine_records (conversation, engine, name, value, until, at)"
        " SELECT CAST(? AS BIGINT), engine, name, value, until, at FROM engine_records"
        " WHERE conversation = ? AND until <= ? ORDER BY id",
        conversation,
        found.conversation,
        fork,
    )
    yield from execute(
        "INSERT INTO states (conversation, name, value, at)"
        " SELECT CAST(? AS BIGINT), name, value, at FROM states WHERE conversation = ?",
        conversation,
        found.conversation,
    )
    return made


def base_of(session: str, owner: str | None = None) -> Steps[int | None]:
    """The id of the compaction in effect in a session's conversation, read with one query; raises `UnknownSession`."""
    found = (yield from fetch_one(_BASE_BY_NAME, session)) if is_storable(session) else None
    if found is None or (owner is not None and found[0] != owner):
        raise UnknownSession(session)
    base: int | None = found[1]
    return base


def base_in_effect(found: SessionRow, upto_session: int | None = None) -> Steps[int | None]:
    """The id of the compaction in effect in a conversation, now or at the end of one of its sessions."""
    last = yield from fetch_one(
        "SELECT CASE kind WHEN 'compaction' THEN id ELSE base END FROM entries"
        " WHERE conversation = ? AND session <= ? ORDER BY id DESC LIMIT 1",
        found.conversation,
        NO_END if upto_session is None else upto_session,
    )
    return found.first_base if last is None else last[0]


def undo_entry(found: SessionRow, base: int, previous: int | None, until: int, now: int) -> Steps[None]:
    """Take the compaction in effect, `base`, out of effect: the one before it is in effect again."""
    yield from execute(
        "INSERT INTO entries (conversation, session, kind, base, previous, until, at)"
        " VALUES (?, ?, 'undo', ?, ?, ?, ?)",
        found.conversation,
        found.id,
        previous,
        base,
        until,
        now,
    )


def base_below(found: SessionRow, seq: int) -> Steps[int | None]:
    """The id of the newest compaction in effect that was made from messages below a number only."""
    base = yield from base_in_effect(found)
    while base is not None:
        row = yield from fetch_one("SELECT until, previous FROM entries WHERE id = ?", base)
        if row is None or row[0] <= seq:
            break
        require_ascending(row[1] or 0, base, "compaction")
        base = row[1]
    return base


class HistoryStore(Operations):
    """The messages of a database's conversations, read by their numbers."""

    @reads
    def messages(
        self, session: str, start: int = 0, stop: int = NO_END, *, owner: str | None = None, keep_damaged: bool = False
    ) -> Steps[list[StoredMessage]]:
        """Messages of a session's conversation by their numbers, whether they are in the view or not.

        `DamagedRow` names one that cannot be read; with `keep_damaged` it is given with its `damage` and a note.
        """
        found = yield from sessions.find(session, owner)
        stored: list[StoredMessage] = []
        for part in parts_of((yield from segments_of(found)), start, stop):
            read = yield from fetch_all(
                f"SELECT m.seq, {BODY}, m.dialect, m.part, s.name, m.at, m.tool, m.tokens, m.chain, m.role"  # noqa: S608
                " FROM messages m JOIN sessions s ON s.id = m.session"
                " WHERE m.conversation = ? AND m.seq >= ? AND m.seq < ? ORDER BY m.seq",
                *part,
            )
            for row, message in zip(read, read_messages(row[1:4] for row in read), strict=True):
                if isinstance(message, RowDamage) and not keep_damaged:
                    raise damaged_message(row[0], session, message)
                stored.append(_stored(row, message))
        return stored

    @reads
    def count_returns(self, session: str, seconds: float, *, owner: str | None = None) -> Steps[int]:
        """How often a person wrote in a session's conversation after nothing was added to it for so long."""
        found, count = (yield from sessions.find(session, owner)), 0
        for part in parts_of((yield from segments_of(found))):
            count += yield from fetch_number(
                "SELECT COUNT(*) FROM (SELECT role, at - LAG(at) OVER (ORDER BY seq) AS waited FROM messages"
                " WHERE conversation = ? AND seq >= ? AND seq < ?) AS pauses WHERE role = 'user' AND waited >= ?",
                *part,
                int(seconds * 1_000_000),
            )
        return count

    @reads
    def base(self, session: str, *, owner: str | None = None) -> Steps[int | None]:
        """The id of the compaction in effect in a session's conversation; None where there is none."""
        return (yield from base_of(session, owner))

    @writes
    def branch(
        self, session: str, at: int | None = None, *, new_id: str | None = None, owner: str | None = None
    ) -> Steps[Session]:
        """A new conversation that shares the first `at` messages of a session; all of them by default."""
        found = yield from sessions.find(session, owner)
        next_seq, _ = yield from end_of(found)
        fork = next_seq if at is None else at
        if not 0 <= fork <= next_seq:
            raise InvalidArgument(
                f"session {session!r} has {next_seq} messages", remedy=f"branch at 0 to {next_seq}, not {fork}"
            )
        return (yield from fork_at(found, fork, new_id, self._now())).session


def _names_before(conversation: int) -> Steps[dict[str, str]]:
    """Tool names of the newest assistant message's calls: a result without its call mostly answers one of them."""
    caller = yield from fetch_one(_LAST_CALLER, conversation)
    if caller is None or caller[0] is None or caller[1] is not None:
        return {}
    message = read_message(caller[0])
    return {} if isinstance(message, RowDamage) else tool_names([message])


def _repeated_append(position: AppendPosition, new_messages: Sequence[NewMessage], after: int) -> Steps[AppendResult]:
    """The result of an append that is repeated; `StaleHistory` where the history has other messages there."""
    next_seq = position.next_seq
    if after >= 0 and after + len(new_messages) <= next_seq and new_messages:
        found = yield from sessions.find(position.session)
        before = yield from chain_before(found, after)
        wanted = chains_after(before, new_messages)[-1]
        if wanted == (yield from chain_before(found, after + len(new_messages))):
            return AppendResult(position.session, after, after + len(new_messages), 0)
    raise StaleHistory(position.session, after, next_seq)


def _stored(row: Row, message: Message | RowDamage) -> StoredMessage:
    seq, body, dialect, part, session, at, tool, tokens, chain, role = row
    if isinstance(message, RowDamage):
        note, dialect, items, damage = note_in_place(seq, role), None, (), message.problem
    else:
        note, items, damage = message, items_of(body, dialect), None
    return StoredMessage(seq, note, session, as_datetime(at), tool, tokens, bytes(chain), dialect, items, part, damage)
