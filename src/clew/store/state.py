"""What the store keeps beside messages: states and records of engines, learnt windows, spilled outputs. As steps."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import InvalidArgument
from clew.store import sessions
from clew.store.base import EngineRecord, LearntWindow, StoredOutput
from clew.store.database import (
    Row,
    Steps,
    as_datetime,
    checked_text,
    column_text,
    execute,
    execute_many,
    fetch_all,
    fetch_one,
    is_storable,
    json_text,
    json_value,
)
from clew.store.history import end_of
from clew.store.rows import keep_text

_RECORD_IDS = "SELECT id FROM engine_records WHERE conversation = ? AND engine = ? AND name = ?"
_RECORDS = "SELECT name, value, until FROM engine_records WHERE conversation = ? AND engine = ?"
_IDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class NewOutput:
    """A tool output to keep, because it was too large for the context."""

    session: str
    text: str
    tool: str | None = None
    path: str | None = None
    """The file it was spilled to, if any."""
    owner: str | None = None


def read_state(session: str, owner: str | None = None) -> Steps[dict[str, Any]]:
    """The values set for a session's conversation, by name. They survive continuations and restarts."""
    found = yield from sessions.find(session, owner)
    read = yield from fetch_all(
        "SELECT name, value FROM states WHERE conversation = ? ORDER BY name", found.conversation
    )
    return {row[0]: json_value(row[1], f"value {row[0]!r} of session {session!r}", session) for row in read}


def write_state(session: str, values: dict[str, Any], now: int, owner: str | None = None) -> Steps[None]:
    """Set values by name; None removes one."""
    found = yield from sessions.find(session, owner)
    for name, value in values.items():
        if value is None:
            yield from execute("DELETE FROM states WHERE conversation = ? AND name = ?", found.conversation, name)
        else:
            yield from execute(
                "INSERT INTO states (conversation, name, value, at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (conversation, name) DO UPDATE SET value = excluded.value, at = excluded.at",
                found.conversation,
                name,
                json_text(value),
                now,
            )


def swap_state(session: str, name: str, before: Any, after: Any, now: int, owner: str | None = None) -> Steps[bool]:
    """Set a value where it is still `before` (None: not set); whether it was."""
    found = yield from sessions.lock_tip(session, owner)
    row = yield from fetch_one("SELECT value FROM states WHERE conversation = ? AND name = ?", found.conversation, name)
    if (None if row is None else row[0]) != (None if before is None else json_text(before)):
        return False
    yield from write_state(session, {name: after}, now, owner)
    return True


def put_records(
    session: str, engine: str, records: Sequence[EngineRecord], now: int, owner: str | None = None
) -> Steps[None]:
    """Store records of an engine; one with the id of an earlier record replaces it in its position."""
    found = yield from sessions.find(session, owner)
    name = checked_text(engine, "engine name")
    yield from execute_many(
        "INSERT INTO engine_records (conversation, engine, name, value, until, at) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (conversation, engine, name)"
        " DO UPDATE SET value = excluded.value, until = excluded.until, at = excluded.at",
        [
            (found.conversation, name, checked_text(it.id, "record id"), _record_body(name, it), it.until, now)
            for it in records
        ],
    )


def _record_body(engine: str, record: EngineRecord) -> str:
    try:
        return json_text(record.value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"record {record.id!r} of engine {engine!r} cannot be written as JSON ({error}); pass plain JSON values"
        ) from error


def read_records(
    session: str, engine: str, after: str | None, limit: int, owner: str | None = None
) -> Steps[list[EngineRecord]]:
    """Records of an engine in the order in which they were first stored, from the one behind `after` on."""
    found = yield from sessions.find(session, owner)
    start = 0
    if after is not None:
        row = yield from fetch_one(_RECORD_IDS, found.conversation, engine, after)
        if row is None:
            raise InvalidArgument(f"engine {engine!r} has no record {after!r} in session {session!r}")
        start = int(row[0])
    read = yield from fetch_all(_RECORDS + " AND id > ? ORDER BY id LIMIT ?", found.conversation, engine, start, limit)
    return [_record(row, session) for row in read]


