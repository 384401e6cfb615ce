"""What is typed, as a title."""

from __future__ import annotations

from clew.cli.tui.exchange import MAX_TITLE_CHARS, title_from


def test_a_short_question_is_its_own_title() -> None:
    assert title_from("  Why is the\nclock late? ") == "Why is the clock late?"


def test_a_long_one_is_cut_between_words() -> None:
    title = title_from("word " * 40)
    assert len(title) <= MAX_TITLE_CHARS + 1
    assert title.endswith("word…")
