"""Where a passage that was not found may have been meant: the lines most like it, and how they differ.

Makes text for the model; changes nothing.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

_SHOWN_LINES = 24
_SHOWN_CHARS = 200
_COMPARED_LINES = 4_000
_TELLING_CHARS = 8
"""A shorter text stands in many files by chance."""
_NUMBERED = re.compile(r"\d+\t")


def miss_report(text: str, old: str, new: str, number: Callable[[int], int] = int) -> str:
    """Why `old` was not found, as far as that can be told. `number` gives the line on disk for one of the text."""
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    hint = _hint(text, old, new, number)
    first = _likeliest(lines, wanted)
    if first is None:
        return f"old was not found, nor anything like it{hint}; read the file again"
    found = lines[first : first + len(wanted)]
    span = f"{number(first + 1)}-{number(first + len(found))}"
    return f"old was not found{hint}. The closest are lines {span} (- old, + file):\n{_difference(wanted, found)}"


def _hint(text: str, old: str, new: str, number: Callable[[int], int]) -> str:
    if all(_NUMBERED.match(line) for line in old.split("\n") if line.strip()) and old.strip():
        return " (leave out the line numbers that read_file puts before each line)"
    place = text.find(new.replace("\r\n", "\n")) if len(new.strip()) >= _TELLING_CHARS else -1
    if place < 0:
        return ""
    return f" (new stands at line {number(text.count(chr(10), 0, place) + 1)} already: was this edit made before?)"


def _likeliest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The line from which on most of the wanted lines stand in their places."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, line in enumerate(lines):
        if len(places[line.strip()]) < 100:
            places[line.strip()].append(place)
    votes: Counter[int] = Counter()
    for step, line in enumerate(wanted):
        if line.strip():
            votes.update(max(0, place - step) for place in places.get(line.strip(), ()))
    if votes:
        return min(votes, key=lambda place: (-votes[place], place))
    return _most_alike(lines, wanted)


def _most_alike(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    step, longest = max(enumerate(wanted), key=lambda numbered: len(numbered[1].strip()))
    shown = [line.strip()[:_SHOWN_CHARS] for line in lines[:_COMPARED_LINES]]
    near = difflib.get_close_matches(longest.strip()[:_SHOWN_CHARS], shown, 1, 0.6)
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
