from __future__ import annotations

import pytest

from clew.tokens.families import FAMILIES
from clew.tokens.vocabularies import vocabulary, without_lone_surrogates


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello", 1), ("hello world", 2), ("你好", 1), ("tiktoken is great!", 6)],
)
def test_texts_have_the_counts_of_openais_vocabulary(text: str, tokens: int) -> None:
    assert vocabulary("o200k_base").count(text) == tokens


def test_markers_in_a_text_are_counted_as_the_characters_they_are() -> None:
    count = vocabulary("o200k_base").count
    assert count("<|endoftext|>") > 3
    assert count("before <|im_start|> after") == count("before <|im_start|>") + count(" after")


def test_half_a_surrogate_pair_is_counted_as_a_replacement_character() -> None:
    count = vocabulary("o200k_base").count
    assert count("a \ud83d b") == count("a \ufffd b")
    assert without_lone_surrogates("\ud83d\ude00 \ude00") == "😀 \ufffd"


@pytest.mark.parametrize("line", ["value = 1\n", "{}\n", "//\n", "no line end at all, "])
def test_a_long_text_counted_in_pieces_has_the_count_of_its_lines(line: str) -> None:
    count = vocabulary("o200k_base").count
    per_thousand = count(line * 2_000) - count(line * 1_000)
    lines = 2_500_000 // len(line) // 1_000 * 1_000
    assert count(line * lines) == pytest.approx(per_thousand * lines / 1_000, abs=10)


def test_a_million_spaces_are_counted() -> None:
    assert 0 < vocabulary("o200k_base").count(" " * 1_000_000) < 20_000


@pytest.mark.parametrize("name", sorted({family.vocabulary for family in FAMILIES if family.vocabulary}))
def test_every_vocabulary_that_a_family_names_is_in_the_wheel(name: str) -> None:
    assert vocabulary(name).count("Some words, and 12 numbers.") in range(5, 14)
