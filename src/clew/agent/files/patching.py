"""Finding a passage in a text and putting another in its place: exactly, else but for its white space.

Pure functions over text; knows no files. Line ends are compared as if all were LF and written as the passage had them,
so every line outside the passage stays as it was, byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate

from clew.agent.files.reindent import Moved, Shift, shift_between
from clew.agent.files.textfile import line_end_of

_SAME = Moved("", "")


def _collapsed(line: str) -> str:
    return " ".join(line.split())


@dataclass(frozen=True, slots=True)
class _Tolerance:
    """A way in which lines may differ and still be the same."""

    name: str
    key: Callable[[str], str]
    may_shift: bool


_TOLERANCES = (
    _Tolerance("space at line ends", str.rstrip, may_shift=False),
    _Tolerance("indentation", str.strip, may_shift=True),
    _Tolerance("white space", _collapsed, may_shift=True),
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text, in chars of its plain form, and what shall stand there."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Found:
    """Where a passage stands."""

    passages: tuple[Passage, ...]
    how: str
    """`exact`, or what did not fit exactly."""


@dataclass(frozen=True, slots=True)
class Several:
    """A passage that stands in more places than one."""

    lines: tuple[int, ...]
    how: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A text with LF for every line end, and the way back."""

    raw: str
    text: str
    crlf: Sequence[int]
    """Where in the plain text a line end is CRLF in the raw one."""

    @classmethod
    def of(cls, raw: str) -> Plain:
        crlf = [found.start() - place for place, found in enumerate(re.finditer("\r\n", raw))]
        return cls(raw, raw.replace("\r\n", "\n"), crlf)

    def line_at(self, place: int) -> int:
        return self.text.count("\n", 0, place) + 1

    def with_passages(self, passages: Sequence[Passage]) -> str:
        """The raw text with every passage replaced."""
        pieces, at = [], 0
        for passage in sorted(passages, key=lambda passage: passage.start):
            start, end = self._raw_place(passage.start), self._raw_place(passage.end)
            line_end = line_end_of(self.raw[start:end] if "\n" in self.raw[start:end] else self.raw)
            pieces += [self.raw[at:start], passage.replacement.replace("\n", line_end)]
            at = end
        return "".join([*pieces, self.raw[at:]])

    def _raw_place(self, place: int) -> int:
        return place + bisect_left(self.crlf, place)


def find_passage(plain: Plain, old: str, new: str, *, everywhere: bool = False) -> Found | Several | None:
    """Where `old` stands, with `new` fitted to it; None where it stands nowhere."""
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    places = list(_places(plain.text, old, overlapping=not everywhere))
    if places:
        passages = tuple(Passage(place, place + len(old), new) for place in places)
        return _decided(plain, passages, "exact", everywhere)
    if not old.strip():
        return None
    lines = _Lines.of(plain.text)
    for tolerance in _TOLERANCES:
        passages = tuple(_tolerated(lines, old, new, tolerance, everywhere))
        if passages:
            return _decided(plain, passages, tolerance.name, everywhere)
    return None


def _decided(plain: Plain, passages: tuple[Passage, ...], how: str, everywhere: bool) -> Found | Several:
    if everywhere or len(passages) == 1:
        return Found(passages, how)
    return Several(tuple(plain.line_at(passage.start) for passage in passages), how)


def _places(text: str, old: str, *, overlapping: bool) -> Iterator[int]:
    place = text.find(old)
    while place >= 0:
        yield place
        place = text.find(old, place + (1 if overlapping else len(old)))


@dataclass(frozen=True, slots=True)
class _Lines:
    """A text's lines, and where each begins."""

    lines: Sequence[str]
    starts: Sequence[int]
    ends_closed: bool

    @classmethod
    def of(cls, text: str) -> _Lines:
        lines = text.split("\n")
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        ends_closed = text.endswith("\n")
        return cls(lines[:-1] if ends_closed else lines, starts, ends_closed)

    def passage(self, first: int, after: int, replacement: Sequence[str]) -> Passage:
        """Lines in the place of others; without any, the line end before the next goes too."""
        start, end = self.starts[first], self.starts[after] - 1
        has_line_end = after < len(self.lines) or self.ends_closed
        return Passage(start, end + (not replacement and has_line_end), "\n".join(replacement))


def _tolerated(lines: _Lines, old: str, new: str, tolerance: _Tolerance, everywhere: bool) -> Iterator[Passage]:
    written, wanted = _as_lines(old, new)
    taken_to = 0
    for first in _windows([tolerance.key(line) for line in lines.lines], [tolerance.key(line) for line in written]):
        after = first + len(written)
        found = lines.lines[first:after]
        shift = shift_between(written, found) if tolerance.may_shift else _SAME
        if shift is None or (everywhere and first < taken_to):
            continue
        taken_to = after
        yield lines.passage(first, after, _fitted(written, wanted, found, shift))


def _as_lines(old: str, new: str) -> tuple[list[str], list[str]]:
    written, wanted = old.split("\n"), new.split("\n")
    if not old.endswith("\n"):
        return written, wanted
    # Both then mean whole lines; nothing at all means to take them away.
    return written[:-1], wanted[:-1] if not wanted[-1] else wanted


def _windows(keys: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """Where these keys stand one after another."""
    anchor, sign = next((place, key) for place, key in enumerate(wanted) if key)
    for place, key in enumerate(keys):
        first = place - anchor
        if key == sign and first >= 0 and keys[first : first + len(wanted)] == wanted:
            yield first


def _fitted(written: Sequence[str], wanted: Sequence[str], found: Sequence[str], shift: Shift) -> list[str]:
    """The wanted lines, indented as the file is; lines that were not to change are the file's own."""
    fitted: list[str] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, written, wanted, autojunk=False).get_opcodes():
        fitted += found[i1:i2] if tag == "equal" else map(shift.line, wanted[j1:j2])
    return fitted
