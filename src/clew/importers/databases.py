"""Databases of other programs: SQLite files, opened for reading only, also while their program runs.

Knows how to open one and how its faults are told; what the tables hold is for each program's own module.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from clew.errors import UnreadableTranscript
from clew.importers.notices import Notices
from clew.importers.records import BadJson, Record, parsed

SIGN = b"SQLite format 3\x00"
_DEPTH = 200
_REMEDY = "Give the state.db of Hermes, the opencode.db of opencode, or a file that they exported"


class ForeignDatabase:
    """A database of another program."""

    __slots__ = ("_connection", "path")

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def rows(self, query: str, *values: Any) -> Iterator[Record]:
        """Rows one by one, by the names of their columns."""
        with translated(self.path), closing(self._connection.execute(query, values)) as found:
            for row in found:
                yield dict(row)

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table, with these columns at least."""
        there = {row["name"] for row in self.rows("SELECT name FROM pragma_table_info(?)", table)}
        return bool(there) and set(columns) <= there

    def unreadable(self, problem: str) -> UnreadableTranscript:
        return UnreadableTranscript(str(self.path), problem, _REMEDY)


@contextmanager
def open_database(path: Path) -> Iterator[ForeignDatabase]:
    """Open a database for reading; `UnreadableTranscript` where that cannot be done."""
    with translated(path):
        connection = _connected(path)
    with closing(connection):
        yield ForeignDatabase(path, connection)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UnreadableTranscript(str(path), f"cannot be read as a database: {error}", _REMEDY) from error


def json_in(text: Any, notices: Notices) -> Any:
    """The value of a column that holds JSON; None, with a notice, where it holds something else."""
    if not isinstance(text, str):
        return None
    try:
        return parsed(text.encode("utf-8", "replace"), _DEPTH, notices)
    except BadJson as bad:
        notices.add(f"a field that is no JSON was left out: {bad}")
        return None


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
