from datetime import UTC, datetime, timedelta

from tidepost.readings import Reading
from tidepost.report import render, summarise

START = datetime(2024, 11, 1, tzinfo=UTC)


def at(minute, level=5.0, flags=()):
    return Reading("KEL", START + timedelta(minutes=minute), level, flags)


def test_a_day_is_counted_by_station():
    [line] = summarise([at(0, 4.9), at(1, 5.3, ("spike",)), at(2)])
    assert (line.count, line.flagged, line.gaps) == (3, 1, 0)
    assert (line.lowest_m, line.highest_m) == (4.9, 5.3)


def test_a_silence_of_more_than_five_minutes_is_a_gap():
    [line] = summarise([at(0), at(5), at(11)])
    assert line.gaps == 1


def test_the_table_has_one_row_a_station():
    table = render(summarise([at(0)]))
    assert table.splitlines()[1] == "KEL          1        0     0   5.000   5.000"
