"""The status line: figures in, words out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clew.cli.text import display_width
from clew.cli.tui.chat import ChatSummary, format_duration, summary_lines
from clew.cli.tui.status import CallTotals, StatusFigures, meter, meter_color, status_line


def status_text(figures: StatusFigures, width: int, *, unicode: bool = True) -> str:
    """The line without styles."""
    return "".join(text for _, text in status_line(figures, width, unicode=unicode)).strip()


FIGURES = StatusFigures(
    model="some-model-4",
    used=12_400,
    threshold=64_000,
    window=200_000,
    engine="compressor",
    last=CallTotals(1, 1_000, 930, 20, 100, 0),
    session=CallTotals(4, 4_000, 3_000, 90, 123_456, 0),
)


def test_everything_is_there_where_there_is_room() -> None:
    assert status_text(FIGURES, 160) == (
        "some-model-4 · ▮▯▯▯▯▯▯ 12.4K/64.0K to compaction, 200K window · cache 93% (75%) · $0.1235 · compressor"
    )


def test_at_80_columns_only_the_explanation_of_the_meter_goes() -> None:
    assert status_text(FIGURES, 80) == "some-model-4 · ▮▯▯▯▯▯▯ 12.4K/64.0K · cache 93% (75%) · $0.1235 · compressor"


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 200])
def test_it_never_gets_wider_than_the_terminal(width: int) -> None:
    figures = replace(FIGURES, model="a-model-with-quite-a-long-name-of-a-vendor", compactions=3, is_preparing=True)
    assert sum(display_width(text) for _, text in status_line(figures, width)) <= width


def test_the_meter_is_what_stays() -> None:
    assert "12.4K/64.0K" in status_text(FIGURES, 24)


@pytest.mark.parametrize(
    ("used", "color"), [(0, "green"), (37_000, "green"), (39_000, "yellow"), (55_000, "red"), (90_000, "red")]
)
def test_the_colour_tells_how_near_a_compaction_is(used: int, color: str) -> None:
    assert meter_color(used, 64_000) == color
    assert any(style == f"class:status.{color}" for style, _ in status_line(replace(FIGURES, used=used), 100))


def test_the_meter_shows_what_is_there_and_never_overflows() -> None:
    assert meter(0, 100) == "▯▯▯▯▯▯▯"
    assert meter(1, 100) == "▮▯▯▯▯▯▯"
    assert meter(500, 100) == "▮▮▮▮▮▮▮"
    assert meter(50, 100, unicode=False, cells=4) == "##.."


def test_an_unknown_price_is_no_zero() -> None:
    unknown = replace(FIGURES, session=CallTotals(2, 10, 0, 1, 0, 2))
    assert "no price" in status_text(unknown, 160)
    some = replace(FIGURES, session=CallTotals(2, 10, 0, 1, 500_000, 1))
    assert "$0.5000 + no price" in status_text(some, 160)


def test_a_paused_engine_and_a_preparation_are_seen() -> None:
    text = status_text(replace(FIGURES, is_paused=True, is_preparing=True, compactions=2), 160)
    assert "compressor paused" in text
    assert "preparing, 2 compactions" in text


def test_switched_off_compaction_is_said() -> None:
    assert "(compaction off)" in status_text(replace(FIGURES, is_enabled=False), 160)


def test_before_the_first_reply_of_a_resumed_chat_the_cache_is_that_of_all_before() -> None:
    assert "cache 75% so far" in status_text(replace(FIGURES, last=CallTotals()), 120)


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
