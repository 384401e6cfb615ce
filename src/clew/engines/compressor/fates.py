"""What became of each message of the input, told by its place in it.

Knows repaired histories, layouts and cuts; decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from clew.engines.base import Fate
from clew.engines.compressor.boundaries import Cut
from clew.engines.compressor.layout import Layout
from clew.messages import Message, Repaired


def fates_of(count: int, history: Repaired, layout: Layout, cut: Cut, standing: Mapping[int, Message]) -> list[Fate]:
    """One for each of the `count` messages of the input; `standing` has what stays, by its place in the layout."""
    folded = frozenset(cut.folded)
    # What a repair left out is in no place at all.
    fates = [Fate.REMOVED] * count
    # From the end, so that a message counts and not the stub that was put in behind it.
    for place in range(len(history.messages) - 1, -1, -1):
        at = layout.place_of(place)
        if at is None or at in folded:
            fate = Fate.SUMMARISED
        else:
            fate = Fate.KEPT if standing[at] is history.messages[place] else Fate.PRUNED
        fates[history.indexes[place]] = fate
    return fates


def replaced_by_summary(fates: list[Fate]) -> tuple[int, int]:
    """The stretch of the input that the summary stands for: from, to (not included)."""
    places = [place for place, fate in enumerate(fates) if fate is Fate.SUMMARISED]
    return (places[0], places[-1] + 1) if places else (0, 0)
