"""A page out of a file of any size: its lines, or a stretch of one endless line, read as a stream.

Knows open binary files, not paths. Skipping to a page deep in a file takes time in proportion, but never memory.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from clew.agent.files.textfile import ODD_BYTES, mark_of

MOST_LINES = 2_000
PAGE_CHARS = 60_000
LINE_CHARS = 2_000
_BLOCK_BYTES = 1 << 20
_COUNTED_BYTES = 256 << 20
"""Above this the lines behind a page are not counted: a second of work for one number."""


@dataclass(slots=True)
class Page:
    """Lines with their numbers, and what there is to know about them."""

    first: int
    lines: list[str] = field(default_factory=list)
    total_lines: int | None = None
    """Of the whole file; None where it is too large to count."""
    is_end: bool = False
    odd_lines: int = 0
    """Lines that are no UTF-8, and were read as Latin-1."""
    cut_line: int | None = None
    """The first line that was too long to stand whole."""
    is_crlf: bool = False
    ends_open: bool = False
    """The last line of the file has no line end."""

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """Chars out of one line."""

    text: str
    first: int
    is_end: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as far as it is shown, and the chars behind that."""

    text: str
    more_chars: int
    is_ended: bool
    is_odd: bool


def page_of(file: BinaryIO, offset: int, limit: int, page_chars: int = PAGE_CHARS) -> Page:
    """The page that begins at line `offset`, counted from 1. A page past the end is empty and knows the total."""
    text_bytes = _as_utf8(file)
    skipped = _skip(text_bytes, offset - 1)
    page = Page(first=offset)
    if skipped < offset - 1:
        return _ended(page, skipped)
    room = page_chars
    while len(page.lines) < limit:
        line = _next_line(text_bytes)
        if line is None:
            return _ended(page, page.last)
        shown = _shown(page, line)
        room -= len(shown) + 8
        if room < 0 and page.lines:
            page.total_lines = _total(text_bytes, page.last + 1)
            return page
        page.lines.append(shown)
    rest = _total(text_bytes, page.last)
    page.total_lines, page.is_end = rest, rest == page.last
    return page


def stretch_of(file: BinaryIO, line: int, column: int, page_chars: int = PAGE_CHARS) -> Stretch | None:
    """The chars of a line from `column` on, counted from 1; None where there is no such line or char."""
    text_bytes = _as_utf8(file)
    if _skip(text_bytes, line - 1) < line - 1:
        return None
    before, found = column - 1, ""
    for text in _texts_of_line(text_bytes):
        dropped = min(before, len(text))
        before -= dropped
        found += text[dropped:]
        if len(found) > page_chars:
            return Stretch(found[:page_chars], column, is_end=False)
    return Stretch(found, column, is_end=True) if found else None


class _Stream:
    """Bytes of UTF-8, taken line by line or block by block."""

    def __init__(self, blocks: Iterator[bytes], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._blocks = blocks
        self._block = b""
        self._at = 0

    def more(self) -> bool:
        """Whether there is anything left."""
        while self._at >= len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self._block, self._at = block, 0
        return True

    def piece_of_line(self) -> tuple[bytes, bool]:
        """What is at hand of this line, without its end, and whether the line ends there."""
        end = self._block.find(b"\n", self._at)
        stop = len(self._block) if end < 0 else end
        piece = self._block[self._at : stop]
        self._at = stop + 1
        return piece, end >= 0

    def ends_at_hand(self) -> int:
        return self._block.count(b"\n", self._at)

    def drop_block(self) -> bool:
        """Leave out what is at hand; whether a line ended with it."""
        self._at = len(self._block)
        return self._block.endswith(b"\n")


def _as_utf8(file: BinaryIO) -> _Stream:
    mark, encoding = mark_of(file.read(3))
    file.seek(len(mark))
    blocks = iter(lambda: file.read(_BLOCK_BYTES), b"")
    size = os.fstat(file.fileno()).st_size
    if encoding != "utf-8":
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        return _Stream((decoder.decode(block).encode("utf-8", "surrogatepass") for block in blocks), size)
    return _Stream(blocks, size)


def _skip(stream: _Stream, lines: int) -> int:
    """Leave out so many lines; how many there were."""
    skipped, is_ended = 0, True
    while skipped < lines and stream.more():
        here = stream.ends_at_hand()
        if skipped + here < lines:
            skipped, is_ended = skipped + here, stream.drop_block()
            continue
        for _ in range(lines - skipped):
            stream.piece_of_line()
        return lines
    return skipped + (not is_ended)


def _next_line(stream: _Stream) -> _Line | None:
    """The next line, its start as text and the rest of it counted; None at the end."""
    if not stream.more():
        return None
    pieces: list[bytes] = []
    kept = dropped = chars = 0
    is_ended = False
    while not is_ended and stream.more():
        piece, is_ended = stream.piece_of_line()
        room = max(0, LINE_CHARS * 4 - kept)
        pieces.append(piece[:room])
        kept += min(room, len(piece))
        dropped += max(0, len(piece) - room)
        chars += _chars(piece)
    head = b"".join(pieces)
    text = head.decode("utf-8", ODD_BYTES)
    more_chars = (chars if dropped else len(text)) - LINE_CHARS
    return _Line(text[:LINE_CHARS], max(0, more_chars), is_ended, not dropped and _is_odd(head))


def _texts_of_line(stream: _Stream) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(ODD_BYTES)
    is_ended = False
    while not is_ended and stream.more():
        piece, is_ended = stream.piece_of_line()
        yield _visible(decoder.decode(piece))
    yield _visible(decoder.decode(b"", final=True))


def _shown(page: Page, line: _Line) -> str:
    page.odd_lines += line.is_odd
    page.is_crlf = page.is_crlf or (line.is_ended and not line.more_chars and line.text.endswith("\r"))
    page.ends_open = not line.is_ended
    text = _visible(line.text.removesuffix("\r") if not line.more_chars else line.text)
    if not line.more_chars:
        return text
    number = page.last + 1
    page.cut_line = page.cut_line or number
    return f"{text} [... {line.more_chars:,} more chars: offset={number}, column={LINE_CHARS + 1}]"


def _visible(text: str) -> str:
    return text.replace("\0", "␀")


def _ended(page: Page, total: int) -> Page:
    page.total_lines, page.is_end = total, True
    return page


def _total(stream: _Stream, so_far: int) -> int | None:
    if stream.size_bytes > _COUNTED_BYTES:
        return None if stream.more() else so_far
    is_ended = True
    while stream.more():
        so_far += stream.ends_at_hand()
        is_ended = stream.drop_block()
    return so_far + (not is_ended)


def _chars(piece: bytes) -> int:
    """Chars of UTF-8, without reading them: every byte but those that go on with one."""
    return len(piece.translate(None, _GOING_ON)) if piece else 0


def _is_odd(line: bytes) -> bool:
    try:
        line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return True
    return False


_GOING_ON = bytes(range(0x80, 0xC0))
