"""Whether a history is valid, checked as quickly as possible, since most histories are."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence, Set
from typing import Any, cast

from clew.messages.message import OLD_TOOL_ROLE, ROLES, Message

_INSTEAD_OF_CONTENT = ("reasoning", "reasoning_content", "reasoning_details", "refusal", "audio")

# Takes half the time of json.loads, whose own checks cost more than parsing short arguments.
_scan_json = json.JSONDecoder().raw_decode
_CHECKED_BEFORE = frozenset({"role", "content", "tool_calls"})
_JSON_SPACE = " \t\n\r"


def is_valid(
    messages: Sequence[Message],
    *,
    open_end: bool = False,
    longest_text: int | None = None,
    checked: Set[int] = frozenset(),
) -> bool:
    """Whether every message is valid and every call has its one result directly behind it.

    `checked` are the ids of message objects that were found valid before, each looked at alone.
    """
    limit, checked = (sys.maxsize, checked) if longest_text is None else (longest_text, frozenset())
    waiting: set[str] = set()
    for message in cast("Sequence[Any]", messages):
        if type(message) is not dict:
            return False
        role, calls = message.get("role"), message.get("tool_calls")
        usual_size = 2
        if role == "tool":
            answered = message.get("tool_call_id")
            if type(answered) is not str or answered not in waiting:
                return False
            waiting.discard(answered)
            usual_size = 3
        elif waiting:
            return False
        if id(message) not in checked:
            # Nearly every message of a long history is of one of these two kinds, and needs no other check.
            content = message.get("content")
            is_usual_text = (
                type(content) is str and len(content) <= limit and (content.isascii() or is_encodable(content))
            )
            if is_usual_text and len(message) == usual_size and type(role) is str and role in ROLES:
                continue
            if calls and (content is None or is_usual_text) and len(message) == 3 and role == "assistant":
                usual_ids = _ids_of_usual_calls(calls)
                if usual_ids is not None:
                    waiting = usual_ids
                    continue
            if not is_valid_message(message, limit):
                return False
        if calls:
            waiting = {call["id"] for call in calls}
            if len(waiting) != len(calls):
                return False
    return open_end or not waiting


def _ids_of_usual_calls(calls: Any) -> set[str] | None:
    """The ids of calls that pass a few quick checks; None where the thorough checks have to decide."""
    ids = set()
    try:
        for call in calls:
            function, identity = call["function"], call["id"]
            name, arguments = function["name"], function["arguments"]
            if len(call) > 3 or len(function) > 2 or type(identity) is not str or type(name) is not str:
                return None
            if not (identity and name and identity.isascii() and name.isascii() and arguments.isascii()):
                return None
            value, end = _scan_json(arguments)
            if type(value) is not dict or end != len(arguments):
                return None
            ids.add(identity)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    return ids if len(ids) == len(calls) and type(calls) is list else None


def is_valid_message(message: Any, limit: int = sys.maxsize) -> bool:
    """Whether one message, looked at alone, is valid."""
    role = message.get("role")
    # Servers have roles of their own, which are kept; `function` is the old name of `tool`.
    if type(role) is not str or role in ("", OLD_TOOL_ROLE):
        return False
    content = message.get("content")
    if type(content) is str:
        if not content.isascii() and not is_encodable(content):
            return False
        if len(content) > limit:
            return False
    elif not _is_valid_content(message, content, limit):
        return False
    has_nothing_else = len(message) == 2 and "content" in message and role != "tool"
    return has_nothing_else or _are_valid_fields(message, role)


def _is_valid_content(message: Any, content: Any, limit: int) -> bool:
    if content is None:
        return may_lack_content(message)
    if type(content) is not list or not content:
        return False
    return all(_is_valid_part(part, limit) for part in content)


def may_lack_content(message: Any) -> bool:
    """Whether a message may have no content: an assistant's that has calls, reasoning, a refusal or audio."""
    if message.get("role") != "assistant":
        return False
    return bool(message.get("tool_calls")) or any(message.get(other) for other in _INSTEAD_OF_CONTENT)


def _is_valid_part(part: Any, limit: int) -> bool:
    if not isinstance(part, dict):
        return False
    text = part.get("text")
    if isinstance(text, str) and len(text) > limit:
        return False
    return is_encodable_inside(part)


def _are_valid_fields(message: Any, role: str) -> bool:
    calls = message.get("tool_calls")
    if calls is not None and not _are_valid_calls(calls, role):
        return False
    if message.get("function_call") is not None:
        return False
    answered = message.get("tool_call_id")
    if role == "tool" and not (type(answered) is str and answered):
        return False
    usual = 2 + ("tool_calls" in message) + ("tool_call_id" in message)
    if len(message) == usual and "content" in message and answered is None:
        return True
    return all(name in _CHECKED_BEFORE or is_encodable_inside(value) for name, value in message.items())


def _are_valid_calls(calls: Any, role: str) -> bool:
    return isinstance(calls, list) and bool(calls) and role == "assistant" and all(map(is_valid_call, calls))


def is_valid_call(call: Any) -> bool:
    """Whether a call has an id, a name, and arguments that are a JSON object."""
    if not isinstance(call, dict):
        return False
    identity, function = call.get("id"), call.get("function")
    if not _is_name(identity):
        return False
    if not isinstance(function, dict):
        return _is_valid_custom_call(call)
    if not _is_name(function.get("name")):
        return False
    if (len(call) > 3 or len(function) > 2) and not is_encodable_inside(call):
        return False
    return is_json_object(function.get("arguments"))


def _is_name(value: Any) -> bool:
    return type(value) is str and value != "" and (value.isascii() or is_encodable(value))


def _is_valid_custom_call(call: Any) -> bool:
    """A call of a tool that takes free text instead of JSON."""
    custom = call.get("custom")
    return (
        call.get("type") == "custom"
        and isinstance(custom, dict)
        and type(custom.get("name")) is str
        and type(custom.get("input")) is str
        and is_encodable_inside(call)
    )


def is_json_object(text: Any) -> bool:
    """Whether a text is one JSON object and can be sent."""
    if type(text) is not str or not (text.isascii() or is_encodable(text)):
        return False
    try:
        value, end = _scan_json(text)
    except (ValueError, RecursionError):
        return is_json_object(bare) if (bare := text.strip(_JSON_SPACE)) != text else False
    return type(value) is dict and (end == len(text) or not text[end:].strip(_JSON_SPACE))


def is_encodable(text: str) -> bool:
    """Whether a text has no lone surrogate, which no wire, tokenizer or database takes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_encodable_inside(value: Any) -> bool:
    """Whether every text inside a JSON value is encodable, names of fields included."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            if not is_encodable(value):
                return False
        elif isinstance(value, dict):
            pending.extend(value)
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
    return True
