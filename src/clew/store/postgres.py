"""PostgreSQL: psycopg 3 with its pool, one transaction per operation, and what its errors mean.

Knows steps and nothing of what they are for. Imported only when a URL names a server.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from clew.errors import StoreError
from clew.store.database import WordIndex
from clew.store.index_postgres import TsvectorIndex
from clew.store.migrate import DatabaseName, apply_next
from clew.store.problems import DatabaseBusy, DatabaseFull
from clew.store.steps import ROW_LOCK, Row, Steps, run

try:
    import psycopg
    from psycopg import errors
    from psycopg_pool import AsyncConnectionPool, PoolTimeout
except ImportError as missing:
    raise StoreError("PostgreSQL needs its driver; install it with: pip install 'clew[postgres]'") from missing

T = TypeVar("T")

_MIGRATION_LOCK = 0x636C6577
_ATTEMPTS = 5
_MOST_CONNECTIONS = 10
# Two writers met; the operation starts over and sees what the other wrote.
_COLLISIONS = (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation)


class PostgresDatabase:
    """One database on a server. Made by `open_postgres`."""

    def __init__(
        self,
        where: str,
        pool: AsyncConnectionPool[Any],
        busy_seconds: float,
        on_statement: Callable[[str], None] | None,
    ) -> None:
        self.name: DatabaseName = "postgres"
        self.where = where
        self.index: WordIndex = TsvectorIndex()
        # Machines disagree about the time: leases go by the server's.
        self.now_sql: str | None = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
        self._pool = pool
        self._busy_seconds = busy_seconds
        self._on_statement = on_statement

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._transact("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", operation)

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        return await self._transact("BEGIN", operation)

    def write_soon(self, operation: Callable[[], Steps[T]]) -> None:
        """Nothing is put off here: rows are indexed by the transaction that writes them."""
        del operation

    async def check(self) -> list[str]:
        """The server looks after its own files."""
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
                    raise meaning_of(error, self.where, self._busy_seconds) from error
            except (psycopg.Error, PoolTimeout) as error:
                raise meaning_of(error, self.where, self._busy_seconds) from error
        raise AssertionError("unreachable")

    async def _once(self, connection: psycopg.AsyncConnection[Any], begin: str, steps: Steps[T]) -> T:
        await self._execute(connection, begin)
        try:
            result = await self._walk(connection, steps)
            await self._execute(connection, "COMMIT")
        except BaseException:
            if not connection.closed:
                await connection.rollback()
            raise
        return result

    async def _walk(self, connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
        rows: list[Row] = []
        try:
            statement = next(steps)
            while True:
                sql = _as_spoken(statement.sql)
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
        return await cursor.fetchall() if cursor.description is not None else []


async def open_postgres(
    url: str, *, busy_seconds: float = 30.0, on_statement: Callable[[str], None] | None = None
) -> PostgresDatabase:
    """Connect to a server, and bring its schema up to date."""
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
        while await database.write(lambda: _migrate(where)):
            pass
    except (psycopg.Error, PoolTimeout) as error:
        await pool.close()
        raise meaning_of(error, where, busy_seconds) from error
    except BaseException:
        await pool.close()
        raise
    return database


def meaning_of(error: BaseException, where: str, busy_seconds: float) -> StoreError:
    """A driver's exception, in words a person can act on."""
    if isinstance(error, PoolTimeout):
        return StoreError(f"{where}: no connection within {busy_seconds:g} s; check that the server runs")
    if isinstance(error, errors.LockNotAvailable):
        return DatabaseBusy(f"{where}: a row was locked for {busy_seconds:g} s; nothing was written: try again")
    if isinstance(error, errors.DiskFull):
        return DatabaseFull(f"{where}: no room on the server's disk; nothing was written: free some and try again")
    said = str(error).strip().splitlines()
    return StoreError(f"{where}: {said[0] if said else type(error).__name__}")


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    return re.sub(r"(//[^:/@]*):[^@]*@", r"\1:***@", re.sub(r"(?i)(password=)[^&]*", r"\1***", url))


def _migrate(where: str) -> Steps[bool]:
    # Several processes may start at once on a new database; held until the transaction ends.
    yield from run("SELECT pg_advisory_xact_lock(?)", _MIGRATION_LOCK)
    return (yield from apply_next("postgres", where))


@lru_cache(maxsize=2048)
def _as_spoken(sql: str) -> str:
    return sql.replace("?", "%s").replace(ROW_LOCK, " FOR UPDATE")
