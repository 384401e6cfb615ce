"""A result as a reader takes it in: JSON by its fields, each with its name.

Programs print records as JSON, often in one long line, and texts in them with their line breaks escaped. A piece of
such a line tells a reader nothing; a field with its name, or a line of the text, does. Records that were cut are read
too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from operator import is_
from typing import Any

from clew.ledger.spans import LONGEST_LINE

_FEWEST_FIELDS = 3
_FEWEST_BREAKS = 3
_MOST_NESTED = 4
_JOINED_CHARS = 240
_SHORT_CHARS = 150
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)("|\Z)', re.DOTALL)
_PLAIN_VALUE = re.compile(r"\s*:\s*(-?\d[\w.+-]*|true\b|false\b)?")
_BETWEEN_STRINGS = re.compile(r"[\s,:{}\[\]]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "", "t": "\t", "b": "", "f": ""}
_PLAIN_NAMES = frozenset({"title", "text", "content", "message", "line", "output", "stdout", "stderr", "body"})
# Behind the letter of a drive a folder can begin with any letter.
_DRIVE = re.compile(r"\b[A-Za-z]:\\\w")


def readable_result(text: str, depth: int = 0) -> str:
    """The text with its JSON told by fields; the same object where there is none."""
    if depth > _MOST_NESTED:
        return text
    if text.lstrip()[:1] in ("{", "["):
        try:
            return "\n".join(_joined(_fields_of(json.loads(text), depth)))
        except (ValueError, RecursionError):
            pass
    lines = text.split("\n")
    if max(map(len, lines)) <= LONGEST_LINE:
        return text
    read = [_readable_line(line, depth) if len(line) > LONGEST_LINE else line for line in lines]
    return text if all(map(is_, read, lines)) else "\n".join(read)


def _readable_line(line: str, depth: int) -> str:
    if line.count('":') >= _FEWEST_FIELDS:
        record = min(at for at in map(line.find, '{["') if at >= 0)
        return line[:record] + "\n".join(_joined(_fields_in(line[record:], depth)))
    is_escaped = line.count("\\n") >= _FEWEST_BREAKS and not _DRIVE.search(line)
    return _unescaped(line) if is_escaped else line


def _fields_of(value: Any, depth: int, name: str = "") -> Iterator[str]:
    """The fields of a record, each with its name; of a list its entries, records with nothing between them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields_of(inner, depth, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields_of(inner, depth, name)
            if isinstance(inner, dict):
                yield ""
    elif isinstance(value, str) and value:
        yield _named(name, readable_result(value, depth + 1))
    elif value is not None:
        yield _named(name, json.dumps(value))


def _fields_in(line: str, depth: int) -> Iterator[str]:
    """The fields of records in a line, also where one of them is cut at an end."""
    name, at = "", 0
    while string := _STRING.search(line, at):
        between = line[at : string.start()]
        if "{" in between and "}" in between:
            yield ""
        at = string.end()
        if _BETWEEN_STRINGS.fullmatch(string[1]):
            # The line began inside a string: this is what stands between two.
            at = string.end() - 1
            continue
        value = _PLAIN_VALUE.match(line, at)
        if value is None:
            if string[1]:
                yield _named(name, readable_result(_unescaped(string[1]), depth + 1))
            name = ""
        else:
            name = _unescaped(string[1])
            at = value.end()
            if value[1]:
                yield _named(name, value[1])
                name = ""


def _named(name: str, value: str) -> str:
    """A field with its name, but for those that say by themselves what they are: an address, a title, a text."""
    is_plain = not name or name in _PLAIN_NAMES or value.startswith(("https://", "http://"))
    return value if is_plain else f"{name}: {value}"


def _joined(fields: Iterator[str]) -> Iterator[str]:
    """Short fields of a record on one line; where one is empty, a record ends."""
    short: list[str] = []
    for field in (*fields, ""):
        is_short = 0 < len(field) <= _SHORT_CHARS and "\n" not in field
        if short and (not is_short or sum(map(len, short)) + len(field) > _JOINED_CHARS):
            yield ", ".join(short)
            short = []
        if is_short:
            short.append(field)
        elif field.strip():
            yield field


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_meant, text) if "\\" in text else text


def _meant(escape: re.Match[str]) -> str:
    if escape[1]:
        char = chr(int(escape[1], 16))
        return "" if "\ud800" <= char <= "\udfff" else char
    return _ESCAPED.get(escape[2], escape[2])
