"""A page of lines out of a file of any size, or an excerpt of one very long line, read as a stream.

Skipping to a page deep in a file takes time in proportion, but no memory.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import BinaryIO, TextIO

from clew.agent.files.file_types import LATIN1_FALLBACK, bom_of

MAX_LINES = 2_000
PAGE_CHARS = 60_000
LINE_CHARS = 2_000
_PIECE_CHARS = 1 << 16
_COUNTED_BYTES = 256 << 20
"""Above this the lines after a page are not counted: a second of work for one number."""
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


@dataclass(slots=True)
class FilePage:
    """Numbered lines of a file, and what is odd about them."""

    first: int
    lines: list[str] = field(default_factory=list)
    total_lines: int | None = None
    """Of the whole file; None where it is too large to count."""
    is_end: bool = False
    non_utf8_lines: int = 0
    """How many lines are no UTF-8, and were read as Latin-1."""
    cut_line: int | None = None
    """The first line that was too long to be shown in full."""
    is_crlf: bool = False
    lacks_final_newline: bool = False

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def read_page(file: BinaryIO, offset: int, limit: int, page_chars: int = PAGE_CHARS) -> FilePage:
    """The page that begins at line `offset`, counted from 1. A page past the end has no lines, but the total.

    Closes the file.
    """
    page, room = FilePage(first=offset), page_chars
    with _text_of(file) as text:
        page.total_lines, page.is_end = _skip_lines(text, offset - 1), True
        if page.total_lines < offset - 1:
            return page
        while len(page.lines) < limit:
            line = _next_line(text, LINE_CHARS)
            if line is None:
                page.total_lines = page.last
                return page
            shown = _line_text(page, *line)
            room -= len(shown) + 8
            if room < 0 and page.lines:
                page.total_lines, page.is_end = _count_lines(text, page.last + 1), False
                return page
            page.lines.append(shown)
        page.total_lines = _count_lines(text, page.last)
    page.is_end = page.total_lines == page.last
    return page


def read_line_excerpt(file: BinaryIO, line: int, column: int, page_chars: int = PAGE_CHARS) -> tuple[str, bool] | None:
    """The chars of a line from `column` on, counted from 1, and whether the line ends with them.

    None where there is no such line or char. Closes the file.
    """
    before, found, is_ended = column - 1, "", False
    with _text_of(file) as text:
        if _skip_lines(text, line - 1) < line - 1:
            return None
        while not is_ended and (piece := text.readline(_PIECE_CHARS)):
            is_ended = piece.endswith("\n")
            shown = _visible(piece.removesuffix("\n"))
            found += shown[before:]
            before = max(0, before - len(shown))
            if len(found) > page_chars:
                return found[:page_chars], False
    return (found, True) if found else None


def _text_of(file: BinaryIO) -> TextIO:
    """The file as text; bytes that are no UTF-8 are lone surrogates in it."""
    bom, encoding = bom_of(file.read(3))
    file.seek(len(bom))
    errors = "surrogateescape" if encoding == "utf-8" else "replace"
    return TextIOWrapper(file, encoding, errors, newline="\n")


def _skip_lines(text: TextIO, lines: int) -> int:
    """Skip so many lines; returns how many there were."""
    for skipped in range(lines):
        if _next_line(text, 0) is None:
            return skipped
    return lines


def _next_line(text: TextIO, most: int) -> tuple[str, int, bool] | None:
    """The beginning of the next line, how many chars it has, and whether it is ended; None at the end of the file."""
    head, chars, is_ended = "", 0, False
    while not is_ended and (piece := text.readline(_PIECE_CHARS)):
        is_ended = piece.endswith("\n")
        head += piece[: min(most - len(head), len(piece) - is_ended)]
        chars += len(piece) - is_ended
    return (head, chars, is_ended) if chars or is_ended else None


def _line_text(page: FilePage, head: str, chars: int, is_ended: bool) -> str:
    """A line as it is shown; notes what is odd about it."""
    more_chars = max(0, chars - LINE_CHARS)
    page.non_utf8_lines += _is_no_utf8(head)
    page.is_crlf = page.is_crlf or (is_ended and not more_chars and head.endswith("\r"))
    page.lacks_final_newline = not is_ended
    if not more_chars:
        return _visible(head.removesuffix("\r"))
    number = page.last + 1
    page.cut_line = page.cut_line or number
    return f"{_visible(head)} [... {more_chars:,} more chars: offset={number}, column={LINE_CHARS + 1}]"


def _visible(text: str) -> str:
    if _ESCAPED_BYTE.search(text):
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", LATIN1_FALLBACK)
    return text.replace("\0", "␀")


def _is_no_utf8(text: str) -> bool:
    """Whether a text has bytes that are no UTF-8; an encoded surrogate counts as some."""
    if _ESCAPED_BYTE.search(text):
        try:
            text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return True
    return False


def _count_lines(text: TextIO, so_far: int) -> int | None:
    """The lines so far and those that follow; None where the file is too large to count them."""
    if os.fstat(text.fileno()).st_size > _COUNTED_BYTES:
        return None if text.read(1) else so_far
    last = "\n"
    while piece := text.read(_PIECE_CHARS):
        so_far += piece.count("\n")
        last = piece
    return so_far + (not last.endswith("\n"))
