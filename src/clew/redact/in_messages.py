"""Replaces the secrets in messages: in their texts, tool calls and reasoning, also where JSON escapes them.

Most messages have none. So the texts of many are searched at once, as they read when their escapes are undone, and only
messages in which something was found are looked at string by string.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from clew.messages import Message
from clew.redact.by_name import secret_under
from clew.redact.redaction import redact, redact_text
from clew.redact.values import PLACEHOLDER_END, PLACEHOLDER_START

_KEPT_FIELDS = frozenset(
    {"id", "type", "role", "call_id", "tool_call_id", "tool_use_id", "signature", "encrypted_content", "media_type"}
)
# No message is nested deeper; anything below is removed, so that no secret is missed and no recursion overflows.
_MAX_DEPTH = 100
_TOO_DEEP = f"{PLACEHOLDER_START}nested-too-deep{PLACEHOLDER_END}"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"(?P<colon>\s*+:\s*+)?')
# Many short texts are searched faster at once. More at a time would be searched as a long text is.
_BATCH_CHARS = 100_000
_BETWEEN = "\n\0\n"


def redact_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages without secrets in texts, tool calls and reasoning; one that has none stays the same object.

    Ids, signatures and images are not changed.
    """
    if len(messages) == 1:
        return [cast(Message, _clean(messages[0], 0))]
    clean = list(messages)
    for number in _suspects(messages):
        clean[number] = cast(Message, _clean(messages[number], 0))
    return clean


def _suspects(messages: Sequence[Message]) -> Iterator[int]:
    """The positions of the messages that may have a secret."""
    batch: list[str] = []
    owners: list[tuple[int, int]] = []
    chars = 0
    for number, message in enumerate(messages):
        texts: list[str] = []
        if _collect(message, "", {}, texts, 0):
            yield number
            continue
        owners.append((chars, number))
        for text in texts:
            batch.append(text)
            chars += len(text) + len(_BETWEEN)
        if chars > _BATCH_CHARS:
            yield from _found_in(batch, owners)
            batch, owners, chars = [], [], 0
    yield from _found_in(batch, owners)


def _found_in(batch: Sequence[str], owners: Sequence[tuple[int, int]]) -> list[int]:
    found = redact(_BETWEEN.join(batch)).found
    starts = [start for start, _ in owners]
    # A message without text starts where the next does.
    return list(dict.fromkeys(owners[bisect_right(starts, finding.start) - 1][1] for finding in found))


def _collect(value: Any, name: str, owner: Mapping[Any, Any], texts: list[str], depth: int) -> bool:
    """Add the strings of a value as they are read; True where a name alone says that there is a secret."""
    if isinstance(value, str):
        if name in _KEPT_FIELDS or _is_media(owner, name, value):
            return False
        if name == "arguments":
            return _collect_arguments(value, texts)
        texts.append(value)
        return secret_under(name, value) is not None
    if depth > _MAX_DEPTH:
        return True
    if isinstance(value, list):
        return any(_collect(item, "", {}, texts, depth + 1) for item in value)
    if isinstance(value, Mapping):
        return any(_collect(inner, str(key), value, texts, depth + 1) for key, inner in value.items())
    return False


def _collect_arguments(arguments: str, texts: list[str]) -> bool:
    """The arguments as they are; those with escapes also as they read without."""
    if "\\" not in arguments:
        texts.append(arguments)
        return False
    try:
        waiting = [("", json.loads(arguments))]
    except (ValueError, RecursionError):
        texts.append(arguments)
        return False
    pieces: list[str] = []
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += reversed(value.items())
        elif isinstance(value, list):
            waiting += [("", item) for item in reversed(value)]
        elif isinstance(value, str):
            if secret_under(name, value):
                return True
            # As in JSON, so that a name and its value in two fields are seen together.
            pieces.append(f'"{name}": "{value}"' if "\n" not in value else f"{name}:\n{value}\n")
    texts.append(",\n".join(pieces))
    return False


def redact_arguments(arguments: str) -> str:
    """The arguments of a tool call without secrets. JSON stays JSON: only strings are changed, and no other byte."""
    texts: list[str] = []
    if not _collect_arguments(arguments, texts) and not redact(_BETWEEN.join(texts)).found:
        return arguments
    if not _is_json(arguments):
        return redact_text(arguments)
    clean = _with_clean_strings(arguments)
    # Some secrets show only across strings: {"name": "PASSWORD", "value": "..."}.
    across = redact_text(clean)
    return across if across is clean or _is_json(across) else clean


def _clean(value: Any, depth: int) -> Any:
    """The value with redacted strings; the same object when there was nothing to redact."""
    if isinstance(value, str):
        return redact_text(value)
    if not isinstance(value, (Mapping, list)):
        return value
    if depth > _MAX_DEPTH:
        return _TOO_DEEP
    if isinstance(value, list):
        items = [_clean(item, depth + 1) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    fields = {key: _clean_field(value, key, depth + 1) for key in value}
    return value if all(fields[key] is value[key] for key in value) else fields


def _clean_field(owner: Mapping[Any, Any], key: Any, depth: int) -> Any:
    value = owner[key]
    if not isinstance(value, str):
        return _clean(value, depth)
    if key in _KEPT_FIELDS or _is_media(owner, key, value):
        return value
    if key == "arguments":
        return redact_arguments(value)
    return _clean_value(str(key), value)


def _is_media(owner: Mapping[Any, Any], key: Any, value: str) -> bool:
    if key == "data":
        return owner.get("type") in ("base64", "redacted_thinking")
    return key in ("url", "image_url", "file_data") and value.startswith("data:")


def _clean_value(name: str, value: str) -> str:
    kind = secret_under(name, value)
    clean = redact_text(value)
    return f"{PLACEHOLDER_START}{kind}{PLACEHOLDER_END}" if kind and clean is value else clean


def _with_clean_strings(arguments: str) -> str:
    pieces: list[str] = []
    done = 0
    name, name_end = "", -1
    for match in _STRING.finditer(arguments):
        written = match[0] if match["colon"] is None else match[0][: -len(match["colon"])]
        text = json.loads(written)
        clean = _clean_value(name if name_end == match.start() else "", text)
        if clean is not text:
            pieces += (arguments[done : match.start()], json.dumps(clean, ensure_ascii=written.isascii()))
            done = match.start() + len(written)
        if match["colon"] is not None:
            name, name_end = text, match.end()
    return "".join((*pieces, arguments[done:])) if pieces else arguments


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
