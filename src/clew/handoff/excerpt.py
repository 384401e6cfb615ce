"""The lines of a long text that say most, under a budget, by the same selection that writes handoffs."""

from __future__ import annotations

from collections.abc import Sequence

from clew.facts import Terms
from clew.facts.text import TermKind
from clew.handoff.select import Choice, select

_WORD_WEIGHT = 0.2
_MOST_CHARS_READ = 200_000
_GAP = "[...]"


def excerpt(lines: Sequence[str], most_chars: int) -> list[str]:
    """The most telling lines in their order, with a mark where lines are missing between two of them."""
    terms = Terms()
    read: list[int] = []
    room = _MOST_CHARS_READ
    for at, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            break
        if len(line) <= most_chars:
            read.append(at)
    choices = [Choice(terms.of(lines[at]), len(lines[at]) + len(_GAP)) for at in read]
    left = most_chars
    chosen: list[int] = []
    for index in select(choices, lambda term: 1.0 if terms.kinds[term] is TermKind.EXACT else _WORD_WEIGHT):
        left -= choices[index].chars
        if left < 0:
            break
        chosen.append(read[index])
    shown: list[str] = []
    for before, at in zip((-1, *sorted(chosen)), sorted(chosen), strict=False):
        if at != before + 1:
            shown.append(_GAP)
        shown.append(lines[at])
    return shown
