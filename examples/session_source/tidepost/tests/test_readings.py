from datetime import UTC, datetime

import pytest
from tidepost.readings import ReadingError, parse_line


def test_a_line_becomes_a_reading():
    reading = parse_line("KEL|2024-11-01T00:06:00Z|3.412|m\n")
    assert reading.station == "KEL"
    assert reading.at == datetime(2024, 11, 1, 0, 6, tzinfo=UTC)
    assert reading.level_m == 3.412


@pytest.mark.parametrize(("level", "unit"), [("341.2", "cm"), ("3412", "mm"), ("3.412", "m")])
def test_units_are_turned_into_metres(level, unit):
    assert parse_line(f"KEL|2024-11-01T00:06:00Z|{level}|{unit}").level_m == 3.412


@pytest.mark.parametrize("line", ["", "KEL|x", "KEL|2024-11-01T00:06:00Z|3.4|ft", "KEL|yesterday|3.4|m"])
def test_a_line_that_means_nothing_is_refused(line):
    with pytest.raises(ReadingError):
        parse_line(line)
