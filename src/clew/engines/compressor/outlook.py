"""What a compaction would do, told message by message: where each stands, and what it takes before and after.

Knows layouts and cuts; decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clew.engines.base import Place
from clew.engines.compressor.boundaries import Cut
from clew.engines.compressor.layout import Layout


class Rows(NamedTuple):
    """One of each for every message of the history."""

    places: tuple[Place, ...]
    numbers: tuple[int | None, ...]
    sizes: tuple[int, ...]
    sizes_after: tuple[int, ...]


def rows_of(layout: Layout, cut: Cut, sizes: Sequence[int], after: Mapping[int, int], earlier: tuple[int, int]) -> Rows:
    """The rows of a cut. `after` has the new size of each position that stays, `earlier` both of an old handoff."""
    rows: list[tuple[Place, int | None, int, int]] = [
        (_place(position, cut), layout.numbers[position], size, after.get(position, 0))
        for position, size in enumerate(sizes)
    ]
    if layout.previous and layout.previous.message is None:
        # The earlier handoff is a message of its own, which the layout has taken out.
        rows.insert(layout.position, (Place.HANDOFF, None, *earlier))
    return Rows(*zip(*rows, strict=True)) if rows else Rows((), (), (), ())


def _place(position: int, cut: Cut) -> Place:
    if position < cut.head:
        return Place.HEAD
    if position >= cut.tail:
        return Place.TAIL
    return Place.KEPT if position in cut.kept else Place.FOLDED
