"""Views and compactions: loading a view, committing and undoing a compaction, the lease to compact.

A lease keeps two processes from writing the same summary. What protects the history is the check in the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from clew.errors import DamagedRow, InvalidArgument, LeaseLost, StaleView
from clew.messages import Message, without_cache_markers
from clew.store import sessions
from clew.store.base import (
    COMPRESSION,
    CommittedCompaction,
    CompactionEntry,
    EngineRecord,
    Lease,
    Rows,
    Session,
    View,
    ViewItem,
    WrittenMessage,
    check_view_items,
)
from clew.store.calls import ModelCall, record_calls
from clew.store.database import (
    Operations,
    RowDamage,
    Steps,
    as_datetime,
    execute,
    execute_many,
    fetch_all,
    fetch_number,
    fetch_one,
    json_text,
    read_json,
    reads,
    writes,
)
from clew.store.history import base_in_effect, end_of, rows_between, segments_of, undo_entry
from clew.store.nodes import NodePublication, inherit, publish
from clew.store.rows import (
    body_of,
    damaged_message,
    keep_body,
    keep_text,
    note_in_place,
    read_message,
    read_messages,
)
from clew.store.search.index_updates import index_rows, index_system_prompt
from clew.store.sessions import SessionRow
from clew.store.state import put_records

_ACCOUNT = (
    "tokens_before",
    "tokens_after",
    "engine",
    "template_version",
    "written_by",
    "focus_topic",
    "warnings",
    "details",
)
_ENTRY = (
    "SELECT e.id, s.name, e.conversation, e.at, e.previous, e.until, e.view, e.summary, e.account"
    " FROM entries e JOIN sessions s ON s.id = e.session"
)

_NEWEST_ENTRY = "SELECT kind, previous FROM entries WHERE conversation = ? ORDER BY id DESC LIMIT 1"

# The row stays: a token is never used twice.
_END_LEASE = "UPDATE leases SET expires = 0, holder = ''"
_OF_LEASE = " WHERE conversation = ? AND holder = ? AND token = ?"
# A lease taken in the future: the clock was set back since, and the lease would last too long.
_IS_FREE = "leases.expires <= excluded.taken OR leases.taken > excluded.taken OR leases.holder = excluded.holder"


class CompactionStore(Operations):
    """The views and compactions of a database, and the leases to compact."""

    @reads
    def view(self, session: str, *, owner: str | None = None, keep_damaged: bool = False) -> Steps[View]:
        """What a session shows the model; for one that a compaction ended, what it showed then.

        `DamagedRow` names a row that cannot be read; with `keep_damaged` a note is in its place.
        """
        found = yield from sessions.find(session, owner)
        stop = yield from _stop_of(found)
        base = yield from base_in_effect(found, found.id)
        return (yield from _view_of(found, base, stop, keep_damaged))

    @writes
    def commit_compaction(
        self,
        session: str,
        entry: CompactionEntry,
        *,
        lease: Lease | None = None,
        calls: Sequence[ModelCall] = (),
        system: str | None = None,
        records: Sequence[EngineRecord] = (),
        nodes: NodePublication | None = None,
        new_id: str | None = None,
        owner: str | None = None,
    ) -> Steps[Session]:
        """End a session with a compaction and open its continuation, which is returned. Uses up the lease.

        `calls` are those that wrote the summary; `system` is a new system prompt for the continuation. `records` of the
        engine that made it and `nodes` of its map are stored in the same transaction. `StaleView` where the view has
        changed since, `LeaseLost` where the lease has run out.
        """
        now, index = self._now(), self._database.index
        if lease is not None:
            yield from _use_up_lease(lease, (yield from self._shared_now()))
        found = yield from sessions.lock_tip(session, owner)
        if (yield from base_in_effect(found)) != entry.base:
            raise StaleView(session)
        next_seq, _ = yield from end_of(found)
        check_view_items(entry, next_seq)
        continuation = yield from _open_continuation(found, next_seq, system, new_id, now)
        name = continuation.session.id
        written = yield from _write_entry(found, continuation, entry, now)
        if nodes is not None:
            yield from publish(found, written, entry, nodes, now)
        elif entry.base is not None and entry.summary is None:
            yield from inherit(found, written, entry)
        yield from record_calls(continuation.key, [(None, call) for call in calls], now)
        if records:
            yield from put_records(name, entry.engine, records, now)
        if system is not None and index.is_immediate:
            yield from index_system_prompt(index, name)
        if entry.summary is not None and index.is_immediate:
            yield from index_rows(index, "summary", "m.id = ?", written)
        return continuation.session

    @writes
    def undo(self, session: str, *, owner: str | None = None) -> Steps[CommittedCompaction | None]:
        """Take the newest compaction out of effect and return it; None where there is none. Later messages stay."""
        found = yield from sessions.lock_tip(session, owner)
        base = yield from base_in_effect(found)
        if base is None:
            return None
        undone = yield from compaction_at(base)
        yield from undo_entry(found, base, undone.previous, undone.entry.until, self._now())
        return undone

    @reads
    def compactions(
        self, session: str, *, owner: str | None = None, keep_damaged: bool = False
    ) -> Steps[list[CommittedCompaction]]:
        """The compactions of a session's conversation, oldest first, undone ones included.

        With `keep_damaged` one that cannot be read is given as one that replaced nothing.
        """
        found = yield from sessions.find(session, owner)
        active = yield from read_bases_in_effect(found)
        read = yield from fetch_all(
            _ENTRY + " WHERE e.conversation = ? AND e.kind = 'compaction' ORDER BY e.id", found.conversation
        )
        made: list[CommittedCompaction] = []
        for row in read:
            made.append((yield from _compaction(row, active, keep_damaged)))
        return made

    @writes
    def take_lease(
        self, session: str, holder: str, seconds: float = 300.0, *, owner: str | None = None
    ) -> Steps[Lease | None]:
        """The right to compact a session's conversation; None while another holder has it.

        The holder's own lease is prolonged.
        """
        now = yield from self._shared_now()
        if seconds <= 0 or not holder:
            raise InvalidArgument(f"a lease needs a holder and a time, not {holder!r} for {seconds} s")
        found = yield from sessions.find(session, owner)
        row = yield from fetch_one(
            "INSERT INTO leases (conversation, holder, token, taken, expires) VALUES (?, ?, 1, ?, ?)"  # noqa: S608
            " ON CONFLICT (conversation) DO UPDATE SET holder = excluded.holder, token = leases.token + 1,"
            f" taken = excluded.taken, expires = excluded.expires WHERE {_IS_FREE} RETURNING token",
            found.conversation,
            holder,
            now,
            now + int(seconds * 1_000_000),
        )
        return None if row is None else Lease(found.conversation, holder, int(row[0]), seconds)

    @writes
    def renew_lease(self, lease: Lease) -> Steps[bool]:
        """Prolong a lease; False where it has run out or is another's."""
        now = yield from self._shared_now()
        row = yield from fetch_one(
            f"UPDATE leases SET taken = ?, expires = ?{_OF_LEASE} AND expires > ? RETURNING token",  # noqa: S608 (fixed text)
            now,
            now + int(lease.seconds * 1_000_000),
            *_key_of(lease),
            now,
        )
        return row is not None

    @writes
    def release_lease(self, lease: Lease) -> Steps[bool]:
        """Give a lease back; False where it is another's."""
        return (yield from fetch_one(f"{_END_LEASE}{_OF_LEASE} RETURNING token", *_key_of(lease))) is not None

    @reads
    def lease_holder(self, session: str, *, owner: str | None = None) -> Steps[str | None]:
        """Who holds the lease on a session's conversation now."""
        now = yield from self._shared_now()
        found = yield from sessions.find(session, owner)
        row = yield from fetch_one(
            "SELECT holder FROM leases WHERE conversation = ? AND expires > ? AND taken <= ?",
            found.conversation,
            now,
            now,
        )
        return None if row is None else row[0]


