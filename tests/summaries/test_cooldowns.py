from __future__ import annotations

import json

import pytest

from clew.summaries import Cooldowns


def test_a_rest_survives_a_restart_as_plain_json() -> None:
    cooldowns = Cooldowns()
    cooldowns.start("fast", 60, "is rate limited", now=1_000)
    again = Cooldowns.remembered(json.loads(json.dumps(cooldowns.memory)))
    rest = again.resting("fast", 1_059)
    assert rest is not None and rest.reason == "is rate limited"
    assert again.resting("fast", 1_060) is None
    assert again.resting("main", 1_000) is None


def test_force_clears_every_rest() -> None:
    cooldowns = Cooldowns()
    cooldowns.start("fast", 600, "refused", now=0)
    cooldowns.clear()
    assert cooldowns.memory == {}


def test_an_engine_can_hand_back_what_it_remembered() -> None:
    shared = Cooldowns()
    shared.restore({"fast": {"until": 70.0, "reason": "x"}})
    assert shared.resting("fast", 0) is not None


@pytest.mark.parametrize("memory", [None, [], "x", {"fast": 3}, {"fast": {"until": "soon"}}, {"fast": {"until": True}}])
def test_a_memory_that_cannot_be_read_is_forgotten(memory: object) -> None:
    assert Cooldowns.remembered(memory).memory == {}


def test_a_clock_that_was_set_back_does_not_make_anyone_rest_for_days() -> None:
    cooldowns = Cooldowns()
    cooldowns.start("fast", 60, "x", now=1_000_000)
    assert cooldowns.resting("fast", 10) is None


def test_no_rest_is_longer_than_an_hour() -> None:
    cooldowns = Cooldowns()
    cooldowns.start("fast", 1e9, "x", now=0)
    assert cooldowns.memory["fast"]["until"] == 3_600
