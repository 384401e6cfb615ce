"""What is said when a chat is left."""

from __future__ import annotations

import pytest

from clew.cli.tui.chat import ChatSummary, format_duration, summary_lines
from clew.cli.tui.status import CallTotals


def test_the_summary_tells_everything_and_the_way_back() -> None:
    spent = CallTotals(9, 41_000, 20_500, 1_234, 2_500_000, 0)
    text = "\n".join(summary_lines(ChatSummary("s_1", "Late clock", 185, 3, spent, 2, 51_370)))
    assert "s_1 (Late clock)" in text
    assert "3 min 5 s, 3 questions, 9 calls of the model" in text
    assert "41,000 in (50% from the cache), 1,234 out" in text
    assert "$2.50" in text
    assert "51,370 tokens in 2 compactions" in text
    assert text.endswith("clew chat --resume s_1")


def test_an_unknown_price_is_said() -> None:
    assert any("no price" in line for line in summary_lines(ChatSummary("s", None, 3, 1, CallTotals(1, 5, 0, 1, 0, 1))))


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0 s"), (61, "1 min 1 s"), (7_900, "2 h 11 min")])
def test_durations_are_short(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown
