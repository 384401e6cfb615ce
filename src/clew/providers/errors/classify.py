"""Classifying a provider's error: its text, the row of the table that matches, and the numbers that it states."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import TypeAlias, cast

from clew.providers.errors.table import (
    ERROR_PATTERNS,
    MEDIA_NUMBER_PATTERNS,
    MEDIA_ROWS,
    NUMBER_PATTERNS,
    OUTPUT_NUMBER_PATTERNS,
    ROOM_NUMBER_PATTERNS,
    ErrorKind,
    ErrorPattern,
    NumberPattern,
)


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """The meaning of a provider's error. A number that it does not state is None, never a guess."""

    kind: ErrorKind
    limit: int | None = None
    """The context window."""
    available_output: int | None = None
    """How much output may be asked for instead."""
    retry_after: float | None = None
    """Seconds to wait."""
    input_tokens: int | None = None
    input_is_at_least: bool = False
    """The provider stopped counting the prompt there, so that less than `available_output` may be left."""
    requested_output: int | None = None
    output_cap: int | None = None
    """The most the model ever writes, whatever the prompt."""
    is_about_media: bool = False
    """Pictures or documents were refused: a request without the older ones may pass."""
    media_limit: int | None = None
    """How many pictures and documents a request may have."""
    matched: str = "nothing"
    """The row of the table, or the status, that gave the kind."""


# Used only where no row matches. Errors of the server pass by themselves, so every 5xx is worth the same wait.
_STATUS_KINDS: dict[int, ErrorKind] = {
    400: "bad_request",
    401: "auth",
    402: "quota",
    403: "auth",
    404: "bad_request",
    405: "bad_request",
    408: "network",
    409: "bad_request",
    413: "payload_too_large",
    415: "bad_request",
    422: "bad_request",
    425: "overloaded",
    429: "rate_limit",
    500: "overloaded",
    502: "overloaded",
    503: "overloaded",
    504: "overloaded",
    520: "overloaded",
    522: "network",
    524: "overloaded",
    529: "overloaded",
}

_SIZES: tuple[ErrorKind, ...] = ("prompt_too_long", "output_cap_too_large", "payload_too_large")
Numbers: TypeAlias = dict[str, int]
_MAX_RESTARTS = 50
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
"""131.072, as written in German, Spanish or Italian; no count of tokens has three decimals."""


def classify_error(
    status: int | None,
    body: object,
    provider: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    now: datetime | None = None,
    request: bytes = b"",
) -> ErrorClass:
    """The kind of an error, from its status and its body: text, bytes, JSON or an exception.

    `request` is what was refused: where the error quotes it, the words are the client's and say nothing of the size.
    """
    text = flat_text(body)
    answer = _from_rows(text, status, (provider or "").lower(), request) or _from_status(status)
    return replace(answer, retry_after=retry_after_seconds(text, headers, now))


def _from_rows(text: str, status: int | None, provider: str, request: bytes = b"") -> ErrorClass | None:
    has_digits = any(map(str.isdigit, text))
    for row in ERROR_PATTERNS if text else ():
        if (row.has_placeholders and not has_digits) or not _applies(row, status, provider):
            continue
        found = _plausible_match(row, text)
        answer = _from_match(row, found, text) if found is not None else None
        if answer is not None and found is not None and not (answer.kind in _SIZES and _quotes(request, found[0])):
            return answer
    return None


def _quotes(request: bytes, sentence: str) -> bool:
    """Whether a sentence of an error is in the request itself, so that the error may only quote it."""
    return bool(request) and sentence in _flattened(request.decode("utf-8", "replace"))


def _plausible_match(row: ErrorPattern, text: str) -> re.Match[str] | None:
    """The first match whose numbers can be true."""
    found = row.regex.search(text)
    for _ in range(_MAX_RESTARTS):
        if found is None or _are_plausible(_counts(found), row.least_limit):
            return found
        found = row.regex.search(text, found.start() + 1)
    return None


def _are_plausible(numbers: Numbers, least: int = 0) -> bool:
    """Whether what was refused is larger than the limit it was compared with, and that limit is above the least."""
    limit = numbers.get("limit", numbers.get("cap"))
    if limit is None:
        return True
    parts = numbers.get("input", 0) + numbers.get("output", 0)
    refused = max(parts, numbers.get("total", 0))
    return limit > least and (refused > limit or ("input" not in numbers and "total" not in numbers))


def _applies(row: ErrorPattern, status: int | None, provider: str) -> bool:
    if status in row.not_status:
        return False
    return not row.providers or any(name in provider for name in row.providers)


def _from_status(status: int | None) -> ErrorClass:
    kind = _STATUS_KINDS.get(status, "other") if status is not None else "other"
    return ErrorClass(kind, matched="nothing" if status is None else f"status {status}")


