"""How much of a window goes to what, and when automatic compaction is left off."""

from __future__ import annotations

from typing import Any

import pytest

from clew.config import CompressionSettings
from clew.engines import budgets_for, budgets_for_target
from clew.engines.compressor.plan import Strikes
from clew.errors import InvalidArgument

DEFAULTS = CompressionSettings()


def test_a_window_of_200k_has_the_figures_of_the_specification() -> None:
    budgets = budgets_for(200_000, DEFAULTS)
    assert (budgets.threshold, budgets.tail, budgets.max_summary) == (100_000, 20_000, 10_000)


def test_a_summary_is_a_fifth_of_the_content_within_its_limits() -> None:
    budgets = budgets_for(200_000, DEFAULTS)
    assert budgets.summary(30_000, fixed=0) == 6_000
    assert budgets.summary(5_000, fixed=0) == 2_000
    assert budgets.summary(90_000, fixed=0) == 10_000
    assert budgets_for(1_000_000, DEFAULTS).summary(900_000, fixed=0) == 12_000


def test_a_summary_of_little_content_stays_shorter_than_it() -> None:
    assert budgets_for(200_000, DEFAULTS).summary(1_000, fixed=0) == 600


@pytest.mark.parametrize("threshold", [0.01, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("max_output", [None, 4_000, 64_000, 10_000_000])
def test_thresholds_rise_with_the_window_and_leave_room_for_the_reply(threshold: float, max_output: int | None) -> None:
    settings = CompressionSettings(threshold=threshold)
    before = 0
    for window in [*range(2_000, 40_000, 500), *range(40_000, 2_000_001, 40_000)]:
        budgets = budgets_for(window, settings, max_output)
        reserve = min(window // 4, 16_000) if max_output is None else min(window * 3 // 4, max_output)
        assert before <= budgets.threshold <= window - reserve
        before = budgets.threshold


def test_every_budget_of_a_small_window_is_smaller_than_the_window() -> None:
    budgets = budgets_for(2_000, DEFAULTS)
    assert (budgets.threshold, budgets.tail, budgets.max_summary) == (1_000, 200, 100)
    assert budgets.summary(50_000, fixed=0) == 100
    assert budgets.threshold + budgets.tail + budgets.head + budgets.max_summary < budgets.window


@pytest.mark.parametrize("window", [1, 500, 1_000, 1_999])
def test_no_window_is_refused_for_being_small(window: int) -> None:
    assert budgets_for(window, DEFAULTS).window == window


@pytest.mark.parametrize("window", [0, -1])
def test_what_is_no_window_is_refused_by_its_value(window: int) -> None:
    with pytest.raises(InvalidArgument, match=f"context_length={window} is no window"):
        budgets_for(window, DEFAULTS)


def test_a_target_is_shared_out_and_the_summary_takes_what_is_left() -> None:
    budgets = budgets_for_target(10_000, DEFAULTS)
    assert (budgets.tail, budgets.threshold) == (2_000, 10_000)
    assert budgets.summary(400_000, fixed=3_000) == 7_000
    assert budgets.summary(400_000, fixed=12_000) == 500


def test_a_target_without_room_for_anything_is_refused_with_the_least() -> None:
    with pytest.raises(InvalidArgument, match="target_tokens=399 is too small; use at least 400"):
        budgets_for_target(399, DEFAULTS)


# -- strikes -----------------------------------------------------------------------------------------------------------


def test_a_compaction_that_frees_a_tenth_and_fits_is_no_strike() -> None:
    assert Strikes(1, 500).after_compaction(1_000, 900, threshold=950) == Strikes(0, 900, 1)


@pytest.mark.parametrize(("before", "after", "threshold"), [(1_000, 901, 950), (1_000, 500, 500), (1_000, 1_000, 1)])
def test_one_that_frees_less_or_leaves_too_much_is_a_strike(before: int, after: int, threshold: int) -> None:
    assert Strikes().after_compaction(before, after, threshold).count == 1


def test_a_compaction_below_the_threshold_is_no_strike() -> None:
    assert Strikes().after_compaction(1_000, 990, 2_000) == Strikes(0, 990, 1)


def test_two_strikes_in_a_row_are_out_and_growth_forgives_them() -> None:
    strikes = Strikes().after_compaction(1_000, 990, 500).after_compaction(1_000, 990, 500)
    assert strikes.is_paused
    assert strikes.after_growth(1_039, 500).is_paused
    assert not strikes.after_growth(1_040, 500).is_paused
    assert strikes.after_growth(1_040, 500).compactions == 2


def test_a_try_that_changed_nothing_is_a_strike_only_above_the_threshold() -> None:
    assert Strikes().after_no_change(1_000, 500) == Strikes(1, 1_000, 0)
    assert Strikes().after_no_change(400, 500) == Strikes()


def test_strikes_outlive_a_restart_as_json() -> None:
    strikes = Strikes(2, 900, 7)
    assert Strikes.of_json(strikes.as_json()) == strikes


@pytest.mark.parametrize("odd", [{}, {"strikes": "2"}, {"strikes": True, "left_at": None}, {"strikes": -4}])
def test_a_state_that_makes_no_sense_is_no_strike(odd: dict[str, Any]) -> None:
    assert Strikes.of_json(odd) == Strikes()
