"""Text for a terminal: made safe, measured in columns, cut and wrapped; and the tables and bars made of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.cli.pages import bar_widths, table_lines
from clew.cli.text import clip, display_width, pad, printable, sanitize, sanitize_line, tail_rows, wrap

ESC = "\x1b"
FAMILY, FLAG, WAVE = "👨‍👩‍👧", "🇩🇪", "👋🏽"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("plain", 5),
        (FAMILY, 2),
        (FLAG, 2),
        (WAVE, 2),
        ("❤️", 2),
        ("e\u0301", 1),
        ("修复", 4),
        ("한국어", 6),
        (f"a{FAMILY}b{FLAG}c", 7),
        ("", 0),
    ],
)
def test_a_text_is_as_wide_as_a_terminal_shows_it(text: str, columns: int) -> None:
    assert display_width(text) == columns
    assert display_width(pad(text, 12)) == 12


def test_a_cut_never_parts_what_is_drawn_as_one() -> None:
    assert clip(FAMILY * 4, 5) == f"{FAMILY}{FAMILY}…"
    assert clip(FLAG * 4, 4) == f"{FLAG}…"
    assert clip("e\u0301" * 9, 4) == "e\u0301" * 3 + "…"
    assert tail_rows(FAMILY * 3, 4, 5) == [FAMILY * 2, FAMILY]
    assert wrap(f"{FAMILY * 2} {FLAG * 2}", 5) == [FAMILY * 2, FLAG * 2]


def test_an_emoji_of_several_people_stays_one_in_a_line() -> None:
    assert printable(f"a\t{FAMILY}\u202e") == f"a {FAMILY} "


def test_escape_codes_in_foreign_text_do_not_reach_the_terminal() -> None:
    assert printable("\x1b[31mred\x07\u202e\x9b") == " [31mred   "


def test_wide_characters_count_as_two_columns() -> None:
    assert display_width("修复ab") == 6
    assert display_width("e\u0301") == 1
    assert clip("修复数据库", 6) == "修复…"
    assert pad("修", 4, ">") == "  修"


def test_a_table_aligns_its_columns_and_cuts_the_last() -> None:
    lines = table_lines([("a", "1", "x" * 50), ("bbb", "1000", "y")], ("<", ">", "<"), 20)
    assert lines == ["a       1  " + "x" * 8 + "…", "bbb  1000  y"]
    assert table_lines([], ("<",), 20) == []


@settings(deadline=None)
@given(st.text(max_size=40), st.integers(min_value=1, max_value=30))
def test_a_clipped_text_never_takes_more_columns_than_it_may(text: str, width: int) -> None:
    assert display_width(clip(text, width)) <= width
    if display_width(text) <= width:
        assert clip(text, width) == text


@settings(deadline=None)
@given(
    st.lists(st.integers(min_value=0, max_value=10**7), min_size=1, max_size=8),
    st.integers(min_value=20, max_value=120),
)
def test_the_cells_of_a_bar_never_exceed_it_and_show_everything_that_is_there(tokens: list[int], cells: int) -> None:
    whole = max(sum(tokens), 10**6)
    given_cells = bar_widths([each / whole for each in tokens], cells)
    assert sum(given_cells) <= cells
    assert all((cell > 0) == (each > 0) for cell, each in zip(given_cells, tokens, strict=True))
    if sum(tokens) == whole:
        assert sum(given_cells) == cells


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
