"""SQLite: private files, two connections in threads of their own, and what its errors mean.

One thread writes and one reads, so that a long search does not hold up an append. An operation is handed to its thread
once, not once per statement. Writes that wait at the same time are committed together: flushing to disk takes longer
than they do.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from clew.errors import (
    ClewError,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    IndexDamaged,
    ReadOnlyStore,
    SchemaTooNew,
    StoreError,
)
from clew.store.database import ROW_LOCK, DatabaseProblem, Row, Steps, Turns, WordIndex, lenient_text
from clew.store.migrate import apply_next, refuse_newer, schema_version
from clew.store.search.index import INDEX_TABLES, Fts5Index

T = TypeVar("T")
Flush = Literal["full", "normal"]
OnStatement = Callable[[str], None]
MEMORY = ":memory:"
_OLDEST = (3, 35, 0)
_RETRY_SECONDS = 0.02
_MOST_PROBLEMS = 20
_MOST_TOGETHER = 64
"""Writes in one transaction."""
_NOT_UTF8 = "Could not decode to UTF-8"


class SqliteDatabase:
    """A database in one file, with a thread that writes and one that reads. Made by `open_sqlite`."""

    def __init__(
        self, where: str, writer: ConnectionThread, reader: ConnectionThread, unwritable: str | None = None
    ) -> None:
        self.where = where
        self.unwritable = unwritable
        self.index: WordIndex = Fts5Index()
        self.now_sql: str | None = None
        self.bytes_sql = "length(CAST(m.body AS BLOB))"
        self._writer = writer
        self._reader = reader

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._reader.submit(lambda connection: connection.transact("BEGIN", operation))

    async def read_in_turns(self, turns: Turns[T]) -> T:
        return await self._reader.submit(lambda connection: connection.run_turns(turns))

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        if self.unwritable is not None:
            raise ReadOnlyStore(f"{self.unwritable}, so that nothing can be stored in it", remedy="reading it goes on")
        return await self._writer.submit(Write(operation))

    def write_soon(self, operation: Callable[[], Steps[T]]) -> None:
        if self.unwritable is None:
            self._writer.submit_unwatched(lambda connection: connection.transact("BEGIN IMMEDIATE", operation))

    async def change_mark(self) -> str:
        return await self._reader.submit(lambda connection: connection.change_mark())

    async def check(self) -> list[DatabaseProblem]:
        return await self._reader.submit(lambda connection: connection.problems())

    async def recreate_index(self) -> None:
        await self._writer.submit(lambda connection: connection.recreate_index())

    async def close(self) -> None:
        # One after the other: the last connection to close merges the write-ahead log into the file, in its thread.
        try:
            await self._writer.stop()
        finally:
            await self._reader.stop()


class SqliteConnection:
    """A connection, used by the thread that made it."""

    def __init__(
        self,
        where: str,
        busy_seconds: float,
        flush: Flush | None,
        on_statement: OnStatement | None,
        uri: str = "",
    ) -> None:
        """`flush` None: the file is only read, by the address `uri`."""
        self._where = where
        self._busy_seconds = busy_seconds
        self._on_statement = on_statement
        self._met_damage = False
        # Statements recur, and compiling one costs more than running it.
        self._raw = sqlite3.connect(
            uri or where, timeout=busy_seconds, isolation_level=None, cached_statements=512, uri=bool(uri)
        )
        try:
            if flush is None:
                self.fetch("PRAGMA temp_store=MEMORY")
                self.fetch("SELECT count(*) FROM sqlite_master")
            else:
                self._configure(flush)
        except BaseException as error:
            self._raw.close()
            if isinstance(error, sqlite3.Error | UnicodeDecodeError):
                raise as_store_error(error, where, busy_seconds) from error
            raise

    def transact(self, begin: str, operation: Callable[[], Steps[T]]) -> T:
        """Run an operation in one transaction."""
        try:
            return self._run(begin, operation)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise as_store_error(error, self._where, self._busy_seconds) from error
        except (TypeError, ValueError, LookupError, AttributeError, AssertionError) as error:
            # A damaged page gives columns of other types, or rows without those that they refer to.
            if not isinstance(error, ClewError) and (problems := self.damage(1)):
                raise DatabaseDamaged(self._where, problems[0]) from error
            raise

    def transact_together(self, operations: Sequence[Callable[[], Steps[Any]]]) -> list[Any]:
        """Run operations in one transaction; raises what any of them raises, and then none is done."""
        results = self.transact("BEGIN IMMEDIATE", lambda: _one_by_one(operations))
        if self._met_damage:
            raise DatabaseDamaged(self._where, "nothing was committed")
        return results

    def run_turns(self, turns: Turns[T]) -> T:
        """Run operations one after the other; an error of one is raised inside `turns`, which may clean up."""
        step: Callable[[], Callable[[], Steps[Any]]] = partial(turns.send, None)
        try:
            while True:
                operation = step()
                try:
                    result = self.transact("BEGIN", operation)
                except StoreError as error:
                    step = partial(turns.throw, error)
                else:
                    step = partial(turns.send, result)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def _run(self, begin: str, operation: Callable[[], Steps[T]]) -> T:
        self.fetch(begin)
        try:
            self._met_damage = False
            result = self._run_steps(operation())
            # After a tolerated error of a damaged page SQLite commits nothing; there is nothing to commit.
            self.fetch("ROLLBACK" if self._met_damage else "COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return result

    def fetch(self, sql: str, params: Any = ()) -> list[Row]:
        if self._on_statement is not None:
            self._on_statement(sql)
        return self._raw.execute(sql, params).fetchall()

    def damage(self, most: int, *, thorough: bool = False) -> list[str]:
        """What SQLite finds wrong with the file; `thorough` compares indexes with their tables too."""
        check = f"PRAGMA {'integrity' if thorough else 'quick'}_check"
        try:
            try:
                found = self.fetch(f"{check}({most})")
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                # What it found is lost where it cannot read on. It can be made to end at the first finding.
                found = self.fetch(f"{check}(1)")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            store_error = as_store_error(error, self._where, self._busy_seconds)
            if isinstance(store_error, DatabaseDamaged):
                return [store_error.problem]
            raise store_error from error
        lines = [line for row in found for line in str(row[0]).splitlines()]
        return [line for line in lines if line != "ok" and not line.startswith("***")]

    def problems(self) -> list[DatabaseProblem]:
        """What SQLite finds wrong, each with whether it is in the search index alone."""
        found = self.damage(_MOST_PROBLEMS, thorough=True)
        if not found:
            return []
        in_index = self._are_rows_sound()
        return [DatabaseProblem(line, in_index) for line in found]

    def _are_rows_sound(self) -> bool:
        """Whether SQLite finds nothing wrong with the tables that the search index is made from."""
        try:
            names = self.fetch("SELECT name, tbl_name FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL")
            rows = [name for name, table in names if not _is_of_index(name, table)]
            return bool(rows) and all(self.fetch(f'PRAGMA integrity_check("{name}")') == [("ok",)] for name in rows)
        except (sqlite3.Error, UnicodeDecodeError):
            return False

    def recreate_index(self) -> None:
        """Take the tables of the index out of the schema, drop their pages by copying the rest, and create them anew.

        A damaged table cannot be dropped: dropping it reads its pages. SQL indexes are made anew for the same reason.
        """
        try:
            tables = self.fetch("SELECT type, name, tbl_name, sql FROM sqlite_master")
            index = [row for row in tables if _is_of_index(row[1], row[2]) or (row[0] == "index" and row[3])]
            self.fetch("PRAGMA foreign_keys=OFF")
            self.fetch("PRAGMA writable_schema=ON")
            self.fetch("BEGIN IMMEDIATE")
            for _, name, _, _ in index:
                self.fetch("DELETE FROM sqlite_master WHERE name = ?", (name,))
            self.fetch("COMMIT")
            self.fetch("PRAGMA writable_schema=RESET")
            self.fetch("VACUUM")
            self.fetch("BEGIN IMMEDIATE")
            # Tables before their indexes; those behind the full-text table are made with it.
            for kind, name, _, sql in sorted(index, key=lambda row: str(row[0]), reverse=True):
                if sql and not (kind == "table" and name.startswith("words_")):
                    self.fetch(sql)
            self.fetch("COMMIT")
            self.fetch("PRAGMA foreign_keys=ON")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._roll_back()
            raise as_store_error(error, self._where, self._busy_seconds) from error

    def change_mark(self) -> str:
        """Changed by every commit: `data_version` by those of other connections, the count by those of this one."""
        return f"{self.fetch('PRAGMA data_version')[0][0]}:{self._raw.total_changes}"

    def close(self) -> None:
        self._raw.close()

    def _run_steps(self, steps: Steps[T]) -> T:
        rows: list[Row] = []
        send, raw, watch = steps.send, self._raw, self._on_statement
        try:
            statement = next(steps)
            while True:
                sql = statement.sql
                if watch is not None:
                    watch(sql)
                if statement.many:
                    raw.executemany(sql, statement.params)
                    rows = []
                elif sql.endswith(ROW_LOCK):
                    # A writer has locked the whole file already.
                    rows = []
                elif statement.tolerant:
                    rows = self._readable_rows(sql, statement.params)
                else:
                    rows = self._rows_of(sql, statement.params)
                statement = send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            steps.close()

    def _readable_rows(self, sql: str, params: Any) -> list[Row]:
        rows: list[Row] = []
        self._raw.text_factory = lenient_text
        try:
            rows.extend(self._raw.execute(sql, params))
        except sqlite3.DatabaseError as error:
            if (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            self._met_damage = True
        finally:
            self._raw.text_factory = str
        return rows

    def _rows_of(self, sql: str, params: Any) -> list[Row]:
        try:
            return self._raw.execute(sql, params).fetchall()
        except sqlite3.OperationalError as error:
            if _NOT_UTF8 not in str(error):
                raise
        # One damaged text would hide every other row. Reading texts this way is slower, so only here.
        self._raw.text_factory = lenient_text
        try:
            return self._raw.execute(sql, params).fetchall()
        finally:
            self._raw.text_factory = str

    def _roll_back(self) -> None:
        # A full disk or an I/O error has often rolled back already.
        if self._raw.in_transaction:
            self._raw.execute("ROLLBACK")

    def _configure(self, flush: Flush) -> None:
        # Switching a new file to WAL fails with "busy" at once, without waiting, while another process does so too.
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                self.fetch("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
        for setting in (f"synchronous={flush.upper()}", "foreign_keys=ON", "secure_delete=ON", "temp_store=MEMORY"):
            self.fetch(f"PRAGMA {setting}")


def _one_by_one(operations: Sequence[Callable[[], Steps[Any]]]) -> Steps[list[Any]]:
    results = []
    for operation in operations:
        results.append((yield from operation()))
    return results


@dataclass(frozen=True, slots=True)
class Write(Generic[T]):
    """An operation that writes, in a separate transaction or with others."""

    operation: Callable[[], Steps[T]]

    def __call__(self, connection: SqliteConnection) -> T:
        return connection.transact("BEGIN IMMEDIATE", self.operation)


Job: TypeAlias = Callable[[SqliteConnection], T]
_Waiting: TypeAlias = tuple[Job[Any], "asyncio.Future[Any] | None"]


class ConnectionThread:
    """A thread that owns a connection and runs jobs on it in order."""

    def __init__(self, connect: Callable[[], SqliteConnection]) -> None:
        self._jobs: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._next: deque[_Waiting | None] = deque()
        """Jobs that were taken out of the queue and have not started."""
        self._connect = connect
        self._thread = threading.Thread(target=self._run, name="clew-store", daemon=True)
        self._stopped = False

    async def start(self) -> None:
        """Start the thread and connect; an error in connecting is raised here."""
        opened = asyncio.get_running_loop().create_future()
        self._jobs.put((lambda _: None, opened))
        self._thread.start()
        await opened

    async def submit(self, job: Job[T]) -> T:
        """Run a job and give its result; the job is finished even when the caller is cancelled."""
        if self._stopped:
            raise StoreError("the store is closed", remedy="open it again with open_store()")
        future = asyncio.get_running_loop().create_future()
        self._jobs.put((job, future))
        return await future  # type: ignore[no-any-return]

    def submit_unwatched(self, job: Job[Any]) -> None:
        """Run a job without waiting for it; an error in it is dropped."""
        if not self._stopped:
            self._jobs.put((job, None))

    async def stop(self) -> None:
        """Finish the jobs that wait, close the connection and end the thread; nothing where it is not running."""
        if not self._stopped:
            self._stopped = True
            self._jobs.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        connection: SqliteConnection | None = None
        while taken := self._take():
            try:
                connection = connection or self._connect()
            except BaseException as error:
                for _, future in taken:
                    _resolve(future, None, error)
            else:
                self._run_jobs(connection, taken)
            # Dropped while waiting for the next: a result can be a whole history.
            taken.clear()
        if connection is not None:
            connection.close()

    def _take(self) -> list[_Waiting]:
        """The next job, or the writes that wait; nothing at the end."""
        first = self._next.popleft() if self._next else self._jobs.get()
        taken = [] if first is None else [first]
        while taken and isinstance(taken[-1][0], Write) and len(taken) < _MOST_TOGETHER and not self._next:
            try:
                following = self._jobs.get_nowait()
            except Empty:
                break
            if following is not None and isinstance(following[0], Write):
                taken.append(following)
            else:
                self._next.append(following)
        return taken

    def _run_jobs(self, connection: SqliteConnection, taken: Sequence[_Waiting]) -> None:
        if len(taken) > 1:
            try:
                results = connection.transact_together([job.operation for job, _ in taken if isinstance(job, Write)])
            except DatabaseBusy as error:
                for _, future in taken:
                    _resolve(future, None, error)
                return
            except BaseException:  # noqa: S110
                # One of them failed, and none is done: below each is run alone, so that it fails alone.
                pass
            else:
                for (_, future), result in zip(taken, results, strict=True):
                    _resolve(future, result, None)
                return
        for job, future in taken:
            try:
                result = job(connection)
            except BaseException as error:
                # An unwatched job was rolled back, and the next watched one will meet the same error.
                _resolve(future, None, error)
            else:
                _resolve(future, result, None)


async def open_sqlite(
    where: str,
    *,
    busy_seconds: float = 30.0,
    flush: Flush = "full",
    on_statement: OnStatement | None = None,
) -> SqliteDatabase:
    """Open or create a database file, and apply the migrations that it lacks."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old", remedy=f"Clew needs {'.'.join(map(str, _OLDEST))} or newer"
        )
    if where != MEMORY:
        if (unwritable := why_unwritable(where)) is not None:
            return await _open_to_read(where, unwritable, busy_seconds)
        where = create_private_file(where)
    writer = ConnectionThread(lambda: SqliteConnection(where, busy_seconds, flush, on_statement))
    reader = writer if where == MEMORY else ConnectionThread(lambda: SqliteConnection(where, busy_seconds, flush, None))
    database = SqliteDatabase(where, writer, reader)
    try:
        await writer.start()
        while await writer.submit(lambda it: it.transact("BEGIN IMMEDIATE", lambda: apply_next("sqlite", where))):
            pass
        if reader is not writer:
            await reader.start()
    except BaseException:
        await database.close()
        raise
    return database


