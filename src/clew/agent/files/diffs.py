"""A diff for people: what a change did to a file, bounded however large the file is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

MOST_LINES = 400
MOST_LINE_CHARS = 400
_COMPARED_LINES = 2_000
"""Comparing is quadratic at worst; a longer stretch is shown as taken out and put in whole."""
_AROUND = 3


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff, and how many lines came and went."""

    text: str
    added: int
    removed: int


def diff_of(shown: str, before: str, after: str) -> Diff:
    """The unified diff of two texts of the file that is shown under this name."""
    old, new = _lines(before), _lines(after)
    same = _same_at_start(old, new)
    tail = _same_at_start(old[same:][::-1], new[same:][::-1])
    first, last = max(0, same - _AROUND), min(_AROUND, tail)
    old_part, new_part = old[first : len(old) - tail + last], new[first : len(new) - tail + last]
    changes = _changes(old_part, new_part, first)
    added = sum(line.startswith("+") for line in changes)
    removed = sum(line.startswith("-") for line in changes)
    if not changes:
        return Diff("", 0, 0)
    kept = [line[:MOST_LINE_CHARS] for line in changes[:MOST_LINES]]
    left = len(changes) - len(kept)
    more = [f"... {left:,} more lines of the diff"] if left else []
    return Diff("\n".join([f"--- {shown}", f"+++ {shown}", *kept, *more]), added, removed)


def _changes(old: Sequence[str], new: Sequence[str], skipped: int) -> list[str]:
    if max(len(old), len(new)) > _COMPARED_LINES:
        taken = [f"-{line}" for line in old]
        return [f"@@ -{skipped + 1},{len(old)} +{skipped + 1},{len(new)} @@", *taken, *(f"+{line}" for line in new)]
    lines: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND):
        a, b = group[0][1], group[0][3]
        lines.append(
            f"@@ -{skipped + a + 1},{group[-1][2] - a} +{skipped + b + 1},{group[-1][4] - b} @@",
        )
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
                continue
            lines += [f"-{line}" for line in old[i1:i2]]
            lines += [f"+{line}" for line in new[j1:j2]]
    return lines


def _same_at_start(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = zip(old, new, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _lines(text: str) -> list[str]:
    plain = text.replace("\r\n", "\n")
    return plain.removesuffix("\n").split("\n") if plain else []
