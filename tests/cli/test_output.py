"""Lines, bars and tables, fitted to where they go."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.cli.console import Console, console_for
from clew.cli.views.tables import bar_widths, table_lines
from clew.cli.views.text import clip, display_width, pad, printable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def console(encoding: str = "utf-8", **environ: str) -> Console:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return console_for(out, Terminal(), environ)


def written(to: Console) -> str:
    to.out.flush()
    raw = to.out.buffer.getvalue()  # type: ignore[attr-defined]
    assert isinstance(raw, bytes)
    return raw.decode(to.out.encoding)


def test_colours_are_for_terminals_and_not_where_somebody_said_no() -> None:
    assert console_for(Terminal(), Terminal(), {}).style("x", "red") == "\x1b[31mx\x1b[0m"
    for out, environ in ((io.StringIO(), {}), (Terminal(), {"NO_COLOR": "1"}), (Terminal(), {"TERM": "dumb"})):
        assert console_for(out, Terminal(), environ).style("x", "red") == "x"


@pytest.mark.parametrize(
    ("stated", "width"), [("100", 100), ("7", 60), ("9999", 120), ("wide", 80), ("", 80), ("0", 80)]
)
def test_the_width_is_sane_whatever_the_environment_says(stated: str, width: int) -> None:
    assert console(COLUMNS=stated).width == width


def test_a_stream_that_knows_only_ascii_gets_what_it_can_show() -> None:
    plain = console("ascii")
    plain.print("héllo … 修")
    plain.print_json({"text": "修"})
    assert not plain.unicode
    first, *rest = written(plain).splitlines()
    assert first == "h?llo ... ?"
    assert json.loads("\n".join(rest)) == {"text": "修"}


def test_a_lone_surrogate_breaks_neither_lines_nor_json() -> None:
    to = console()
    to.print("a\ud800b")
    to.print_json({"text": "a\ud800b"})
    first, *rest = written(to).splitlines()
    assert first == "a?b"
    assert json.loads("\n".join(rest)) == {"text": "a\ud800b"}


def test_progress_is_drawn_only_where_somebody_watches() -> None:
    watched, unwatched = Terminal(), io.StringIO()
    console_for(io.StringIO(), watched, {}).progress("reading")
    console_for(io.StringIO(), unwatched, {}).progress("reading")
    assert "reading" in watched.getvalue()
    assert unwatched.getvalue() == ""


def test_a_failure_is_one_line_whatever_is_in_it() -> None:
    err = io.StringIO()
    console_for(io.StringIO(), err, {}).error("a\nb\x1b[2J\tc")
    assert err.getvalue() == "clew: a b [2J c\n"


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