def why_unwritable(where: str) -> str | None:
    """Why an existing, readable database file cannot be written; None where it can be, or does not exist."""
    path = Path(where).expanduser()
    try:
        with path.open("rb"):
            pass
    except OSError:
        return None
    try:
        os.close(os.open(path, os.O_RDWR))
        # The log is made beside the file.
        if not os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return f"the folder of {path} cannot be written to"
    except OSError as error:
        return f"{path} cannot be written ({error.strerror})"
    return None


def _address_to_read(where: str) -> tuple[str, bool]:
    """How SQLite opens a file that it cannot write, and whether there is a log beside it.

    Beside a log it needs a third file, which it may not be able to make; without one the file is the whole database.
    """
    path = Path(where).expanduser().absolute()
    log = path.with_name(path.name + "-wal")
    has_log = log.exists() and log.stat().st_size > 0
    return f"{path.as_uri()}?mode=ro{'' if has_log else '&immutable=1'}", has_log


async def _open_to_read(where: str, unwritable: str, busy_seconds: float) -> SqliteDatabase:
    """Open a file that cannot be written: what is in it can be listed, read and searched."""
    uri, has_log = _address_to_read(where)
    reader = ConnectionThread(lambda: SqliteConnection(where, busy_seconds, None, None, uri))
    database = SqliteDatabase(where, reader, reader, unwritable)
    try:
        await reader.start()
        refuse_newer(await database.read(schema_version), "sqlite", where)
    except StoreError as error:
        await database.close()
        if not has_log or isinstance(error, SchemaTooNew):
            raise
        raise StoreError(
            f"{unwritable}, and what was written last is in its log (-wal), which cannot be read so ({error})",
            remedy="copy both files to a folder of your own",
        ) from error
    except BaseException:
        await database.close()
        raise
    return database


