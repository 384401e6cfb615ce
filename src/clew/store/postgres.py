"""PostgreSQL: psycopg 3 with its pool, one transaction per operation, and what its errors mean.

Imported only when a URL names a server: the driver is an optional dependency.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from clew.errors import DatabaseBusy, DatabaseFull, ReadOnlyStore, StoreError
from clew.install import install_command
from clew.store.database import ROW_LOCK, Row, Steps, WordIndex, execute, lenient_text
from clew.store.migrate import apply_next, refuse_newer, schema_version
from clew.store.search.index import TsvectorIndex

try:
    import psycopg
    from psycopg import errors
    from psycopg.abc import Buffer
    from psycopg.adapt import Loader
    from psycopg_pool import AsyncConnectionPool, PoolTimeout
except ImportError as missing:
    raise StoreError(f"PostgreSQL needs its driver; install it with: {install_command('postgres')}") from missing

T = TypeVar("T")

_MIGRATION_LOCK = 0x636C6577
_ATTEMPTS = 5
_MOST_CONNECTIONS = 10
# Two writers collided; the operation runs again and sees what the other wrote.
_COLLISIONS = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)


class _LenientTextLoader(Loader):
    """Texts of a server whose files were damaged."""

    def load(self, data: Buffer) -> str:
        return lenient_text(bytes(data))


class PostgresDatabase:
    """One database on a server. Made by `open_postgres`."""

    def __init__(
        self,
        where: str,
        pool: AsyncConnectionPool[Any],
        busy_seconds: float,
        on_statement: Callable[[str], None] | None,
    ) -> None:
        self.where = where
        self.index: WordIndex = TsvectorIndex()
        # Leases go by the server's clock, since those of the machines differ.
        self.now_sql: str | None = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
        self._pool = pool
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

    async def check(self) -> list[str]:
        """Nothing: the server checks its own files."""
        return []

    async def close(self) -> None:
        await self._pool.close()

    async def _transact(self, begin: str, operation: Callable[[], Steps[T]]) -> T:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with self._pool.connection() as connection:
                    return await self._once(connection, begin, operation())
            except _COLLISIONS as error:
                if attempt == _ATTEMPTS:
                    raise as_store_error(error, self.where, self._busy_seconds) from error
            except (psycopg.Error, PoolTimeout) as error:
                raise as_store_error(error, self.where, self._busy_seconds) from error
        raise AssertionError("unreachable")

    async def _once(self, connection: psycopg.AsyncConnection[Any], begin: str, steps: Steps[T]) -> T:
        await self._execute(connection, begin)
        try:
            result = await self._run_steps(connection, steps)
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
    where = without_password(url)

    async def prepare(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(f"SET lock_timeout = {int(busy_seconds * 1000)}")

    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=_MOST_CONNECTIONS,
        timeout=busy_seconds,
        open=False,
        configure=prepare,
        kwargs={"autocommit": True},
    )
    database = PostgresDatabase(where, pool, busy_seconds, on_statement)
    try:
        # A server that refuses says so at once here; the pool would try again and again, and log each time.
        await (await psycopg.AsyncConnection.connect(url)).close()
        await pool.open(wait=True, timeout=busy_seconds)
        database.unwritable = await _migrate_or_read(database)
    except (psycopg.Error, PoolTimeout) as error:
        await pool.close()
        raise as_store_error(error, where, busy_seconds) from error
    except BaseException:
        await pool.close()
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


def as_store_error(error: BaseException, where: str, busy_seconds: float) -> StoreError:
    """A driver's exception as an error that says what to do."""
    if isinstance(error, PoolTimeout):
        return StoreError(f"{where}: no connection within {busy_seconds:g} s; check that the server runs")
    if isinstance(error, errors.LockNotAvailable):
        return DatabaseBusy(f"{where}: a row was locked for {busy_seconds:g} s; nothing was written: try again")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return ReadOnlyStore(f"{where}: the server takes nothing new ({_first_line(error)}); reading goes on")
    if isinstance(error, errors.DiskFull):
        return DatabaseFull(f"{where}: no room on the server's disk; nothing was written: free some and try again")
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
