"""The console of a command: colours, width, encodings and progress, fitted to its streams."""

from __future__ import annotations

import io
import json

import pytest

from clew.cli.console import Console, console_for


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
    ("stated", "width"), [("100", 100), ("7", 30), ("9999", 120), ("wide", 80), ("", 80), ("0", 80)]
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
