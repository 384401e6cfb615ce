"""A database file with damaged pages: every door answers, or raises a `StoreError` that says what to do."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew.errors import DatabaseDamaged, StoreError, UnknownSession
from clew.store import CompactionEntry, EngineRecord, NewOutput, NewSession, Store, open_store
from clew.testing import assistant, call, tool, user

pytestmark = pytest.mark.slow

PAGE_BYTES = 4096
DOORS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "list": lambda store: store.list_sessions(),
    "show": lambda store: store.messages("t", keep_damaged=True),
    "view": lambda store: store.view("t", keep_damaged=True),
    "export": lambda store: store.compactions("t", keep_damaged=True),
    "usage": lambda store: store.usage(),
    "state": lambda store: store.state("t"),
    "records": lambda store: store.engine_records("t", ""),
    "search": lambda store: store.search("walrus kettle"),
    "check": lambda store: store.check(),
    "append": lambda store: store.append("t", [user("one more walrus")]),
    "quarantine": lambda store: store.quarantine(),
    "rebuild": lambda store: store.rebuild_index(),
}


def sound_database(path: Path) -> bytes:
    """A file of some sixty pages, in which a session `t` has rows in most tables."""

    async def fill() -> None:
        async with open_store(path, clock=lambda: 1_000_000.0) as store:
            await store.start_session(NewSession(id="s", system="Mend the clocks.", title="Clocks"))
            for number in range(30):
                asked = assistant(f"Look {number}.", [call("read_file", {"path": f"{number}.log"}, id=f"c{number}")])
                await store.append("s", [user(f"walrus {number}"), asked, tool(f"c{number}", f"log {number} " * 20)])
            view = await store.view("s")
            summary = user("Handoff: the walrus is well.")
            entry = CompactionEntry.of(view, [summary, *view.messages[87:]], summary)
            records = [EngineRecord("n1", {"node": 1}), EngineRecord("n2", {"node": 2})]
            await store.commit_compaction("s", entry, new_id="t", records=records)
            await store.keep_output(NewOutput("t", "kettle log\n" * 800))
            await store.set_state("t", {"mood": "good"})
            await store.search("walrus")

    asyncio.run(fill())
    with closing(sqlite3.connect(path)) as connection:
        # Its id is drawn at random, and the file should be the same every time.
        connection.execute("UPDATE outputs SET name = 'o_0123456789abcdef0123'")
        connection.commit()
    return path.read_bytes()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return sound_database(tmp_path_factory.mktemp("sound") / "s.db")


def damaged(sound: bytes, page: int, how: int, chance: random.Random | None = None) -> bytes:
    """The file with one page overwritten, its head alone, or some bytes of it."""
    chance = chance or random.Random(page * 7 + how)
    raw, start = bytearray(sound), page * PAGE_BYTES
    if how == 0:
        raw[start : start + PAGE_BYTES] = bytes(PAGE_BYTES)
    elif how == 1:
        raw[start : start + PAGE_BYTES] = chance.randbytes(PAGE_BYTES)
    elif how == 2:
        raw[start + 8 : start + 40] = chance.randbytes(32)
    else:
        for _ in range(12):
            raw[start + chance.randrange(PAGE_BYTES)] = chance.randrange(256)
    return bytes(raw)


async def refuses(asked: Awaitable[Any]) -> bool:
    try:
        await asked
    except UnknownSession:
        # The page held its name.
        return False
    except StoreError as error:
        assert "`clew doctor`" in str(error)
        return True
    return False


async def test_whichever_page_is_damaged_nothing_but_a_store_error_comes_out(sound: bytes, tmp_path: Path) -> None:
    refused: set[str] = set()
    for page in range(1, len(sound) // PAGE_BYTES):
        path = tmp_path / f"{page}.db"
        path.write_bytes(damaged(sound, page, page % 4))
        try:
            async with open_store(path) as store:
                refused |= {door for door, use in DOORS.items() if await refuses(use(store))}
        except StoreError as error:
            assert "`clew doctor`" in str(error)
            refused.add("open")
    assert refused >= {"open", "show", "append", "quarantine", "rebuild"}
    assert "search" not in refused, "a search answers from the rows that can be read"
    assert "check" not in refused, "a check says what is wrong, and does not fail for it"


async def test_a_check_names_a_damaged_page_in_the_words_of_the_database(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(damaged(sound, _root_page(sound, "messages", tmp_path), 1))
    async with open_store(path) as store:
        problems = await store.check()
        with pytest.raises(DatabaseDamaged, match=r"the database is damaged \(.+\); `clew doctor` shows the extent"):
            await store.messages("t")
    assert problems and {problem.kind for problem in problems} == {"database"}


async def test_a_schema_that_is_no_text_any_more_is_damage(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    # SQLite's message quotes the name, and the driver cannot read the message.
    nameless = sound.replace(b"tablesessionssessions", b"tablesess\xaeonssess\xaeons")
    assert nameless != sound
    path.write_bytes(nameless)
    with pytest.raises(DatabaseDamaged, match="its schema cannot be read"):
        async with open_store(path):
            pass


async def test_rows_that_are_out_of_order_are_not_read_for_ever(sound: bytes, tmp_path: Path) -> None:
    raw = bytearray(sound)
    # The places of the two cells of a page with two rows stand behind its head of eight bytes.
    first = _root_page(sound, "engine_records", tmp_path) * PAGE_BYTES + 8
    raw[first : first + 4] = raw[first + 2 : first + 4] + raw[first : first + 2]
    path = tmp_path / "s.db"
    path.write_bytes(raw)
    async with open_store(path) as store:
        assert "database" in {problem.kind for problem in await store.check()}
        with pytest.raises(DatabaseDamaged, match="row 1 comes after 1"):
            await store.quarantine()


async def test_a_conversation_that_is_said_to_branch_from_itself_is_not_followed_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("one")])
        await store.branch("s", new_id="t")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE conversations SET origin = id, origin_seq = 1")
        connection.commit()
    async with open_store(path) as store:
        with pytest.raises(DatabaseDamaged, match="conversation 2 comes after 2"):
            await store.messages("t")


def _root_page(raw: bytes, table: str, folder: Path) -> int:
    """The number of a table's first page, counted from 0."""
    path = folder / "roots.db"
    path.write_bytes(raw)
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]) - 1
