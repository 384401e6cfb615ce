"""The one selection under a budget: the candidate with the highest gain per char first, until the room is used.

What a candidate adds is the weight of its terms that nothing chosen shows yet. The order does not depend on the budget,
so that a larger budget chooses everything that a smaller one does, and more. `excerpt` chooses lines of a long text.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from clew.facts import Terms
from clew.facts.parts import noise_of
from clew.facts.text import TermKind

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


@dataclass(slots=True, eq=False)
class Choice:
    """Something that may be chosen."""

    terms: Set[str]
    chars: int
    scale: float = 1.0
    """What the weight of its terms is multiplied by."""
    bonus: float = 0.0
    """What it is worth whatever its terms are."""
    group: Hashable = None
    """Choices of one group share a frame, for which the first one pays."""
    at: int = -1
    """Its place in its group: a choice beside one that was taken completes it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What must be written before the first choice of a group: its terms count too."""

    terms: Set[str]
    chars: int


_NO_FRAME = Frame(frozenset(), 0)
SHOWN_AGAIN = 0.15
"""What a term counts when it was shown once before; later it counts nothing."""
BESIDE = 1.5
"""What a choice beside a taken one counts: two lines that follow each other say more than two that do not."""
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
        self._fresh = terms.difference(shown)
        self._beside: set[int] = set()
        self._places = {(choice.group, choice.at): index for index, choice in enumerate(choices) if choice.at >= 0}
        self._used: dict[Hashable, int] = {}
        """The chars that were taken of each group."""
        self._frame_terms: dict[int, list[str]] = {}
        """The terms that the frame of a choice adds to its own."""
        self._waiting: dict[Hashable, list[int]] = {}
        """Choices that were passed over while the frame of their group was not paid for."""

    def run(self, least: float) -> Iterator[int]:
        # What a choice is worth if its frame were paid for: at least what it will ever be, but for a neighbour.
        adds = self._adds.__getitem__
        queue = [
            (-((one.bonus + one.scale * sum(map(adds, one.terms)) / _UNIT) / (one.chars + _LEAST_CHARS)), index)
            for index, one in enumerate(self._choices)
        ]
        heapq.heapify(queue)
        taken: set[int] = set()
        fresh: dict[int, float] = {}  # the ratios that were computed since the last choice was taken
        lowest = 0.0
        while queue:
            index = queue[0][1]
            if index in taken:
                heapq.heappop(queue)
                continue
            # Gains only fall while others are taken, so a fresh ratio that is still the highest is the best.
            choice = self._choices[index]
            frame = self._frame(choice)
            ratio = fresh.get(index)
            if ratio is None:
                ratio = fresh[index] = self._ratio(index, frame)
            if ratio <= lowest:
                heapq.heappop(queue)
                continue
            # The heap without this entry begins with one of the next two.
            if (len(queue) > 1 and -ratio > queue[1][0]) or (len(queue) > 2 and -ratio > queue[2][0]):
                heapq.heapreplace(queue, (-ratio, index))
                if frame is not _NO_FRAME:
                    self._waiting.setdefault(choice.group, []).append(index)
                continue
            heapq.heappop(queue)
            lowest = lowest or least * ratio
            taken.add(index)
            fresh.clear()
            yield index
            for term in choice.terms | frame.terms:
                if term in self._fresh:
                    self._fresh.discard(term)
                    self._adds[term] = round(self._adds[term] * SHOWN_AGAIN)
                else:
                    self._adds[term] = 0
            for place in (choice.at - 1, choice.at + 1) if choice.at >= 0 else ():
                other = self._places.get((choice.group, place))
                if other is not None and other not in taken:
                    self._beside.add(other)
                    heapq.heappush(queue, (-self._ratio(other, self._frame(self._choices[other])), other))
            self._used[choice.group] = self._used.get(choice.group, 0) + choice.chars
            # The frame is paid for: the other choices of the group became cheaper.
            for other in self._waiting.pop(choice.group, ()) if frame is not _NO_FRAME else ():
                if other not in taken:
                    heapq.heappush(queue, (-self._ratio(other, _NO_FRAME), other))

    def _frame(self, choice: Choice) -> Frame:
        if choice.group in self._used:
            return _NO_FRAME
        return self._frames.get(choice.group, _NO_FRAME)

    def _ratio(self, index: int, frame: Frame) -> float:
        choice = self._choices[index]
        group, scale, chars = choice.group, choice.scale, choice.chars
        adds = self._adds.__getitem__
        gain: float = sum(map(adds, choice.terms))
        if frame is not _NO_FRAME:
            added = self._frame_terms.get(index)
            if added is None:
                added = self._frame_terms[index] = [*frame.terms - choice.terms]
            gain += sum(map(adds, added))
            chars += frame.chars
        if group is not None and (used := self._used.get(group)):
            # A line that is long already is worth less to a reader with every piece.
            gain /= 1 + used / (CROWDED_CHARS * scale)
        if index in self._beside:
            gain *= BESIDE
        return (choice.bonus + scale * gain / _UNIT) / (chars + _LEAST_CHARS)
