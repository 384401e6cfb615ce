"""PostgreSQL: psycopg 3 with its pool, one transaction per operation, and what its errors mean.

Imported only when a URL names a server: the driver is an optional dependency.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from clew.errors import DatabaseBusy, DatabaseFull, ReadOnlyStore, StoreError
from clew.install import install_command
from clew.store.database import (
    ROW_LOCK,
    DatabaseProblem,
    Row,
    Steps,
    Turns,
    WordIndex,
    execute,
    fetch_one,
    lenient_text,
)
from clew.store.migrate import apply_next, refuse_newer, schema_version
from clew.store.search.index import TsvectorIndex

try:
    import psycopg
    from psycopg import errors
    from psycopg.abc import Buffer
    from psycopg.adapt import Loader
    from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
except ImportError as missing:
    raise StoreError(
        "PostgreSQL needs its driver", remedy=f"install it with: {install_command('postgres')}"
    ) from missing

T = TypeVar("T")

_MIGRATION_LOCK = 0x636C6577
_ATTEMPTS = 5
_MOST_CONNECTIONS = 10
_CONNECT_SECONDS = 5
_AWAY_SECONDS = 1.0
_STOPPED = ("57P01", "57P02", "57P03")
"""A server that stops or starts."""
# Two writers collided; the operation runs again and sees what the other wrote.
_COLLISIONS = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.UniqueViolation,
    errors.ForeignKeyViolation,  # a text that another writer has deleted meanwhile
)


class _LenientTextLoader(Loader):
    """Texts of a server whose files were damaged."""

    def load(self, data: Buffer) -> str:
        return lenient_text(bytes(data))


class _ConnectionLost(Exception):  # noqa: N818 (reads as what it says)
    """The connection broke before anything was committed on it: the operation can run again."""


class PostgresDatabase:
    """One database on a server. Made by `open_postgres`.

    While a server is away, each call fails at once; it is found again when it is back.
    """

    def __init__(self, url: str, busy_seconds: float, on_statement: Callable[[str], None] | None) -> None:
        self.where = without_password(url)
        self._url = url
        self.index: WordIndex = TsvectorIndex()
        # Leases go by the server's clock, since those of the machines differ.
        self.now_sql: str | None = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
        self.bytes_sql = "octet_length(m.body)"
        self._pool: AsyncConnectionPool[Any] | None = None
        """None where the server was found to be away, and before it is connected to."""
        self._connecting = asyncio.Lock()
        self._away_until = 0.0
        """By the monotonic clock: until then the server is not asked again."""
        self._away = ""
        """Why it could not be reached."""
        self._is_closed = False
        self._busy_seconds = busy_seconds
        self._on_statement = on_statement
        self.unwritable: str | None = None

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._transact("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", operation)

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._transact("BEGIN", operation)

    def write_soon(self, operation: Callable[[], Steps[T]]) -> None:
        """Not needed here: rows are indexed in the transaction that writes them."""
        del operation

    async def change_mark(self) -> str:
        """The transactions that are seen: readers have no number, so that it changes with writers only."""
        row = await self.read(lambda: fetch_one("SELECT CAST(pg_current_snapshot() AS TEXT)"))
        assert row is not None
        return str(row[0])

    async def check(self) -> list[DatabaseProblem]:
        """Nothing: the server checks its own files."""
        return []

    async def read_in_turns(self, turns: Turns[T]) -> T:
        result = None
        try:
            while True:
                result = await self.read(turns.send(result))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    async def recreate_index(self) -> None:
        await self.write(self.index.clear)

    async def close(self) -> None:
        self._is_closed = True
        await self._drop_pool(self._pool)

    async def connect(self) -> AsyncConnectionPool[Any]:
        """The pool of connections; while the server is away the error that says so, without waiting for it."""
        async with self._connecting:
            if self._pool is not None:
                return self._pool
            if self._is_closed:
                raise StoreError("the store is closed", remedy="open it again with open_store()")
            if time.monotonic() < self._away_until:
                raise StoreError(self._away)
            try:
                # A server that refuses says so at once here; a pool would try again and again, and log each time.
                await (await psycopg.AsyncConnection.connect(self._url, connect_timeout=_CONNECT_SECONDS)).close()
                self._pool = await self._open_pool()
            except (psycopg.Error, PoolTimeout) as error:
                problem = as_store_error(error, self.where, self._busy_seconds)
                self._away, self._away_until = str(problem), time.monotonic() + _AWAY_SECONDS
                raise problem from error
            return self._pool

    async def _open_pool(self) -> AsyncConnectionPool[Any]:
        async def prepare(connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute(f"SET lock_timeout = {int(self._busy_seconds * 1000)}")

        pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            self._url,
            min_size=1,
            max_size=_MOST_CONNECTIONS,
            timeout=self._busy_seconds,
            open=False,
            configure=prepare,
            kwargs={"autocommit": True},
        )
        try:
            await pool.open(wait=True, timeout=self._busy_seconds)
        except BaseException:
            await pool.close()
            raise
        return pool

    async def _drop_pool(self, pool: AsyncConnectionPool[Any] | None) -> None:
        """Close a pool whose connections are broken; tasks that wait for one get an error."""
        if pool is not None and self._pool is pool:
            self._pool = None
            await pool.close()

    async def _transact(self, begin: str, operation: Callable[[], Steps[T]]) -> T:
        for attempt in range(1, _ATTEMPTS + 1):
            pool = self._pool or await self.connect()
            try:
                async with pool.connection() as connection:
                    return await self._once(connection, begin, operation())
            except _COLLISIONS as error:
                if attempt == _ATTEMPTS:
                    raise as_store_error(error, self.where, self._busy_seconds) from error
            except (_ConnectionLost, PoolClosed) as lost:
                await self._drop_pool(pool)
                if attempt == _ATTEMPTS:
                    raise as_store_error(lost.__cause__ or lost, self.where, self._busy_seconds) from lost
            except psycopg.Error as error:
                if _is_disconnected(error):
                    await self._drop_pool(pool)
                raise as_store_error(error, self.where, self._busy_seconds) from error
        raise AssertionError("unreachable")

    async def _once(self, connection: psycopg.AsyncConnection[Any], begin: str, steps: Steps[T]) -> T:
        try:
            await self._execute(connection, begin)
            result = await self._run_steps(connection, steps)
        except BaseException as error:
            if connection.closed:
                if isinstance(error, psycopg.Error):
                    raise _ConnectionLost from error
            else:
                await connection.rollback()
            raise
        try:
            await self._execute(connection, "COMMIT")
        except BaseException:
            if not connection.closed:
                await connection.rollback()
            raise
        return result

    async def _run_steps(self, connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
        rows: list[Row] = []
        try:
            statement = next(steps)
            while True:
                sql = _psycopg_sql(statement.sql)
                if statement.many:
                    if self._on_statement is not None:
                        self._on_statement(sql)
                    async with connection.cursor() as cursor:
                        await cursor.executemany(sql, statement.params)
                    rows = []
                else:
                    rows = await self._execute(connection, sql, statement.params)
                statement = steps.send(rows)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            steps.close()

    async def _execute(self, connection: psycopg.AsyncConnection[Any], sql: str, params: Any = None) -> list[Row]:
        if self._on_statement is not None:
            self._on_statement(sql)
        cursor = await connection.execute(sql, params or None)
        if cursor.description is None:
            return []
        try:
            return await cursor.fetchall()
        except UnicodeDecodeError:
            # One damaged text would hide every other row. Reading texts this way is slower, so only here.
            cursor.adapters.register_loader("text", _LenientTextLoader)
            await cursor.execute(sql, params or None)
            return await cursor.fetchall()


async def open_postgres(
    url: str, *, busy_seconds: float = 30.0, on_statement: Callable[[str], None] | None = None
) -> PostgresDatabase:
    """Connect to a server, and apply the migrations that its database lacks."""
    database = PostgresDatabase(url, busy_seconds, on_statement)
    try:
        await database.connect()
        database.unwritable = await _migrate_or_read(database)
    except BaseException:
        await database.close()
        raise
    return database


async def _migrate_or_read(database: PostgresDatabase) -> str | None:
    """Apply the migrations that are due; why not, for a server that only reads, such as one that follows another."""
    try:
        while await database.write(lambda: _migrate(database.where)):
            pass
    except ReadOnlyStore as error:
        refuse_newer(await database.read(schema_version), "postgres", database.where)
        return str(error)
    return None


def _is_disconnected(error: psycopg.Error) -> bool:
    """Whether the connections of the pool are broken; not where the driver refused a value, or the pool is busy."""
    if error.sqlstate is not None or isinstance(error, PoolTimeout):
        return error.sqlstate in _STOPPED
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def as_store_error(error: BaseException, where: str, busy_seconds: float) -> StoreError:
    """A driver's exception as an error that says what to do."""
    if isinstance(error, PoolTimeout):
        return StoreError(f"{where}: no connection within {busy_seconds:g} s", remedy="check that the server runs")
    if isinstance(error, errors.LockNotAvailable):
        return DatabaseBusy(
            f"{where}: a row was locked for {busy_seconds:g} s", remedy="nothing was written: try again"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnlyStore(f"{where}: the server takes nothing new ({_first_line(error)})", remedy="reading goes on")
    if isinstance(error, errors.DiskFull):
        return DatabaseFull(
            f"{where}: no room on the server's disk", remedy="nothing was written: free some and try again"
        )
    return StoreError(f"{where}: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    said = str(error).strip().splitlines()
    return said[0] if said else type(error).__name__


def without_password(url: str) -> str:
    """A URL without its password, to be shown."""
    return re.sub(r"(//[^:/@]*):[^@]*@", r"\1:***@", re.sub(r"(?i)(password=)[^&]*", r"\1***", url))


def _migrate(where: str) -> Steps[bool]:
    # Several processes may start at once on a new database. The lock is held until the transaction ends.
    yield from execute("SELECT pg_advisory_xact_lock(?)", _MIGRATION_LOCK)
    return (yield from apply_next("postgres", where))


@lru_cache(maxsize=2048)
def _psycopg_sql(sql: str) -> str:
    return sql.replace("?", "%s").replace(ROW_LOCK, " FOR UPDATE")
