"""The lines of a long text that say most, under a budget, by the same selection that writes handoffs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clew.facts import Terms
from clew.facts.parts import noise_of
from clew.facts.text import TermKind
from clew.handoff.select import Choice, select

_WORD_WEIGHT = 0.2
_SOUGHT_BONUS = 2.0
"""What a line is worth, whatever its terms are, that has something the call was about."""
_RARE_SHARE = 0.05
"""A term in more of the lines than this does not tell them apart."""
_MOST_CHARS_READ = 200_000
_GAP = "[...]"


def excerpt(lines: Sequence[str], most_chars: int, sought: str = "") -> list[str]:
    """The most telling lines in their order, with a mark where lines are missing between two of them.

    `sought` is the text and the calls before a result: lines with rare terms of it count more.
    """
    terms = Terms()
    read: list[int] = []
    room = _MOST_CHARS_READ
    for at, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            break
        if len(line) <= most_chars and noise_of(line) == "":
            read.append(at)
    found = [terms.of(lines[at]) for at in read]
    held = Counter(term for one in found for term in one)
    wanted = {term for term in terms.of(sought) if 0 < held[term] <= max(2, _RARE_SHARE * len(read))}
    choices = [
        Choice(one, len(lines[at]) + len(_GAP), bonus=0.0 if wanted.isdisjoint(one) else _SOUGHT_BONUS)
        for at, one in zip(read, found, strict=True)
    ]
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
