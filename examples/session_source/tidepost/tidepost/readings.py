"""One reading of one gauge, and the line it is written in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001}


class ReadingError(ValueError):
    """A gauge line that cannot be understood."""


@dataclass(frozen=True)
class Reading:
    station: str
    at: datetime
    level_m: float
    flags: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, datetime]:
        return self.station, self.at

    def flagged(self, *flags: str) -> Reading:
        return replace(self, flags=(*self.flags, *flags))


def parse_line(line: str) -> Reading:
    """Read `STATION|2024-11-01T00:06:00Z|3.412|m`."""
    fields = line.strip().split("|")
    if len(fields) != 4:
        raise ReadingError(f"expected 4 fields, got {len(fields)}: {line!r}")
    station, stamp, level, unit = fields
    if unit not in UNITS:
        raise ReadingError(f"unknown unit {unit!r}: {line!r}")
    return Reading(station, _time(stamp), round(float(level) * UNITS[unit], 4))


def _time(stamp: str) -> datetime:
    try:
        at = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError as error:
        raise ReadingError(f"bad time {stamp!r}") from error
    return at.replace(tzinfo=UTC)
