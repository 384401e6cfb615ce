"""Text of models and tools cannot steer the terminal."""

from __future__ import annotations

from clew.cli.views.text import display_width, sanitize, sanitize_line, tail_rows

ESC = "\x1b"


def test_colours_titles_and_cursor_moves_are_taken_out_whole() -> None:
    text = f"{ESC}[31mred{ESC}[0m {ESC}]0;a title\x07and {ESC}[2J{ESC}[1;1Hhome\x9b5A"
    assert sanitize(text) == "red and home"


def test_line_ends_and_tabs_stay() -> None:
    assert sanitize("a\tb\r\nc\rd\n") == "a\tb\nc\nd\n"


def test_nothing_turns_the_direction_of_writing() -> None:
    assert sanitize("rm \u202efr-\u202c x") == "rm fr- x"


def test_words_of_every_script_stay() -> None:
    text = "naïve 时钟 慢了 ありがとう 한국어 é 👩‍💻"
    assert sanitize(text) == text


def test_half_a_surrogate_pair_does_not_reach_the_encoder() -> None:
    sanitize("a\ud83d b").encode()


def test_one_line_is_one_line() -> None:
    assert sanitize_line(f"git commit\n-m {ESC}[1mx") == "git commit -m x"


def test_rows_fit_their_width_and_the_last_ones_are_kept() -> None:
    rows = tail_rows("first\n" + "时" * 50 + "\nlast", 20, 4)
    assert rows[-1] == "last"
    assert len(rows) == 4
    assert all(display_width(row) <= 20 for row in rows)


def test_only_the_end_of_a_long_tail_is_looked_at() -> None:
    assert tail_rows("x" * 1_000_000 + "\nend", 80, 3)[-1] == "end"


def test_rows_break_at_spaces_and_lose_nothing_but_those() -> None:
    words = "the clock in hall three runs late by a little every single day"
    rows = tail_rows(words, 20, 9)
    assert " ".join(rows) == words
    assert all(display_width(row) <= 20 for row in rows)


def test_rows_do_not_dance_while_a_long_line_grows() -> None:
    text = "word " * 1_000
    before, after = tail_rows(text, 80, 5), tail_rows(text + "w", 80, 5)
    assert after[:-1] == before[:-1]
