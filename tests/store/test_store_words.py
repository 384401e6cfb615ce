"""Words of texts and of queries, snippets, and who a message is."""

from __future__ import annotations

from itertools import pairwise

import pytest

from clew.messages import Message
from clew.store.identity import FIRST_CHAIN, Chain, chains_after, next_chain
from clew.store.matching import FoldedText
from clew.store.query import parse_query
from clew.store.snippet import cut_snippet
from clew.store.wordforms import forms_of
from clew.store.words import STRETCH_CHARS, folded, hump_parts, searchable_text, spaced, stretches_of, words_of
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
    found = words_of(folded(text))
    assert found[:2] == words[:2] and len(found) == len(words)


def test_splitting_at_spaces_finds_the_same_words() -> None:
    text = folded("请检查 connection池，第3次")
    assert words_of(spaced(text)) == words_of(text)


def test_names_with_humps_give_their_parts_once() -> None:
    assert hump_parts("getUserName(userName) and HTTPServerError, plain") == [
        "get",
        "user",
        "name",
        "http",
        "server",
        "error",
    ]
    assert hump_parts("nothing here: a_b 12") == []


def test_arguments_of_calls_are_read_without_their_escapes() -> None:
    text = searchable_text(
        assistant("hm", [call("patch", {"new": "def a():\n\treturn 1", "n": 3}), call("x", "{broken")])
    )
    assert "\n\treturn 1" in text and "n: 3" in text and "{broken" in text


def test_stretches_cover_everything_and_share_their_borders() -> None:
    text = "word " * 5_000
    found = list(stretches_of(text))
    assert found[0][0] == 0 and found[-1][1] == len(text)
    for (_, stop), (start, _) in pairwise(found):
        assert start < stop
    assert all(stop - start <= STRETCH_CHARS for start, stop in found)


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
    ],
)
def test_word_forms_meet(word: str, other: str) -> None:
    assert word == other or other in forms_of(word)
    assert forms_of(word)[0] == word


def test_stop_words_count_only_when_there_is_nothing_else() -> None:
    assert [term.any_of[0].words for term in parse_query("what is the timeout").terms] == [("timeout",)]
    assert [term.any_of[0].words for term in parse_query("to be").terms] == [("to",), ("be",)]
    assert parse_query("?!").terms == ()


def test_a_match_needs_borders_and_humps_are_borders() -> None:
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


def test_a_chain_names_the_whole_past() -> None:
    a, b = user("a"), user("b")
    assert chains_after(FIRST_CHAIN, [a, b])[1] != chains_after(FIRST_CHAIN, [b, b])[1]
    assert next_chain(FIRST_CHAIN, user("ab")) != next_chain(FIRST_CHAIN, {"role": "user", "content": "a", "name": "b"})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"role": "user", "content": "a"}, {"content": "a", "role": "user"}, True),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "name": None}, True),
        ({"role": "assistant", "content": None}, {"role": "assistant", "content": ""}, True),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "cache_control": {}}, True),
        ({"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}, False),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "name": "x"}, False),
        ({"role": "tool", "content": "a"}, {"role": "tool", "content": "a", "is_error": True}, False),
        ({"role": "tool", "content": "a"}, {"role": "tool", "content": "a", "is_error": False}, True),
        (
            {"role": "assistant", "content": None, "reasoning": [{"t": 1}]},
            {"role": "assistant", "content": None, "reasoning": [{"t": 2}]},
            False,
        ),
    ],
)
def test_what_makes_another_message(one: Message, other: Message, same: bool) -> None:
    assert (next_chain(FIRST_CHAIN, one) == next_chain(FIRST_CHAIN, other)) is same


def test_a_remembered_chain_is_the_one_computed_anew() -> None:
    history = [user("a"), user("b"), user("c")]
    chain = Chain()
    assert chain.of(history[:2]) == chains_after(FIRST_CHAIN, history[:2])
    assert chain.of(history) == chains_after(FIRST_CHAIN, history)
    edited = [history[0], user("x"), history[2]]
    assert chain.of(edited) == chains_after(FIRST_CHAIN, edited)
    assert chain.of(edited[:1]) == chains_after(FIRST_CHAIN, edited[:1])
