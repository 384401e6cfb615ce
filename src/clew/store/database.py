"""What the store asks of a database: to run the statements of an operation in one transaction, and to index words.

An operation is a generator that yields SQL statements and gets their rows back (`Steps`); the same operations run on
SQLite (`sqlite`) and PostgreSQL (`postgres`). How JSON, texts and times are written in columns is here too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from clew.errors import DamagedRow, DatabaseDamaged, InvalidArgument
from clew.store.search.base import Candidates, IndexQuery, SearchDocument

T = TypeVar("T")
P = ParamSpec("P")
Row: TypeAlias = tuple[Any, ...]
Clock: TypeAlias = Callable[[], float]
"""Seconds since 1970, as `time.time` gives them. Times are stored as whole microseconds since then, UTC."""

ROW_LOCK = " FOR_UPDATE"
NO_END = 2**62
"""A number above every number and id of a row."""
_VALUES_AT_ONCE = 500
wall_clock: Clock = time.time
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_scan_json = json.JSONDecoder().raw_decode
_JSON_BEGINS = ("{", "[", '"')
_plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=True)
_escaped = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=True)


class SqlStatement(NamedTuple):
    """SQL with `?` for parameters. With `many`, `params` holds one sequence per execution, and no rows come back.

    A statement that ends in `FOR_UPDATE` locks its rows. SQLite does not run it, since a writer has locked the whole
    database, and gives no rows.
    """

    sql: str
    params: Sequence[Any] = ()
    many: bool = False
    tolerant: bool = False
    """A damaged page ends the rows instead of raising an error."""


Steps: TypeAlias = Generator[SqlStatement, list[Row], T]
Turns: TypeAlias = Generator[Callable[[], Steps[Any]], Any, T]
"""Operations that run one after the other, each in a separate transaction; each gets the result of the one before."""


def fetch_one(sql: str, *params: Any) -> Steps[Row | None]:
    """The first row, or None."""
    rows = yield SqlStatement(sql, params)
    return rows[0] if rows else None


def fetch_number(sql: str, *params: Any) -> Steps[int]:
    """The number in the first column of the first row; 0 for NULL or no row."""
    rows = yield SqlStatement(sql, params)
    return int(rows[0][0] or 0) if rows else 0


def fetch_all(sql: str, *params: Any) -> Steps[list[Row]]:
    return (yield SqlStatement(sql, params))


def fetch_readable(sql: str, *params: Any) -> Steps[list[Row]]:
    """The rows up to the first that is on a damaged page. After one SQLite writes nothing more in that transaction."""
    return (yield SqlStatement(sql, params, tolerant=True))


def marks(values: Collection[Any]) -> str:
    """The placeholders of `IN (...)` for some values: a `?` for each, or NULL for none."""
    return ", ".join("?" * len(values)) or "NULL"


def fetch_in_parts(sql: str, column: str, values: Sequence[Any], *params: Any) -> Steps[list[Row]]:
    """The rows of a query, which ends in conditions, whose column is one of some values, however many there are."""
    found: list[Row] = []
    for start in range(0, len(values), _VALUES_AT_ONCE):
        some = values[start : start + _VALUES_AT_ONCE]
        found += yield from fetch_all(f"{sql} AND {column} IN ({marks(some)})", *params, *some)
    return found


def execute(sql: str, *params: Any) -> Steps[None]:
    yield SqlStatement(sql, params)


def execute_many(sql: str, params: Sequence[Sequence[Any]]) -> Steps[None]:
    if params:
        yield SqlStatement(sql, params, many=True)


def require_ascending(lower: int, higher: int, what: str) -> None:
    """Raise `DatabaseDamaged` unless ids ascend; following links of a damaged file might never end."""
    if lower >= higher:
        raise DatabaseDamaged("the store", f"{what} {higher} comes after {lower}")


class WordIndex(Protocol):
    """The full-text index of a database."""

    is_immediate: bool
    """Whether a row is indexed in the transaction that writes it."""

    def add(self, docs: Sequence[SearchDocument]) -> Steps[None]:
        """Index documents."""

    def remove(self, docs: Sequence[SearchDocument]) -> Steps[None]:
        """Take documents out; they must be given exactly as they were indexed."""

    def clear(self) -> Steps[None]:
        """Take everything out, even of a damaged index."""

    def look_up(self, query: IndexQuery) -> Steps[Candidates]:
        """The newest documents that match."""

    def known_words(self, words: Sequence[str]) -> Steps[set[str]]:
        """Those of some words that may be in a document; the others are in none."""

    def count(self) -> Steps[int]:
        """How many documents the index holds."""

    def holds(self, doc: int, word: str) -> Steps[bool]:
        """Whether a document is found by a word."""

    def problems(self) -> Steps[list[str]]:
        """What the index finds wrong with itself."""


@dataclass(frozen=True, slots=True)
class DatabaseProblem:
    """What a database finds wrong with itself."""

    what: str
    is_in_index: bool
    """Whether it concerns only the search index, which can be rebuilt from the rows."""


class Database(Protocol):
    """Runs operations, each in one transaction."""

    where: str
    index: WordIndex
    now_sql: str | None
    """A query for the time of the server, which all processes share; None where they share the machine's clock."""

    unwritable: str | None
    """Why the database is read-only, as a phrase; None where it can be written."""

    bytes_sql: str
    """SQL for the size in bytes of the column `m.body`, without reading it."""

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        """Run an operation that changes nothing, on one state of the database."""

    async def read_in_turns(self, turns: Turns[T]) -> T:
        """Run read-only operations one after the other, with no other operation of this store between them."""

    async def change_mark(self) -> str:
        """A text that changes whenever any process has written something."""

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        """Run an operation and return when it is durable. It may be called again after a collision with another."""

    def write_soon(self, operation: Callable[[], Steps[T]]) -> None:
        """Run an operation later, without waiting for it."""

    async def check(self) -> list[DatabaseProblem]:
        """What the database finds wrong with itself."""

    async def recreate_index(self) -> None:
        """Replace the tables of the search index by empty ones, even if their pages are damaged."""

    async def close(self) -> None: ...


