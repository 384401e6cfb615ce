"""Views: loading what a session shows, committing a compaction, undoing it. As steps, for any database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import InvalidArgument
from clew.messages import Message
from clew.store import sessions
from clew.store.base import (
    COMPRESSION,
    Compaction,
    CompactionEntry,
    Rows,
    Session,
    View,
    ViewItem,
    Written,
    check_items,
)
from clew.store.calls import ModelCall, record_call
from clew.store.clock import as_datetime
from clew.store.encoding import body_of, json_text, json_value, message_of
from clew.store.history import base_in_effect, end_of, rows_between, segments_of
from clew.store.problems import StaleView
from clew.store.rowtext import read_messages
from clew.store.sessions import Found
from clew.store.steps import Steps, one, rows, run, run_many
from clew.store.texts import keep_body, keep_text

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


@dataclass(frozen=True, slots=True)
class Commit:
    """A compaction to be committed, with what belongs into the same transaction."""

    session: str
    entry: CompactionEntry
    calls: Sequence[ModelCall] = ()
    """What writing the summary took."""
    system: str | None = None
    """The system prompt of the continuation, where it changes."""
    new_id: str | None = None
    owner: str | None = None


def load_view(name: str, owner: str | None = None) -> Steps[View]:
    """What a session shows: the newest of its conversation as it is now, an ended one as it was in the end."""
    found = yield from sessions.find(name, owner)
    stop = yield from _stop_of(found)
    base = yield from base_in_effect(found, found.id)
    return (yield from _view_of(found, base, stop))


def commit(asked: Commit, now: int) -> Steps[Session]:
    """End a session with a compaction and open its continuation; the session that was opened."""
    found = yield from sessions.lock_tip(asked.session, asked.owner)
    entry = asked.entry
    if (yield from base_in_effect(found)) != entry.base:
        raise StaleView(asked.session)
    next_seq, _ = yield from end_of(found)
    check_items(entry, next_seq)
    continuation = yield from _open_continuation(found, asked, next_seq, now)
    yield from _write_entry(found, continuation, entry, now)
    for call in asked.calls:
        yield from record_call(continuation.payer, call, now, None)
    return continuation.session


def undo(name: str, owner: str | None, now: int) -> Steps[Compaction | None]:
    """Take the newest compaction out of effect; what it was, or None when none is in effect."""
    found = yield from sessions.lock_tip(name, owner)
    base = yield from base_in_effect(found)
    if base is None:
        return None
    undone = yield from compaction_at(base)
    yield from run(
        "INSERT INTO entries (conversation, session, kind, base, previous, until, at)"
        " VALUES (?, ?, 'undo', ?, ?, ?, ?)",
        found.conversation,
        found.id,
        undone.previous,
        base,
        undone.entry.until,
        now,
    )
    return undone


def compactions_of(name: str, owner: str | None = None) -> Steps[list[Compaction]]:
    """The compactions of a session's conversation, oldest first, undone ones included."""
    found = yield from sessions.find(name, owner)
    active = yield from _bases_in_effect(found)
    read = yield from rows(
        _ENTRY + " WHERE e.conversation = ? AND e.kind = 'compaction' ORDER BY e.id", found.conversation
    )
    made: list[Compaction] = []
    for row in read:
        made.append((yield from _compaction(row, active)))
    return made


def compaction_at(entry: int) -> Steps[Compaction]:
    row = yield from one(_ENTRY + " WHERE e.id = ?", entry)
    if row is None:
        raise InvalidArgument(f"there is no compaction {entry}")
    return (yield from _compaction(row, {entry}))


def _view_of(found: Found, base: int | None, stop: int) -> Steps[View]:
    segments = yield from segments_of(found)
    items: list[ViewItem] = []
    start = 0
    if base is not None:
        compaction = yield from compaction_at(base)
        items, start = list(compaction.entry.view), compaction.entry.until
    if start < stop:
        items.append(Rows(start, stop))
    messages, places, written = list[Message](), list[int | None](), set[int]()
    for item in items:
        if isinstance(item, Written):
            written.add(len(messages))
            messages.append(item.message)
            places.append(item.seq)
        else:
            read = yield from rows_between(segments, item.start, item.stop)
            messages += read_messages((body, dialect, part) for _, body, dialect, part in read)
            places += [row[0] for row in read]
    return View(found.session.id, found.conversation, base, stop, tuple(messages), tuple(places), frozenset(written))


def _stop_of(found: Found) -> Steps[int]:
    after = yield from one(
        "SELECT first_seq FROM sessions WHERE conversation = ? AND id > ? ORDER BY id LIMIT 1",
        found.conversation,
        found.id,
    )
    if after is not None:
        return int(after[0])
    return (yield from end_of(found))[0]


def _open_continuation(found: Found, asked: Commit, next_seq: int, now: int) -> Steps[Found]:
    old = found.session
    yield from run("UPDATE sessions SET ended = ?, end_reason = ? WHERE id = ?", now, COMPRESSION, found.id)
    system = found.system if asked.system is None else (yield from keep_text(old.owner, asked.system))
    name = asked.new_id or sessions.new_name()
    row = (old.conversation, found.id, "continuation", next_seq, now, old.title, old.source, old.model, system)
    yield from sessions.insert(name, row)
    return (yield from sessions.find(name))


def _write_entry(found: Found, continuation: Found, entry: CompactionEntry, now: int) -> Steps[None]:
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
    made = yield from one(
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
    assert made is not None
    yield from run_many(
        "INSERT INTO entry_texts (entry, text) VALUES (?, ?)", [(made[0], text) for text in sorted(texts)]
    )


def _compaction(row: tuple[Any, ...], active: set[int]) -> Steps[Compaction]:
    items = json_value(row[6])
    bodies = yield from _bodies(row[0])
    view = tuple(
        Rows(*item) if isinstance(item, list) else Written(message_of(bodies[item["text"]]), item["seq"])
        for item in items
    )
    summary = None if row[7] is None else message_of(bodies[row[7]])
    account = json_value(row[8])
    account["warnings"] = tuple(account["warnings"])
    entry = CompactionEntry(view, summary, row[4], row[5], **account)
    return Compaction(row[0], row[1], row[2], as_datetime(row[3]), entry, row[0] in active, row[4])


def _bodies(entry: int) -> Steps[dict[int, str]]:
    found = yield from rows(
        "SELECT t.id, t.body FROM entry_texts x JOIN texts t ON t.id = x.text WHERE x.entry = ?", entry
    )
    return {int(row[0]): row[1] for row in found}


def _bases_in_effect(found: Found) -> Steps[set[int]]:
    """The compaction in effect and those it stands on."""
    base = yield from base_in_effect(found)
    active: set[int] = set()
    while base is not None and base not in active:
        active.add(base)
        row = yield from one("SELECT previous FROM entries WHERE id = ?", base)
        base = None if row is None else row[0]
    return active


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
