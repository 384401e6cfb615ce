"""Words of texts and of queries, snippets, and the first page of a search."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from clew.store import NewSession, SearchResult, SearchScope, open_store
from clew.store.search.forms import forms_of
from clew.store.search.query import FoldedText, parse_query
from clew.store.search.ranking import cut_snippet
from clew.store.search.words import (
    CHUNK_CHARS,
    camel_case_parts,
    case_folded,
    chunks_of,
    searchable_text,
    separate_unspaced,
    words_of,
)
from clew.testing import assistant, call, user


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("retry_backoff in src/a.py", ["retry", "backoff", "in", "src", "a", "py"]),
        ("数据库 ok", ["数", "据", "库", "ok"]),
        ("Café für İ", ["cafe", "fur", "i̇"]),
        ("x=0xDEADBEEF;", ["x", "0xdeadbeef"]),
        ("", []),
    ],
)
def test_words_are_letters_and_digits_folded(text: str, words: list[str]) -> None:
    found = words_of(case_folded(text))
    assert found[:2] == words[:2] and len(found) == len(words)


def test_splitting_at_spaces_finds_the_same_words() -> None:
    text = case_folded("请检查 connection池，第3次")
    assert words_of(separate_unspaced(text)) == words_of(text)


def test_camel_case_names_give_their_parts_once() -> None:
    assert camel_case_parts("getUserName(userName) and HTTPServerError, plain") == [
        "get",
        "user",
        "name",
        "http",
        "server",
        "error",
    ]
    assert camel_case_parts("nothing here: a_b 12") == []


def test_arguments_of_calls_are_read_without_their_escapes() -> None:
    text = searchable_text(
        assistant("hm", [call("patch", {"new": "def a():\n\treturn 1", "n": 3}), call("x", "{broken")])
    )
    assert "\n\treturn 1" in text and "n: 3" in text and "{broken" in text


def test_chunks_cover_everything_and_share_their_borders() -> None:
    text = "word " * 5_000
    found = list(chunks_of(text))
    assert found[0][0] == 0 and found[-1][1] == len(text)
    for (_, stop), (start, _) in pairwise(found):
        assert start < stop
    assert all(stop - start <= CHUNK_CHARS for start, stop in found)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("configured", "configuration"),
        ("configuration", "configure"),
        ("tests", "testing"),
        ("running", "run"),
        ("run", "run"),
        ("retries", "retry"),
        ("retry", "retried"),
        ("verify", "verification"),
        ("uploading", "uploader"),
        ("dropped", "dropping"),
        ("found", "find"),
        ("finding", "found"),
        ("teach", "taught"),
        ("won", "winning"),
        ("children", "child"),
        ("went", "going"),
    ],
)
def test_forms_of_a_word_include_the_other(word: str, other: str) -> None:
    assert word == other or other in forms_of(word)
    assert forms_of(word)[0] == word


def test_stop_words_count_only_when_there_is_nothing_else() -> None:
    assert [term.any_of[0].words for term in parse_query("what is the timeout").terms] == [("timeout",)]
    assert [term.any_of[0].words for term in parse_query("to be").terms] == [("to",), ("be",)]
    assert parse_query("?!").terms == ()


def test_a_match_needs_word_borders_and_camel_case_parts_have_them() -> None:
    (term,) = parse_query("user").terms
    assert [match.start for match in FoldedText("user superuser getUserName users UserID").matches(term)] == [
        0,
        18,
        27,
        33,
    ]


def test_a_snippet_ends_with_its_sentence() -> None:
    text = "One here. " * 50 + "The port is 8443. " + "Two there. " * 50
    (term,) = parse_query("8443").terms
    snippet = cut_snippet(text, FoldedText(text).matches(term), 100)
    assert "The port is 8443." in snippet.text and snippet.text.endswith(".")
    assert not snippet.is_start and not snippet.is_end
    assert cut_snippet("", []).text == ""


QUERY = "read the file src/importer/feed.py from line 4711 with limit 100"


async def _answer(tmp_path: Path, query: str, limit: int) -> SearchResult:
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


async def test_a_common_word_alone_takes_no_place_on_a_full_page(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        # Each in words of its own, so that none is left behind for being like another.
        own = [" ".join(f"place{n}of{k}" for k in range(9)) for n in range(14)]
        drives = [user(f"I spent hours driving: {words}") for words in own]
        totals = [user(f"The total of bill {n} was fine") for n in range(60)]
        await store.append(
            "s", [*totals, *(user(f"thought number {n} is of other things") for n in range(200)), *drives]
        )
        answer = await store.search("How many hours in total did I spend driving?", limit=10)
    assert len(answer.hits) == 10
    assert all("driving" in hit.snippet.text for hit in answer.hits)


async def test_a_page_of_one_hit_holds_the_best(tmp_path: Path) -> None:
    (hit,) = (await _answer(tmp_path, QUERY, 1)).hits
    assert hit.seq != 0


async def test_no_row_is_on_a_page_twice(tmp_path: Path) -> None:
    numbers = [hit.seq for hit in (await _answer(tmp_path, QUERY + " missing property", 6)).hits]
    assert len(numbers) == len(set(numbers)) == 6


async def test_the_snippet_shows_the_rarest_word(tmp_path: Path) -> None:
    text = "worker worker worker said nothing new. " * 40 + "The token was quokka. " + "And so it went on. " * 40
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user(text), *(assistant(f"the worker said {n}") for n in range(30))])
        best = (await store.search("worker said quokka")).hits[0]
    assert best.seq == 0 and "quokka" in best.snippet.text


@pytest.mark.parametrize("rare", ["sessi", "ruse", "sessionless"])
async def test_a_rare_word_is_found_among_many_that_begin_like_it(tmp_path: Path, rare: str) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        await store.start_session(NewSession(id="t"))
        await store.append("s", [user(f"the session of user {n} was open") for n in range(80)])
        await store.append("s", [user(f"it was a {rare} all along")])
        await store.append("t", [user(f"another {rare}")])
        found = await store.search(rare, SearchScope(conversation_of="s"))
        assert [hit.seq for hit in found.hits] == [80]
        assert {hit.session for hit in (await store.search(rare)).hits[:2]} == {"s", "t"}


async def test_a_word_that_only_another_conversation_holds_is_not_found(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        await store.start_session(NewSession(id="t"))
        await store.append("s", [user("a walrus")])
        await store.append("t", [user("a quokka")])
        answer = await store.search("quokka", SearchScope(conversation_of="s"))
    assert not answer.hits
    assert answer.searched is not None and answer.searched.messages == 1


def test_folding_gives_each_character_its_own_form_wherever_it_stands() -> None:
    every = [chr(point) for point in range(1, 0x20000) if not 0xD800 <= point < 0xE000]
    alone = "".join(case_folded(character + "\u0130")[0] for character in every)
    for start in range(0, len(every), 997):
        row = "".join(every[start : start + 997])
        assert case_folded(row) == alone[start : start + 997]