def _from_match(row: ErrorPattern, found: re.Match[str], text: str) -> ErrorClass | None:
    if row.verdict in ("context", "prompt_too_long"):
        return _overflow(row.name, _numbers(found, NUMBER_PATTERNS, text))
    if "room" in found.groupdict():
        return _output_room(row.name, found, text)
    if row.verdict == "output_cap_too_large" and _counts(found).get("cap") != 0:
        return _output_cap(row.name, _numbers(found, OUTPUT_NUMBER_PATTERNS, text))
    if row.name in MEDIA_ROWS:
        return _media(row, text)
    return ErrorClass(cast(ErrorKind, row.verdict), matched=row.name)


def _numbers(sentence: re.Match[str], patterns: tuple[NumberPattern, ...], text: str) -> Numbers:
    """The numbers by meaning: from the row's own sentence first, then from the text around it."""
    numbers = _counts(sentence)
    taken = {sentence.start(meaning) for meaning in numbers}
    for pattern in patterns:
        for match in islice(pattern.regex.finditer(text), _MAX_RESTARTS):
            fresh = {
                name: n for name, n in _counts(match).items() if name not in numbers and match.start(name) not in taken
            }
            if fresh and ("limit" not in fresh or _are_plausible({**numbers, **fresh})):
                numbers.update(fresh)
                taken.update(match.start(name) for name in fresh)
                break
    return numbers


def _counts(match: re.Match[str]) -> Numbers:
    return {meaning: _count(value) for meaning, value in match.groupdict().items() if value}


def _count(written: str) -> int:
    digits = written.replace(",", "").replace("_", "").strip()
    if _THOUSANDS.fullmatch(digits):
        digits = digits.replace(".", "")
    scale = {"k": 1_000, "m": 1_000_000}.get(digits[-1], 1)
    return int(float(digits.rstrip("km ")) * scale)


def _overflow(name: str, numbers: Numbers) -> ErrorClass:
    """Prompt or output: the prompt is too long unless it fits into the window by itself."""
    limit, output = numbers.get("limit"), numbers.get("output")
    prompt, total = numbers.get("input", numbers.get("least")), numbers.get("total")
    if total is not None and output is not None and total > output:
        # Messages, functions and tools are counted apart; the total has them all.
        prompt = max(prompt or 0, total - output)
    if output is None and total is not None and prompt is not None and total > prompt:
        output = total - prompt
    fits = _fits(limit, prompt, output)
    return ErrorClass(
        "output_cap_too_large" if fits else "prompt_too_long",
        limit=limit,
        available_output=limit - prompt if fits and limit is not None and prompt is not None else None,
        input_tokens=prompt,
        input_is_at_least="least" in numbers and "input" not in numbers,
        requested_output=output,
        matched=name,
    )


def _fits(limit: int | None, prompt: int | None, output: int | None) -> bool:
    if limit is None or output is None:
        return False
    if prompt is None:
        # The prompt is not stated: only an output that fills the window alone is surely too large.
        return output >= limit
    return prompt < limit < prompt + output or (prompt < limit and output >= limit)


def _output_cap(name: str, numbers: Numbers) -> ErrorClass:
    stated = numbers.get("cap", numbers.get("under", 0) - 1)
    # No output has less than a token: such a number is of something else.
    cap = stated if stated > 0 else None
    output = numbers.get("output")
    return ErrorClass(
        "output_cap_too_large",
        limit=numbers.get("limit"),
        available_output=cap,
        requested_output=output if output != cap else None,
        output_cap=cap,
        matched=name,
    )


def _output_room(name: str, found: re.Match[str], text: str) -> ErrorClass | None:
    """The room for output beside the prompt. Without any room, the prompt has to shrink."""
    numbers = _numbers(found, ROOM_NUMBER_PATTERNS, text)
    room = 0 if text[found.start("room") - 1] == "-" else numbers["room"]
    limit, output = numbers.get("limit"), numbers.get("output")
    if output is not None and output < room:
        # What was asked for fits into it: the number is of something else.
        return None
    return ErrorClass(
        "output_cap_too_large" if room else "prompt_too_long",
        limit=limit if limit is not None and limit > room else None,
        available_output=room or None,
        input_tokens=numbers.get("input"),
        requested_output=output if output != room else None,
        matched=name,
    )


def _media(row: ErrorPattern, text: str) -> ErrorClass:
    """An error about pictures, documents or pages; pages are not counted here, so their number is not taken."""
    found = (match for pattern in MEDIA_NUMBER_PATTERNS for match in islice(pattern.regex.finditer(text), 1))
    counts = [_count(match["count"]) for match in found if row.verdict == "payload_too_large" and "page" not in text]
    return ErrorClass(
        cast(ErrorKind, row.verdict),
        is_about_media=True,
        media_limit=counts[0] if counts else None,
        matched=row.name,
    )


