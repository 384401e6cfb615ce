"""A day in one table: readings, flags, gaps and extremes of each station."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from tidepost.readings import Reading

GAP = timedelta(minutes=5)


@dataclass
class Line:
    station: str
    count: int
    flagged: int
    gaps: int
    lowest_m: float
    highest_m: float


def summarise(readings: Iterable[Reading]) -> list[Line]:
    readings = list(readings)
    lines = []
    for code in sorted({reading.station for reading in readings}):
        own = sorted((r for r in readings if r.station == code), key=lambda r: r.at)
        gaps = 0
        for reading in own:
            earlier = [r for r in own if r.at < reading.at]
            if earlier and reading.at - max(r.at for r in earlier) > GAP:
                gaps += 1
        lines.append(
            Line(
                station=code,
                count=len(own),
                flagged=sum(1 for r in own if r.flags),
                gaps=gaps,
                lowest_m=min(r.level_m for r in own),
                highest_m=max(r.level_m for r in own),
            )
        )
    return lines


def render(lines: list[Line]) -> str:
    rows = ["station  count  flagged  gaps   low m  high m"]
    for line in lines:
        rows.append(
            f"{line.station:<7}  {line.count:>5}  {line.flagged:>7}  {line.gaps:>4}"
            f"  {line.lowest_m:>6.3f}  {line.highest_m:>6.3f}"
        )
    return "\n".join(rows)
