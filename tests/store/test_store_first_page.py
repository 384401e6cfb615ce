"""The first page of a search: what many rows say does not hide what one row alone says."""

from __future__ import annotations

from pathlib import Path

from clew.store import NewSession, SearchAnswer, open_store
from clew.testing import assistant, user

QUERY = "read the file src/importer/feed.py from line 4711 with limit 100"


async def _answer(tmp_path: Path, query: str, limit: int) -> SearchAnswer:
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        rare = user("feed.py(4711,8): a property is missing")
        often = [assistant(f"read the file src/importer/feed.py, line {n}, limit 100") for n in range(200, 320)]
        await store.append("s", [rare, *often, *(user(f"thought number {n} is of other things") for n in range(2_000))])
        return await store.search(query, limit=limit)


async def test_the_only_row_with_a_rare_word_is_on_the_first_page(tmp_path: Path) -> None:
    answer = await _answer(tmp_path, QUERY, 10)
    assert len(answer.hits) == 10
    assert answer.hits[0].seq != 0
    assert 0 in [hit.seq for hit in answer.hits]


async def test_a_page_of_one_hit_holds_the_best(tmp_path: Path) -> None:
    (hit,) = (await _answer(tmp_path, QUERY, 1)).hits
    assert hit.seq != 0


async def test_no_row_is_on_a_page_twice(tmp_path: Path) -> None:
    numbers = [hit.seq for hit in (await _answer(tmp_path, QUERY + " missing property", 6)).hits]
    assert len(numbers) == len(set(numbers)) == 6


async def test_the_snippet_shows_the_word_that_says_most(tmp_path: Path) -> None:
    text = "worker worker worker said nothing new. " * 40 + "The token was quokka. " + "And so it went on. " * 40
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user(text), *(assistant(f"the worker said {n}") for n in range(30))])
        best = (await store.search("worker said quokka")).hits[0]
    assert best.seq == 0 and "quokka" in best.snippet.text
