"""Sessions: starting, ending, finding, listing, and following continuations."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from clew.errors import InvalidArgument, UnknownSession
from clew.store.base import COMPRESSION, Session, SessionKind
from clew.store.database import (
    Operations,
    Steps,
    as_datetime,
    as_micros,
    checked_text,
    execute,
    fetch_all,
    fetch_number,
    fetch_one,
    is_storable,
    reads,
    writes,
)
from clew.store.rows import keep_text, text_at
from clew.store.search.index_updates import index_system_prompt

_COLUMNS = (
    "SELECT s.id, s.name, s.conversation, p.name, s.kind, s.first_seq, s.created, s.ended, s.end_reason, s.title,"
    " s.source, s.model, c.owner, c.origin, c.origin_seq, c.first_base, s.system, c.lineage"
    " FROM sessions s JOIN conversations c ON c.id = s.conversation LEFT JOIN sessions p ON p.id = s.parent"
)
_BY_NAME = _COLUMNS + " WHERE s.name = ?"
# Waits for other writers of the conversation, and reads whether they have compacted the session meanwhile.
_LOCK = "SELECT s.end_reason FROM sessions s JOIN conversations c ON c.id = s.conversation WHERE s.id = ? FOR_UPDATE"
# By kind, not by time: clocks go backwards.
_CONTINUATION = """
SELECT child.id FROM sessions child JOIN sessions parent ON parent.id = child.parent
WHERE child.parent = ? AND child.kind = 'continuation' AND parent.end_reason = 'compression'
ORDER BY child.id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to start."""

    id: str | None = None
    source: str = "library"
    model: str | None = None
    title: str | None = None
    system: str | None = None
    owner: str = ""
    parent: str | None = None
    kind: SessionKind | None = None
    created: datetime | None = None
    """When it began; now by default."""
    lineage: str = ""
    """Histories of different lineages are never taken for one another, however alike they begin."""
    tree: str = ""
    """Lineages that begin with it belong together: a new conversation among them is a subagent of the first one."""


class SessionKey(NamedTuple):
    """The ids inside this database that a row belongs to, and where they come from."""

    owner: str
    conversation: int
    session: int
    source: str
    """Of the session."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session with its ids inside this database, and the origin of its conversation."""

    id: int
    session: Session
    origin: int | None
    origin_seq: int
    first_base: int | None
    system: int | None
    lineage: str

    @property
    def conversation(self) -> int:
        return self.session.conversation

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.session.owner, self.session.conversation, self.id, self.session.source)


def new_name() -> str:
    return "s_" + secrets.token_hex(10)


def find(name: str, owner: str | None = None) -> Steps[SessionRow]:
    """The session of an id; `UnknownSession` where there is none, or none of that owner."""
    # An id may come from a request; one that no column can hold is as unknown as any other.
    found = (yield from fetch_one(_BY_NAME, name)) if is_storable(name) else None
    if found is None or (owner is not None and found[12] != owner):
        raise UnknownSession(name)
    return _session_row(found)


def lock_tip(name: str, owner: str | None = None) -> Steps[SessionRow]:
    """A session, or the tip of its conversation if it was compacted; the conversation is locked for writing."""
    found = yield from find(name, owner)
    reason = yield from fetch_one(_LOCK, found.id)
    if not found.session.is_compacted and (reason is None or reason[0] != COMPRESSION):
        return found
    tip = yield from fetch_one(_COLUMNS + " WHERE s.conversation = ? ORDER BY s.id DESC LIMIT 1", found.conversation)
    return found if tip is None else _session_row(tip)


def start(new: NewSession, now: int) -> Steps[SessionRow]:
    """Start a session; an existing one of that id and owner is returned as it is."""
    for what, text in (("title", new.title), ("source", new.source), ("model", new.model), ("owner", new.owner)):
        if text is not None:
            checked_text(text, what)
    if new.system is not None and not isinstance(new.system, str):
        raise InvalidArgument(f"the system prompt is of type {type(new.system).__name__}", remedy="pass it as a text")
    name = checked_text(new.id, "session id") if new.id else new_name()
    existing = yield from fetch_one(_BY_NAME, name)
    if existing is not None:
        if existing[12] != new.owner:
            raise InvalidArgument(f"session id {name!r} cannot be used", remedy="choose another")
        return _session_row(existing)
    parent = (yield from find(new.parent, new.owner)) if new.parent else None
    kind = new.kind or _kind_under(parent)
    began = now if new.created is None else as_micros(new.created)
    if kind == "continuation" and parent is not None:
        conversation, first_seq = parent.conversation, (yield from next_seq(parent))
    else:
        conversation, first_seq = (yield from new_conversation(new.owner, began, lineage=new.lineage)), 0
    system = (yield from keep_text(new.owner, new.system)) if new.system is not None else None
    above = parent.id if parent else None
    row = (conversation, above, kind, first_seq, began, new.title, new.source, new.model, system)
    return (yield from insert(name, row))


def new_conversation(
    owner: str, now: int, branch_of: SessionRow | None = None, fork: int = 0, base: int | None = None, lineage: str = ""
) -> Steps[int]:
    """A new conversation, or a branch at a number with the compaction that is in effect there."""
    made = yield from fetch_number(
        "INSERT INTO conversations (owner, origin, origin_seq, first_base, created, lineage) VALUES (?, ?, ?, ?, ?, ?)"
        " RETURNING id",
        owner,
        branch_of.conversation if branch_of else None,
        fork,
        base,
        now,
        branch_of.lineage if branch_of else lineage,
    )
    return made


def insert(name: str, row: tuple[Any, ...]) -> Steps[SessionRow]:
    """Store a session of this id with its other columns."""
    yield from execute(
        "INSERT INTO sessions (name, conversation, parent, kind, first_seq, created, title, source, model, system)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        name,
        *row,
    )
    return (yield from find(name))


