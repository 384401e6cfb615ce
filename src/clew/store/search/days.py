"""Days in questions and in texts: "yesterday" in a message of 8 May is 7 May, which is what a question will name.

A text is read with the time of its message. Days are numbers (`date.toordinal`, UTC); English only.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

_MONTHS = "january february march april may june july august september october november december".split()
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBERS = {word: number for number, word in enumerate("a two three four five six seven eight nine ten".split(), 1)}
_NUMBERS |= {"an": 1, "one": 1, "couple": 2, "few": 3}
_month = "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in _MONTHS)
_day, _year = r"(?P<day>\d\d?)(?:st|nd|rd|th)?", r"(?P<year>(?:19|20)\d\d)"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_year}-(?P<number>\d\d?)-{_day}\b",
        rf"\b{_day}(?: of)? (?P<name>{_month})\b\.?,?(?: {_year}\b)?",
        rf"\b(?P<name>{_month})\b\.? {_day}\b(?!:)(?:,? {_year}\b)?",
        rf"\b(?P<name>{_month})\b\.?,?(?: of)? {_year}\b",
        rf"\b(?:in|during|since|until) (?P<name>{'|'.join(_MONTHS)})\b(?![./]\w)",
    )
)
# The first and last day of what is meant, counted from the day of the message.
_PHRASES = {
    "the day before yesterday": (-2, -2), "yesterday": (-1, -1), "last night": (-1, -1), "today": (0, 0),
    "tonight": (0, 0), "this morning": (0, 0), "this afternoon": (0, 0), "this evening": (0, 0),
    "the other day": (-6, -1), "tomorrow": (1, 1), "the day after tomorrow": (2, 2),
}  # fmt: skip
_phrase = re.compile(rf"\b(?:{'|'.join(sorted(_PHRASES, key=len, reverse=True))})\b")
_ago = re.compile(rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)})(?: of)? (day|week|month|year)s? (?:ago|back|earlier)\b")
_span = re.compile(rf"\b(last|past|previous|this|next|coming|on) (week|weekend|month|year|{'|'.join(_WEEKDAYS)})\b")
_EPOCH, _EARLIEST, _LATEST = (date(year, 1, 1).toordinal() for year in (1970, 1900, 2200))
_DAYS_OF = {"day": 1, "week": 7, "month": 30, "year": 365}
RELATIVE_WORDS = ("yesterday", "today", "tonight", "tomorrow", "ago", "last", "week", "weekend", "month", *_WEEKDAYS)
"""Nearly every expression that is relative to a day has one of these words."""
FARTHEST_DAYS = 35
"""A message that tells of a day is looked for among those of so many days after it."""


@dataclass(frozen=True, slots=True)
class DayRange:
    """The days from the first to the last."""

    first: int
    last: int

    def overlaps(self, other: DayRange) -> bool:
        return self.first <= other.last and other.first <= self.last


def day_of(micros: int) -> int:
    """The day of a time as it is stored; a time that no message can have is taken for the nearest that one can."""
    return min(max(micros // 86_400_000_000 + _EPOCH, _EARLIEST), _LATEST)


def micros_of_day(day: int) -> int:
    """The beginning of a day, as times are stored."""
    return (day - _EPOCH) * 86_400_000_000


def days_asked_for(folded_query: str, day: int) -> tuple[DayRange | None, range]:
    """The days that a case-folded query of a certain day names, and where in it; None where it names none."""
    for pattern in _DATES:
        found = pattern.search(folded_query)
        if found is None:
            continue
        year = date.fromordinal(day).year
        days = _range_of(found, year)
        if days is not None and days.first > day and not found.groupdict().get("year"):
            days = _range_of(found, year - 1)
        if days is not None:
            return days, range(found.start(), found.end())
    for pattern, read in _RELATIVE:
        found = pattern.search(folded_query)
        if found is not None:
            return read(found, day), range(found.start(), found.end())
    return None, range(0)


def days_told(folded_text: str, day: int) -> Iterator[DayRange]:
    """The days that a case-folded text speaks of, written on a certain day."""
    for pattern, read in _RELATIVE:
        for found in pattern.finditer(folded_text):
            yield read(found, day)
    year = date.fromordinal(day).year
    for pattern in _DATES[:3]:
        for found in pattern.finditer(folded_text):
            if (days := _range_of(found, year)) is not None:
                yield days


def _phrase_range(found: re.Match[str], day: int) -> DayRange:
    low, high = _PHRASES[found[0]]
    return DayRange(day + low, day + high)


def _ago_range(found: re.Match[str], day: int) -> DayRange:
    """`three weeks ago`: about then."""
    length = _DAYS_OF[found[2]]
    around = 0 if length == 1 else length // 2
    middle = max(1 + around, day - (_NUMBERS.get(found[1]) or int(found[1])) * length)
    return DayRange(middle - around, middle + around)


def _span_range(found: re.Match[str], day: int) -> DayRange:
    """`last week`, `this weekend`, `on friday`, seen from a day."""
    which, unit = found[1], found[2]
    weekday = (day - 1) % 7
    step = {"this": 0, "on": -1, "next": 1, "coming": 1}.get(which, -1)
    if unit in _WEEKDAYS:
        back = (weekday - _WEEKDAYS.index(unit)) % 7 or 7
        target = day - back if step <= 0 and which != "this" else day - back + 7
        return DayRange(target, target)
    if unit in ("week", "weekend"):
        monday = day - weekday + 7 * step
        return DayRange(monday + 4 if unit == "weekend" else monday, monday + 6)
    at = date.fromordinal(day)
    if unit == "year":
        return DayRange(date(at.year + step, 1, 1).toordinal(), date(at.year + step, 12, 31).toordinal())
    months = at.year * 12 + at.month - 1 + step
    first = date(months // 12, months % 12 + 1, 1)
    return DayRange(first.toordinal(), first.toordinal() + monthrange(first.year, first.month)[1] - 1)


_RELATIVE = ((_phrase, _phrase_range), (_ago, _ago_range), (_span, _span_range))


def _range_of(found: re.Match[str], year: int | None) -> DayRange | None:
    groups = found.groupdict()
    written = groups.get("year")
    in_year = int(written) if written else year
    if in_year is None:
        return None
    number = groups.get("number")
    month = int(number) if number else next(i for i, it in enumerate(_MONTHS, 1) if it.startswith(groups["name"][:3]))
    if not 1 <= month <= 12:
        return None
    last = monthrange(in_year, month)[1]
    day = int(groups["day"]) if groups.get("day") else 0
    if day > last:
        return None
    first = date(in_year, month, day or 1).toordinal()
    return DayRange(first, first if day else first + last - 1)