def _use_up_lease(lease: Lease, now: int) -> Steps[None]:
    """End a lease inside a commit; `LeaseLost` where it has run out or is another's."""
    row = yield from fetch_one(f"{_END_LEASE}{_OF_LEASE} AND expires > ? RETURNING token", *_key_of(lease), now)
    if row is None:
        raise LeaseLost(
            f"the lease of {lease.holder!r} on conversation {lease.conversation} ran out after {lease.seconds:g} s",
            remedy="load the view again, or take the lease for longer",
        )


def _key_of(lease: Lease) -> tuple[int, str, int]:
    return lease.conversation, lease.holder, lease.token


def compaction_at(entry: int, keep_damaged: bool = False) -> Steps[CommittedCompaction]:
    row = yield from fetch_one(_ENTRY + " WHERE e.id = ?", entry)
    if row is None:
        raise InvalidArgument(f"there is no compaction {entry}")
    return (yield from _compaction(row, {entry}, keep_damaged))


def _view_of(found: SessionRow, base: int | None, stop: int, keep_damaged: bool) -> Steps[View]:
    segments = yield from segments_of(found)
    compaction = None if base is None else (yield from compaction_at(base, keep_damaged))
    messages, seqs, written = list[Message](), list[int | None](), set[int]()
    for item in items_of_view(compaction, stop):
        if isinstance(item, WrittenMessage):
            written.add(len(messages))
            messages.append(item.message)
            seqs.append(item.seq)
        else:
            read = yield from rows_between(segments, item.start, item.stop)
            for row, message in zip(read, read_messages(row[1:4] for row in read), strict=True):
                if isinstance(message, RowDamage) and not keep_damaged:
                    raise damaged_message(row[0], found.session.id, message)
                messages.append(note_in_place(row[0], row[4]) if isinstance(message, RowDamage) else message)
                seqs.append(row[0])
    undone = yield from _undone_tokens(found)
    return View(
        found.session.id, found.conversation, base, stop, tuple(messages), tuple(seqs), frozenset(written), undone
    )


