"""The days that a question names: "What did we do on 3 November?". What was written then, or soon after, may answer it.

Days are numbers (`date.toordinal`, UTC); English, and dates as ISO writes them.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date

_MONTHS = "january february march april may june july august september october november december".split()
_month = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS)
_day, _year = r"(?P<day>\d\d?)(?:st|nd|rd|th)?", r"(?P<year>(?:19|20)\d\d)"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_year}-(?P<number>\d\d)-{_day}\b",
        rf"\b{_day}(?: of)? (?P<name>{_month})\b\.?,?(?: {_year}\b)?",
        rf"\b(?P<name>{_month})\b\.? {_day}\b(?!:)(?:,? {_year}\b)?",
        rf"\b(?P<name>{_month})\b\.?,?(?: of)? {_year}\b",
    )
)
_BEFORE_TODAY = {"today": 0, "yesterday": 1}
_near_today = re.compile(r"\b(?:today|yesterday)\b")
_EPOCH, _EARLIEST, _LATEST = (date(year, 1, 1).toordinal() for year in (1970, 1900, 2200))
WRITTEN_WITHIN = 3
"""Days after an event in which it is still written about."""


@dataclass(frozen=True, slots=True)
class DayRange:
    """The days from the first to the last."""

    first: int
    last: int


def day_of(micros: int) -> int:
    """The day of a time as it is stored; a time that no message can have is taken for the nearest that one can."""
    return min(max(micros // 86_400_000_000 + _EPOCH, _EARLIEST), _LATEST)


def micros_of_day(day: int) -> int:
    """The beginning of a day, as times are stored."""
    return (day - _EPOCH) * 86_400_000_000


def days_named(folded_query: str, today: int) -> tuple[DayRange | None, range]:
    """The days that a case-folded query names, and where in it. A date without a year is the last one before today."""
    year = date.fromordinal(today).year
    for pattern in _DATES:
        if (found := pattern.search(folded_query)) is None:
            continue
        days = _range_of(found, year)
        if days is not None and days.first > today and not found["year"]:
            days = _range_of(found, year - 1)
        if days is not None:
            return days, range(found.start(), found.end())
    if (found := _near_today.search(folded_query)) is not None:
        day = today - _BEFORE_TODAY[found[0]]
        return DayRange(day, day), range(found.start(), found.end())
    return None, range(0)


def _range_of(found: re.Match[str], year: int) -> DayRange | None:
    groups = found.groupdict()
    year = int(groups["year"] or year)
    number = groups.get("number")
    month = int(number) if number else next(i for i, it in enumerate(_MONTHS, 1) if it.startswith(groups["name"][:3]))
    if not 1 <= month <= 12:
        return None
    last, day = monthrange(year, month)[1], int(groups.get("day") or 0)
    if day > last:
        return None
    first = date(year, month, day or 1).toordinal()
    return DayRange(first, first if day else first + last - 1)
