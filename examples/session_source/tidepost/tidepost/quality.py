"""Flags on readings that the office should look at twice. Nothing is ever dropped here."""

from __future__ import annotations

from tidepost.readings import Reading
from tidepost.stations import Station

SPIKE_M = 0.5


class QualityCheck:
    """Compares each reading with the limits of its station and with the one before."""

    def __init__(self, stations: dict[str, Station]) -> None:
        self.stations = stations
        self.previous: dict[str, Reading] = {}

    def check(self, reading: Reading) -> Reading:
        station = self.stations[reading.station]
        flags = []
        if not station.lowest_m <= reading.level_m <= station.highest_m:
            flags.append("range")
        before = self.previous.get(reading.station)
        if before is not None and abs(reading.level_m - before.level_m) > SPIKE_M:
            flags.append("spike")
        if "spike" not in flags:
            self.previous[reading.station] = reading
        return reading.flagged(*flags)