def create_private_file(where: str) -> str:
    """Create a file that only its owner can read, or make an existing one so; its path."""
    path = Path(where).expanduser()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # SQLite gives -wal and -shm the mode of the file itself.
            if os.name == "posix" and os.fstat(descriptor).st_mode & 0o777 != 0o600:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be opened as a database ({error.strerror})", remedy="choose another place"
        ) from error
    return str(path)


def as_store_error(error: BaseException, where: str, busy_seconds: float) -> StoreError:
    """A driver's exception as an error that says what to do."""
    if isinstance(error, sqlite3.OperationalError) and _is_busy(error):
        return DatabaseBusy(
            f"{where} was locked by another process for {busy_seconds:g} s",
            remedy="nothing was written: try again, or end it",
        )
    if isinstance(error, UnicodeDecodeError):
        # Not of a row, which is read leniently: a message of SQLite that quotes what is in the schema now.
        return DatabaseDamaged(where, "its schema cannot be read")
    code = getattr(error, "sqlite_errorcode", 0) or 0
    if code & 0xFF == sqlite3.SQLITE_FULL:
        return DatabaseFull(
            f"{where}: no room on the disk",
            # SQLite reports the same for a file whose free list is damaged.
            remedy="nothing was written: free some space and try again; if there is room, run `clew doctor`",
        )
    if code & 0xFF == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"{where}: the disk failed ({error})", remedy="nothing was written: check the disk, then try again"
        )
    if code == sqlite3.SQLITE_CORRUPT_VTAB or (code & 0xFF == sqlite3.SQLITE_CORRUPT and "fts5" in str(error)):
        return IndexDamaged(
            f"{where}: the full-text index is damaged", remedy="`clew doctor` rebuilds it from the rows"
        )
    if code & 0xFF == sqlite3.SQLITE_CORRUPT:
        return DatabaseDamaged(where, str(error))
    if code & 0xFF == sqlite3.SQLITE_NOTADB:
        return StoreError(f"{where}: not a sound database ({error})", remedy="put a copy back, or move it away")
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        return ReadOnlyStore(f"{where}: cannot be written ({error})", remedy="check who owns the file and its folder")
    return StoreError(f"{where}: {error}")


def _is_of_index(name: str, table: str) -> bool:
    """Whether a table or an SQL index belongs to the search index, which is made from the rows."""
    return any(one in INDEX_TABLES or one.startswith(("words_", "docs_by_", "vectors_by_")) for one in (name, table))


def _is_busy(error: sqlite3.OperationalError) -> bool:
    # Errors of the Python module itself have no code.
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _resolve(future: asyncio.Future[Any] | None, result: Any, error: BaseException | None) -> None:
    if future is None:
        return
    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(_set, future, result, error)


def _set(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
