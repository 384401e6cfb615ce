"""The database of opencode (`opencode.db`): its sessions, whose messages and parts are rows of JSON.

What a row holds is what an export holds, and is read by `opencode`.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.importers.databases import ForeignDatabase, json_in
from clew.importers.entries import Entry, Margin
from clew.importers.notices import Notices
from clew.importers.opencode import session_entries
from clew.importers.records import Record

_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"


class OpencodeDatabase:
    """A database of opencode."""

    __slots__ = ("_database",)

    def __init__(self, database: ForeignDatabase) -> None:
        self._database = database

    @staticmethod
    def recognises(database: ForeignDatabase) -> bool:
        columns = ("id", "data", "time_created")
        return database.has("session", "id", "time_created") and all(
            database.has(*table, *columns) for table in (("message", "session_id"), ("part", "message_id"))
        )

    def sessions(self) -> list[Record]:
        """The rows of its sessions, oldest first: a parent stands before what came out of it."""
        return list(self._database.rows("SELECT * FROM session ORDER BY time_created, id"))

    def entries(self, session: Record, margin: Margin) -> Iterator[Entry]:
        """The messages of one session."""
        info = {
            **session,
            "parentID": session.get("parent_id"),
            "revert": json_in(session.get("revert"), margin.notices),
        }
        yield from session_entries(info, self._messages(session["id"], margin.notices), margin)

    def _messages(self, session: str, notices: Notices) -> Iterator[Record]:
        for row in self._database.rows(_MESSAGES, session):
            parts = [_value(part, notices) for part in self._database.rows(_PARTS, row["id"])]
            yield {"info": _value(row, notices), "parts": parts}


def _value(row: Record, notices: Notices) -> Record:
    value = json_in(row["data"], notices)
    return {**(value if isinstance(value, dict) else {}), "id": row["id"]}
