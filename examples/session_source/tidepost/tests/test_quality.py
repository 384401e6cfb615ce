from datetime import UTC, datetime, timedelta

from tidepost.quality import QualityCheck
from tidepost.readings import Reading
from tidepost.stations import STATIONS

START = datetime(2024, 11, 1, tzinfo=UTC)


def levels(*values, station="KEL"):
    return [Reading(station, START + timedelta(minutes=n), value) for n, value in enumerate(values)]


def flags(readings):
    quality = QualityCheck(STATIONS)
    return [quality.check(reading).flags for reading in readings]


def test_a_quiet_sea_has_no_flags():
    assert flags(levels(5.01, 5.02, 5.03)) == [(), (), ()]


def test_a_level_outside_the_station_s_limits_is_flagged():
    assert flags(levels(7.9)) == [("range",)]


def test_a_jump_is_flagged_and_the_way_back_is_not():
    assert flags(levels(5.0, 5.7, 5.02)) == [(), ("spike",), ()]


def test_stations_do_not_disturb_each_other():
    assert flags(levels(5.0) + levels(6.0, station="HUS")) == [(), ()]
