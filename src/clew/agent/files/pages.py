"""A page of lines out of a file of any size, or an excerpt of one very long line, read as a stream.

Skipping to a page deep in a file takes time in proportion, but no memory.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from clew.agent.files.file_types import LATIN1_FALLBACK, bom_of

MAX_LINES = 2_000
PAGE_CHARS = 60_000
LINE_CHARS = 2_000
_BLOCK_BYTES = 1 << 20
_COUNTED_BYTES = 256 << 20
"""Above this the lines after a page are not counted: a second of work for one number."""


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


@dataclass(frozen=True, slots=True)
class LineExcerpt:
    """A part of one line."""

    text: str
    is_end: bool


@dataclass(frozen=True, slots=True)
class _PageLine:
    """The beginning of a line, and how many chars follow it."""

    text: str
    more_chars: int
    is_ended: bool
    is_utf8: bool


def read_page(file: BinaryIO, offset: int, limit: int, page_chars: int = PAGE_CHARS) -> FilePage:
    """The page that begins at line `offset`, counted from 1. A page past the end has no lines, but the total."""
    stream = _utf8_stream(file)
    skipped = _skip_lines(stream, offset - 1)
    page = FilePage(first=offset)
    if skipped < offset - 1:
        return _at_end(page, skipped)
    room = page_chars
    while len(page.lines) < limit:
        line = _next_line(stream)
        if line is None:
            return _at_end(page, page.last)
        text = _line_text(page, line)
        room -= len(text) + 8
        if room < 0 and page.lines:
            page.total_lines = _count_lines(stream, page.last + 1)
            return page
        page.lines.append(text)
    rest = _count_lines(stream, page.last)
    page.total_lines, page.is_end = rest, rest == page.last
    return page


def read_line_excerpt(file: BinaryIO, line: int, column: int, page_chars: int = PAGE_CHARS) -> LineExcerpt | None:
    """The chars of a line from `column` on, counted from 1; None where there is no such line or char."""
    stream = _utf8_stream(file)
    if _skip_lines(stream, line - 1) < line - 1:
        return None
    before, found = column - 1, ""
    for text in _decoded_pieces(stream):
        dropped = min(before, len(text))
        before -= dropped
        found += text[dropped:]
        if len(found) > page_chars:
            return LineExcerpt(found[:page_chars], is_end=False)
    return LineExcerpt(found, is_end=True) if found else None


class _LineStream:
    """UTF-8 bytes, taken line by line or block by block."""

    def __init__(self, blocks: Iterator[bytes], size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._blocks = blocks
        self._block = b""
        self._at = 0

    def has_more(self) -> bool:
        """Whether there is anything left."""
        while self._at >= len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self._block, self._at = block, 0
        return True

    def take_piece(self) -> tuple[bytes, bool]:
        """What the block has of this line, without its end, and whether the line ends there."""
        end = self._block.find(b"\n", self._at)
        stop = len(self._block) if end < 0 else end
        piece = self._block[self._at : stop]
        self._at = stop + 1
        return piece, end >= 0

    def newlines_left(self) -> int:
        return self._block.count(b"\n", self._at)

    def drop_block(self) -> bool:
        """Skip the rest of the block; returns whether a line ended with it."""
        self._at = len(self._block)
        return self._block.endswith(b"\n")


def _utf8_stream(file: BinaryIO) -> _LineStream:
    bom, encoding = bom_of(file.read(3))
    file.seek(len(bom))
    blocks = iter(lambda: file.read(_BLOCK_BYTES), b"")
    size = os.fstat(file.fileno()).st_size
    if encoding != "utf-8":
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        return _LineStream((decoder.decode(block).encode("utf-8", "surrogatepass") for block in blocks), size)
    return _LineStream(blocks, size)


def _skip_lines(stream: _LineStream, lines: int) -> int:
    """Skip so many lines; returns how many there were."""
    skipped, is_ended = 0, True
    while skipped < lines and stream.has_more():
        here = stream.newlines_left()
        if skipped + here < lines:
            skipped, is_ended = skipped + here, stream.drop_block()
            continue
        for _ in range(lines - skipped):
            stream.take_piece()
        return lines
    return skipped + (not is_ended)


def _next_line(stream: _LineStream) -> _PageLine | None:
    """The next line, its beginning as text and the rest counted; None at the end."""
    if not stream.has_more():
        return None
    pieces: list[bytes] = []
    kept = dropped = chars = 0
    is_ended = False
    while not is_ended and stream.has_more():
        piece, is_ended = stream.take_piece()
        room = max(0, LINE_CHARS * 4 - kept)
        pieces.append(piece[:room])
        kept += min(room, len(piece))
        dropped += max(0, len(piece) - room)
        chars += _chars(piece)
    head = b"".join(pieces)
    text = head.decode("utf-8", LATIN1_FALLBACK)
    more_chars = (chars if dropped else len(text)) - LINE_CHARS
    return _PageLine(text[:LINE_CHARS], max(0, more_chars), is_ended, bool(dropped) or _is_utf8(head))


def _decoded_pieces(stream: _LineStream) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(LATIN1_FALLBACK)
    is_ended = False
    while not is_ended and stream.has_more():
        piece, is_ended = stream.take_piece()
        yield _visible(decoder.decode(piece))
    yield _visible(decoder.decode(b"", final=True))


def _line_text(page: FilePage, line: _PageLine) -> str:
    page.non_utf8_lines += not line.is_utf8
    page.is_crlf = page.is_crlf or (line.is_ended and not line.more_chars and line.text.endswith("\r"))
    page.lacks_final_newline = not line.is_ended
    text = _visible(line.text.removesuffix("\r") if not line.more_chars else line.text)
    if not line.more_chars:
        return text
    number = page.last + 1
    page.cut_line = page.cut_line or number
    return f"{text} [... {line.more_chars:,} more chars: offset={number}, column={LINE_CHARS + 1}]"


def _visible(text: str) -> str:
    return text.replace("\0", "␀")


def _at_end(page: FilePage, total: int) -> FilePage:
    page.total_lines, page.is_end = total, True
    return page


def _count_lines(stream: _LineStream, so_far: int) -> int | None:
    if stream.size_bytes > _COUNTED_BYTES:
        return None if stream.has_more() else so_far
    is_ended = True
    while stream.has_more():
        so_far += stream.newlines_left()
        is_ended = stream.drop_block()
    return so_far + (not is_ended)


def _chars(piece: bytes) -> int:
    """Chars of UTF-8 without decoding them: every byte but the continuation bytes."""
    return len(piece.translate(None, _CONTINUATION_BYTES)) if piece else 0


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
