"""A damaged search index: search ends, answers from the rows that can be read and says so, and a rebuild mends it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from clew.errors import StoreError
from clew.store import NewSession, open_store
from clew.testing import assistant, user

pytestmark = pytest.mark.slow

PAGE_BYTES = 4096
ROWS = 300
"""More than one batch of the indexer."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "s.db"

    async def fill() -> None:
        async with open_store(path) as store:
            await store.start_session(NewSession(id="s"))
            words = [" ".join(f"word{number * 31 + at}" for at in range(20)) for number in range(ROWS)]
            await store.append("s", [user(f"walrus{number} {words[number]}") for number in range(ROWS)])
            await store.append("s", [assistant("The kettle is warm.")])
            await store.search("walrus")

    asyncio.run(fill())
    return path.read_bytes()


def pages_of(raw: bytes, tables: str, folder: Path) -> dict[int, str]:
    """The pages (counted from 0) of the tables and indexes whose names begin so."""
    path = folder / "pages.db"
    path.write_bytes(raw)
    with closing(sqlite3.connect(path)) as connection:
        try:
            found = connection.execute("SELECT pageno, name FROM dbstat").fetchall()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite cannot say which table a page belongs to")
    return {number - 1: name for number, name in found if name.startswith(tuple(tables.split()))}


def zeroed(raw: bytes, page: int) -> bytes:
    return raw[: page * PAGE_BYTES] + bytes(PAGE_BYTES) + raw[(page + 1) * PAGE_BYTES :]


async def test_an_index_that_does_not_keep_how_far_it_reaches_does_not_make_search_loop(
    sound: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(sound)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM indexed")
        connection.commit()
    async with open_store(path) as store:
        found = await asyncio.wait_for(store.search("kettle"), 30)
        assert len(found.hits) == 1
    assert path.stat().st_size < 3 * len(sound)


async def test_search_answers_from_the_rows_whichever_page_of_the_index_is_damaged(
    sound: bytes, tmp_path: Path
) -> None:
    pages = pages_of(sound, "words docs indexed sqlite_autoindex_indexed", tmp_path)
    assert len(pages) > 20
    told = 0
    for page, name in pages.items():
        path = tmp_path / f"{page}.db"
        path.write_bytes(zeroed(sound, page))
        async with open_store(path) as store:
            for query in ("kettle", "walrus7 word217"):
                found = await asyncio.wait_for(store.search(query), 30)
                assert found.hits, (page, name, query)
                told += found.problem is not None
        assert path.stat().st_size < 3 * len(sound)
    assert told, "a search that could not use the index says so"


async def test_search_finds_the_other_rows_where_a_page_of_messages_is_damaged_too(
    sound: bytes, tmp_path: Path
) -> None:
    index = next(page for page, name in pages_of(sound, "docs", tmp_path).items() if name == "docs")
    rows = [page for page, name in pages_of(sound, "messages", tmp_path).items() if name == "messages"]
    path = tmp_path / "s.db"
    path.write_bytes(zeroed(zeroed(sound, index), rows[-1]))
    async with open_store(path) as store:
        hits = 0
        for number in (1, 100, 200, 299):
            found = await asyncio.wait_for(store.search(f"walrus{number}"), 30)
            hits += bool(found.hits)
            assert found.problem and "clew doctor --repair" in found.problem
    assert hits >= 3


@pytest.mark.parametrize("numbers", [[1 << 40], [1 << 40, (1 << 62) + 1]])
async def test_a_damaged_number_of_a_row_does_not_make_search_go_through_all_below_it(
    numbers: list[int], sound: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(sound)
    with closing(sqlite3.connect(path)) as connection:
        for at, number in enumerate(numbers):
            connection.execute("UPDATE messages SET id = ? WHERE id = ?", (number, 200 + at))
        connection.commit()
    index = next(page for page, name in pages_of(path.read_bytes(), "docs", tmp_path).items() if name == "docs")
    path.write_bytes(zeroed(path.read_bytes(), index))
    async with open_store(path) as store:
        found = await asyncio.wait_for(store.search("walrus250"), 30)
        assert found.hits and found.problem
        assert (await asyncio.wait_for(store.search("walrus199"), 30)).hits


async def test_a_rebuild_mends_the_index_whichever_of_its_pages_is_damaged(sound: bytes, tmp_path: Path) -> None:
    pages = pages_of(sound, "words docs indexed sqlite_autoindex_indexed", tmp_path)
    for page, name in pages.items():
        path = tmp_path / f"{page}.db"
        path.write_bytes(zeroed(sound, page))
        async with open_store(path) as store:
            problems = await store.check()
            assert all(problem.kind == "index" for problem in problems), (name, problems)
            await store.rebuild_index()
            assert await store.check() == [], name
            assert (await store.search("kettle")).hits
            assert len(await store.messages("s")) == ROWS + 1
            await store.append("s", [user("one more walrus")])
            assert (await store.search("one more walrus")).hits


async def test_a_page_of_messages_is_no_problem_of_the_index(sound: bytes, tmp_path: Path) -> None:
    page = next(page for page, name in pages_of(sound, "messages", tmp_path).items() if name == "messages")
    path = tmp_path / "s.db"
    path.write_bytes(zeroed(sound, page))
    try:
        async with open_store(path) as store:
            assert {problem.kind for problem in await store.check()} & {"database", "row"}
    except StoreError:
        pass
