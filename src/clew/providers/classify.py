"""What a refusal means: which kind, and the numbers it states.

Reads the rows of `error_table` and does the arithmetic between their numbers. Does not know what to do about an
error: that is `turn.recover`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TypeAlias, cast

from clew.providers.error_table import FIGURES, OUTPUT_FIGURES, ROWS, ErrorKind, Figure, Row
from clew.providers.error_text import flat_text
from clew.providers.retry_after import retry_after_seconds


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """What a provider's error says. A number that it does not state is None, never a guess."""

    kind: ErrorKind
    limit: int | None = None
    """The context window."""
    available_output: int | None = None
    """How much output may be asked for instead."""
    retry_after: float | None = None
    """Seconds to wait."""
    input_tokens: int | None = None
    input_is_at_least: bool = False
    """The provider stopped counting the prompt there: less than `available_output` may be left."""
    requested_output: int | None = None
    output_cap: int | None = None
    """The most the model ever writes, whatever the prompt."""
    matched: str = "nothing"
    """The row of the table, or the status, that gave the kind."""


# Read only when no row fits. A fault of the server passes by itself, so every 5xx is worth the same wait.
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

Numbers: TypeAlias = dict[str, int]
_MAX_RESTARTS = 50


def classify_error(
    status: int | None,
    body: object,
    provider: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    now: datetime | None = None,
) -> ErrorClass:
    """The kind of an error, from its status and whatever came as its body: text, bytes, JSON or an exception."""
    text = flat_text(body)
    answer = _from_rows(text, status, (provider or "").lower()) or _from_status(status)
    return replace(answer, retry_after=retry_after_seconds(text, headers, now))


def _from_rows(text: str, status: int | None, provider: str) -> ErrorClass | None:
    has_digits = any(map(str.isdigit, text))
    for row in ROWS if text else ():
        if (row.has_holes and not has_digits) or not _applies(row, status, provider):
            continue
        found = _sensible_match(row, text)
        if found is not None:
            return _from_match(row, found, text)
    return None


def _sensible_match(row: Row, text: str) -> re.Match[str] | None:
    """Where the row fits with numbers that can be true."""
    found = row.regex.search(text)
    for _ in range(_MAX_RESTARTS):
        if found is None or _can_be_true(_counts(found)):
            return found
        found = row.regex.search(text, found.start() + 1)
    return None


def _can_be_true(numbers: Numbers) -> bool:
    """What was refused is larger than what it was held against, and no window is empty."""
    limit = numbers.get("limit", numbers.get("cap"))
    if limit is None:
        return True
    parts = numbers.get("input", 0) + numbers.get("output", 0)
    refused = max(parts, numbers.get("total", 0))
    return limit > 0 and (refused > limit or ("input" not in numbers and "total" not in numbers))


def _applies(row: Row, status: int | None, provider: str) -> bool:
    if status in row.not_status:
        return False
    return not row.providers or any(name in provider for name in row.providers)


def _from_status(status: int | None) -> ErrorClass:
    kind = _STATUS_KINDS.get(status, "other") if status is not None else "other"
    return ErrorClass(kind, matched="nothing" if status is None else f"status {status}")


def _from_match(row: Row, found: re.Match[str], text: str) -> ErrorClass:
    if row.verdict in ("context", "prompt_too_long"):
        return _overflow(row.name, _numbers(found, FIGURES, text))
    if row.verdict == "output_cap_too_large" and _counts(found).get("cap") != 0:
        return _output_cap(row.name, _numbers(found, OUTPUT_FIGURES, text))
    return ErrorClass(cast(ErrorKind, row.verdict), matched=row.name)


def _numbers(sentence: re.Match[str], figures: tuple[Figure, ...], text: str) -> Numbers:
    """Each meaning with its number: from the row's own sentence first, then from the figures around it."""
    numbers = _counts(sentence)
    taken = {sentence.start(meaning) for meaning in numbers}
    for figure in figures:
        for match in islice(figure.regex.finditer(text), _MAX_RESTARTS):
            fresh = {
                name: n for name, n in _counts(match).items() if name not in numbers and match.start(name) not in taken
            }
            if fresh and ("limit" not in fresh or _can_be_true({**numbers, **fresh})):
                numbers.update(fresh)
                taken.update(match.start(name) for name in fresh)
                break
    return numbers


def _counts(match: re.Match[str]) -> Numbers:
    return {meaning: _count(value) for meaning, value in match.groupdict().items() if value}


def _count(written: str) -> int:
    digits = written.replace(",", "").replace("_", "").strip()
    scale = {"k": 1_000, "m": 1_000_000}.get(digits[-1], 1)
    return int(float(digits.rstrip("km ")) * scale)


def _overflow(name: str, numbers: Numbers) -> ErrorClass:
    """Prompt or output: the prompt is too long unless it fits in the window by itself."""
    limit, output = numbers.get("limit"), numbers.get("output")
    prompt, total = numbers.get("input", numbers.get("least")), numbers.get("total")
    if total is not None and output is not None and total > output:
        # The parts of a prompt are counted apart (messages, functions, tools); the total has them all.
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
        # Nobody stated the prompt: only an output that fills the window alone is surely the output's fault.
        return output >= limit
    return prompt < limit < prompt + output or (prompt < limit and output >= limit)


def _output_cap(name: str, numbers: Numbers) -> ErrorClass:
    cap = numbers.get("cap")
    if cap is None and "under" in numbers:
        cap = numbers["under"] - 1
    output = numbers.get("output")
    return ErrorClass(
        "output_cap_too_large",
        limit=numbers.get("limit"),
        available_output=cap,
        requested_output=output if output != cap else None,
        output_cap=cap,
        matched=name,
    )