def next_seq(found: SessionRow) -> Steps[int]:
    """The number of the conversation's next message."""
    last = yield from fetch_one(
        "SELECT seq FROM messages WHERE conversation = ? ORDER BY seq DESC LIMIT 1", found.conversation
    )
    return int(last[0]) + 1 if last is not None else found.origin_seq


class SessionStore(Operations):
    """The sessions of a database."""

    @writes
    def start_session(self, new: NewSession | None = None) -> Steps[Session]:
        """Start a session; an existing one of that id is returned as it is."""
        started = yield from start(new or NewSession(), self._now())
        if self._database.index.is_immediate:
            yield from index_system_prompt(self._database.index, started.session.id)
        return started.session

    @reads
    def session(self, session: str, *, owner: str | None = None) -> Steps[Session]:
        """A session by its id; `UnknownSession` when there is none."""
        return (yield from find(session, owner)).session

    @reads
    def list_sessions(
        self, *, owner: str | None = None, limit: int = 50, before: str | None = None, only_tips: bool = False
    ) -> Steps[list[Session]]:
        """Sessions, newest first; page with `before`, the last id. `only_tips` leaves out compacted ones."""
        where, params = ["1 = 1"], list[Any]()
        if owner is not None:
            where.append("c.owner = ?")
            params.append(owner)
        if before is not None:
            where.append("s.id < ?")
            params.append((yield from find(before, owner)).id)
        if only_tips:
            where.append("(s.end_reason IS NULL OR s.end_reason <> 'compression')")
        found = yield from fetch_all(
            f"{_COLUMNS} WHERE {' AND '.join(where)} ORDER BY s.id DESC LIMIT ?", *params, limit
        )
        return [_session_row(row).session for row in found]

    @reads
    def children_of(self, session: str, *, owner: str | None = None) -> Steps[list[Session]]:
        """Continuations, branches and subagents of a session, oldest first."""
        parent = yield from find(session, owner)
        found = yield from fetch_all(_COLUMNS + " WHERE s.parent = ? ORDER BY s.id", parent.id)
        return [_session_row(row).session for row in found]

    @reads
    def sessions_of(self, conversation: int, *, owner: str | None = None) -> Steps[list[Session]]:
        """The sessions of a conversation, oldest first; none where it is not that owner's."""
        found = yield from fetch_all(_COLUMNS + " WHERE s.conversation = ? ORDER BY s.id", conversation)
        return [_session_row(row).session for row in found if owner is None or row[12] == owner]

    @writes
    def end_session(self, session: str, reason: str = "done", *, owner: str | None = None) -> Steps[Session]:
        """End a session; one that has ended already is not changed."""
        found = yield from find(session, owner)
        yield from execute(
            "UPDATE sessions SET ended = ?, end_reason = ? WHERE id = ? AND ended IS NULL",
            self._now(),
            checked_text(reason, "reason"),
            found.id,
        )
        return (yield from find(session)).session

    @reads
    def get_compression_tip(self, session: str, *, owner: str | None = None) -> Steps[str]:
        """The id of the newest continuation of a session; its own where there is none."""
        return (yield from _tip_of(session, owner)).id

    @writes
    def resume(self, session: str, *, owner: str | None = None) -> Steps[Session]:
        """The tip of a session, open again if it had ended."""
        tip = yield from _tip_of(session, owner)
        if tip.ended is not None:
            yield from execute("UPDATE sessions SET ended = NULL, end_reason = NULL WHERE name = ?", tip.id)
        return (yield from find(tip.id)).session

    @writes
    def rename(self, session: str, title: str | None, *, owner: str | None = None) -> Steps[Session]:
        found = yield from find(session, owner)
        checked = checked_text(title, "title") if title is not None and title != "" else None
        yield from execute("UPDATE sessions SET title = ? WHERE id = ?", checked, found.id)
        return (yield from find(session)).session

    @writes
    def set_model(self, session: str, model: str, *, owner: str | None = None) -> Steps[None]:
        found = yield from find(session, owner)
        yield from execute("UPDATE sessions SET model = ? WHERE id = ?", checked_text(model, "model"), found.id)

    @reads
    def system_prompt(self, session: str, *, owner: str | None = None, keep_damaged: bool = False) -> Steps[str | None]:
        """The system prompt that a session was started with; with `keep_damaged` a note for one that cannot be read."""
        found = yield from find(session, owner)
        if found.system is None:
            return None
        return (yield from text_at(found.system, f"the system prompt of session {session!r}", session, keep_damaged))

    @reads
    def next_seq(self, session: str, *, owner: str | None = None) -> Steps[int]:
        """The number of the next message of a session's conversation."""
        return (yield from next_seq((yield from find(session, owner))))


def _tip_of(name: str, owner: str | None) -> Steps[Session]:
    """The newest continuation of a session; the session itself where there is none."""
    found = yield from find(name, owner)
    reached, seen = found.id, {found.id}
    while (after := (yield from fetch_one(_CONTINUATION, reached))) is not None and after[0] not in seen:
        reached = after[0]
        seen.add(reached)
    tip = yield from fetch_one(_COLUMNS + " WHERE s.id = ?", reached)
    assert tip is not None
    return _session_row(tip).session


def _kind_under(parent: SessionRow | None) -> SessionKind:
    if parent is None:
        return "root"
    return "continuation" if parent.session.is_compacted else "subagent"


def _session_row(row: tuple[Any, ...]) -> SessionRow:
    of_session = (*row[1:6], as_datetime(row[6]), None if row[7] is None else as_datetime(row[7]), *row[8:13])
    return SessionRow(row[0], Session(*of_session), *row[13:])
