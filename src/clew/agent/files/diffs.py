"""Differences of texts, bounded: the diff of a change, for people, and a report on a passage that was not found."""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

MAX_DIFF_LINES = 400
MAX_DIFF_LINE_CHARS = 400
_COMPARED_LINES = 2_000
"""Comparing is quadratic at worst; more lines are shown as all removed and all added."""
_CONTEXT_LINES = 3


def file_diff(name: str, before: str, after: str) -> str:
    """The unified diff of two texts of the file that is shown under this name."""
    old, new = _lines(before), _lines(after)
    same = _same_at_start(old, new)
    tail = _same_at_start(old[same:][::-1], new[same:][::-1])
    first, last = max(0, same - _CONTEXT_LINES), min(_CONTEXT_LINES, tail)
    old_part, new_part = old[first : len(old) - tail + last], new[first : len(new) - tail + last]
    changes = _changes(old_part, new_part, first)
    if not changes:
        return ""
    kept = [line[:MAX_DIFF_LINE_CHARS] for line in changes[:MAX_DIFF_LINES]]
    left = len(changes) - len(kept)
    more = [f"... {left:,} more lines of the diff"] if left else []
    return "\n".join([f"--- {name}", f"+++ {name}", *kept, *more])


def _changes(old: Sequence[str], new: Sequence[str], skipped: int) -> list[str]:
    if max(len(old), len(new)) > _COMPARED_LINES:
        removed = [f"-{line}" for line in old]
        return [f"@@ -{skipped + 1},{len(old)} +{skipped + 1},{len(new)} @@", *removed, *(f"+{line}" for line in new)]
    lines: list[str] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES):
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
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _lines(text: str) -> list[str]:
    plain = text.replace("\r\n", "\n")
    return plain.removesuffix("\n").split("\n") if plain else []


_SHOWN_LINES = 24
_SHOWN_CHARS = 200
_SEARCHED_LINES = 4_000
_DISTINCTIVE_CHARS = 8
"""A shorter text is in many files by chance."""
_NUMBERED = re.compile(r"\d+\t")


def missed_passage_report(text: str, old: str, new: str, number: Callable[[int], int] = int) -> str:
    """Why `old` was not found: the lines most like it, and a hint.

    `number` gives the number on disk of a line of the text.
    """
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    hint = _hint(text, old, new, number)
    first = _most_likely_line(lines, wanted)
    if first is None:
        return f"old was not found, nor anything like it{hint}; read the file again"
    found = lines[first : first + len(wanted)]
    span = f"{number(first + 1)}-{number(first + len(found))}"
    return f"old was not found{hint}. The closest are lines {span} (- old, + file):\n{_difference(wanted, found)}"


def _hint(text: str, old: str, new: str, number: Callable[[int], int]) -> str:
    if all(_NUMBERED.match(line) for line in old.split("\n") if line.strip()) and old.strip():
        return " (leave out the line numbers that read_file puts before each line)"
    position = text.find(new.replace("\r\n", "\n")) if len(new.strip()) >= _DISTINCTIVE_CHARS else -1
    if position < 0:
        return ""
    return f" (new stands at line {number(text.count(chr(10), 0, position) + 1)} already: was this edit made before?)"


def _most_likely_line(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The index from which on most of the wanted lines are where they should be."""
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for index, line in enumerate(lines):
        if len(indexes[line.strip()]) < 100:
            indexes[line.strip()].append(index)
    votes: Counter[int] = Counter()
    for step, line in enumerate(wanted[:_SEARCHED_LINES]):
        if line.strip():
            votes.update(max(0, index - step) for index in indexes.get(line.strip(), ()))
    if votes:
        return min(votes, key=lambda index: (-votes[index], index))
    return _most_similar_line(lines, wanted)


def _most_similar_line(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    step, longest = max(enumerate(wanted), key=lambda numbered: len(numbered[1].strip()))
    shown = [line.strip()[:_SHOWN_CHARS] for line in lines[:_SEARCHED_LINES]]
    near = difflib.get_close_matches(longest.strip()[:_SHOWN_CHARS], dict.fromkeys(shown), 1, 0.6)
    return max(0, shown.index(near[0]) - step) if near else None


def _difference(wanted: Sequence[str], found: Sequence[str]) -> str:
    changes = [
        line[: _SHOWN_CHARS + 2]
        for line in difflib.unified_diff(list(wanted[:200]), list(found[:200]), n=1, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    left = len(changes) - _SHOWN_LINES
    more = [f"... {left} more lines differ"] if left > 0 else []
    return "\n".join([*changes[:_SHOWN_LINES], *more])
