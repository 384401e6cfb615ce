"""A large system prompt and many tools: what a compaction leaves of the messages, so that they can grow again."""

from __future__ import annotations

import pytest

from clew.config import CompressionSettings
from clew.engines.compressor.plan import budgets_for, budgets_for_target


@pytest.mark.parametrize("window", [8_000, 48_000, 200_000, 1_000_000])
def test_what_stays_shrinks_with_what_is_left_beside_the_fixed_parts(window: int) -> None:
    budgets = budgets_for(window, CompressionSettings())
    assert budgets.beside(budgets.threshold // 5) == budgets
    before = budgets
    for share in (0.3, 0.5, 0.7, 0.9, 1.0, 2.0):
        after = budgets.beside(int(share * budgets.threshold))
        assert 0 < after.tail <= before.tail and 0 < after.head <= before.head
        assert 0 < after.max_summary <= before.max_summary
        assert after.threshold == budgets.threshold
        before = after


def test_a_target_that_the_caller_names_is_for_the_messages_alone() -> None:
    budgets = budgets_for_target(10_000, CompressionSettings())
    assert budgets.beside(9_000) == budgets
