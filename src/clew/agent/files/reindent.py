"""How the indentation of a passage differs from what a model wrote, and the same difference for other lines.

Pure functions over lines. A difference counts only where it is the same for every line: anything else would change
what indentation means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

_TAB_WIDTHS = (4, 2, 8, 3)


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


class Shift(ABC):
    """From the indentation that was written to the one in the file."""

    @abstractmethod
    def indent(self, written: str) -> str: ...

    def line(self, line: str) -> str:
        written = indent_of(line)
        rest = line[len(written) :]
        return self.indent(written) + rest if rest else line


@dataclass(frozen=True, slots=True)
class Moved(Shift):
    """Every line stands as much further right, or left."""

    cut: str
    put: str

    def indent(self, written: str) -> str:
        if written.startswith(self.cut):
            return self.put + written[len(self.cut) :]
        if self.cut.startswith(written):
            missing = len(self.cut) - len(written)
            return self.put[: max(0, len(self.put) - missing)]
        return written


@dataclass(frozen=True, slots=True)
class Retabbed(Shift):
    """Tabs where spaces were written, or the other way round."""

    tab_width: int
    by: int
    is_tabs: bool

    def indent(self, written: str) -> str:
        width = max(0, len(written.expandtabs(self.tab_width)) + self.by)
        if not self.is_tabs:
            return " " * width
        return "\t" * (width // self.tab_width) + " " * (width % self.tab_width)


def shift_between(written: Sequence[str], found: Sequence[str]) -> Shift | None:
    """What turns the indentation of each written line into that of the line found for it; None if nothing does."""
    pairs = [
        (indent_of(mine), indent_of(theirs))
        for mine, theirs in zip(written, found, strict=True)
        if mine.strip() or theirs.strip()
    ]
    if not pairs:
        return Moved("", "")
    return _moved(pairs) or _retabbed(pairs)


def _moved(pairs: Sequence[tuple[str, str]]) -> Shift | None:
    cut, put = min(pairs, key=lambda pair: len(pair[0]))
    is_same = all(
        mine.startswith(cut) and theirs.startswith(put) and mine[len(cut) :] == theirs[len(put) :]
        for mine, theirs in pairs
    )
    return Moved(cut, put) if is_same else None


def _retabbed(pairs: Sequence[tuple[str, str]]) -> Shift | None:
    if any("\t" in mine for mine, _ in pairs) == any("\t" in theirs for _, theirs in pairs):
        return None
    is_tabs = any("\t" in theirs for _, theirs in pairs)
    fitting = []
    for width in _TAB_WIDTHS:
        steps = {len(theirs.expandtabs(width)) - len(mine.expandtabs(width)) for mine, theirs in pairs}
        if len(steps) == 1:
            fitting.append(Retabbed(width, steps.pop(), is_tabs))
    return min(fitting, key=lambda shift: abs(shift.by), default=None)
