"""SQLite databases of other programs, opened for reading only, also while their program runs."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from clew.errors import UnreadableTranscript
from clew.importers.json_records import BadJson, parse_json
from clew.importers.session import Notices, Record

SQLITE_MAGIC = b"SQLite format 3\x00"
_MAX_DEPTH = 200
_WORD = re.compile(r"\w+")
_REMEDY = "Give the state.db of Hermes, the opencode.db of opencode, or a file that they exported"


class ForeignDatabase:
    """A database of another program."""

    __slots__ = ("_connection", "_views", "path")

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._views: frozenset[str] = frozenset()
        """Names of views and virtual tables, which may have any number of rows."""
        named = "SELECT name FROM sqlite_master WHERE type = 'view' OR (type = 'table' AND rootpage = 0)"
        self._views = frozenset(str(row["name"]).casefold() for row in self.rows(named))

    def rows(self, query: str, *values: Any) -> Iterator[Record]:
        """Rows one by one, by the names of their columns."""
        if view := next((word for word in _WORD.findall(query.casefold()) if word in self._views), None):
            raise self.unreadable(f"its {view} is a view, not a table")
        with _translate_errors(self.path), closing(self._connection.execute(query, values)) as found:
            for row in found:
                yield dict(row)

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table, with these columns at least."""
        present = {row["name"] for row in self.rows("SELECT name FROM pragma_table_info(?)", table)}
        return bool(present) and set(columns) <= present

    def unreadable(self, problem: str) -> UnreadableTranscript:
        return UnreadableTranscript(str(self.path), problem, _REMEDY)


@contextmanager
def open_database(path: Path) -> Iterator[ForeignDatabase]:
    """Open a database for reading; `UnreadableTranscript` where that cannot be done."""
    with _translate_errors(path):
        connection = _connect(path)
    with closing(connection):
        yield ForeignDatabase(path, connection)


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UnreadableTranscript(str(path), f"cannot be read as a database: {error}", _REMEDY) from error


def json_column(text: Any, notices: Notices) -> Any:
    """The value of a column that holds JSON; None, with a notice, where it holds something else."""
    if not isinstance(text, str):
        return None
    try:
        return parse_json(text.encode("utf-8", "replace"), _MAX_DEPTH, notices)
    except BadJson as bad:
        notices.add(f"a field that is no JSON was left out: {bad}")
        return None


def _connect(path: Path) -> sqlite3.Connection:
    address = path.resolve().as_uri()
    try:
        return _try_connect(f"{address}?mode=ro")
    except sqlite3.OperationalError:
        # In a folder where nothing may be written, a write-ahead log cannot be shared; then there is no writer either.
        return _try_connect(f"{address}?mode=ro&immutable=1")


def _try_connect(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
