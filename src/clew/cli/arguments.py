"""Arguments that several commands take: settings, the store, periods of time, counts and numbers of tokens.

Types are for argparse: what they cannot read is an `ArgumentTypeError` that says what is expected. A time without a
zone is meant in the zone of this machine.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, date, datetime, timedelta

_AGO = re.compile(r"(\d{1,5})\s*(m|h|d|w)")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
EXPECTED_TIME = "a day (2026-03-01), a time (2026-03-01T14:30), today, yesterday, or so long ago: 30m, 12h, 7d, 2w"


def add_set_flag(parser: argparse.ArgumentParser) -> None:
    """The flag by which a command takes a setting for this one run."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="flags", help="a setting for this run only"
    )


def add_store_flags(parser: argparse.ArgumentParser) -> None:
    """What every command that opens the store takes."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_set_flag(parser)


def add_period_flags(parser: argparse.ArgumentParser) -> None:
    """The flags by which a command is narrowed to a time."""
    parser.add_argument(
        "--since", metavar="WHEN", type=parse_since, help="from then on: 2026-03-01, yesterday, 7d, 12h"
    )
    parser.add_argument("--until", metavar="WHEN", type=parse_until, help="up to then; a day counts whole")


# -- types -------------------------------------------------------------------------------------------------------------


def parse_tokens(text: str, least: int = 1) -> int:
    """A number of tokens: `10000`, `10,000` or `10k`."""
    plain = text.strip().lower().replace(",", "")
    number, unit = (plain[:-1], 1_000) if plain.endswith("k") else (plain, 1)
    try:
        tokens = int(float(number) * unit) if unit > 1 else int(number)
    except (ValueError, OverflowError):
        tokens = -1
    if not least <= tokens <= sys.maxsize:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; expects a number of tokens, {least} or more")
    return tokens


def one_or_more(text: str) -> int:
    return _parse_count(text, 1)


def zero_or_more(text: str) -> int:
    return _parse_count(text, 0)


def message_number(text: str) -> int:
    """The number of a message, as pages write it (m120) or bare."""
    return _parse_count(text.removeprefix("m"), 0)


def parse_since(text: str) -> datetime:
    """The moment from which on; a day begins at midnight."""
    return _parse_time(text, end=False)


def parse_until(text: str) -> datetime:
    """The moment up to which; a day counts whole."""
    return _parse_time(text, end=True)


def _parse_count(text: str, least: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; expects a whole number, {least} or more")
    return number


def _parse_time(text: str, *, end: bool) -> datetime:
    wanted = text.strip().lower()
    try:
        if ago := _AGO.fullmatch(wanted):
            return datetime.now(UTC) - int(ago[1]) * _UNITS[ago[2]]
        if wanted in ("today", "yesterday"):
            day = datetime.now().astimezone().date() - timedelta(days=wanted == "yesterday")
            return _day_boundary(day, end)
        if _DAY.fullmatch(wanted):
            return _day_boundary(date.fromisoformat(wanted), end)
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is no moment; expects {EXPECTED_TIME}") from None


def _day_boundary(day: date, end: bool) -> datetime:
    return datetime.combine(day + timedelta(days=1) if end else day, datetime.min.time()).astimezone()
