"""Takes the secrets out of messages: their text, their tool calls, their reasoning.

A message without a secret comes back as the same object. Tool-call arguments that were JSON stay JSON: only the
strings inside are changed, and every other byte stays. What is no text (ids, signatures, pictures) is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from clew.messages import Message
from clew.redact.assignments import secret_under
from clew.redact.findings import PLACEHOLDER_END, PLACEHOLDER_START
from clew.redact.redaction import redact, redact_text

_LEFT_ALONE = frozenset(
    {"id", "type", "role", "call_id", "tool_call_id", "tool_use_id", "signature", "encrypted_content", "media_type"}
)
# Deeper than any message is; whatever lies there is taken out whole, so that nothing slips by and nothing overflows.
_DEEPEST = 100
_TOO_DEEP = f"{PLACEHOLDER_START}nested-too-deep{PLACEHOLDER_END}"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"(?P<colon>\s*+:\s*+)?')


def redact_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages without secrets; those that hold none are the very same objects."""
    return [cast(Message, _clean(message, 0)) for message in messages]


def redact_arguments(arguments: str) -> str:
    """The arguments of a tool call without secrets: valid JSON if they were, plain text if not."""
    if not redact(arguments).found and ("\\" not in arguments or not _hides_secrets(arguments)):
        return arguments
    if not _is_json(arguments):
        return redact_text(arguments)
    clean = _with_clean_strings(arguments)
    # Some secrets show only across strings: {"name": "PASSWORD", "value": "..."}.
    across = redact_text(clean)
    return across if across is clean or _is_json(across) else clean


def _hides_secrets(arguments: str) -> bool:
    """Whether a secret shows only once the escapes of JSON are undone."""
    try:
        waiting = [("", json.loads(arguments))]
    except (ValueError, RecursionError):
        return False
    strings: list[str] = []
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            if secret_under(name, value):
                return True
            strings.append(value)
        elif isinstance(value, dict):
            strings += value
            waiting += value.items()
        elif isinstance(value, list):
            waiting += (("", item) for item in value)
    # All at once: a scan of many short texts takes longer than one of a long text.
    return bool(redact("\n\0\n".join(strings)).found)


def _clean(value: Any, depth: int) -> Any:
    """The value with clean strings in it, or the same object when they were clean already."""
    if isinstance(value, str):
        return redact_text(value)
    if not isinstance(value, (Mapping, list)):
        return value
    if depth > _DEEPEST:
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
    if key in _LEFT_ALONE or _is_media(owner, key, value):
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
