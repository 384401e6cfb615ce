"""How long a provider asks to wait: from its headers, else from the text of its error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_AMOUNT = r"\d{1,9}(?:\.\d{1,12})?"
_UNIT_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_UNIT_NAMES = {
    **dict.fromkeys(("d", "day", "days", "天"), "d"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时"), "h"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "分钟", "分"), "m"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒"), "s"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds", "毫秒"), "ms"),
}
_UNITS = "|".join(sorted(_UNIT_NAMES, key=len, reverse=True))
_PART = re.compile(rf"({_AMOUNT})\s?({_UNITS})(?![a-z])")
_SPAN = rf"{_AMOUNT}\s?(?:{_UNITS})(?![a-z])(?:(?:,? and |,? )?{_AMOUNT}\s?(?:{_UNITS})(?![a-z]))*"

# One row per wording. `span` has units; `seconds` and `millis` are bare numbers.
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"'?retry[-_ ]?delay'?\s?[:=]\s?'?(?P<span>{_SPAN})",
        rf"(?:try again|retry(?:ing)?|available again|resets?)[^.\d]{{0,24}}?\b(?:in|after)\s?:?\s?~?(?P<span>{_SPAN})",
        rf"(?:please )?wait (?:for )?(?:at least )?(?P<span>{_SPAN})",
        rf"(?P<span>{_SPAN})\s?(?:后|之后)(?:再|重)?试",
        rf"'?retry[-_ ]?after[-_ ]?(?:ms|millis|milliseconds)'?\s?[:=]\s?'?(?P<millis>{_AMOUNT})",
        rf"'?retry[-_ ]?after(?:[-_ ]?(?:s|secs|seconds))?'?\s?[:=]?\s?'?(?P<seconds>{_AMOUNT})(?![\d.]|\s?[a-z%])",
    )
)


def retry_after_seconds(text: str, headers: Mapping[str, str] | None, now: datetime | None = None) -> float | None:
    """Seconds to wait as the provider stated them, or None. `text` is what `flat_text` gives."""
    stated = _from_headers(headers, now) if headers else None
    return stated if stated is not None else _from_text(text)


def _from_headers(headers: Mapping[str, str], now: datetime | None) -> float | None:
    values = {str(name).lower(): str(value).strip() for name, value in headers.items()}
    millis = values.get("retry-after-ms", "")
    if re.fullmatch(_AMOUNT, millis):
        return float(millis) / 1000
    value = values.get("retry-after", "")
    if re.fullmatch(_AMOUNT, value):
        return float(value)
    return _span_seconds(value.lower()) or _seconds_until(value, now)


def _seconds_until(value: str, now: datetime | None) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _from_text(text: str) -> float | None:
    for pattern in _PATTERNS:
        found = pattern.search(text)
        if found is None:
            continue
        groups = found.groupdict()
        if groups.get("span"):
            return _span_seconds(groups["span"])
        if groups.get("millis"):
            return float(groups["millis"]) / 1000
        return float(groups["seconds"])
    return None


def _span_seconds(span: str) -> float | None:
    """`1m30s`, `450ms`, `2 hours and 5 minutes` as seconds."""
    parts = _PART.findall(span)
    if not parts:
        return None
    return round(sum(float(amount) * _UNIT_SECONDS[_UNIT_NAMES[unit]] for amount, unit in parts), 6)
