"""One message made valid by itself: its content, its calls and its characters.

Knows nothing of the messages around it: pairs are put right by `pairing`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from clew.errors import InvalidMessage
from clew.messages.content import UNREADABLE
from clew.messages.soundness import is_object_json, is_sound_call, is_sound_message, may_be_silent
from clew.messages.surrogates import is_whole_inside, made_whole_inside
from clew.messages.types import ROLES, Message, Repair

_OLD_TOOL_ROLE = "function"

Note = Callable[[str, str], None]


def mended(message: Any, index: int, repairs: list[Repair], longest_text: int | None = None) -> Message:
    """The message, valid; the same object where nothing was wrong with it."""
    _refuse_meaningless(message, index)
    if is_sound_message(message, sys.maxsize if longest_text is None else longest_text):
        return message  # type: ignore[no-any-return]
    result: dict[str, Any] = dict(message)

    def note(problem: str, remedy: str) -> None:
        repairs.append(Repair(index, problem, remedy))

    if not is_whole_inside(result):
        result = made_whole_inside(result)
        note("half of a surrogate pair in a text", "replaced by U+FFFD, or joined with its other half")
    _mend_old_calls(result, index, note)
    _mend_calls(result, index, note)
    _mend_content(result, note)
    if longest_text is not None:
        _shorten(result, longest_text, note)
    return result  # type: ignore[return-value]


def _refuse_meaningless(message: Any, index: int) -> None:
    if not isinstance(message, dict):
        kind = type(message).__name__
        raise InvalidMessage(index, f"it is of type {kind}, not a dict", "Pass dicts, for example model_dump() of it")
    allowed = ", ".join(sorted(ROLES))
    if "role" not in message:
        raise InvalidMessage(index, "it has no role", f"Give it one of {allowed}")
    role = message["role"]
    if not isinstance(role, str) or (role not in ROLES and role != _OLD_TOOL_ROLE):
        raise InvalidMessage(index, f"its role {role!r:.80} is unknown", f"Use one of {allowed}")


def _mend_content(message: dict[str, Any], note: Note) -> None:
    content = message.get("content")
    if content is None or content == []:
        if content is None and may_be_silent(message):
            return
        message["content"] = ""
        note("no content" if content is None else "an empty list as content", "content is an empty text")
    elif isinstance(content, list | tuple):
        _mend_parts(message, content, note)
    elif isinstance(content, dict):
        message["content"] = [content]
        note("content is one part, not a list", "put into a list")
    elif not isinstance(content, str):
        message["content"] = str(content)
        note(f"content of type {type(content).__name__}", "written as text")


def _mend_parts(message: dict[str, Any], content: list[Any] | tuple[Any, ...], note: Note) -> None:
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return
    parts = [part if isinstance(part, dict) else {"type": "text", "text": _as_text(part)} for part in content]
    message["content"] = parts or ""
    note("content with parts that are no dicts", "each made a text part")


def _mend_calls(message: dict[str, Any], index: int, note: Note) -> None:
    if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
        _mend_answered_id(message, note)
    if message.get("tool_calls") is None:
        return
    calls = message["tool_calls"]
    if message["role"] != "assistant" or not calls:
        del message["tool_calls"]
        note("an empty list of calls" if not calls else f"calls on a {message['role']} message", "field removed")
        return
    if not isinstance(calls, list):
        calls = list(calls) if isinstance(calls, tuple) else [calls]
        note("tool_calls is no list", "put into a list")
    mended_calls = [_mended_call(call, f"call_{index}_{place}", note) for place, call in enumerate(calls)]
    kept = [call for call in mended_calls if call is not None]
    if kept:
        message["tool_calls"] = kept
    else:
        del message["tool_calls"]


def _mend_old_calls(message: dict[str, Any], index: int, note: Note) -> None:
    """Calls as they were before there were several at once, without ids: results follow their calls."""
    if message["role"] == _OLD_TOOL_ROLE:
        message["role"] = "tool"
        note("the old role 'function'", "role is 'tool'")
    if message.get("function_call") is not None:
        call = {"id": f"call_{index}_0", "type": "function", "function": message.pop("function_call")}
        message["tool_calls"] = message.get("tool_calls") or [call]
        note("the old field 'function_call'", "made a list of tool_calls")


def _mend_answered_id(message: dict[str, Any], note: Note) -> None:
    answered = message.get("tool_call_id")
    if answered is None:
        return  # the pairing gives it to the call that waits, or removes it
    message["tool_call_id"] = _as_text(answered)
    note(f"tool_call_id of type {type(answered).__name__}", "written as text")


def _mended_call(call: Any, fallback_id: str, note: Note) -> dict[str, Any] | None:
    if is_sound_call(call):
        return call  # type: ignore[no-any-return]
    if not isinstance(call, dict):
        note(f"a call of type {type(call).__name__}", "removed")
        return None
    result = dict(call)
    identity = result.get("id")
    if not isinstance(identity, str) or not identity:
        result["id"] = fallback_id if identity in (None, "") else _as_text(identity)
        note("a call without a text as id", f"id is {result['id']!r}")
    function = result.get("function")
    if not isinstance(function, dict) and result.get("type") == "custom" and isinstance(result.get("custom"), dict):
        result["custom"] = _mended_custom(result["custom"], note)
    else:
        result["function"] = _mended_function(function, note)
    return result


def _mended_custom(custom: dict[str, Any], note: Note) -> dict[str, Any]:
    result = dict(custom)
    for field, default in (("name", "unknown"), ("input", "")):
        if not isinstance(result.get(field), str):
            result[field] = default if result.get(field) is None else _as_text(result[field])
            note(f"a call without a text as {field}", f"{field} is {result[field]!r:.80}")
    return result


def _mended_function(function: Any, note: Note) -> dict[str, Any]:
    result = dict(function) if isinstance(function, dict) else {}
    name = result.get("name")
    if not isinstance(name, str) or not name:
        result["name"] = "unknown"
        note("a call that names no function", "name is 'unknown'")
    arguments = result.get("arguments")
    if not is_object_json(arguments):
        result["arguments"] = object_json(arguments)
        note("arguments that are no JSON object", _told(arguments))
    return result


def object_json(arguments: Any) -> str:
    """Whatever a call carries as arguments, as the text of a JSON object, with nothing lost."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    value = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            return _wrapped(arguments)
        if isinstance(value, str) and is_object_json(value):
            return value  # encoded twice
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict) else _wrapped(value)


