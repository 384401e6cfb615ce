"""Files: private modes, schemas old and new, and what a closed or misplaced store says."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from clew.errors import StoreError
from clew.store import NewSession, SchemaTooNew, open_store
from clew.store.migrate import latest_version, migrations_of
from clew.testing import user


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: mode_of(path) for path in folder.iterdir()}


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
async def test_every_file_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    former = os.umask(umask)
    try:
        where = tmp_path / "s.db"
        async with open_store(where) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("hello")])
            assert modes_in(tmp_path) == {"s.db": 0o600, "s.db-shm": 0o600, "s.db-wal": 0o600}
    finally:
        os.umask(former)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
async def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    where = tmp_path / "new" / "s.db"
    async with open_store(where):
        pass
    assert mode_of(where.parent) & 0o077 == 0
    where.chmod(0o644)
    async with open_store(where):
        assert mode_of(where) == 0o600


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    async with open_store(where):
        pass
    with sqlite3.connect(where) as raw:
        raw.execute("INSERT INTO schema_versions VALUES (999, 'from the future')")
    raw.close()
    with pytest.raises(SchemaTooNew, match="has schema 999, and this Clew knows"):
        async with open_store(where):
            pass


def test_migrations_are_numbered_without_a_gap_and_alike_for_both_databases() -> None:
    for database in ("sqlite", "postgres"):
        versions = [it.version for it in migrations_of(database)]
        assert versions == list(range(1, len(versions) + 1))
    assert latest_version("sqlite") == latest_version("postgres")


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.db") as store:
        pass
    with pytest.raises(StoreError, match="closed"):
        await store.list_sessions()


async def test_a_path_where_no_file_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another place"):
        async with open_store(tmp_path / "file" / "s.db"):
            pass


async def test_a_store_in_memory_needs_no_file() -> None:
    async with open_store(":memory:") as store, open_store("sqlite://") as other:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("a fox")])
        assert len((await store.search("fox")).hits) == 1
        assert await other.list_sessions() == []


async def test_following_a_cycle_of_sessions_ends(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    async with open_store(where) as store:
        await store.start_session(NewSession(id="a"))
        await store.start_session(NewSession(id="b", parent="a"))
    with sqlite3.connect(where) as raw:
        raw.execute("UPDATE sessions SET end_reason = 'compression', kind = 'continuation'")
        raw.execute("UPDATE sessions SET parent = (SELECT id FROM sessions WHERE name = 'b') WHERE name = 'a'")
    raw.close()
    async with open_store(where) as store:
        assert await store.get_compression_tip("a") == "b"
        assert await store.get_compression_tip("b") == "a"


async def test_an_append_that_nobody_waits_for_any_more_is_written_whole(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.db") as store:
        await store.start_session(NewSession(id="s"))
        task = asyncio.create_task(store.append("s", [user("a"), user("b")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.append("s", [user("c")])
        assert [it.message["content"] for it in await store.messages("s")] == ["a", "b", "c"]
