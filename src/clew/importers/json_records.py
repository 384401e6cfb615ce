"""JSON as programs and crashes leave it.

Bytes that are not UTF-8, NUL bytes, raw control characters in strings, half surrogate pairs, NaN and numbers that no
machine can hold are repaired, with a notice. What is no JSON, and nesting too deep to be walked, is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clew.importers.session import BadJsonLine, JsonLine, Notices
from clew.importers.source import ByteSource

_MAX_NUMBER_DIGITS = 4_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class BadJson(ValueError):  # noqa: N818 (reads as what it says)
    """Bytes that are no JSON we can use; the text says why."""


def parse_json(raw: bytes, depth: int, notices: Notices, line: int | None = None) -> Any:
    """The JSON value in `raw`; raises `BadJson`."""
    text = _decode(raw, notices, line)
    try:
        value = _decoder(notices, line).decode(text)
    except json.JSONDecodeError as error:
        raise BadJson(f"{_lower_first(error.msg).removesuffix(' at')} at column {error.colno}") from error
    except RecursionError as error:
        raise BadJson(f"JSON nested more than {depth} levels deep") from error
    if text.count("[") + text.count("{") > depth and _is_deeper(value, depth):
        raise BadJson(f"JSON nested more than {depth} levels deep")
    if _ESCAPED_SURROGATE.search(text):
        value = _without_lone_surrogates(value, notices, line)
    return value


def json_lines(source: ByteSource, notices: Notices) -> Iterator[JsonLine | BadJsonLine]:
    """Every line that is not blank, in order; one or two are in memory at a time."""
    held: JsonLine | BadJsonLine | None = None
    for number, raw in source.lines(notices):
        if not raw.strip(b" \t\r\0"):
            if b"\0" in raw:
                notices.add("a stretch of NUL bytes, as a crash leaves them, was skipped", number)
            continue
        if held is not None:
            yield held
        held = _parse_line(number, raw, source.limits.depth, notices)
    if isinstance(held, BadJsonLine):
        held = replace(held, is_last=True)
    if held is not None:
        yield held


def _parse_line(number: int, raw: bytes, depth: int, notices: Notices) -> JsonLine | BadJsonLine:
    try:
        value = parse_json(raw, depth, notices, number)
    except BadJson as bad:
        return BadJsonLine(number, str(bad), is_cut=True)
    if not isinstance(value, dict):
        return BadJsonLine(number, f"a JSON object was expected, not {json_type(value)}", is_cut=False)
    return JsonLine(number, value)


def _decode(raw: bytes, notices: Notices, line: int | None) -> str:
    if b"\0" in raw:
        raw = raw.replace(b"\0", b"")
        notices.add("NUL bytes were removed", line)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        notices.add("bytes that are not UTF-8 were replaced by U+FFFD", line)
        return raw.decode("utf-8", "replace")


def _decoder(notices: Notices, line: int | None) -> json.JSONDecoder:
    def whole(digits: str) -> int | str:
        if len(digits) <= _MAX_NUMBER_DIGITS:
            return int(digits)
        notices.add("a number with thousands of digits was kept as text", line)
        return digits

    def fraction(digits: str) -> float | str:
        value = float(digits)
        return value if math.isfinite(value) else digits

    def constant(name: str) -> None:
        notices.add(f"{name} is no JSON and was read as null", line)

    # strict=False: some writers leave raw line ends and tabs inside strings.
    return json.JSONDecoder(strict=False, parse_int=whole, parse_float=fraction, parse_constant=constant)


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, list | dict)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _without_lone_surrogates(value: Any, notices: Notices, line: int | None) -> Any:
    """The value with U+FFFD for each half of a surrogate pair, which UTF-8 cannot encode."""
    if isinstance(value, str):
        replaced = _SURROGATE.sub("\ufffd", value)
        if replaced != value:
            notices.add("half a surrogate pair was replaced by U+FFFD", line)
        return replaced
    if isinstance(value, list):
        return [_without_lone_surrogates(inner, notices, line) for inner in value]
    if isinstance(value, dict):
        return {
            _without_lone_surrogates(key, notices, line): _without_lone_surrogates(inner, notices, line)
            for key, inner in value.items()
        }
    return value


def json_type(value: Any) -> str:
    """The JSON type of a value, with its article."""
    names = {dict: "an object", list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean"}
    return names.get(type(value), "null")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
