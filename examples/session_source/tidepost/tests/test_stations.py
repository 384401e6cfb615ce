import pytest
from tidepost.stations import STATIONS, station_for


def test_every_station_has_room_between_its_limits():
    assert all(station.lowest_m < station.highest_m for station in STATIONS.values())


def test_an_unknown_station_is_named_with_the_known_ones():
    with pytest.raises(KeyError, match="unknown station 'XXX'; known: HUS, KEL, WIL"):
        station_for("XXX")
