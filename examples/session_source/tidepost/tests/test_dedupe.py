from datetime import UTC, datetime, timedelta

from tidepost.dedupe import Deduper
from tidepost.readings import Reading

START = datetime(2024, 11, 1, tzinfo=UTC)


def reading(minute, station="KEL"):
    return Reading(station, START + timedelta(minutes=minute), 5.0)


def test_the_same_minute_of_the_same_station_is_seen_once():
    deduper = Deduper()
    assert deduper.is_new(reading(0))
    assert not deduper.is_new(reading(0))
    assert deduper.is_new(reading(0, "HUS"))


def test_old_keys_are_forgotten_first():
    deduper = Deduper(size=2)
    for minute in (0, 1, 2):
        deduper.is_new(reading(minute))
    assert not deduper.is_new(reading(2))
    assert deduper.is_new(reading(0))
