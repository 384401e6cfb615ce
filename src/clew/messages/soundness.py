"""Whether a history needs no repair, asked as cheaply as can be: most never do.

Says yes or no; what is wrong, and what to do about it, is for the repair to find out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, cast

from clew.messages.surrogates import is_whole, is_whole_inside
from clew.messages.types import ROLES, Message

_INSTEAD_OF_CONTENT = ("reasoning", "reasoning_content", "reasoning_details", "refusal", "audio")

# Half the price of json.loads, which pays more for its own checks than for short arguments.
_scan_json = json.JSONDecoder().raw_decode
_CHECKED_ABOVE = frozenset({"role", "content", "tool_calls"})
_JSON_SPACE = " \t\n\r"


def is_sound(messages: Sequence[Message], *, open_end: bool = False, longest_text: int | None = None) -> bool:
    """Whether every message is valid and every call has its one result directly behind it."""
    limit = sys.maxsize if longest_text is None else longest_text
    waiting: set[str] = set()
    for message in cast("Sequence[Any]", messages):
        if type(message) is not dict:
            return False
        role = message.get("role")
        usual_size = 2
        if role == "tool":
            answered = message.get("tool_call_id")
            if type(answered) is not str or answered not in waiting:
                return False
            waiting.discard(answered)
            usual_size = 3
        elif waiting:
            return False
        # Nearly every message of a long history is one of these two kinds, and is asked nothing else.
        content, calls = message.get("content"), message.get("tool_calls")
        if type(content) is str and len(message) == usual_size and type(role) is str and role in ROLES:
            if len(content) <= limit and (content.isascii() or is_whole(content)):
                continue
        elif calls and content is None and len(message) == 3 and role == "assistant":
            usual_ids = _ids_of_usual_calls(calls)
            if usual_ids is not None:
                waiting = usual_ids
                continue
        if not is_sound_message(message, limit):
            return False
        if calls:
            waiting = {call["id"] for call in calls}
            if len(waiting) != len(calls):
                return False
    return open_end or not waiting


def _ids_of_usual_calls(calls: Any) -> set[str] | None:
    """The ids of calls that are sound in the plainest way, each id once; None says nothing about the others."""
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


def is_sound_message(message: Any, limit: int = sys.maxsize) -> bool:
    """Whether one message, looked at alone, is valid."""
    role = message.get("role")
    if type(role) is not str or role not in ROLES:
        return False
    content = message.get("content")
    if type(content) is str:
        if not content.isascii() and not is_whole(content):
            return False
        if len(content) > limit:
            return False
    elif not _is_sound_content(message, content, limit):
        return False
    has_nothing_else = len(message) == 2 and "content" in message and role != "tool"
    return has_nothing_else or _are_sound_fields(message, role)


def _is_sound_content(message: Any, content: Any, limit: int) -> bool:
    if content is None:
        return may_be_silent(message)
    if type(content) is not list or not content:
        return False
    return all(_is_sound_part(part, limit) for part in content)


def may_be_silent(message: Any) -> bool:
    """Whether a message may have no content: an assistant's that calls, thinks or refuses instead of speaking."""
    if message.get("role") != "assistant":
        return False
    return bool(message.get("tool_calls")) or any(message.get(other) for other in _INSTEAD_OF_CONTENT)


def _is_sound_part(part: Any, limit: int) -> bool:
    if not isinstance(part, dict):
        return False
    text = part.get("text")
    if isinstance(text, str) and len(text) > limit:
        return False
    return is_whole_inside(part)


def _are_sound_fields(message: Any, role: str) -> bool:
    calls = message.get("tool_calls")
    if calls is not None and not _are_sound_calls(calls, role):
        return False
    if message.get("function_call") is not None:
        return False
    answered = message.get("tool_call_id")
    if role == "tool" and not (type(answered) is str and answered):
        return False
    usual = 2 + ("tool_calls" in message) + ("tool_call_id" in message)
    if len(message) == usual and "content" in message and answered is None:
        return True
    return all(name in _CHECKED_ABOVE or is_whole_inside(value) for name, value in message.items())


def _are_sound_calls(calls: Any, role: str) -> bool:
    return isinstance(calls, list) and bool(calls) and role == "assistant" and all(map(is_sound_call, calls))


def is_sound_call(call: Any) -> bool:
    """Whether a call has an id, a name, and arguments that are a JSON object."""
    if not isinstance(call, dict):
        return False
    identity, function = call.get("id"), call.get("function")
    if not _is_name(identity):
        return False
    if not isinstance(function, dict):
        return _is_sound_custom_call(call)
    if not _is_name(function.get("name")):
        return False
    if (len(call) > 3 or len(function) > 2) and not is_whole_inside(call):
        return False
    return is_object_json(function.get("arguments"))


def _is_name(value: Any) -> bool:
    return type(value) is str and value != "" and (value.isascii() or is_whole(value))


def _is_sound_custom_call(call: Any) -> bool:
    """A call of a tool that takes free text instead of JSON."""
    custom = call.get("custom")
    return (
        call.get("type") == "custom"
        and isinstance(custom, dict)
        and type(custom.get("name")) is str
        and type(custom.get("input")) is str
        and is_whole_inside(call)
    )


def is_object_json(text: Any) -> bool:
    """Whether a text is one JSON object and can be sent."""
    if type(text) is not str or not (text.isascii() or is_whole(text)):
        return False
    try:
        value, end = _scan_json(text)
    except (ValueError, RecursionError):
        return is_object_json(bare) if (bare := text.strip(_JSON_SPACE)) != text else False
    return type(value) is dict and (end == len(text) or not text[end:].strip(_JSON_SPACE))
