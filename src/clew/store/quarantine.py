"""Rows that cannot be read: finding them, and setting them aside so that everything else continues.

A damaged row is copied unchanged to a separate table. A note takes its place, so that no number shifts; the chain
stays, so that a history that is sent again is still known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

from clew.store.compactions import read_entry, without_compaction
from clew.store.database import (
    DamagedText,
    Operations,
    Row,
    RowDamage,
    Steps,
    as_datetime,
    execute,
    fetch_all,
    json_text,
    read_json,
    reads,
    require_ascending,
    writes,
)
from clew.store.migrate import schema_version
from clew.store.nodes import has_nodes
from clew.store.rows import BODY, note_in_place, read_message, read_messages

DamageKind: TypeAlias = Literal["message", "text", "compaction", "value", "record", "node"]
_PAGE_ROWS = 500
_FIRST_WITH_QUARANTINE = 3
"""The schema that has the table. A database that cannot be written keeps an older one."""
_LOST_TEXT = "[this text was damaged and set aside; `clew doctor --quarantined` shows what was there]"
_TEXT_HASH_BYTES = 20


@dataclass(frozen=True, slots=True)
class DamagedItem:
    """A row that cannot be read, and where it is."""

    kind: DamageKind
    key: tuple[Any, ...]
    what: str
    damage: RowDamage
    conversation: int | None = None
    seq: int | None = None
    role: str = "user"


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """Something that was set aside, with its bytes as they were found."""

    kind: DamageKind
    what: str
    """Which row it was, in words: `message 7 of session 's_1'`."""
    seq: int | None
    problem: str
    body: bytes
    at: datetime
    """When it was set aside."""


def quarantined_messages() -> Steps[set[tuple[int, int]]]:
    """Conversation and number of each message that was set aside; its chain is that of what it was."""
    if not (yield from _has_quarantine()):
        return set()
    found = yield from fetch_all("SELECT conversation, seq FROM quarantine WHERE kind = 'message'")
    return {(int(row[0]), int(row[1])) for row in found}


class QuarantineStore(Operations):
    """Rows that cannot be read."""

    @writes
    def quarantine(self) -> Steps[list[QuarantinedRow]]:
        """Set aside every row that cannot be read, with a note in its place; those rows. Rebuild the index then."""
        done: list[QuarantinedRow] = []
        # Texts first: a compaction whose text was only damaged can be read again afterwards.
        for find in (damaged_messages, damaged_texts, damaged_compactions, damaged_values):
            for item in (yield from find()):
                done.append((yield from _set_aside(item, self._now())))
        return done

    @reads
    def quarantined(self) -> Steps[list[QuarantinedRow]]:
        """What was set aside so far, oldest first, with its bytes."""
        if not (yield from _has_quarantine()):
            return []
        found = yield from fetch_all("SELECT kind, what, seq, problem, body, at FROM quarantine ORDER BY id")
        return [
            QuarantinedRow(kind, what, seq, problem, bytes(body), as_datetime(at))
            for kind, what, seq, problem, body, at in found
        ]


def damaged_messages() -> Steps[list[DamagedItem]]:
    """Messages that cannot be read."""
    return (
        yield from _damaged_in_pages(
            f"SELECT m.id, {BODY}, m.dialect, m.part, m.conversation, m.seq, m.role, s.name FROM messages m"  # noqa: S608
            " LEFT JOIN sessions s ON s.id = m.session WHERE m.id > ? ORDER BY m.id LIMIT ?",
            _damaged_message,
        )
    )


def damaged_texts() -> Steps[list[DamagedItem]]:
    """System prompts, outputs, and messages that compactions wrote, that cannot be read."""
    return (
        yield from _damaged_in_pages(
            "SELECT t.id, t.body, (SELECT min(x.entry) FROM entry_texts x WHERE x.text = t.id),"
            " (SELECT min(o.name) FROM outputs o WHERE o.text = t.id),"
            " (SELECT min(s.name) FROM sessions s WHERE s.system = t.id),"
            " COALESCE((SELECT min(e.conversation) FROM entries e JOIN entry_texts x ON x.entry = e.id"
            " WHERE x.text = t.id), (SELECT min(conversation) FROM outputs WHERE text = t.id),"
            " (SELECT min(conversation) FROM sessions WHERE system = t.id))"
            " FROM texts t WHERE t.id > ? ORDER BY t.id LIMIT ?",
            _damaged_text,
        )
    )


def damaged_compactions() -> Steps[list[DamagedItem]]:
    """Compactions whose view or account cannot be read, though the texts they refer to can."""
    found = yield from fetch_all(
        "SELECT e.id, s.name, e.conversation, e.at, e.previous, e.until, e.view, e.summary, e.account"
        " FROM entries e LEFT JOIN sessions s ON s.id = e.session WHERE e.kind = 'compaction' ORDER BY e.id"
    )
    items: list[DamagedItem] = []
    for row in found:
        texts = yield from fetch_all("SELECT text FROM entry_texts WHERE entry = ?", row[0])
        entry = read_entry(row, {int(text[0]): '{"role": "user"}' for text in texts})
        if isinstance(entry, RowDamage):
            raw = b"\n".join(column.raw if isinstance(column, DamagedText) else _raw(column) for column in row[6:9:2])
            what = f"compaction {row[0]} of session {row[1]!r}"
            items.append(DamagedItem("compaction", (row[0], row[5]), what, replace(entry, raw=raw), row[2]))
    return items


def damaged_values() -> Steps[list[DamagedItem]]:
    """Values, records of engines, and texts of nodes that cannot be read."""
    values = yield from fetch_all("SELECT conversation, name, value FROM states ORDER BY conversation, name")
    items = [item for row in values if (item := _damaged_value(row)) is not None]
    items += yield from _damaged_in_pages(
        "SELECT id, value, conversation, engine, name FROM engine_records WHERE id > ? ORDER BY id LIMIT ?",
        _damaged_record,
    )
    if (yield from has_nodes()):
        items += yield from _damaged_in_pages(
            "SELECT id, body, conversation, name FROM nodes WHERE id > ? ORDER BY id LIMIT ?", _damaged_node
        )
    return items


def message_words(seq: int, session: str | None) -> str:
    return f"message {seq} of session {session!r}"


def _damaged_message(row: Row) -> DamagedItem | None:
    id, body, dialect, part, conversation, seq, role, session = row
    read = next(read_messages([(body, dialect, part)]))
    return _if_damaged(read, "message", (id,), message_words(seq, session), conversation, seq, role)


def _damaged_text(row: Row) -> DamagedItem | None:
    text, body, entry, output, session, conversation = row
    read = read_json(body) if entry is None else read_message(body)
    if entry is not None:
        what = f"a text that compaction {entry} wrote"
    else:
        what = f"output {output}" if output is not None else f"the system prompt of session {session!r}"
        if not isinstance(read, str | RowDamage):
            read = RowDamage("it is no text", _raw(body))
    return _if_damaged(read, "text", (text, entry is not None), what, conversation)


def _damaged_value(row: Row) -> DamagedItem | None:
    conversation, name, value = row
    what = f"value {name!r} of conversation {conversation}"
    return _if_damaged(read_json(value), "value", (conversation, name), what, conversation)


def _damaged_record(row: Row) -> DamagedItem | None:
    id, value, conversation, engine, name = row
    return _if_damaged(read_json(value), "record", (id,), f"record {name!r} of engine {engine!r}", conversation)


def _damaged_node(row: Row) -> DamagedItem | None:
    id, body, conversation, name = row
    return _if_damaged(read_json(body), "node", (id,), f"node {name!r} of conversation {conversation}", conversation)


def _if_damaged(read: Any, kind: DamageKind, key: tuple[Any, ...], what: str, *place: Any) -> DamagedItem | None:
    return DamagedItem(kind, key, what, read, *place) if isinstance(read, RowDamage) else None


def _damaged_in_pages(sql: str, item_of: Callable[[Row], DamagedItem | None]) -> Steps[list[DamagedItem]]:
    """The damaged items among the rows of a query, read some at a time by their ids."""
    items: list[DamagedItem] = []
    last = 0
    while page := (yield from fetch_all(sql, last, _PAGE_ROWS)):
        items += (item for item in map(item_of, page) if item is not None)
        require_ascending(last, page[-1][0], "row")
        last = page[-1][0]
    return items


def _set_aside(item: DamagedItem, now: int) -> Steps[QuarantinedRow]:
    yield from execute(
        "INSERT INTO quarantine (kind, conversation, seq, what, problem, body, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        item.kind,
        item.conversation,
        item.seq,
        item.what,
        item.damage.problem,
        item.damage.raw,
        now,
    )
    if item.kind == "message":
        note = json_text(note_in_place(item.seq or 0, item.role))
        # Rows that share the wire items of this one are damaged with it, so each gets its own note.
        yield from execute("UPDATE messages SET body = ?, dialect = NULL, part = 0 WHERE id = ?", note, *item.key)
    elif item.kind == "text":
        text, is_message = item.key
        lost = f"{_LOST_TEXT} (text {text})"
        body = json_text({"role": "user", "content": lost} if is_message else lost)
        # With the hash of the note, so that the same text, stored again, is not taken for this one.
        digest = blake2b(body.encode(), digest_size=_TEXT_HASH_BYTES).digest()
        yield from execute("UPDATE texts SET body = ?, hash = ? WHERE id = ?", body, digest, text)
    elif item.kind == "compaction":
        entry, until = item.key
        shown = without_compaction(None, until)
        yield from execute(
            "UPDATE entries SET view = ?, summary = NULL, account = ? WHERE id = ?",
            json_text([[rows.start, rows.stop] for rows in shown.kept]),
            json_text({"warnings": ["damaged and set aside: the messages are shown as they are"]}),
            entry,
        )
    elif item.kind == "value":
        yield from execute("DELETE FROM states WHERE conversation = ? AND name = ?", *item.key)
    elif item.kind == "node":
        # The messages that it represents are there: it can be opened as before.
        yield from execute("UPDATE nodes SET body = ? WHERE id = ?", json_text(_LOST_TEXT), *item.key)
    else:
        yield from execute("DELETE FROM engine_records WHERE id = ?", *item.key)
    return QuarantinedRow(item.kind, item.what, item.seq, item.damage.problem, item.damage.raw, as_datetime(now))


def _has_quarantine() -> Steps[bool]:
    return (yield from schema_version()) >= _FIRST_WITH_QUARANTINE


def _raw(column: Any) -> bytes:
    return column if isinstance(column, bytes) else str(column).encode(errors="surrogatepass")
