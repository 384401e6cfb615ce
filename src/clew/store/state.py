"""What the store keeps besides messages: values by name, records of engines, learnt windows, spilled outputs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import InvalidArgument
from clew.store import sessions
from clew.store.base import EngineRecord, LearntWindow, StoredOutput
from clew.store.database import (
    Operations,
    Row,
    Steps,
    as_datetime,
    checked_text,
    column_text,
    execute,
    execute_many,
    fetch_all,
    fetch_in_parts,
    fetch_one,
    is_storable,
    json_text,
    json_value,
    reads,
    writes,
)
from clew.store.rows import keep_text
from clew.store.search.index_updates import index_rows

_RECORD_IDS = "SELECT id FROM engine_records WHERE conversation = ? AND engine = ? AND name = ?"
_RECORDS = "SELECT name, value, until FROM engine_records WHERE conversation = ? AND engine = ?"
_WINDOWS = "SELECT model, base_url, tokens, at FROM windows"


@dataclass(frozen=True, slots=True)
class NewOutput:
    """A tool output to keep, because it was too large for the context."""

    session: str
    text: str
    tool: str | None = None
    path: str | None = None
    """The file it was spilled to, if any."""
    owner: str | None = None


class StateStore(Operations):
    """Values, records, windows and outputs in a database."""

    @reads
    def state(self, session: str, *, owner: str | None = None) -> Steps[dict[str, Any]]:
        """The values set for a session's conversation, by name. They survive continuations and restarts."""
        found = yield from sessions.find(session, owner)
        read = yield from fetch_all(
            "SELECT name, value FROM states WHERE conversation = ? ORDER BY name", found.conversation
        )
        return {row[0]: json_value(row[1], f"value {row[0]!r} of session {session!r}", session) for row in read}

    @writes
    def set_state(self, session: str, values: Mapping[str, Any], *, owner: str | None = None) -> Steps[None]:
        """Set values by name; None removes one."""
        found = yield from sessions.find(session, owner)
        for name, value in values.items():
            yield from _set_value(found.conversation, name, value, self._now())

    @writes
    def swap_state(self, session: str, name: str, before: Any, after: Any, *, owner: str | None = None) -> Steps[bool]:
        """Set a value where it is still `before`, as `state` gave it; False where another process was quicker."""
        found = yield from sessions.lock_tip(session, owner)
        row = yield from fetch_one(
            "SELECT value FROM states WHERE conversation = ? AND name = ?", found.conversation, name
        )
        if (None if row is None else row[0]) != (None if before is None else json_text(before)):
            return False
        yield from _set_value(found.conversation, name, after, self._now())
        return True

    @reads
    def seconds_since_state(self, name: str, *, owner: str | None = None) -> Steps[float | None]:
        """How long ago a value of this name was last set in a conversation of the owner, or in any without one.

        None where there is no such value.
        """
        row = yield from fetch_one(
            "SELECT MAX(s.at) FROM conversations c JOIN states s ON s.conversation = c.id"
            " WHERE s.name = ? AND (CAST(? AS TEXT) IS NULL OR c.owner = ?)",
            name,
            owner,
            owner,
        )
        return None if row is None or row[0] is None else (self._now() - int(row[0])) / 1_000_000

    @writes
    def put_engine_records(
        self, session: str, engine: str, records: Sequence[EngineRecord], *, owner: str | None = None
    ) -> Steps[None]:
        """Store records of an engine with a session's conversation; one of the same id is replaced."""
        yield from put_records(session, engine, records, self._now(), owner)

    @reads
    def engine_records(
        self,
        session: str,
        engine: str,
        ids: Sequence[str] | None = None,
        *,
        after: str | None = None,
        limit: int = 1_000,
        owner: str | None = None,
    ) -> Steps[list[EngineRecord]]:
        """Records of an engine: those of `ids` that there are, or all in the order of their first storing.

        All are read in pages: `limit` of them, behind the record `after`.
        """
        conversation = (yield from sessions.find(session, owner)).conversation
        if ids is not None:
            named = yield from fetch_in_parts(_RECORDS, "name", ids, conversation, engine)
            by_id = {row[0]: row for row in named}
            return [_record(by_id[id], session) for id in ids if id in by_id]
        start = 0
        if after is not None:
            row = yield from fetch_one(_RECORD_IDS, conversation, engine, after)
            if row is None:
                raise InvalidArgument(f"engine {engine!r} has no record {after!r} in session {session!r}")
            start = int(row[0])
        read = yield from fetch_all(_RECORDS + " AND id > ? ORDER BY id LIMIT ?", conversation, engine, start, limit)
        return [_record(row, session) for row in read]

    @writes
    def learn_window(self, model: str, base_url: str, tokens: int) -> Steps[None]:
        """Remember a window that a provider stated. Guesses are not stored."""
        if tokens <= 0:
            raise InvalidArgument(
                f"a window of {tokens} tokens for {model!r} cannot be", remedy="pass what the provider stated"
            )
        yield from execute(
            "INSERT INTO windows (model, base_url, tokens, at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (model, base_url) DO UPDATE SET tokens = excluded.tokens, at = excluded.at",
            model,
            base_url,
            tokens,
            self._now(),
        )

    @writes
    def forget_window(self, model: str, base_url: str) -> Steps[None]:
        yield from execute("DELETE FROM windows WHERE model = ? AND base_url = ?", model, base_url)

    @reads
    def learnt_window(self, model: str, base_url: str) -> Steps[LearntWindow | None]:
        row = yield from fetch_one(_WINDOWS + " WHERE model = ? AND base_url = ?", model, base_url)
        return None if row is None else _window(row)

    @reads
    def learnt_windows(self) -> Steps[list[LearntWindow]]:
        return [_window(row) for row in (yield from fetch_all(_WINDOWS + " ORDER BY model, base_url"))]

    @writes
    def keep_output(self, new: NewOutput) -> Steps[str]:
        """Store a spilled output, once per text and conversation; its id."""
        found = yield from sessions.find(new.session, new.owner)
        text = yield from keep_text(found.session.owner, new.text)
        next_seq = yield from sessions.next_seq(found)
        made = yield from fetch_one(
            "INSERT INTO outputs (name, conversation, session, text, seq, tool, path, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (conversation, text) DO NOTHING RETURNING name",
            "o_" + secrets.token_hex(10),
            found.conversation,
            found.id,
            text,
            next_seq,
            None if new.tool is None else column_text(new.tool),
            None if new.path is None else column_text(new.path),
            self._now(),
        )
        if made is not None and self._database.index.is_immediate:
            yield from index_rows(self._database.index, "output", "m.name = ?", made[0])
        if made is None:
            made = yield from fetch_one(
                "SELECT name FROM outputs WHERE conversation = ? AND text = ?", found.conversation, text
            )
        assert made is not None
        return str(made[0])

    @reads
    def output(self, output: str, *, owner: str | None = None) -> Steps[StoredOutput | None]:
        """An output by its id; None where there is none, or none of that owner."""
        if not is_storable(output):
            return None
        found = yield from fetch_one(
            "SELECT o.name, s.name, o.tool, o.path, t.body, o.at, t.owner FROM outputs o"
            " JOIN texts t ON t.id = o.text JOIN sessions s ON s.id = o.session WHERE o.name = ?",
            output,
        )
        if found is None or (owner is not None and found[6] != owner):
            return None
        text = json_value(found[4], f"output {output} of session {found[1]!r}", found[1])
        return StoredOutput(found[0], found[1], found[2], found[3], str(text), as_datetime(found[5]))


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
            f"record {record.id!r} of engine {engine!r} cannot be written as JSON ({error})",
            remedy="pass plain JSON values",
        ) from error


def _set_value(conversation: int, name: str, value: Any, now: int) -> Steps[None]:
    if value is None:
        yield from execute("DELETE FROM states WHERE conversation = ? AND name = ?", conversation, name)
        return
    yield from execute(
        "INSERT INTO states (conversation, name, value, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (conversation, name) DO UPDATE SET value = excluded.value, at = excluded.at",
        conversation,
        name,
        json_text(value),
        now,
    )


def _record(row: Row, session: str) -> EngineRecord:
    what = f"record {row[0]!r} of an engine in session {session!r}"
    return EngineRecord(row[0], json_value(row[1], what, session), int(row[2]))


def _window(row: Row) -> LearntWindow:
    return LearntWindow(row[0], row[1], int(row[2]), as_datetime(row[3]))
