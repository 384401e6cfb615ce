"""Figures for people: counts, tokens, shares, money and times, short enough for a column."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

_MICROS = 1_000_000
NO_PRICE = "no price"
"""What is said wherever a price is not known; it is never taken for zero."""


def plural(count: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_count(tokens: int) -> str:
    """A number of tokens in at most five characters or so: 812, 9,120, 68.1K, 1.24M."""
    if tokens < 10_000:
        return f"{tokens:,}"
    if tokens < 999_500:
        return f"{tokens / 1_000:.1f}K" if tokens < 99_950 else f"{tokens / 1_000:.0f}K"
    return f"{tokens / 1_000_000:.2f}M" if tokens < 999_500_000 else f"{tokens / 1_000_000_000:.2f}G"


def percent(part: int, whole: int) -> str:
    """A share; a dash where there is nothing to have a share of."""
    if not whole:
        return "-"
    share = 100 * part / whole
    return "<1%" if 0 < share < 1 else f"{share:,.0f}%"


def message_range(numbers: list[int]) -> str:
    """`m2-m142`, `m7` for one message, a dash for none."""
    if not numbers:
        return "-"
    return f"m{numbers[0]}" if numbers[0] == numbers[-1] else f"m{numbers[0]}-m{numbers[-1]}"


# -- money -------------------------------------------------------------------------------------------------------------


def format_dollars(amount: float) -> str:
    """Money, with four digits behind the point where it is less than a dollar; nothing is $0.00."""
    if not amount or amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def format_saving(micros: int) -> str:
    """What was saved, rounded down; with a minus, and rounded away from nothing, where it cost more."""
    shown = micros // 10_000 * 10_000 if abs(micros) >= _MICROS else micros // 100 * 100
    return f"{'-' if shown < 0 else ''}{format_dollars(abs(shown) / _MICROS)}"


def format_cost(micros: int, calls: int, unknown: int) -> str:
    """What calls cost. No calls and free ones cost $0.00; `unknown` of them have no known price, which is said."""
    if calls and unknown == calls:
        return NO_PRICE
    known = format_dollars(micros / _MICROS)
    return f"{known} + {NO_PRICE}" if unknown else known


def cost_usd(micros: int, calls: int, unknown: int) -> float | None:
    """The same for programs: of the calls whose price is known; None where there are calls and none has a price."""
    return None if calls and unknown == calls else micros / _MICROS


# -- times -------------------------------------------------------------------------------------------------------------


def format_time(at: datetime) -> str:
    """In the zone of this machine."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def iso_time(at: datetime | None) -> str | None:
    """For JSON, in UTC."""
    return None if at is None else at.astimezone(UTC).isoformat()


def format_day(day: int) -> str:
    """A day that is counted from 1970, as the store groups by it (in UTC)."""
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def describe_period(first: datetime | None, last: datetime | None) -> str:
    """`since ... until ...`; empty where no time is named."""
    words = [f"since {format_time(first)}"] if first else []
    return " ".join([*words, f"until {format_time(last)}"] if last else words)
