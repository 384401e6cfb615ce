"""The database of Hermes Agent (`state.db`): its sessions, each read row by row.

A session that was compacted in place keeps its old rows, marked, and holds copies of those that stayed in view; the
copies are left out, so that every message comes once, in the order in which it was said. Rows that the user took back
are left out. The file is opened for reading only, also while Hermes runs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from clew.errors import UnreadableTranscript
from clew.importers.entries import Entry, Margin, Total
from clew.importers.hermes import at_of, note_margin, tidied
from clew.importers.records import BadJson, Record, parsed
from clew.messages import calls_of

SIGN = b"SQLite format 3\x00"
_DEPTH = 200
_STRUCTURED = "\x00json:"
"""Before content that is no plain text, Hermes writes this; no text begins so."""
_JSON_COLUMNS = ("tool_calls", "reasoning_details", "codex_reasoning_items")
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_REMEDY = "Give the state.db of Hermes, or a file that it exported"


class HermesDatabase:
    """A database of Hermes that was opened and recognised."""

    __slots__ = ("_connection", "_path")

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    def sessions(self) -> list[Record]:
        """The rows of its sessions, oldest first: a parent stands before what came out of it."""
        with _translated(self._path):
            return [dict(row) for row in self._connection.execute("SELECT * FROM sessions ORDER BY started_at, rowid")]

    def entries(self, session: Record, margin: Margin) -> Iterator[Entry]:
        """The messages of one session."""
        with _translated(self._path):
            note_margin(session, margin)
            margin.descent = "branch" if self._continues(session) else "subagent"
            margin.totals[:] = self._totals(session)
            rows = self._connection.execute("SELECT * FROM messages WHERE session_id = ? ORDER BY id", [session["id"]])
            with closing(rows):
                yield from self._spoken(map(dict, rows), margin)

    def _spoken(self, rows: Iterator[Record], margin: Margin) -> Iterator[Entry]:
        archived: set[bytes] = set()
        for number, row in enumerate(rows, 1):
            message = tidied(_with_values(row, margin))
            if message is None:
                continue
            mark = _mark(row, [str(call.get("id")) for call in calls_of(message) if isinstance(call, Mapping)])
            if mark in archived:
                continue
            if row.get("compacted"):
                if not archived:
                    margin.notices.add("the program compacted here; the messages before it are kept, its summary too")
                archived.add(mark)
            items = row.get("codex_reasoning_items")
            if isinstance(items, list) and message["role"] == "assistant":
                message["reasoning"] = [item for item in items if isinstance(item, dict)]
            yield Entry(message, number, at_of(row))

    def _continues(self, session: Record) -> bool:
        """Whether its parent had ended in a compaction; a subagent's parent lives on."""
        found = self._connection.execute(
            "SELECT 1 FROM sessions WHERE id = ? AND end_reason = 'compression' AND ended_at <= ?",
            [session.get("parent_session_id"), session.get("started_at")],
        )
        return found.fetchone() is not None

    def _totals(self, session: Record) -> Iterator[Total]:
        for row in self._usage_rows(session):
            usage = {name: row.get(name) for name in _COUNTS}
            if any(usage.values()):
                at = row.get("last_seen") or session.get("ended_at") or session.get("started_at")
                model = row.get("model") or session.get("model")
                yield Total(model if isinstance(model, str) else "", usage, None if at is None else str(at))

    def _usage_rows(self, session: Record) -> list[Record]:
        """Per model, where this version of Hermes counts so."""
        if "session_model_usage" not in _tables(self._connection):
            return [session]
        rows = self._connection.execute("SELECT * FROM session_model_usage WHERE session_id = ?", [session["id"]])
        return [dict(row) for row in rows] or [session]


@contextmanager
def open_hermes_database(path: Path) -> Iterator[HermesDatabase]:
    """Open a database for reading; `UnreadableTranscript` where it is not one of Hermes."""
    with _translated(path), closing(_connected(path)) as connection:
        columns = {row["name"] for row in connection.execute("PRAGMA table_info(messages)")}
        if not {"sessions", "messages"} <= _tables(connection) or not {"session_id", "role", "content"} <= columns:
            raise UnreadableTranscript(str(path), "is a database, but not one of Hermes", _REMEDY)
        yield HermesDatabase(path, connection)


def _connected(path: Path) -> sqlite3.Connection:
    address = path.resolve().as_uri()
    try:
        return _tried(f"{address}?mode=ro")
    except sqlite3.OperationalError:
        # In a folder where nothing may be written, a write-ahead log cannot be shared; then nobody writes there either.
        return _tried(f"{address}?mode=ro&immutable=1")


def _tried(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UnreadableTranscript(str(path), f"cannot be read as a database: {error}", _REMEDY) from error


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {row["name"] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _with_values(row: Record, margin: Margin) -> Record:
    """The row with its texts of JSON as values."""
    content = row.get("content")
    if isinstance(content, str) and content.startswith(_STRUCTURED):
        row["content"] = _value(content[len(_STRUCTURED) :], margin)
    for name in _JSON_COLUMNS:
        if isinstance(row.get(name), str):
            row[name] = _value(row[name], margin)
    return row


def _value(text: str, margin: Margin) -> Any:
    try:
        return parsed(text.encode("utf-8", "replace"), _DEPTH, margin.notices)
    except BadJson as bad:
        margin.notices.add(f"a field that is no JSON was left out: {bad}")
        return None


def _mark(row: Record, calls: list[str]) -> bytes:
    """What a row and its copy behind a compaction have in common.

    The copy keeps the time. Its text may have been shortened where calls or results are concerned; their ids stay.
    """
    answered = row.get("tool_call_id")
    told = [answered, *calls] if answered or calls else row.get("content")
    text = json.dumps([row.get("timestamp"), row.get("role"), told], default=str)
    return blake2b(text.encode(), digest_size=12).digest()