def items_of_view(compaction: CommittedCompaction | None, stop: int) -> tuple[ViewItem, ...]:
    """The items of the view that a compaction made, with the messages that followed up to `stop`."""
    items, start = ((), 0) if compaction is None else (compaction.entry.view, compaction.entry.until)
    return (*items, Rows(start, stop)) if start < stop else items


def _undone_tokens(found: SessionRow) -> Steps[int]:
    """The size before the compaction that was undone, where the newest entry is an undo."""
    newest = yield from fetch_one(_NEWEST_ENTRY, found.conversation)
    if newest is None or newest[0] != "undo":
        return 0
    undone = yield from fetch_one("SELECT account FROM entries WHERE id = ?", newest[1])
    account = None if undone is None else read_json(undone[0])
    tokens = account.get("tokens_before") if isinstance(account, dict) else None
    return tokens if isinstance(tokens, int) else 0


def _stop_of(found: SessionRow) -> Steps[int]:
    after = yield from fetch_one(
        "SELECT first_seq FROM sessions WHERE conversation = ? AND id > ? ORDER BY id LIMIT 1",
        found.conversation,
        found.id,
    )
    if after is not None:
        return int(after[0])
    return (yield from end_of(found))[0]


def _open_continuation(
    found: SessionRow, next_seq: int, new_system: str | None, new_id: str | None, now: int
) -> Steps[SessionRow]:
    old = found.session
    yield from execute("UPDATE sessions SET ended = ?, end_reason = ? WHERE id = ?", now, COMPRESSION, found.id)
    system = found.system if new_system is None else (yield from keep_text(old.owner, new_system))
    row = (old.conversation, found.id, "continuation", next_seq, now, old.title, old.source, old.model, system)
    return (yield from sessions.insert(new_id or sessions.new_name(), row))


