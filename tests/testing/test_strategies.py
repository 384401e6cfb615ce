"""Valid histories need no repair, and the broken ones are really broken, and can be repaired."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from clew.messages import repair
from tests.support.strategies import History, broken_histories, histories

unhurried = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@unhurried
@given(histories())
def test_a_valid_history_needs_no_repair(history: History) -> None:
    assert repair(history).repairs == ()
    json.dumps(history, ensure_ascii=False).encode()


@unhurried
@given(broken_histories())
def test_a_broken_history_is_valid_after_its_repair(history: History) -> None:
    assert repair(repair(history).messages).repairs == ()


@pytest.mark.parametrize("problem", ["has no result", "JSON"])
def test_broken_histories_reach_the_faults_they_are_for(problem: str) -> None:
    def shows(history: History) -> bool:
        return any(problem in done.problem for done in repair(history).repairs)

    find(broken_histories(), shows, settings=settings(max_examples=500, phases=[Phase.generate], database=None))