# An error takes a few hundred characters, and a stack trace has it at the start or at the end: the middle of a huge
# body is not read.
HEAD_CHARS = 8_000
TAIL_CHARS = 4_000
_MAX_CAUSES = 8

# Each run of backslashes is looked at once.
_UNICODE_ESCAPE = re.compile(r"(?<!\\)\\+u([0-9a-fA-F]{4})")
_WHITESPACE_ESCAPE = re.compile(r"(?<!\\)\\+[nrt]")
_BACKSLASHES = re.compile(r"\\+")
_TAG = re.compile(r"<!--[^>]{0,200}-->|</?[a-zA-Z][^<>]{0,200}>")
_URL = re.compile(r"https?://[^\s\"'<>)\]}\\,]*", re.IGNORECASE)
# Ids, hashes and timestamps hold digits that are no count of anything.
_LONG_DIGITS = re.compile(r"\d{13,}")
_SPACES = re.compile(r"\s+")
_QUOTES = str.maketrans({'"': "'", "`": "'", "’": "'", "‘": "'", "“": "'", "”": "'", "：": ":", "，": ",", "。": "."})


def flat_text(body: object) -> str:
    """The text of an error in any form: bytes, JSON, JSON inside JSON, HTML, an exception.

    One line in lower case, without quoting, markup and addresses.
    """
    return _flattened(_bounded(_as_text(body)))


def _flattened(text: str) -> str:
    text = _UNICODE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    text = _WHITESPACE_ESCAPE.sub(" ", text)
    text = _BACKSLASHES.sub("", text)
    if "<" in text or "&" in text:
        text = html.unescape(_TAG.sub(" ", text))
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    text = _LONG_DIGITS.sub("#", _URL.sub(" ", text))
    return _SPACES.sub(" ", text).strip().lower()


def _bounded(text: str) -> str:
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"


def _as_text(body: object) -> str:
    if body is None:
        return ""
    if isinstance(body, str):
        return body
    if isinstance(body, (bytes, bytearray, memoryview)):
        return _bounded_bytes(bytes(body)).decode("utf-8", "replace")
    if isinstance(body, BaseException):
        return " ".join(_exception_texts(body))
    if isinstance(body, (dict, list, tuple)):
        return _json_text(body)
    return str(body)


def _bounded_bytes(body: bytes) -> bytes:
    # At most four bytes a character, so that the cut in characters is the one that counts.
    if len(body) <= 4 * (HEAD_CHARS + TAIL_CHARS):
        return body
    return body[: 4 * HEAD_CHARS] + b" " + body[-4 * TAIL_CHARS :]


def _json_text(body: object) -> str:
    try:
        return json.dumps(body, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return repr(body)


def _exception_texts(error: BaseException) -> Iterator[str]:
    """Names and texts of an exception and its causes: SDKs hide a reset connection two causes deep."""
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if current is None:
            return
        yield f"{type(current).__name__}: {current}"
        body = getattr(current, "body", None)
        if isinstance(body, (str, bytes, dict, list)):
            yield _as_text(body)
        current = current.__cause__ or current.__context__


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
_SPAN = rf"{_AMOUNT}\s?(?:{_UNITS})(?![a-z])(?:(?:,? and |,? )?{_AMOUNT}\s?(?:{_UNITS})(?![a-z])){{0,5}}+"
"""Of at most six parts: more are no time, and would be looked at again from each of them."""

# One row per wording. `span` has units; `seconds` and `millis` are bare numbers.
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"'?retry[-_ ]?delay'?\s?[:=]\s?'?(?P<span>{_SPAN})",
        rf"(?:try again|retry(?:ing)?|available again|resets?)[^.\d]{{0,24}}?\b(?:in|after)\s?:?\s?~?(?P<span>{_SPAN})",
        rf"(?:please )?wait (?:for )?(?:at least )?(?P<span>{_SPAN})",
        rf"(?P<span>{_SPAN})\s?(?:后|之后)(?:再|重)?试",
        rf"'?retry[-_ ]?after[-_ ]?(?:ms|millis|milliseconds)'?\s?[:=]\s?'?(?P<millis>{_AMOUNT})",
        r"'?(?:retry[-_ ]?after|(?:resets|retry)[-_ ]in)(?:[-_ ]?(?:s|secs|seconds))?'?\s?[:=]?\s?'?"
        rf"(?P<seconds>{_AMOUNT})(?![\d.]|\s?[a-z%])",
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
