"""Opening a store: which database a URL or a path means. The PostgreSQL driver is imported only when one is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clew.store.clock import Clock, wall_clock
from clew.store.database import Database
from clew.store.sqlite import MEMORY, Flush, OnStatement, open_sqlite
from clew.store.store import Store

_POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite://"


@asynccontextmanager
async def open_store(
    url: str | Path,
    *,
    busy_seconds: float = 30.0,
    flush: Flush = "full",
    clock: Clock = wall_clock,
    on_statement: OnStatement | None = None,
) -> AsyncIterator[Store]:
    """A store in a file (made if it is not there), in memory (":memory:"), or on a server (postgresql://...).

    `busy_seconds` is how long to wait for other processes. `flush="normal"` gives up the last moments before a power
    cut for speed; SQLite only. `on_statement` sees each statement before it runs: a seam for tests and tracing.
    """
    text = str(url)
    database: Database
    if text.startswith(_POSTGRES):
        from clew.store.postgres import open_postgres

        database = await open_postgres(text, busy_seconds=busy_seconds, on_statement=on_statement)
    else:
        where = text[len(_SQLITE) :] or MEMORY if text.startswith(_SQLITE) else text
        database = await open_sqlite(where, busy_seconds=busy_seconds, flush=flush, on_statement=on_statement)
    try:
        yield Store(database, clock)
    finally:
        await database.close()
