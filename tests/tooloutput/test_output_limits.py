"""How much tool output a window allows."""

from __future__ import annotations

import pytest

from clew.errors import InvalidArgument
from clew.tooloutput import OutputLimits, limits_for


def test_a_window_of_200k_has_the_full_limits() -> None:
    assert limits_for(200_000) == OutputLimits(100_000, 200_000, 1_500)
    assert limits_for(1_000_000) == OutputLimits()


def test_an_unknown_window_has_the_full_limits() -> None:
    assert limits_for(None) == OutputLimits()


def test_a_small_window_has_small_limits() -> None:
    assert limits_for(32_000) == OutputLimits(16_000, 32_000, 1_500)
    assert limits_for(2_000) == OutputLimits(1_000, 2_000, 250)


def test_configured_limits_are_never_exceeded() -> None:
    configured = OutputLimits(per_result_chars=5_000, per_turn_chars=6_000, preview_chars=300)
    assert limits_for(200_000, configured) == configured
    assert limits_for(4_000, configured) == OutputLimits(2_000, 4_000, 300)


def test_limits_grow_with_the_window_and_never_shrink() -> None:
    sizes = [limits_for(window) for window in range(1, 300_000, 997)]
    for name in ("per_result_chars", "per_turn_chars", "preview_chars"):
        values = [getattr(limits, name) for limits in sizes]
        assert values == sorted(values)


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_of_nothing_is_refused(window: int) -> None:
    with pytest.raises(InvalidArgument, match=f"window_tokens = {window}"):
        limits_for(window)


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="per_turn_chars = 0"):
        OutputLimits(per_turn_chars=0)
