"""The database of Hermes Agent (`state.db`): its sessions, each read row by row.

A session that was compacted in place keeps its old rows, marked, and holds copies of those that stayed in view; the
copies are left out, so that every message comes once, in the order in which it was said. Rows that the user took back
are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from clew.importers.databases import ForeignDatabase, json_in
from clew.importers.entries import Entry, Margin, Total
from clew.importers.hermes import at_of, note_margin, tidied
from clew.importers.records import Record
from clew.messages import calls_of

_STRUCTURED = "\x00json:"
"""Before content that is no plain text, Hermes writes this; no text begins so."""
_JSON_COLUMNS = ("tool_calls", "reasoning_details", "codex_reasoning_items")
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class HermesDatabase:
    """A database of Hermes."""

    __slots__ = ("_database",)

    def __init__(self, database: ForeignDatabase) -> None:
        self._database = database

    @staticmethod
    def recognises(database: ForeignDatabase) -> bool:
        return database.has("sessions", "id", "started_at") and database.has(
            "messages", "session_id", "role", "content"
        )

    def sessions(self) -> list[Record]:
        """The rows of its sessions, oldest first: a parent stands before what came out of it."""
        return list(self._database.rows("SELECT * FROM sessions ORDER BY started_at, rowid"))

    def entries(self, session: Record, margin: Margin) -> Iterator[Entry]:
        """The messages of one session."""
        note_margin(session, margin)
        margin.descent = "branch" if self._continues(session) else "subagent"
        margin.totals[:] = self._totals(session)
        rows = self._database.rows("SELECT * FROM messages WHERE session_id = ? ORDER BY id", session["id"])
        yield from self._spoken(rows, margin)

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
        found = self._database.rows(
            "SELECT 1 AS found FROM sessions WHERE id = ? AND end_reason = 'compression' AND ended_at <= ?",
            session.get("parent_session_id"),
            session.get("started_at"),
        )
        return any(found)

    def _totals(self, session: Record) -> Iterator[Total]:
        for row in self._usage_rows(session):
            usage = {name: row.get(name) for name in _COUNTS}
            if any(usage.values()):
                at = row.get("last_seen") or session.get("ended_at") or session.get("started_at")
                model = row.get("model") or session.get("model")
                yield Total(model if isinstance(model, str) else "", usage, None if at is None else str(at))

    def _usage_rows(self, session: Record) -> list[Record]:
        """Per model, where this version of Hermes counts so."""
        if not self._database.has("session_model_usage", "session_id", "model"):
            return [session]
        rows = self._database.rows("SELECT * FROM session_model_usage WHERE session_id = ?", session["id"])
        return list(rows) or [session]


def _with_values(row: Record, margin: Margin) -> Record:
    """The row with its texts of JSON as values."""
    content = row.get("content")
    if isinstance(content, str) and content.startswith(_STRUCTURED):
        row["content"] = json_in(content[len(_STRUCTURED) :], margin.notices)
    for name in _JSON_COLUMNS:
        row[name] = json_in(row.get(name), margin.notices)
    return row


def _mark(row: Record, calls: list[str]) -> bytes:
    """What a row and its copy behind a compaction have in common.

    The copy keeps the time. Its text may have been shortened where calls or results are concerned; their ids stay.
    """
    answered = row.get("tool_call_id")
    told = [answered, *calls] if answered or calls else row.get("content")
    text = json.dumps([row.get("timestamp"), row.get("role"), told], default=str)
    return blake2b(text.encode(), digest_size=12).digest()
