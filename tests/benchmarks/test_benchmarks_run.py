"""The benchmarks run on tiny inputs. What they find is theirs to report: no figure is asserted here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import compress
import quality
from clew.messages import repair
from clew.testing import user
from hermes_side import load_hermes


def test_every_operation_is_measured_without_hermes() -> None:
    rows = list(compress.measured(compress.history_of(120), None, 1))
    assert [row["operation"] for row in rows] == list(compress.LIMITS_MS)
    assert all(row["clew min ms"] >= 0 and row["hermes min ms"] is None for row in rows)


def test_the_ledger_is_measured_per_kilobyte() -> None:
    kilobytes, microseconds = compress.ledger_pass(30)
    assert kilobytes > 1_000
    assert microseconds > 0


def test_hermes_that_is_missing_is_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_hermes(None) is None
    assert load_hermes(tmp_path) is None
    assert "missing" in capsys.readouterr().out


def test_a_growing_conversation_is_sound_and_holds_what_was_planted() -> None:
    conversation = quality.GrowingConversation(32_000)
    conversation.grow()
    assert not repair(conversation.view).repairs
    assert {fact.kind for fact in conversation.facts} == set(quality.KINDS)
    assert all(quality.is_there(fact, conversation.view) for fact in conversation.facts)


def test_a_later_error_of_the_same_command_takes_the_place_of_the_earlier_one() -> None:
    conversation = quality.GrowingConversation(8_000)
    for _ in range(4):
        conversation.grow()
    assert [fact.planted_at for fact in conversation.facts if fact.key == "make integration"] == [4]


def test_every_mode_is_compacted_and_accounted_for() -> None:
    rows, lost = quality.certain([16_000], [1, 2])
    assert [(row["mode"], row["compactions"]) for row in rows] == [
        (mode, number) for mode in quality.COMPACTORS for number in (1, 2)
    ]
    assert {fact["kind"] for fact in lost} <= set(quality.KINDS)


def test_a_gap_in_the_numbers_of_actions_is_seen() -> None:
    assert quality.numbered_without_gap("## Completed actions\n1. a\n2. b\n\n## Blocked\n3. c")
    assert not quality.numbered_without_gap("## Completed actions\n1. a\n3. b")


def test_a_target_in_chars_becomes_one_in_tokens() -> None:
    scorer = SimpleNamespace(text=lambda message: message["content"])
    target = quality.target_for_chars([user("word and word again, " * 5_000)], scorer)
    assert quality.TARGET_CHARS / 8 < target < quality.TARGET_CHARS / 2
