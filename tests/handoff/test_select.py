"""Excerpts of long texts: which lines stay."""

from __future__ import annotations

from clew.handoff.select import excerpt


def test_the_number_of_a_line_is_no_reason_to_keep_it() -> None:
    lines = [f"{n}: " if n % 3 else f"{n}: limit_{n} = {n} * seconds" for n in range(1_100, 1_400)]
    shown = [line for line in excerpt(lines, 400) if line != "[...]"]
    assert shown
    assert all("limit_" in line for line in shown)


def test_what_the_call_looked_for_stays_with_its_number() -> None:
    lines = [f"{n}: the same words on every line" for n in range(200)]
    lines[120] = "120: the retry waits backoff_ceiling seconds"
    assert lines[120] in excerpt(lines, 120, "Where is backoff_ceiling used?")
