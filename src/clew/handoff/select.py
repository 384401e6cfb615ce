"""The one selection under a budget: the candidate with the highest gain per char first, until the room is used.

What a candidate adds is the weight of its terms that nothing chosen shows yet. The order does not depend on the budget,
so that a larger budget chooses everything that a smaller one does, and more.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from typing import Any

from clew.lazy import dataclass


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
        self._adds = {term: round(_UNIT * weight(term) * (SHOWN_AGAIN if term in shown else 1.0)) for term in terms}
        self._fresh = terms.difference(shown)
        self._beside: set[int] = set()
        self._places = {(choice.group, choice.at): index for index, choice in enumerate(choices) if choice.at >= 0}
        self._used: dict[Hashable, int] = {}
        """The chars that were taken of each group."""
        self._waiting: dict[Hashable, list[int]] = {}
        """Choices that were passed over while the frame of their group was not paid for."""

    def run(self, least: float) -> Iterator[int]:
        # What a choice is worth if its frame were paid for: at least what it will ever be, but for a neighbour.
        queue = [(-self._ratio(index, _NO_FRAME), index) for index in range(len(self._choices))]
        heapq.heapify(queue)
        taken: set[int] = set()
        lowest = 0.0
        while queue:
            _, index = heapq.heappop(queue)
            if index in taken:
                continue
            # Gains only fall while others are taken, so a fresh ratio that is still the highest is the best.
            choice = self._choices[index]
            frame = self._frame(choice)
            ratio = self._ratio(index, frame)
            if ratio <= lowest:
                continue
            if queue and -ratio > queue[0][0]:
                heapq.heappush(queue, (-ratio, index))
                if frame is not _NO_FRAME:
                    self._waiting.setdefault(choice.group, []).append(index)
                continue
            lowest = lowest or least * ratio
            taken.add(index)
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
        adds = self._adds.__getitem__
        gain: float = sum(map(adds, choice.terms))
        if frame.terms:
            gain += sum(map(adds, frame.terms - choice.terms))
        if choice.group is not None:
            # A line that is long already is worth less to a reader with every piece.
            gain /= 1 + self._used.get(choice.group, 0) / (CROWDED_CHARS * choice.scale)
        if index in self._beside:
            gain *= BESIDE
        return (choice.bonus + choice.scale * gain / _UNIT) / (choice.chars + frame.chars + _LEAST_CHARS)
