"""Brief reads of SQLite: what is answered in the thread that asks, and what is left to the one that reads."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from clew.errors import StoreError
from clew.store import NewSession, SearchScope, Store, open_store
from clew.store.database import Steps, fetch_number, fetch_one
from clew.store.sqlite import SqliteDatabase, open_sqlite
from clew.testing import assistant, user


def sessions() -> Steps[int | None]:
    return 1 + (yield from fetch_number("SELECT count(*) FROM sessions"))


def longest() -> Steps[int | None]:
    row = yield from fetch_one("SELECT body FROM messages ORDER BY id DESC LIMIT 1")
    return None if row is None else len(row[0])


def wrong() -> Steps[int | None]:
    return (yield from fetch_number("SELECT no_such_column FROM sessions"))


async def opened(path: Path) -> SqliteDatabase:
    """A database whose connection for brief reads is open."""
    database = await open_sqlite(str(path))
    assert await database.read_briefly(sessions) is None
    await database.read(sessions)
    return database


async def test_a_brief_read_sees_what_was_committed_before_it_by_whichever_connection(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        database = await opened(tmp_path / "state.db")
        assert await database.read_briefly(sessions) == 1
        await store.start_session(NewSession(id="s"))
        assert await database.read_briefly(sessions) == 2
        await database.close()


async def test_a_long_row_and_whatever_is_wrong_are_left_to_the_thread(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("short")])
        database = await opened(tmp_path / "state.db")
        assert await database.read_briefly(longest) == await database.read(longest)
        await store.append("s", [user("long " * 100_000)])
        assert await database.read_briefly(longest) is None
        assert await database.read(longest)
        assert await database.read_briefly(wrong) is None
        with pytest.raises(StoreError, match="no_such_column"):
            await database.read(wrong)
        await database.close()


async def test_a_brief_read_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    database = await opened(tmp_path / "state.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM sessions")
        assert await database.read_briefly(sessions) == 1
    await database.close()


async def test_nothing_is_read_after_the_end(tmp_path: Path) -> None:
    database = await opened(tmp_path / "state.db")
    await database.close()
    assert await database.read_briefly(sessions) is None
    with pytest.raises(StoreError, match="closed"):
        await database.read(sessions)


async def test_a_database_in_memory_is_read_by_its_one_connection() -> None:
    async with open_store(":memory:") as store:
        await filled(store)
        assert [hit.seq for hit in (await store.search("quokka")).hits] == [3]
        assert [hit.seq for hit in (await store.search("quokka")).hits] == [3]


# -- what uses them ----------------------------------------------------------------------------------------------------


async def filled(store: Store) -> None:
    await store.start_session(NewSession(id="s"))
    await store.append("s", [user("a walrus"), assistant("where?"), user("over there"), assistant("that is a quokka")])


async def test_a_rare_word_is_answered_alike_the_first_and_every_other_time(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store, open_store(tmp_path / "state.db") as other:
        await filled(store)
        first = await store.search("quokkas", SearchScope(conversation_of="s"))
        assert [hit.seq for hit in first.hits] == [3]
        assert [await store.search("quokkas", SearchScope(conversation_of="s")) for _ in range(3)] == [first] * 3
        await other.append("s", [user("another quokka")])
        assert {hit.seq for hit in (await store.search("quokka")).hits} == {3, 4}
        await store.append("s", [user("quokka " + "and much more of it " * 20_000)])
        assert {hit.seq for hit in (await store.search("quokka")).hits} == {3, 4, 5}


async def test_searches_of_many_tasks_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await filled(store)

        async def ask(word: str, seq: int) -> None:
            for n in range(10):
                assert seq in [hit.seq for hit in (await store.search(word)).hits]
                if n == 5:
                    await store.append("s", [user("nothing of interest")])

        await asyncio.gather(*(ask(*asked) for asked in [("quokka", 3), ("walrus", 0)] * 5))


async def test_a_task_that_only_searches_can_be_stopped_and_lets_others_run(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await filled(store)
        is_enough, searches = asyncio.Event(), 0

        async def search_for_ever() -> None:
            nonlocal searches
            while True:
                await store.search("quokka")
                searches += 1
                if searches == 20:
                    is_enough.set()

        task = asyncio.create_task(search_for_ever())
        await is_enough.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
