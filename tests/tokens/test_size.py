from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from clew.messages import Message
from clew.tokens import Calibration, ConversationSize, counter_for

COUNTER = counter_for("claude-sonnet-4-5")


def message_of(words: int) -> Message:
    return {"role": "user", "content": "thread " * words}


def test_a_fresh_conversation_has_the_size_that_was_counted() -> None:
    size = ConversationSize(COUNTER, system="You are careful.")
    counts = [size.append(message_of(50)), size.append(message_of(70))]
    assert size.counts == counts
    assert size.tokens == size.counted == COUNTER.request + COUNTER.system("You are careful.") + sum(counts)
    assert not size.is_measured


def test_after_a_reply_the_size_is_the_real_figure_and_the_counted_difference() -> None:
    size = ConversationSize(COUNTER)
    size.append(message_of(500))
    assert size.observe(21_000)
    assert size.tokens == 21_000
    added = size.append(message_of(100))
    assert size.tokens == 21_000 + added


def test_a_figure_may_arrive_after_the_reply_was_appended() -> None:
    size = ConversationSize(COUNTER)
    size.append(message_of(500))
    reply = size.append({"role": "assistant", "content": "I see."})
    assert size.observe(9_000, messages=1)
    assert size.tokens == 9_000 + reply


def test_counts_from_a_store_are_used_and_the_messages_not_read() -> None:
    size = ConversationSize(COUNTER, counts=[10, 20, 30])
    assert size.append({"role": "user", "content": "x" * 10_000}, count=40) == 40
    assert size.counts == [10, 20, 30, 40]
    assert size.between(1, 3) == 50
    assert len(size) == 4


def test_a_compaction_replaces_counts_and_keeps_what_is_unseen() -> None:
    size = ConversationSize(COUNTER, counts=[1_000] * 100)
    size.observe(120_000)
    size.replace(3, 80, [2_000])
    assert size.counts == [1_000] * 3 + [2_000] + [1_000] * 20
    assert size.tokens == 120_000 - 77_000 + 2_000


def test_truncating_forgets_the_last_messages() -> None:
    size = ConversationSize(COUNTER, counts=[5, 6, 7])
    size.truncate(1)
    assert size.counts == [5]
    size.truncate(-3)
    assert size.counts == []


def test_system_and_tools_are_counted_again_only_when_they_are_others() -> None:
    tools = [{"name": "read_file", "description": "Read a part of a file."}]
    size = ConversationSize(COUNTER, system="one", tools=tools)
    system, before = size.system, size.tools
    size.set_tools(json.loads(json.dumps(tools)))
    assert size.tools == before
    size.set_tools([*tools, {"name": "walk", "description": "Follow the thread."}])
    size.set_system("a longer system prompt than before")
    assert size.tools > before
    assert size.system > system
    size.set_tools(None)
    assert size.tools == 0


def test_system_and_tools_are_corrected_as_the_whole_size_is() -> None:
    tools = [{"name": "read_file", "description": "Read a part of a file. " * 90}]
    size = ConversationSize(COUNTER, system="Be brief. " * 90, tools=tools, calibration=Calibration(1.5, 100_000))
    assert size.fixed == round(1.5 * (size.system + size.tools)) <= size.tokens
    size = ConversationSize(COUNTER, system="Be brief. " * 90, tools=tools, calibration=Calibration(1.8, 100_000))
    size.observe(size.counted // 2)
    assert size.fixed == size.tokens


def test_tools_that_cannot_be_written_as_json_are_counted_all_the_same() -> None:
    loop: dict[str, Any] = {"name": "loop"}
    loop["self"] = loop
    assert ConversationSize(COUNTER, tools=[loop]).tools > 0


@pytest.mark.parametrize("absurd", [0, -5, None, True, 3, 100_000_000])
def test_an_absurd_figure_changes_nothing(absurd: int | None) -> None:
    size = ConversationSize(COUNTER, counts=[1_000] * 20)
    size.observe(25_000)
    before = (size.tokens, size.calibration)
    assert not size.observe(absurd)
    assert (size.tokens, size.calibration) == before


def test_sizes_of_a_host_that_dropped_messages_are_used_once_they_grow_alike() -> None:
    size = ConversationSize(COUNTER, counts=[1_000] * 100)
    size.observe(110_000)
    taken = []
    for real in (12_000, 13_000, 14_050, 15_000):
        size.append(message_of(1), count=1_000)
        taken.append(size.observe(real))
    assert taken == [False, False, True, True]
    assert size.tokens == 15_000


def test_the_sizes_of_a_provider_that_reports_only_what_was_not_cached_are_not_used() -> None:
    size = ConversationSize(COUNTER, counts=[1_000] * 100)
    size.observe(110_000)
    for real in (7, 7, 9, 1_004, 7, 7):
        size.append(message_of(1), count=1_000)
        assert not size.observe(real)
    assert size.tokens == 116_000


def test_growth_teaches_the_ratio_and_fresh_conversations_start_with_it() -> None:
    size = ConversationSize(COUNTER)
    real = 20_000
    for _ in range(60):
        size.observe(real)
        real += round(1.2 * size.append(message_of(1), count=1_000))
    assert size.calibration.ratio == pytest.approx(1.2, abs=0.03)
    fresh = ConversationSize(COUNTER, calibration=size.calibration, counts=[10_000])
    assert fresh.tokens == pytest.approx(12_000, rel=0.03)


def test_what_was_learnt_survives_a_store() -> None:
    learnt = Calibration().learnt_from(10_000, 12_000)
    assert learnt.ratio > 1.1
    assert Calibration.from_plain(json.loads(json.dumps(learnt.as_plain()))) == learnt


@pytest.mark.parametrize(
    "stored", [None, 3, {}, {"ratio": "1"}, {"ratio": 50, "evidence": 1}, {"ratio": float("nan"), "evidence": 0}]
)
def test_a_stored_calibration_that_makes_no_sense_is_a_fresh_one(stored: object) -> None:
    assert Calibration.from_plain(stored) == Calibration()


@pytest.mark.parametrize(("counted", "real"), [(50, 60), (1_000, 100_000), (1_000, 10), (1_000, -500), (-1_000, -900)])
def test_a_growth_that_is_small_or_absurd_teaches_nothing(counted: int, real: int) -> None:
    assert Calibration().learnt_from(counted, real) == Calibration()


def test_the_ratio_moves_less_the_more_is_known() -> None:
    calibration = Calibration()
    steps = []
    for _ in range(5):
        learnt = calibration.learnt_from(2_000, 2_600)
        steps.append(learnt.ratio - calibration.ratio)
        calibration = learnt
    assert all(later < earlier for earlier, later in pairwise(steps))
