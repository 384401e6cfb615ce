from __future__ import annotations

import base64
import random

import pytest

from clew.tokens.count import Estimator, features, vocabulary
from clew.tokens.families import FAMILIES
from clew.tokens.weights import CLASSES, LEAD_SCALE, LEAD_WEIGHTS, PAIR_SCALE, PAIR_WEIGHTS
from tests.support.cases import every_case


@every_case(
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
    assert count("\ud83d\ude00 \ude00") == count("😀 \ufffd")


@every_case("line", ["value = 1\n", "{}\n", "//\n", "no line end at all, "])
def test_a_long_text_counted_in_pieces_has_the_count_of_its_lines(line: str) -> None:
    count = vocabulary("o200k_base").count
    per_thousand = count(line * 2_000) - count(line * 1_000)
    lines = 2_500_000 // len(line) // 1_000 * 1_000
    assert count(line * lines) == pytest.approx(per_thousand * lines / 1_000, abs=10)


def test_a_million_spaces_are_counted() -> None:
    assert 0 < vocabulary("o200k_base").count(" " * 1_000_000) < 20_000


@every_case("name", sorted({family.vocabulary for family in FAMILIES if family.vocabulary}))
def test_every_vocabulary_that_a_family_names_is_in_the_wheel(name: str) -> None:
    assert vocabulary(name).count("Some words, and 12 numbers.") in range(5, 14)


PROSE = (
    "The lighthouse keeper wrote down every ship that passed, the hour, the weather and the colour of its flag. "
    "When the winter storms began, he moved his bed into the tower, because the road to the village was under water. "
)
CODE = """
def longest_run(values: list[int]) -> int:
    best = current = 0
    for before, after in zip(values, values[1:]):
        current = current + 1 if after > before else 0
        best = max(best, current)
    return best + 1
"""
LOG = "2026-02-11 08:14:55,120 ERROR [db.pool] connection refused host=10.0.4.17 port=5432 attempt=3 elapsed=1250ms\n"
CHINESE = "昨天的部署失败了，因为服务器的磁盘已经写满，我们先清理日志，再重新启动所有的服务。"
JAPANESE = "昨日のデプロイは失敗しました。ディスクがいっぱいだったので、ログを消してから再起動します。"
KOREAN = "어제 배포는 디스크가 가득 차서 실패했습니다. 로그를 지운 다음 모든 서비스를 다시 시작합니다."
RUSSIAN = "Вчера выкладка не удалась: на диске не осталось места. Сначала удалим журналы, потом перезапустим службы. "


@every_case("weights", ["o200k", "gemma"])
def test_the_tables_have_a_weight_for_every_pair_and_every_leading_byte(weights: str) -> None:
    assert [len(row) for row in PAIR_WEIGHTS[weights]] == [16] * 16
    assert len(LEAD_WEIGHTS[weights]) == 64
    assert all(0 <= weight <= 255 for row in PAIR_WEIGHTS[weights] for weight in row)


def test_no_character_is_in_two_classes() -> None:
    characters = "".join(CLASSES)
    assert len(characters) == len(set(characters))


@every_case("text", [PROSE, CODE, LOG, CHINESE, "", "x", "a" * 200_001, CHINESE * 3_000, "\ud800 alone"])
def test_the_quick_sum_is_the_sum_of_weights_over_features(text: str) -> None:
    flat = [weight / PAIR_SCALE for row in PAIR_WEIGHTS["o200k"] for weight in row]
    flat += [weight / LEAD_SCALE for weight in LEAD_WEIGHTS["o200k"]]
    expected = sum(weight * count for weight, count in zip(flat, features(text), strict=True))
    # A long text is summed in blocks, and the pair across a cut is counted as the end of one.
    assert Estimator("o200k", {}).tokens(text) == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_additions_to_pairs_are_added_once_for_each_occurrence() -> None:
    space, small_letter = 8, 1
    plain, more = Estimator("o200k", {}), Estimator("o200k", {(space, small_letter): 0.5})
    assert more.tokens("one of each and all") - plain.tokens("one of each and all") == pytest.approx(4 * 0.5, abs=0.03)


@every_case(
    ("text", "percent"),
    [
        (PROSE * 4, 12),
        (CODE * 6, 12),
        (LOG * 20, 15),
        (CHINESE * 20, 15),
        (JAPANESE * 20, 15),
        (KOREAN * 20, 15),
        (RUSSIAN * 10, 15),
        (base64.b64encode(random.Random(7).randbytes(3_000)).decode(), 6),
        (random.Random(7).randbytes(3_000).hex(), 6),
    ],
)
def test_the_estimate_is_near_the_vocabulary_on_every_kind_of_text(text: str, percent: int) -> None:
    exact = vocabulary("o200k_base").count(text)
    assert Estimator("o200k", {}).tokens(text) == pytest.approx(exact, rel=percent / 100)


def test_a_run_of_spaces_costs_next_to_nothing() -> None:
    assert Estimator("o200k", {}).tokens(" " * 1_000_000) < 40_000
