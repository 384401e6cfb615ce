"""Writes that wait at the same time: one flush to disk for all, and each fails alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clew.errors import StaleHistory
from clew.store import NewSession, open_store
from clew.testing import user


async def test_appends_that_wait_are_committed_together(tmp_path: Path) -> None:
    ran: list[str] = []
    async with open_store(tmp_path / "state.db", on_statement=ran.append) as store:
        for number in range(40):
            await store.start_session(NewSession(id=f"s{number}"))
        ran.clear()
        await asyncio.gather(*(store.append(f"s{number}", [user(f"message {number}")]) for number in range(40)))
        assert ran.count("COMMIT") <= 5
        for number in range(40):
            (row,) = await store.messages(f"s{number}")
            assert row.message["content"] == f"message {number}"


async def test_an_append_that_is_refused_fails_alone(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        appends = [store.append("s", [user(f"message {number}")]) for number in range(10)]
        appends.insert(5, store.append("s", [user("of an older view")], after=99))
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert isinstance(results.pop(5), StaleHistory)
        assert [result.first_seq for result in results if not isinstance(result, BaseException)] == list(range(10))
        rows = await store.messages("s")
        assert [row.message["content"] for row in rows] == [f"message {number}" for number in range(10)]
