"""Markdown while it streams: which blocks are finished, and the tail that is still being written.

A finished block is given out once and never again, so that a screen can print it for good. Very long blocks are given
out in parts. Knows where blocks end; how they look is the screen's affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

MOST_ROWS = 24
"""Of one block: what is longer is given out in parts. Tables are whole, however long."""

_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})\s*([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])\s+\S")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a reply that will not change any more."""

    kind: Literal["markdown", "code"]
    text: str
    language: str = ""
    continues: bool = False
    """It goes on from the block before it: no gap between them."""


@dataclass(frozen=True, slots=True)
class _Fence:
    indent: int
    mark: str
    language: str

    def is_closed_by(self, line: str) -> bool:
        bare = line.strip()
        return len(bare) >= len(self.mark) and set(bare) == {self.mark[0]}


class BlockStream:
    """Takes a reply in pieces, and gives out its blocks as they are finished."""

    def __init__(self) -> None:
        self._line = ""
        self._lines: list[str] = []
        self._fence: _Fence | None = None
        self._is_list = False
        self._is_continued = False

    @property
    def tail(self) -> str:
        """What is not finished yet."""
        return "\n".join([*self._lines, self._line]) if self._line else "\n".join(self._lines)

    def feed(self, text: str) -> list[Block]:
        """The blocks that are finished by this piece."""
        *whole, self._line = (self._line + text).split("\n")
        return [block for line in whole for block in self._take(line)]

    def finish(self) -> list[Block]:
        """What is left, as if it were finished; the stream is then as new."""
        last, self._line = self._line, ""
        blocks = list(self._take(last)) if last else []
        blocks += self._give()
        self._fence = None
        return blocks

    # -- line by line --------------------------------------------------------------------------------------------------

    def _take(self, line: str) -> Iterator[Block]:
        if self._fence is not None:
            yield from self._take_code(line, self._fence)
        elif not line.strip():
            yield from self._take_gap()
        elif (opened := _FENCE.match(line)) and (self._is_list or len(opened[1]) < 4):
            yield from self._give()
            words = opened[3].split()
            self._fence = _Fence(len(opened[1]), opened[2], words[0].strip("{}.") if words else "")
        elif _HEADING.match(line) or (not self._lines and _RULE.match(line)):
            yield from self._give()
            self._lines = [line]
            yield from self._give()
        else:
            yield from self._take_words(line)

    def _take_code(self, line: str, fence: _Fence) -> Iterator[Block]:
        if fence.is_closed_by(line):
            yield from self._give()
            self._fence, self._is_continued = None, False
            return
        indent = min(fence.indent, len(line) - len(line.lstrip()))
        self._lines.append(line[indent:])
        if len(self._lines) >= MOST_ROWS:
            yield from self._give(continues=True)

    def _take_gap(self) -> Iterator[Block]:
        # A list may go on after an empty line; anything else is over.
        if self._is_list and self._lines:
            self._lines.append("")
        else:
            yield from self._give()

    def _take_words(self, line: str) -> Iterator[Block]:
        item = _ITEM.match(line)
        if self._is_list:
            was_gap = bool(self._lines) and not self._lines[-1]
            if was_gap and not item and not line.startswith((" ", "\t")):
                yield from self._give()
            elif item and not item[1] and len(self._lines) >= MOST_ROWS:
                yield from self._give(continues=True)
                self._is_list = True
        elif item and len(item[1]) < 4:
            yield from self._give()
            self._is_list = True
        elif len(self._lines) >= MOST_ROWS and not self._is_table():
            yield from self._give(continues=True)
        self._lines.append(line)

    def _is_table(self) -> bool:
        return any(line.lstrip().startswith("|") for line in self._lines[:2]) or (
            len(self._lines) > 1 and "|" in self._lines[0] and set(self._lines[1].strip()) <= set("|-: ")
        )

    def _give(self, *, continues: bool = False) -> Iterator[Block]:
        """The lines so far as a block; `continues` when what follows goes on from it."""
        lines, self._lines = self._lines, []
        glued, self._is_continued = self._is_continued, continues
        self._is_list = False
        if self._fence is not None:
            if lines:
                yield Block("code", "\n".join(lines), self._fence.language, glued)
        elif any(line.strip() for line in lines):
            yield Block("markdown", "\n".join(lines).rstrip(), continues=glued)