def _write_entry(found: SessionRow, continuation: SessionRow, entry: CompactionEntry, now: int) -> Steps[int]:
    owner = found.session.owner
    summary = None if entry.summary is None else (yield from keep_body(owner, body_of(entry.summary, 0)))
    view: list[Any] = []
    texts = set[int]() if summary is None else {summary}
    for index, item in enumerate(entry.view):
        if isinstance(item, Rows):
            view.append([item.start, item.stop])
        else:
            text = yield from keep_body(owner, body_of(item.message, index))
            texts.add(text)
            view.append({"text": text, "seq": item.seq})
    account = json_text({name: _plain(getattr(entry, name)) for name in _ACCOUNT})
    made = yield from fetch_number(
        "INSERT INTO entries (conversation, session, kind, previous, until, view, summary, account, at)"
        " VALUES (?, ?, 'compaction', ?, ?, ?, ?, ?, ?) RETURNING id",
        found.conversation,
        continuation.id,
        entry.base,
        entry.until,
        json_text(view),
        summary,
        account,
        now,
    )
    yield from execute_many(
        "INSERT INTO entry_texts (entry, text) VALUES (?, ?)", [(made, text) for text in sorted(texts)]
    )
    return made


def _compaction(row: tuple[Any, ...], active: set[int], keep_damaged: bool = False) -> Steps[CommittedCompaction]:
    bodies = yield from _bodies(row[0])
    entry = read_entry(row, bodies)
    if isinstance(entry, RowDamage):
        if not keep_damaged:
            raise DamagedRow(f"compaction {row[0]} of session {row[1]!r}", entry.problem, session=row[1])
        entry = without_compaction(row[4], row[5])
    return CommittedCompaction(row[0], row[1], row[2], as_datetime(row[3]), entry, row[0] in active, row[4])


def read_entry(row: tuple[Any, ...], bodies: Mapping[int, Any]) -> CompactionEntry | RowDamage:
    """A compaction from its columns and the texts it wrote, or what is wrong with it."""
    items, account = read_json(row[6]), read_json(row[8])
    if isinstance(items, RowDamage):
        return items
    if isinstance(account, RowDamage):
        return account
    written = {text: read_message(body) for text, body in bodies.items()}
    if wrong := next((read for read in written.values() if isinstance(read, RowDamage)), None):
        return wrong
    # Older databases have markers that the client has moved since: sent again, they would be too many.
    messages = {text: without_cache_markers(cast(Message, read)) for text, read in written.items()}
    try:
        view = tuple(
            Rows(*map(int, item)) if isinstance(item, list) else WrittenMessage(messages[item["text"]], item["seq"])
            for item in items
        )
        summary = None if row[7] is None else messages[row[7]]
        account = {**account, "warnings": tuple(account["warnings"])}
        return CompactionEntry(view, summary, row[4], row[5], **account)
    except (TypeError, KeyError, ValueError) as error:
        return RowDamage(f"its view or its account is not what a compaction has ({error!r})", str(row[6]).encode())


def without_compaction(base: int | None, until: int) -> CompactionEntry:
    """What represents a compaction that cannot be read: the messages that it was made from, as they are."""
    return CompactionEntry((Rows(0, until),) if until else (), None, base, until)


def _bodies(entry: int) -> Steps[dict[int, Any]]:
    found = yield from fetch_all(
        "SELECT t.id, t.body FROM entry_texts x JOIN texts t ON t.id = x.text WHERE x.entry = ?", entry
    )
    return {int(row[0]): row[1] for row in found}


def read_bases_in_effect(found: SessionRow) -> Steps[set[int]]:
    """The compaction in effect and those before it that it was made from."""
    base = yield from base_in_effect(found)
    active: set[int] = set()
    while base is not None and base not in active:
        active.add(base)
        row = yield from fetch_one("SELECT previous FROM entries WHERE id = ?", base)
        base = None if row is None else row[0]
    return active


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
