"""Text of models and tools cannot steer the terminal."""

from __future__ import annotations

from clew.cli.output import columns
from clew.cli.tui.harmless import harmless, harmless_line, rows_of

ESC = "\x1b"


def test_colours_titles_and_cursor_moves_are_taken_out_whole() -> None:
    text = f"{ESC}[31mred{ESC}[0m {ESC}]0;a title\x07and {ESC}[2J{ESC}[1;1Hhome\x9b5A"
    assert harmless(text) == "red and home"


def test_line_ends_and_tabs_stay() -> None:
    assert harmless("a\tb\r\nc\rd\n") == "a\tb\nc\nd\n"


def test_nothing_turns_the_direction_of_writing() -> None:
    assert harmless("rm \u202efr-\u202c x") == "rm fr- x"


def test_words_of_every_script_stay() -> None:
    text = "naïve 时钟 慢了 ありがとう 한국어 é 👩‍💻"
    assert harmless(text) == text


def test_half_a_surrogate_pair_does_not_reach_the_encoder() -> None:
    harmless("a\ud83d b").encode()


def test_one_line_is_one_line() -> None:
    assert harmless_line(f"git commit\n-m {ESC}[1mx") == "git commit -m x"


def test_rows_fit_their_width_and_the_last_ones_are_kept() -> None:
    rows = rows_of("first\n" + "时" * 50 + "\nlast", 20, 4)
    assert rows[-1] == "last"
    assert len(rows) == 4
    assert all(columns(row) <= 20 for row in rows)


def test_only_the_end_of_a_long_tail_is_looked_at() -> None:
    assert rows_of("x" * 1_000_000 + "\nend", 80, 3)[-1] == "end"


def test_rows_break_at_spaces_and_lose_nothing_but_those() -> None:
    words = "the clock in hall three runs late by a little every single day"
    rows = rows_of(words, 20, 9)
    assert " ".join(rows) == words
    assert all(columns(row) <= 20 for row in rows)


def test_rows_do_not_dance_while_a_long_line_grows() -> None:
    text = "word " * 1_000
    before, after = rows_of(text, 80, 5), rows_of(text + "w", 80, 5)
    assert after[:-1] == before[:-1]
