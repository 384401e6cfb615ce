"""`benchmarks/floors.toml`: each floor belongs to a measure, a lower score is reported, what needs no data holds."""

from __future__ import annotations

import core
import quality
from _table import FLOORS


def test_every_floor_belongs_to_a_measure() -> None:
    measures = {measure.__name__ for measure in core.MEASURES}
    assert set(FLOORS) - measures == {"certain", "goals"}
    assert set(FLOORS["certain"]) == set(quality.KINDS)
    assert all(0 < floor <= 100 for measure in FLOORS.values() for floor in measure.values())


def test_a_score_below_its_floor_is_reported_and_one_at_it_is_not() -> None:
    case, floor = next(iter(FLOORS["exam"].items()))
    rows = [
        core.with_floor({"measure": "exam", "case": case, "value": value, "unit": unit})
        for value, unit in ((floor, "%"), (floor - 1, "%"), (floor - 1, "chars"))
    ]
    assert core.below_floors(rows) == [f"exam, {case}: {floor - 1:.1f} of {floor}"]


def test_what_was_planted_is_left_as_its_floors_say() -> None:
    rows, _ = quality.certain([32_000], [1, 4])
    assert len(rows) == 2 * len(quality.COMPACTORS)
    assert quality.below_floors(rows) == []
    worse = {**rows[-1], "rules %": 50.0}
    assert len(quality.below_floors([worse])) == 1
