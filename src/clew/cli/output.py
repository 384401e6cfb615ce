"""What reaches the terminal: lines, colours, tables, bars and JSON, fitted to where they go.

Knows widths and glyphs, and nothing of what is shown. Text from outside passes `printable` first: a tool result may
hold escape codes that would drive the person's terminal.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TextIO, TypeAlias

NARROWEST, WIDEST, UNKNOWN_WIDTH = 60, 120, 80
Align: TypeAlias = Literal["<", ">"]

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "white": "37",
}


@dataclass(frozen=True, slots=True)
class Console:
    """Where a command's words go, and what that place can show."""

    out: TextIO
    err: TextIO
    environ: Mapping[str, str]
    width: int
    colors: bool
    unicode: bool
    live: bool
    """stderr is a terminal: a progress line may be drawn and wiped."""

    def say(self, line: str = "") -> None:
        """One line of the result."""
        print(_encodable(line, self.out), file=self.out)

    def say_json(self, value: Any) -> None:
        """The result for programs; lone surrogates stay readable as escapes."""
        text = json.dumps(value, ensure_ascii=False, indent=2)
        print(text if _fits(text, self.out) else json.dumps(value, indent=2), file=self.out)

    def note(self, line: str) -> None:
        """One line that is not part of the result."""
        self.wipe()
        print(_encodable(f"clew: {line}", self.err), file=self.err)

    def fail(self, line: str) -> None:
        """Why the command gives up, on one line."""
        self.note(" ".join(printable(line).split()))

    def progress(self, line: str) -> None:
        """A line that the next one replaces; only drawn where somebody watches."""
        if self.live:
            self.err.write(f"\r\x1b[K{_encodable(line[: self.width - 1], self.err)}")
            self.err.flush()

    def wipe(self) -> None:
        """Take the progress line away."""
        if self.live:
            self.err.write("\r\x1b[K")

    def paint(self, text: str, *styles: str) -> str:
        """The text in a style, where the place has styles."""
        if not (self.colors and styles and text):
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def console_for(out: TextIO, err: TextIO, environ: Mapping[str, str]) -> Console:
    """The console that these streams and this environment make."""
    fancy = out.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    live = err.isatty() and environ.get("TERM") != "dumb"
    return Console(out, err, environ, _width(out, environ), fancy, _fits("█░·", out), live)


def printable(text: str) -> str:
    """The text with nothing in it that could move the cursor, change colours or fail to be encoded."""
    return "".join(char if char.isprintable() else " " for char in text)


def columns(text: str) -> int:
    """How many columns a text takes: Chinese, Japanese and Korean characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_columns_of(char) for char in text)


def clipped(text: str, width: int) -> str:
    """The text cut to a number of columns, with an ellipsis where something is missing."""
    if columns(text) <= width:
        return text
    used, kept = 0, []
    for char in text:
        used += _columns_of(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


def padded(text: str, width: int, align: Align = "<") -> str:
    """The text filled with spaces to a number of columns."""
    space = " " * max(0, width - columns(text))
    return space + text if align == ">" else text + space


def table(rows: Sequence[Sequence[str]], aligns: Sequence[Align], width: int, gap: int = 2) -> list[str]:
    """Rows as lines: each column as wide as its widest cell, the last one cut to what is left."""
    if not rows:
        return []
    widths = [max(columns(row[index]) for row in rows) for index in range(len(aligns))]
    before_last = sum(widths[:-1]) + gap * (len(widths) - 1)
    widths[-1] = max(1, min(widths[-1], width - before_last))
    return [_line(row, aligns, widths, gap).rstrip() for row in rows]


def shares(parts: Sequence[float], cells: int) -> list[int]:
    """Cells of a bar for each part of 1.0: they add up to the whole, and what is there at all gets one if it can."""
    wanted = [part * cells for part in parts]
    given = [max(1, int(want)) if want > 0 else 0 for want in wanted]
    total = min(cells, max(round(sum(wanted)), sum(1 for want in wanted if want > 0)))
    while sum(given) > total:
        given[max(range(len(given)), key=lambda index: (given[index] > 1, given[index] - wanted[index]))] -= 1
    while sum(given) < total:
        given[max(range(len(given)), key=lambda index: wanted[index] - given[index])] += 1
    return given


def arrow_under(place: float, words: str, cells: int, console: Console) -> str:
    """An arrow at a place (0 to 1) under a bar of so many cells, with its words on the side that has room for them."""
    at = min(cells - 1, int(place * cells))
    arrow = "▲" if console.unicode else "^"
    if at + len(words) + 2 <= cells:
        return " " * at + f"{arrow} {words}"
    return f"{words} {arrow}".rjust(at + 1)


def _line(row: Sequence[str], aligns: Sequence[Align], widths: Sequence[int], gap: int) -> str:
    cells = (
        padded(clipped(*pair), pair[1], align)
        for pair, align in zip(zip(row, widths, strict=True), aligns, strict=True)
    )
    return (" " * gap).join(cells)


def _columns_of(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _width(out: TextIO, environ: Mapping[str, str]) -> int:
    stated = environ.get("COLUMNS", "")[:6]
    known = stated.isascii() and stated.isdigit() and int(stated) > 0
    return max(NARROWEST, min(WIDEST, int(stated) if known else _terminal_width(out)))


def _terminal_width(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns or UNKNOWN_WIDTH
    except (OSError, ValueError):
        return UNKNOWN_WIDTH


def _fits(text: str, stream: TextIO) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _encodable(text: str, stream: TextIO) -> str:
    if _fits(text, stream):
        return text
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.replace("…", "...").encode(encoding, "replace").decode(encoding)
