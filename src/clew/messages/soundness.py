"""Whether a history needs no repair, asked as cheaply as can be: most never do.

Says yes or no; what is wrong, and what to do about it, is for the repair to find out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from clew.messages.surrogates import is_whole, is_whole_inside
from clew.messages.types import ROLES, Message

INSTEAD_OF_CONTENT = ("tool_calls", "reasoning", "reasoning_content", "reasoning_details", "refusal", "audio")

# Half the price of json.loads, which pays more for its own checks than for short arguments.
_scan_json = json.JSONDecoder().raw_decode
_JSON_SPACE = " \t\n\r"


def is_sound(messages: Sequence[Message], *, open_end: bool = False, longest_text: int | None = None) -> bool:
    """Whether every message is valid and every call has its one result directly behind it."""
    waiting: set[str] = set()
    for message in messages:
        if type(message) is not dict:
            return False
        role = message.get("role")
        if role == "tool":
            answered = message.get("tool_call_id")
            if type(answered) is not str or answered not in waiting:
                return False
            waiting.discard(answered)
        elif waiting:
            return False
        if not is_sound_message(message, longest_text):
            return False
        if role == "assistant" and (calls := message.get("tool_calls")):
            waiting = {call["id"] for call in calls}
            if len(waiting) != len(calls):
                return False
    return open_end or not waiting


def is_sound_message(message: Any, longest_text: int | None = None) -> bool:
    """Whether one message, looked at alone, is valid."""
    role = message.get("role")
    if type(role) is not str or role not in ROLES:
        return False
    content = message.get("content")
    if type(content) is str:
        if not content.isascii() and not is_whole(content):
            return False
        if longest_text is not None and len(content) > longest_text:
            return False
    elif not _is_sound_content(message, content, longest_text):
        return False
    return (len(message) == 2 and role != "tool") or _are_sound_fields(message, role)


def _is_sound_content(message: Any, content: Any, longest_text: int | None) -> bool:
    if content is None:
        # An assistant message may have no content when it calls, thinks or refuses instead of speaking.
        return message.get("role") == "assistant" and any(message.get(other) for other in INSTEAD_OF_CONTENT)
    if type(content) is not list or not content:
        return False
    return all(_is_sound_part(part, longest_text) for part in content)


def _is_sound_part(part: Any, longest_text: int | None) -> bool:
    if not isinstance(part, dict):
        return False
    text = part.get("text")
    if longest_text is not None and isinstance(text, str) and len(text) > longest_text:
        return False
    return is_whole_inside(part)


def _are_sound_fields(message: Any, role: str) -> bool:
    for name, value in message.items():
        if name == "tool_calls":
            if value is not None and not _are_sound_calls(value, role):
                return False
        elif name == "tool_call_id":
            if role == "tool" and not (type(value) is str and value):
                return False
            if type(value) is str and not is_whole(value):
                return False
        elif name not in ("role", "content") and not is_whole_inside(value):
            return False
    return role != "tool" or "tool_call_id" in message


def _are_sound_calls(calls: Any, role: str) -> bool:
    return isinstance(calls, list) and bool(calls) and role == "assistant" and all(map(is_sound_call, calls))


def is_sound_call(call: Any) -> bool:
    """Whether a call has an id, a name, and arguments that are a JSON object."""
    if not isinstance(call, dict):
        return False
    identity = call.get("id")
    if type(identity) is not str or not identity or not is_whole(identity):
        return False
    function = call.get("function")
    if not isinstance(function, dict):
        return _is_sound_custom_call(call)
    name = function.get("name")
    if type(name) is not str or not name or not is_whole(name):
        return False
    if (len(call) > 3 or len(function) > 2) and not is_whole_inside(call):
        return False
    return is_object_json(function.get("arguments"))


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
    if type(text) is not str or not is_whole(text):
        return False
    try:
        value, end = _scan_json(text)
    except (ValueError, RecursionError):
        return is_object_json(bare) if (bare := text.strip(_JSON_SPACE)) != text else False
    return type(value) is dict and (end == len(text) or not text[end:].strip(_JSON_SPACE))
