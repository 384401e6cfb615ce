"""Finding a passage in a text and replacing it: exactly, else with differing white space or indentation.

Line endings are compared as if all were LF and written as the passage had them, so every line outside the passage stays
the same, byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, islice
from typing import TypeAlias

from clew.agent.files.file_types import dominant_line_ending

MAX_AMBIGUOUS = 100
_MAX_TOLERANT_LINES = 1_000
"""A longer passage has to be there exactly: comparing takes time with the square of its lines."""


_TOLERANCES: dict[str, Callable[[str], str]] = {
    "space at line ends": str.rstrip,
    "indentation": str.strip,
    "white space": lambda line: " ".join(line.split()),
}
"""Differences between lines that still count as a match, each with what it leaves of a line."""
_KEEPS_INDENT = "space at line ends"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A range of chars of a normalized text, and the text to put there."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class PassageMatch:
    """Where a passage was found."""

    replacements: tuple[Replacement, ...]
    how: str
    """`exact`, or in what the text differs."""


@dataclass(frozen=True, slots=True)
class AmbiguousMatch:
    """A passage that was found more than once; at most `MAX_AMBIGUOUS` places are looked for."""

    lines: tuple[int, ...]
    how: str


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text with LF for every line ending, and its original."""

    raw: str
    text: str
    crlf: Sequence[int]
    """Positions in `text` whose line ending is CRLF in `raw`."""

    @classmethod
    def of(cls, raw: str) -> NormalizedText:
        crlf = [found.start() - index for index, found in enumerate(re.finditer("\r\n", raw))]
        return cls(raw, raw.replace("\r\n", "\n"), crlf)

    def line_at(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def with_replacements(self, replacements: Sequence[Replacement]) -> str:
        """The raw text with all replacements made."""
        pieces, at = [], 0
        usual = dominant_line_ending(self.raw)
        for replacement in sorted(replacements, key=lambda replacement: replacement.start):
            start, end = self._raw_position(replacement.start), self._raw_position(replacement.end)
            replaced = self.raw[start:end]
            line_ending = dominant_line_ending(replaced) if "\n" in replaced else usual
            pieces += [self.raw[at:start], replacement.text.replace("\n", line_ending)]
            at = end
        return "".join([*pieces, self.raw[at:]])

    def _raw_position(self, position: int) -> int:
        return position + bisect_left(self.crlf, position)


def find_passage(
    normalized: NormalizedText, old: str, new: str, *, everywhere: bool = False
) -> PassageMatch | AmbiguousMatch | None:
    """Where `old` is, with `new` adapted to the indentation there; None where it is not found."""
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    most = None if everywhere else MAX_AMBIGUOUS
    positions = list(islice(_positions(normalized.text, old, overlapping=not everywhere), most))
    if positions:
        replacements = tuple(Replacement(position, position + len(old), new) for position in positions)
        return _decided(normalized, replacements, "exact", everywhere)
    if not old.strip() or old.count("\n") > _MAX_TOLERANT_LINES:
        return None
    lines = _LineIndex.of(normalized.text)
    for tolerance in _TOLERANCES:
        replacements = tuple(islice(_tolerated(lines, old, new, tolerance, everywhere), most))
        if replacements:
            return _decided(normalized, replacements, tolerance, everywhere)
    return None


def _decided(
    normalized: NormalizedText, replacements: tuple[Replacement, ...], how: str, everywhere: bool
) -> PassageMatch | AmbiguousMatch:
    if everywhere or len(replacements) == 1:
        return PassageMatch(replacements, how)
    return AmbiguousMatch(tuple(normalized.line_at(replacement.start) for replacement in replacements), how)


def _positions(text: str, old: str, *, overlapping: bool) -> Iterator[int]:
    position = text.find(old)
    while position >= 0:
        yield position
        position = text.find(old, position + (1 if overlapping else len(old)))


@dataclass(frozen=True, slots=True)
class _LineIndex:
    """A text's lines, and the position where each begins."""

    lines: Sequence[str]
    starts: Sequence[int]
    has_final_newline: bool

    @classmethod
    def of(cls, text: str) -> _LineIndex:
        lines = text.split("\n")
        starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        has_final_newline = text.endswith("\n")
        return cls(lines[:-1] if has_final_newline else lines, starts, has_final_newline)

    def replacement(self, first: int, after: int, new_lines: Sequence[str]) -> Replacement:
        """Replace lines by others; without any, their last line ending is removed too."""
        start, end = self.starts[first], self.starts[after] - 1
        has_newline = after < len(self.lines) or self.has_final_newline
        return Replacement(start, end + (not new_lines and has_newline), "\n".join(new_lines))


def _tolerated(lines: _LineIndex, old: str, new: str, tolerance: str, everywhere: bool) -> Iterator[Replacement]:
    written, wanted = _as_lines(old, new)
    opcodes = SequenceMatcher(None, written, wanted, autojunk=False).get_opcodes()
    taken_to, key = 0, _TOLERANCES[tolerance]
    for first in _windows([*map(key, lines.lines)], [*map(key, written)]):
        if everywhere and first < taken_to:
            continue
        after = first + len(written)
        found = lines.lines[first:after]
        change = str if tolerance == _KEEPS_INDENT else indent_change_between(written, found)
        if change is None:
            continue
        taken_to = after
        # Lines that were not to change are taken from the file; the others are indented as the file is.
        adapted: list[str] = []
        for tag, i1, i2, j1, j2 in opcodes:
            adapted += found[i1:i2] if tag == "equal" else (_reindented(line, change) for line in wanted[j1:j2])
        yield lines.replacement(first, after, adapted)


def _as_lines(old: str, new: str) -> tuple[list[str], list[str]]:
    written, wanted = old.split("\n"), new.split("\n")
    if not old.endswith("\n"):
        return written, wanted
    # Both then mean whole lines; an empty `new` removes them.
    return written[:-1], wanted[:-1] if not wanted[-1] else wanted


def _windows(keys: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """The indexes where these keys follow one another, found in linear time (Knuth, Morris and Pratt)."""
    shorter = [0]
    for key in wanted[1:]:
        same = _longer(shorter, wanted, shorter[-1], key)
        shorter.append(same)
    same = 0
    for position, key in enumerate(keys):
        same = _longer(shorter, wanted, same, key)
        if same == len(wanted):
            yield position + 1 - same


def _longer(shorter: Sequence[int], wanted: Sequence[str], same: int, key: str) -> int:
    """How many of the wanted keys end in `key`, where `same` of them were found before it."""
    while same and (same == len(wanted) or wanted[same] != key):
        same = shorter[same - 1]
    return same + 1 if wanted[same] == key else 0


_TAB_WIDTHS = (4, 2, 8, 3)
IndentChange: TypeAlias = Callable[[str], str]
"""Turns the indentation that a model wrote into the one in the file.

It has to be the same for every line of a passage: anything else would change what the indentation means.
"""


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def indent_change_between(written: Sequence[str], found: Sequence[str]) -> IndentChange | None:
    """The one change from each written line's indentation to that of the line found for it; None without one."""
    pairs = [
        (indent_of(mine), indent_of(theirs))
        for mine, theirs in zip(written, found, strict=True)
        if mine.strip() or theirs.strip()
    ]
    return (_shift(pairs) or _tab_conversion(pairs)) if pairs else str


def _reindented(line: str, change: IndentChange) -> str:
    written = indent_of(line)
    rest = line[len(written) :]
    return change(written) + rest if rest else line


def _shift(pairs: Sequence[tuple[str, str]]) -> IndentChange | None:
    """Every line is indented more, or less, by the same."""
    cut, put = min(pairs, key=lambda pair: len(pair[0]))
    if any(
        not mine.startswith(cut) or not theirs.startswith(put) or mine[len(cut) :] != theirs[len(put) :]
        for mine, theirs in pairs
    ):
        return None

    def shifted(written: str) -> str:
        if written.startswith(cut):
            return put + written[len(cut) :]
        missing = len(cut) - len(written)
        return put[: max(0, len(put) - missing)] if cut.startswith(written) else written

    return shifted


def _tab_conversion(pairs: Sequence[tuple[str, str]]) -> IndentChange | None:
    """Tabs instead of spaces, or the other way round."""
    is_tabs = any("\t" in theirs for _, theirs in pairs)
    if any("\t" in mine for mine, _ in pairs) == is_tabs:
        return None
    fitting: list[tuple[int, int]] = []
    for width in _TAB_WIDTHS:
        steps = {len(theirs.expandtabs(width)) - len(mine.expandtabs(width)) for mine, theirs in pairs}
        if len(steps) == 1:
            fitting.append((steps.pop(), width))
    if not fitting:
        return None
    by, tab_width = min(fitting, key=lambda step: abs(step[0]))

    def converted(written: str) -> str:
        width = max(0, len(written.expandtabs(tab_width)) + by)
        return "\t" * (width // tab_width) + " " * (width % tab_width) if is_tabs else " " * width

    return converted