def read_records_by_id(
    session: str, engine: str, ids: Sequence[str], owner: str | None = None
) -> Steps[list[EngineRecord]]:
    """Those of the records named that there are, in the order of `ids`."""
    found = yield from sessions.find(session, owner)
    records: dict[str, EngineRecord] = {}
    for first in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[first : first + _IDS_AT_ONCE]
        marks = ", ".join("?" * len(some))
        read = yield from fetch_all(f"{_RECORDS} AND name IN ({marks})", found.conversation, engine, *some)
        records.update((row[0], _record(row, session)) for row in read)
    return [records[name] for name in ids if name in records]


def _record(row: Row, session: str) -> EngineRecord:
    what = f"record {row[0]!r} of an engine in session {session!r}"
    return EngineRecord(row[0], json_value(row[1], what, session), int(row[2]))


def learn_window(model: str, base_url: str, tokens: int, now: int) -> Steps[None]:
    """Remember a window that a provider stated. Guesses are not stored."""
    if tokens <= 0:
        raise InvalidArgument(f"a window of {tokens} tokens for {model!r} cannot be; pass what the provider stated")
    yield from execute(
        "INSERT INTO windows (model, base_url, tokens, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (model, base_url) DO UPDATE SET tokens = excluded.tokens, at = excluded.at",
        model,
        base_url,
        tokens,
        now,
    )


def forget_window(model: str, base_url: str) -> Steps[None]:
    yield from execute("DELETE FROM windows WHERE model = ? AND base_url = ?", model, base_url)


def learnt_window(model: str, base_url: str) -> Steps[LearntWindow | None]:
    row = yield from fetch_one(
        "SELECT model, base_url, tokens, at FROM windows WHERE model = ? AND base_url = ?", model, base_url
    )
    return None if row is None else LearntWindow(row[0], row[1], int(row[2]), as_datetime(row[3]))


def learnt_windows() -> Steps[list[LearntWindow]]:
    read = yield from fetch_all("SELECT model, base_url, tokens, at FROM windows ORDER BY model, base_url")
    return [LearntWindow(row[0], row[1], int(row[2]), as_datetime(row[3])) for row in read]


def keep_output(new: NewOutput, now: int) -> Steps[str]:
    """Store an output, once per text and conversation; its id."""
    found = yield from sessions.find(new.session, new.owner)
    text = yield from keep_text(found.session.owner, new.text)
    next_seq, _ = yield from end_of(found)
    made = yield from fetch_one(
        "INSERT INTO outputs (name, conversation, session, text, seq, tool, path, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (conversation, text) DO NOTHING RETURNING name",
        "o_" + secrets.token_hex(10),
        found.conversation,
        found.id,
        text,
        next_seq,
        None if new.tool is None else column_text(new.tool),
        None if new.path is None else column_text(new.path),
        now,
    )
    if made is None:
        made = yield from fetch_one(
            "SELECT name FROM outputs WHERE conversation = ? AND text = ?", found.conversation, text
        )
    assert made is not None
    return str(made[0])


def read_output(name: str, owner: str | None) -> Steps[StoredOutput | None]:
    """An output by its id; None where there is none, or none of that owner."""
    if not is_storable(name):
        return None
    found = yield from fetch_one(
        "SELECT o.name, s.name, o.tool, o.path, t.body, o.at, t.owner FROM outputs o"
        " JOIN texts t ON t.id = o.text JOIN sessions s ON s.id = o.session WHERE o.name = ?",
        name,
    )
    if found is None or (owner is not None and found[6] != owner):
        return None
    text = json_value(found[4], f"output {name} of session {found[1]!r}", found[1])
    return StoredOutput(found[0], found[1], found[2], found[3], str(text), as_datetime(found[5]))