def _told(arguments: Any) -> str:
    if arguments is None or arguments == "":
        return "an empty object in their place"
    return "written as a JSON object" if isinstance(arguments, dict) else f"kept whole under {UNREADABLE!r}"


def _wrapped(value: Any) -> str:
    return json.dumps({UNREADABLE: value}, ensure_ascii=False, default=str)


def _shorten(message: dict[str, Any], longest: int, note: Note) -> None:
    content = message.get("content")
    if isinstance(content, str) and len(content) > longest:
        message["content"] = _cut(content, longest)
        note(f"a text of {len(content):,} chars", f"cut to {longest:,} chars")
    elif isinstance(content, list):
        long = [part for part in content if isinstance(part.get("text"), str) and len(part["text"]) > longest]
        if long:
            cut = {id(part): {**part, "text": _cut(part["text"], longest)} for part in long}
            message["content"] = [cut.get(id(part), part) for part in content]
            note(f"{len(long)} text parts over {longest:,} chars", f"cut to {longest:,} chars")


def _cut(text: str, longest: int) -> str:
    """The beginning and the end, and between them how much is missing; never longer than allowed."""
    gap = f"\n[{len(text) - longest:,} chars cut]\n"
    if longest <= len(gap):
        return text[:longest]
    front = (longest - len(gap)) // 2
    return text[:front] + gap + text[len(text) - (longest - len(gap) - front) :]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
