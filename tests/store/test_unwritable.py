"""A store that cannot be written: a file or folder without the right, a server that only reads, a disk without room."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

from clew.store import DatabaseFull, NewSession, ReadOnlyStore, Store, open_store
from clew.store.sqlite import open_sqlite
from clew.testing import user
from tests.support.postgres import empty_schema

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs users and file modes")
NOBODY = 65534


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """For root, to whom no file mode applies: be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def folder() -> Iterator[Path]:
    # pytest's own folder is closed to everybody else.
    path = Path(mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


async def filled(path: Path | str) -> None:
    async with open_store(path) as store:
        await store.start_session(NewSession(id="s", title="Walrus"))
        await store.append("s", [user("the walrus is indexed")])
        await store.search("walrus")
        await store.append("s", [user("the walrus waits to be indexed"), user("and a seal")])


async def reads_all(store: Store) -> None:
    assert [session.id for session in await store.list_sessions()] == ["s"]
    assert [row.seq for row in await store.messages("s")] == [0, 1, 2]
    assert len((await store.view("s")).messages) == 3
    assert {hit.seq for hit in (await store.search("walrus")).hits} == {0, 1}
    assert {hit.seq for hit in (await store.search("seal")).hits} == {2}
    assert {hit.seq for hit in (await store.search("walrus")).hits} == {0, 1}
    assert not (await store.search("aardvark")).hits
    problems = await store.check()
    assert [problem.kind for problem in problems] == ["unwritable"]


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def file_mode(path: Path) -> None:
    path.chmod(0o444)


def folder_mode(path: Path) -> None:
    path.chmod(0o666)
    path.parent.chmod(0o555)


@posix_only
@pytest.mark.parametrize("take_away", [file_mode, folder_mode])
async def test_a_file_that_cannot_be_written_is_listed_read_and_searched(
    folder: Path, take_away: Callable[[Path], None]
) -> None:
    path = folder / "s.db"
    await filled(path)
    take_away(path)
    before = path.read_bytes()
    with an_ordinary_user():
        async with open_store(path) as store:
            await reads_all(store)
            with pytest.raises(ReadOnlyStore, match="cannot be written"):
                await store.append("s", [user("lost")])
    assert path.read_bytes() == before
    assert names_in(folder) == ["s.db"]


@posix_only
async def test_a_log_that_cannot_be_read_without_writing_is_said_and_nothing_is_left_out(folder: Path) -> None:
    path = folder / "s.db"
    async with open_store(path) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("only in the log")])
        copy = folder / "copy"
        copy.mkdir()
        for name in ("s.db", "s.db-wal"):
            shutil.copy(folder / name, copy / name)
            (copy / name).chmod(0o444)
        copy.chmod(0o555)
    try:
        with an_ordinary_user():
            with pytest.raises(Exception, match="copy both files") as caught:
                async with open_store(copy / "s.db"):
                    pass
            assert type(caught.value).__name__ == "StoreError"
    finally:
        copy.chmod(0o755)


async def test_search_and_check_answer_on_a_full_disk(tmp_path: Path) -> None:
    await filled(tmp_path / "s.db")
    database = await open_sqlite(str(tmp_path / "s.db"))
    store = Store(database)
    pages = (await database._writer.submit(lambda it: it.fetch("PRAGMA page_count")))[0][0]
    await database._writer.submit(lambda it: it.fetch(f"PRAGMA max_page_count={pages + 20}"))
    with pytest.raises(DatabaseFull):
        for number in range(1_000):
            words = " ".join(f"w{number}x{word}" for word in range(400))
            await store.append("s", [user(words)])
    assert {hit.seq for hit in (await store.search("walrus")).hits} == {0, 1}
    assert {hit.seq for hit in (await store.search("w2x17")).hits} == {5}
    assert [problem.kind for problem in await store.check()] == ["unwritable"]
    await store.close()


async def test_a_server_that_only_reads_is_listed_read_and_searched(server_url: str) -> None:
    with empty_schema(server_url) as url:
        await filled(url)
        read_only = url.replace("options=", "options=-c%20default_transaction_read_only%3Don%20")
        assert read_only != url
        async with open_store(read_only) as store:
            await reads_all(store)
            with pytest.raises(ReadOnlyStore, match="takes nothing new"):
                await store.append("s", [user("lost")])
