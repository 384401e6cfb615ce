"""The gauges we relay: where their zero lies and what levels are possible there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Station:
    code: str
    name: str
    datum_offset_m: float
    lowest_m: float
    highest_m: float


STATIONS = {
    station.code: station
    for station in (
        Station("KEL", "Kelholm outer mole", -5.00, 3.2, 7.4),
        Station("HUS", "Husby lock", -5.02, 2.9, 8.1),
        Station("WIL", "Wilmar east basin", -4.97, 1.8, 9.0),
    )
}


def station_for(code: str) -> Station:
    try:
        return STATIONS[code]
    except KeyError:
        known = ", ".join(sorted(STATIONS))
        raise KeyError(f"unknown station {code!r}; known: {known}") from None
