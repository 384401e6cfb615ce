"""A full disk, a failing disk, a locked file, a damaged index, a clock set back, eight processes at once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from clew.errors import DatabaseDamaged, StoreError
from clew.store import DatabaseBusy, DatabaseFull, NewSession, Store, open_store
from clew.store.sqlite import open_sqlite
from clew.testing import user
from tests.support.history import synthetic_history

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs fork and limits of processes")


def ran(script: str, where: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", dedent(script), str(where)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


_FORKED = """
import asyncio, os, sys
waiting, begins = os.pipe()
racers = []
for number in range(8):
    racers.append(os.fork())
    if racers[-1] == 0:
        os.close(begins)
        os.read(waiting, 1)
        asyncio.run(main(sys.argv[1], number))
        os._exit(0)
os.close(begins)
sys.exit(any([os.waitpid(racer, 0)[1] for racer in racers]))
"""


def race(script: str, where: Path) -> None:
    """Eight processes of one program that all begin at once; `main` of the script gets the place and its number."""
    command = [sys.executable, "-c", dedent(script) + _FORKED, str(where)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


async def contents(store: Store) -> list[str]:
    return [str(it.message["content"]) for it in await store.messages("s")]


async def test_a_full_disk_refuses_whole_messages_and_loses_none(tmp_path: Path) -> None:
    database = await open_sqlite(str(tmp_path / "s.db"))
    store = Store(database)
    await store.start_session(NewSession(id="s"))
    await store.append("s", [user("walrus 0")])
    pages = await database._writer.submit(lambda it: it.fetch("PRAGMA page_count"))
    limit = pages[0][0] + 20
    await database._writer.submit(lambda it: it.fetch(f"PRAGMA max_page_count={limit}"))
    kept = ["walrus 0"]
    with pytest.raises(DatabaseFull, match="free some space"):
        for number in range(1, 1_000):
            text = f"walrus {number} " + "x" * 3_000
            await store.append("s", [user(text)])
            kept.append(text)
    assert len(kept) > 5
    assert await contents(store) == kept
    await database._writer.submit(lambda it: it.fetch("PRAGMA max_page_count=1000000"))
    await store.append("s", [user("room again")])
    await store.close()
    async with open_store(tmp_path / "s.db") as again:
        assert await contents(again) == [*kept, "room again"]
        assert await again.check() == []


@posix_only
async def test_a_failing_disk_refuses_whole_messages_and_loses_none(tmp_path: Path) -> None:
    script = """
        import asyncio, resource, signal, sys
        from clew.errors import StoreError
        from clew.store import NewSession, open_store
        from clew.testing import user

        async def main():
            async with open_store(sys.argv[1]) as store:
                await store.start_session(NewSession(id="s"))
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
                for number in range(1_000):
                    try:
                        await store.append("s", [user(f"walrus {number} " + "y" * 3_000)])
                    except StoreError as error:
                        print(error, file=sys.stderr)
                        return
                    print(number, flush=True)

        asyncio.run(main())
    """
    done = ran(script, tmp_path / "s.db")
    acknowledged = len(done.stdout.split())
    assert 5 < acknowledged < 1_000
    assert "nothing was written" in done.stderr
    async with open_store(tmp_path / "s.db") as store:
        assert len(await contents(store)) == acknowledged
        assert await store.check() == []
        assert len((await store.search("walrus", limit=500)).hits) == acknowledged
        await store.append("s", [user("on")])


async def test_a_locked_file_is_waited_for_then_named_and_read_all_the_same(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    async with open_store(where, busy_seconds=0.05) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("before")])
        with sqlite3.connect(where, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DatabaseBusy, match="locked by another process"):
                await store.append("s", [user("refused")])
            assert await contents(store) == ["before"]
            other.execute("ROLLBACK")
        other.close()
        await store.append("s", [user("after")])
        assert await contents(store) == ["before", "after"]


@pytest.mark.parametrize("table", ["words_data", "words_idx", "words_docsize"])
async def test_a_damaged_index_is_noticed_and_rebuilt_and_no_row_is_changed(tmp_path: Path, table: str) -> None:
    where = tmp_path / "s.db"
    async with open_store(where) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", synthetic_history(90))
        await store.append("s", [user("the lonely walrus")])
        await store.index_waiting()
    with sqlite3.connect(where) as raw:
        raw.execute(f"DELETE FROM {table} WHERE rowid > 10" if table != "words_idx" else f"DELETE FROM {table}")
    raw.close()
    async with open_store(where) as store:
        problems = await store.check()
        assert problems and all(it.is_repairable for it in problems)
        await store.rebuild_index()
        assert await store.check() == []
        assert [hit.seq for hit in (await store.search("lonely walrus")).hits] == [90]
        assert len(await store.messages("s")) == 91


@pytest.mark.parametrize(
    "damage", ["UPDATE words_data SET block = zeroblob(40) WHERE id > 10", "UPDATE docs SET kind = 'm\ufffdssage'"]
)
async def test_a_search_repairs_an_index_that_cannot_be_read(tmp_path: Path, damage: str) -> None:
    where = tmp_path / "s.db"
    async with open_store(where) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [*synthetic_history(60), user("the lonely walrus")])
        await store.index_waiting()
    with sqlite3.connect(where) as raw:
        raw.execute(damage)
    raw.close()
    async with open_store(where) as store:
        assert [hit.seq for hit in (await store.search("lonely walrus")).hits] == [60]
        assert await store.check() == []


async def test_rows_that_lost_their_documents_are_noticed(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    async with open_store(where) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("one"), user("two")])
        await store.index_waiting()
    with sqlite3.connect(where) as raw:
        raw.execute("DELETE FROM docs WHERE id = 1")
    raw.close()
    async with open_store(where) as store:
        assert {it.kind for it in await store.check()} == {"index"}
        await store.rebuild_index()
        assert await store.check() == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ('UPDATE messages SET body = \'{"role":"user","content":"forged"}\' WHERE seq = 1', "chain"),
        ("DELETE FROM messages WHERE seq = 1", "gap"),
        ("UPDATE sessions SET end_reason = 'compression'", "orphan"),
    ],
)
async def test_tampering_with_rows_is_noticed(tmp_path: Path, change: str, kind: str) -> None:
    where = tmp_path / "s.db"
    async with open_store(where) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("zero"), user("one"), user("two")])
    with sqlite3.connect(where) as raw:
        raw.execute(change)
    raw.close()
    async with open_store(where) as store:
        assert kind in {it.kind for it in await store.check()}


async def test_a_file_that_was_overwritten_is_said_to_be_damaged(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    async with open_store(where) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", synthetic_history(90))
    async with open_store(where) as store:
        where.write_bytes(b"no database at all. " * 1_000)
        assert [it.kind for it in await store.check()] == ["database"]
        with pytest.raises(DatabaseDamaged, match=r"the database is damaged.*`clew doctor`"):
            await store.append("s", [user("more")])


async def test_a_clock_set_back_neither_reorders_nor_holds_a_lease_for_ever(tmp_path: Path) -> None:
    now = [1_000_000.0]
    async with open_store(tmp_path / "s.db", clock=lambda: now[0]) as store:
        await store.start_session(NewSession(id="s"))
        assert await store.take_lease("s", "one", 60) is not None
        await store.append("s", [user("first")])
        assert await store.take_lease("s", "two", 60) is None
        now[0] -= 3_600
        await store.append("s", [user("second")])
        assert await contents(store) == ["first", "second"]
        assert await store.take_lease("s", "two", 60) is not None
        now[0] += 61
        assert await store.lease_holder("s") is None
        assert await store.take_lease("s", "three", 60) is not None


@posix_only
@pytest.mark.slow
async def test_eight_processes_start_on_one_new_database_at_once(tmp_path: Path) -> None:
    script = """
        from clew.store import NewSession, open_store
        from clew.testing import user

        async def main(where, racer):
            async with open_store(where) as store:
                await store.start_session(NewSession(id="s"))
                for number in range(5):
                    await store.append("s", [user(f"{racer} {number}")])
    """
    where = tmp_path / "deep" / "s.db"
    race(script, where)
    async with open_store(where) as store:
        found = await contents(store)
        assert sorted(found) == sorted(f"{racer} {number}" for racer in range(8) for number in range(5))
        assert await store.check() == []


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the list of open files")
async def test_an_open_that_fails_at_any_statement_leaves_no_open_file_and_no_thread(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    async with open_store(where):
        pass
    for point in range(1, 100):
        seen = 0

        def fail(_: str, point: int = point) -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                raise RuntimeError

        try:
            async with open_store(where, on_statement=fail):
                break
        except RuntimeError:
            # In here, where the error still holds the frames it passed through.
            assert [link for link in _open_files() if link.startswith(str(where))] == []
            assert not any(thread.name == "clew-store" for thread in threading.enumerate())
    assert point > 5


def _open_files() -> list[str]:
    links: list[str] = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(entry.readlink()))
    return links


async def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    where = tmp_path / "notes.txt"
    where.write_text("not a database, but long enough to be taken for one " * 40)
    with pytest.raises(StoreError, match=r"notes\.txt"):
        async with open_store(where):
            pass
    assert where.read_text().startswith("not a database")


async def test_a_check_of_the_database_lets_others_write(tmp_path: Path) -> None:
    """It holds the write lock for the index's own check at most, and never while it looks up all messages."""
    path = tmp_path / "s.db"
    async with open_store(path) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user(f"walrus {number} " + "of the bay " * 40) for number in range(6_000)])
        await store.search("walrus")
        was_free: list[bool] = []
        is_checked = threading.Event()

        def knock() -> None:
            with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
                while not is_checked.wait(0.002):
                    try:
                        other.execute("BEGIN IMMEDIATE")
                        other.execute("ROLLBACK")
                        was_free.append(True)
                    except sqlite3.OperationalError:
                        was_free.append(False)

        knocking = threading.Thread(target=knock)
        knocking.start()
        assert await store.check() == []
        is_checked.set()
        knocking.join()
    assert sum(was_free) > len(was_free) / 2
