"""What goes on right now: rows that fit, the newest where not all do."""

from __future__ import annotations

from clew.cli.text import display_width
from clew.cli.tui.screen import MAX_OUTPUT_ROWS, LiveArea, RunningCompaction, RunningTool


def texts(live: LiveArea, width: int = 79, most: int = 12, now: float = 100.0) -> list[str]:
    return [text for _, text in live.rows(now, width, most)]


def test_nothing_goes_on() -> None:
    assert texts(LiveArea()) == []


def test_a_waiting_person_sees_for_what_and_how_long() -> None:
    (row,) = texts(LiveArea(waiting="waiting for the model", waiting_since=96.8))
    assert row.endswith("waiting for the model 3 s")


def test_the_end_of_the_reply_is_shown_in_place_of_waiting() -> None:
    live = LiveArea(waiting="waiting for the model", tail="\n".join(f"row {number}" for number in range(50)))
    rows = texts(live, most=5)
    assert rows == [f"row {number}" for number in range(45, 50)]


def test_thinking_is_one_short_row() -> None:
    (row,) = texts(LiveArea(thinking="I should look.\nThen I should think again. " * 20))
    assert row.startswith("thinking: …")
    assert display_width(row) <= 79


def test_a_running_command_shows_its_last_lines_without_their_colours() -> None:
    running = RunningTool("terminal pytest -q", 98.0)
    for number in range(20):
        running.append(f"\x1b[32mline {number}\x1b[0m\n")
    rows = texts(LiveArea(running={"1": running}))
    assert rows[0] == "⏵ terminal pytest -q  2 s"
    assert rows[1:] == [f"  line {number}" for number in range(20 - MAX_OUTPUT_ROWS, 20)]


def test_a_command_that_prints_without_end_is_not_kept_whole() -> None:
    running = RunningTool("terminal yes", 0.0)
    for _ in range(10_000):
        running.append("y\n" * 10)
    assert len(running.output_tail) < 5_000


def test_a_compaction_shows_why_its_phase_and_its_seconds() -> None:
    (row,) = texts(LiveArea(compacting=RunningCompaction("usage", 61_240, 97.0)))
    assert row.endswith("compacting (usage): summarise 3 s · 61,240 tokens")


def test_what_is_queued_is_seen() -> None:
    assert texts(LiveArea(queued=["and then\nthis"])) == ["queued: and then this"]


def test_a_long_queue_does_not_push_the_reply_away() -> None:
    rows = texts(LiveArea(tail="the reply", queued=[f"line {number}" for number in range(9)]))
    assert rows == ["the reply", "queued: line 0", "queued: line 1", "queued: line 2", "queued: 6 more"]


def test_there_are_never_more_rows_than_there_is_room() -> None:
    live = LiveArea(tail="x\n" * 100, running={str(n): RunningTool(f"t {n}", 0.0) for n in range(9)}, queued=["q"] * 9)
    assert len(texts(live, most=6)) == 6
