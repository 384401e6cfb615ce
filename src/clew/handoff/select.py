"""The one selection under a budget: the candidate with the highest gain for its cost first, until the room is used.

What a candidate adds is the weight of its terms that nothing chosen shows yet. The order does not depend on the budget,
so that a larger budget chooses everything that a smaller one does, and more. `excerpt` chooses lines of a long text.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from clew.facts import Terms
from clew.facts.parts import noise_of
from clew.facts.text import TermKind, without_gutter

_WORD_WEIGHT = 0.2
_SOUGHT_BONUS = 2.0
"""What a line is worth, whatever its terms are, that has something the call was about."""
_RARE_SHARE = 0.05
"""A term in more of the lines than this does not tell them apart."""
_MOST_CHARS_READ = 200_000
_GAP = "[...]"


def excerpt(lines: Sequence[str], most_chars: int, sought: str = "", *, gap: str = _GAP) -> list[str]:
    """The most telling lines in their order, with a mark where lines are missing between two of them.

    `sought` is the text and the calls before a result: lines with rare terms of it count more.
    """
    terms = Terms()
    read: list[int] = []
    room = _MOST_CHARS_READ
    # The number of a line says nothing about it.
    listed = list(lines)
    bare = without_gutter(listed, of_file=True)
    # Where lines have numbers, those show what is missing.
    gap = gap if bare is listed else ""
    for at, line in enumerate(bare):
        room -= len(lines[at])
        if room < 0:
            break
        if line.strip() and len(lines[at]) <= most_chars and noise_of(line) == "":
            read.append(at)
    found = list(terms.of_each([bare[at] for at in read]))
    held = Counter(term for one in found for term in one)
    wanted = {term for term in terms.of(sought) if 0 < held[term] <= max(2, _RARE_SHARE * len(read))}
    choices = [
        Choice(one, len(lines[at]) + len(gap), bonus=0.0 if wanted.isdisjoint(one) else _SOUGHT_BONUS)
        for at, one in zip(read, found, strict=True)
    ]
    left = float(most_chars)
    chosen: list[int] = []
    for index in select(choices, lambda term: 1.0 if terms.kinds[term] is TermKind.EXACT else _WORD_WEIGHT):
        left -= choices[index].chars
        if left < 0:
            break
        chosen.append(read[index])
    shown: list[str] = []
    for before, at in zip((-1, *sorted(chosen)), sorted(chosen), strict=False):
        if gap and at != before + 1:
            shown.append(gap)
        shown.append(lines[at])
    return shown


class Choice(NamedTuple):
    """Something that may be chosen."""

    terms: Set[str]
    chars: float
    """What it costs; a cost in tokens is given as so many chars."""
    scale: float = 1.0
    """What the weight of its terms is multiplied by."""
    bonus: float = 0.0
    """What it is worth whatever its terms are."""
    group: Hashable = None
    """Choices of one group share a frame, for which the first one pays."""


class Frame(NamedTuple):
    """What must be written before the first choice of a group: its terms count too."""

    terms: Set[str]
    chars: float


SHOWN_AGAIN = 0.15
"""What a term counts when it was shown once before; later it counts nothing."""
CROWDED_CHARS = 3_000
"""A group of this length adds half as much with what comes next."""
_UNIT = 10_000
_LEAST_CHARS = 8
"""A choice costs something however short it is: a separator and the attention of a reader."""


def select(
    choices: Sequence[Choice],
    weight: Callable[[str], float],
    frames: Mapping[Any, Frame] | None = None,
    shown: Set[str] = frozenset(),
    least: float = 0.0,
) -> Iterator[int]:
    """The indexes of the choices in the order in which they are worth their room.

    `shown` are terms already there. What adds less per char than this share of the first choice is not chosen.
    """
    return _Selection(choices, weight, frames or {}, shown).run(least)


class _Selection:
    def __init__(
        self,
        choices: Sequence[Choice],
        weight: Callable[[str], float],
        frames: Mapping[Any, Frame],
        shown: Set[str],
    ) -> None:
        self._choices, self._frames = choices, frames
        terms = set().union(*(choice.terms for choice in choices), *(frame.terms for frame in frames.values()))
        # What each term would add now: all of its weight, a part of it once it was shown, then nothing. Whole numbers,
        # whose sum does not depend on the order in which a set is read.
        self._adds = {term: round(_UNIT * weight(term)) for term in terms}
        for term in terms.intersection(shown):
            self._adds[term] = round(_UNIT * weight(term) * SHOWN_AGAIN)
        self._add_of = self._adds.__getitem__
        self._fresh = terms.difference(shown)
        self._used: dict[Hashable, float] = {}
        """The chars that were taken of each group."""
        self._frame_terms: dict[int, list[str]] = {}
        """The terms that the frame of a choice adds to its own."""
        self._waiting: dict[Hashable, dict[int, None]] = {}
        """Choices that were passed over while the frame of their group was not paid for."""

    def run(self, least: float) -> Iterator[int]:
        # What a choice is worth if its frame were paid for: at least what it will ever be.
        adds, choices, add_of = self._adds, self._choices, self._add_of
        queue = [
            (-((bonus + scale * sum(map(add_of, terms)) / _UNIT) / (chars + _LEAST_CHARS)), index)
            for index, (terms, chars, scale, bonus, _) in enumerate(choices)
        ]
        heapq.heapify(queue)
        taken: set[int] = set()
        fresh: dict[int, float] = {}  # the ratios that were computed since the last choice was taken
        lowest = 0.0
        replace_first, ratio_of, known, frame_terms = heapq.heapreplace, self._ratio, fresh.get, self._frame_terms
        while queue:
            index = queue[0][1]
            if index in taken:
                heapq.heappop(queue)
                continue
            # Gains only fall while others are taken, so a fresh ratio that is still the highest is the best.
            ratio = known(index)
            if ratio is None:
                ratio = fresh[index] = ratio_of(index)
            if ratio <= lowest:
                heapq.heappop(queue)
                continue
            # The heap without this entry begins with one of the next two.
            if (len(queue) > 1 and -ratio > queue[1][0]) or (len(queue) > 2 and -ratio > queue[2][0]):
                replace_first(queue, (-ratio, index))
                if index in frame_terms and (group := choices[index].group) not in self._used:
                    self._waiting.setdefault(group, {})[index] = None
                continue
            heapq.heappop(queue)
            lowest = lowest or least * ratio
            taken.add(index)
            fresh.clear()
            yield index
            choice = choices[index]
            group = choice.group
            frame = None if group in self._used else self._frames.get(group)
            for term in choice.terms if frame is None else choice.terms | frame.terms:
                if term in self._fresh:
                    self._fresh.discard(term)
                    adds[term] = round(adds[term] * SHOWN_AGAIN)
                else:
                    adds[term] = 0
            self._used[group] = self._used.get(group, 0) + choice.chars
            # The frame is paid for: the other choices of the group became cheaper.
            for other in self._waiting.pop(group, ()) if frame is not None else ():
                if other not in taken:
                    heapq.heappush(queue, (-ratio_of(other), other))

    def _ratio(self, index: int) -> float:
        """What a choice adds for each char, with the frame of its group where that is not paid for."""
        terms, chars, scale, bonus, group = self._choices[index]
        gain: float = sum(map(self._add_of, terms))
        if group is not None:
            if used := self._used.get(group):
                # A line that is long already is worth less to a reader with every piece.
                gain /= 1 + used / (CROWDED_CHARS * scale)
            elif used is None and (frame := self._frames.get(group)):
                added = self._frame_terms.get(index)
                if added is None:
                    added = self._frame_terms[index] = [*frame.terms - terms]
                gain += sum(map(self._add_of, added))
                chars += frame.chars
        return (bonus + scale * gain / _UNIT) / (chars + _LEAST_CHARS)