class Operations:
    """A group of operations on a database: a method is written as steps, and `reads` or `writes` runs them."""

    def __init__(self, database: Database, clock: Clock = wall_clock) -> None:
        self._database = database
        self._clock = clock

    def _now(self) -> int:
        return int(self._clock() * 1_000_000)

    def _shared_now(self) -> Steps[int]:
        """The time by a clock that all processes on this database share."""
        if self._database.now_sql is None:
            return self._now()
        return (yield from fetch_number(self._database.now_sql))


Group = TypeVar("Group", bound=Operations)
Method: TypeAlias = Callable[Concatenate[Group, P], Coroutine[Any, Any, T]]


def reads(steps: Callable[Concatenate[Group, P], Steps[T]]) -> Method[Group, P, T]:
    """Run the steps of a method, which change nothing, in one transaction."""

    @wraps(steps)
    async def method(self: Group, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.read(lambda: steps(self, *args, **kwargs))

    return method


def writes(steps: Callable[Concatenate[Group, P], Steps[T]]) -> Method[Group, P, T]:
    """Run the steps of a method in one transaction, which is durable when the method returns."""

    @wraps(steps)
    async def method(self: Group, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._database.write(lambda: steps(self, *args, **kwargs))

    return method


def json_text(value: Any) -> str:
    """A value as JSON that a text column takes; raises what `json` raises where it is none."""
    text = _plain.encode(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form; as an escape it is read back unchanged.
        return _escaped.encode(value)
    return text


class DamagedText(str):
    """A text column whose bytes are not UTF-8; replacement characters represent the wrong bytes."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> DamagedText:
        text = cls(raw.decode(errors="replace"))
        text.raw = raw
        return text


def lenient_text(raw: bytes) -> str:
    """A text column as it is, or marked as damaged."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return DamagedText.of(raw)


@dataclass(frozen=True, slots=True)
class RowDamage:
    """What is wrong with a column that holds JSON, and its bytes."""

    problem: str
    raw: bytes


def read_json(column: Any) -> Any | RowDamage:
    """The value of a JSON column, or what is wrong with it."""
    if isinstance(column, DamagedText):
        return RowDamage("its bytes are not UTF-8", column.raw)
    if not isinstance(column, str):
        raw = bytes(column) if isinstance(column, bytes | memoryview) else repr(column).encode()
        return RowDamage(f"it holds {type(column).__name__} where a text should be", raw)
    try:
        # Our own JSON has no surrounding whitespace. `loads` looks for it, which takes longer than parsing a short row.
        value, end = _scan_json(column) if column[:1] in _JSON_BEGINS else (None, -1)
        return value if end == len(column) else json.loads(column)
    except (ValueError, RecursionError) as error:
        return RowDamage(f"its JSON is invalid ({error})", column.encode(errors="surrogatepass"))


def json_value(column: Any, what: str, session: str | None = None) -> Any:
    """The value of a JSON column; `DamagedRow` where it cannot be read. `what` names it in the error."""
    read = read_json(column)
    if isinstance(read, RowDamage):
        raise DamagedRow(what, read.problem, session=session)
    return read


def column_text(text: str) -> str:
    """A name for a text column; characters that it cannot hold are replaced by a mark."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\x00", "\ufffd")


def is_storable(text: str) -> bool:
    """Whether a text column can hold a text at all: no NUL, no half of a surrogate pair."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))


def checked_text(text: str, what: str) -> str:
    """A text for a text column; `InvalidArgument`, which names it as `what`, if the column cannot hold it."""
    if not isinstance(text, str):
        raise InvalidArgument(f"the {what} is {text!r:.80}, which is no text", remedy="pass a text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"the {what} holds half a character (lone surrogate)", remedy="clean it first") from error
    if "\x00" in text:
        raise InvalidArgument(f"the {what} holds a NUL character", remedy="remove it first")
    return text


def as_micros(at: datetime) -> int:
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def as_datetime(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
