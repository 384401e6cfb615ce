"""What the compressor remembers: strikes over restarts, and the record of a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from clew.engines.compressor.memory import Record, Strikes
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user

HISTORY: list[Message] = [
    user("Count the boats."),
    assistant(None, [call("ls", id="c1")]),
    tool("c1", "one boat\n" * 40),
    assistant("One."),
]


def test_a_compaction_that_frees_a_tenth_and_fits_is_no_strike() -> None:
    assert Strikes(1, 500).after(1_000, 900, threshold=950) == Strikes(0, 900, 1)


@pytest.mark.parametrize(("before", "after", "threshold"), [(1_000, 901, 2_000), (1_000, 500, 500), (1_000, 1_000, 1)])
def test_one_that_frees_less_or_leaves_too_much_is_a_strike(before: int, after: int, threshold: int) -> None:
    assert Strikes().after(before, after, threshold).count == 1


def test_two_strikes_in_a_row_are_out_and_growth_forgives_them() -> None:
    strikes = Strikes().after(1_000, 990, 500).after(1_000, 990, 500)
    assert strikes.out
    assert strikes.forgiven(1_039, 500).out
    assert not strikes.forgiven(1_040, 500).out
    assert strikes.forgiven(1_040, 500).compactions == 2


def test_a_try_that_changed_nothing_is_a_strike_only_above_the_threshold() -> None:
    assert Strikes().in_vain(1_000, 500) == Strikes(1, 1_000, 0)
    assert Strikes().in_vain(400, 500) == Strikes()


def test_strikes_outlive_a_restart_as_json() -> None:
    strikes = Strikes(2, 900, 7)
    assert Strikes.of_json(strikes.as_json()) == strikes


@pytest.mark.parametrize("odd", [{}, {"strikes": "2"}, {"strikes": True, "left_at": None}, {"strikes": -4}])
def test_a_memory_that_makes_no_sense_is_no_strike(odd: dict[str, Any]) -> None:
    assert Strikes.of_json(odd) == Strikes()


def test_a_record_takes_in_what_is_new() -> None:
    record = Record.of(HISTORY)
    new = [user("And the nets?")]
    assert record.catch_up([*HISTORY, *new], range(5))
    assert record.read(4) is new[0]
    assert [ask.text for ask in record.ledger.asks] == ["Count the boats.", "And the nets?"]


def test_pruned_copies_and_equal_ones_are_known_again() -> None:
    record = Record.of(HISTORY)
    pruned = [dict(HISTORY[0]), HISTORY[1], tool("c1", "[ls] listed -> 40 lines (whole: m2)"), HISTORY[3]]
    assert record.catch_up(pruned, range(4))  # type: ignore[arg-type]
    assert record.read(2) is HISTORY[2]


def test_a_system_prompt_with_a_note_behind_it_is_known_again() -> None:
    record = Record.of([system("Be brief."), *HISTORY])
    assert record.catch_up([system("Be brief.\n\n[a note]"), *HISTORY], range(5))


def test_an_edited_message_is_another_conversation() -> None:
    record = Record.of(HISTORY)
    edited = [HISTORY[0], assistant("I will not."), user("Why?"), assistant("I am tired."), user("Rest.")]
    assert not record.catch_up(edited, range(5))
    assert len(record.log) == 4


def test_a_record_of_nothing_knows_nobody() -> None:
    assert not Record().catch_up(HISTORY, range(4))
    assert not Record.of(HISTORY).catch_up(HISTORY[:2], range(2))
