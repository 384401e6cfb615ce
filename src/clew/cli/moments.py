"""Moments, as people write and read them: `2026-03-01`, `2026-03-01 14:30`, `7d`, `yesterday`.

What is written without a zone is meant in the zone of this machine, and times are shown in it.
"""

from __future__ import annotations

import argparse
import re
from datetime import UTC, date, datetime, timedelta

_AGO = re.compile(r"(\d{1,5})\s*(m|h|d|w)")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
EXPECTED = "a day (2026-03-01), a time (2026-03-01T14:30), today, yesterday, or so long ago: 30m, 12h, 7d, 2w"


def since(text: str) -> datetime:
    """The moment from which on; a day begins at midnight. For argparse."""
    return _moment(text, end=False)


def until(text: str) -> datetime:
    """The moment up to which; a day counts whole. For argparse."""
    return _moment(text, end=True)


def add_period(parser: argparse.ArgumentParser) -> None:
    """The flags by which a command is narrowed to a time."""
    parser.add_argument("--since", metavar="WHEN", type=since, help="from then on: 2026-03-01, yesterday, 7d, 12h")
    parser.add_argument("--until", metavar="WHEN", type=until, help="up to then; a day counts whole")


def period_in_words(first: datetime | None, last: datetime | None) -> str:
    """`since ... until ...`; empty where no time is named."""
    words = [f"since {shown(first)}"] if first else []
    return " ".join([*words, f"until {shown(last)}"] if last else words)


def shown(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def in_json(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()


def day_shown(day: int) -> str:
    """A day that is counted from 1970, as the store groups by it (in UTC)."""
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def _moment(text: str, *, end: bool) -> datetime:
    wanted = text.strip().lower()
    try:
        if ago := _AGO.fullmatch(wanted):
            return datetime.now(UTC) - int(ago[1]) * _UNITS[ago[2]]
        if wanted in ("today", "yesterday"):
            day = datetime.now().astimezone().date() - timedelta(days=wanted == "yesterday")
            return _day(day, end)
        if _DAY.fullmatch(wanted):
            return _day(date.fromisoformat(wanted), end)
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is no moment; expects {EXPECTED}") from None


def _day(day: date, end: bool) -> datetime:
    return datetime.combine(day + timedelta(days=1) if end else day, datetime.min.time()).astimezone()
