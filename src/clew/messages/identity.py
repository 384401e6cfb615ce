"""What makes two messages the same one, however a client spells it from one request to the next.

Cache markers, empty fields, and thinking that stands beside an answer do not count, and a text is the same as one text
part: clients change these in messages that they send again. docs/decisions/0017-identity.md says why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from clew.messages.message import Message, calls_of, text_of

# Clients move their cache markers from request to request.
_IGNORED_FIELDS = frozenset({"cache_control"})
_FUNCTION_FIELDS = {"name", "arguments"}
_PLAIN_FIELDS = frozenset({"role", "content", "tool_calls", "reasoning"})
_sorted_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, check_circular=True).encode


def identity_of(message: Message) -> Iterable[str]:
    """The texts that identify a message. Raises what `json` raises for a value that JSON cannot say."""
    content = message.get("content")
    calls = message.get("tool_calls") or ()
    yield str(message.get("role"))
    yield content if isinstance(content, str) else _encode(_plain_text(content) or content)
    for call in calls:
        function = call.get("function")
        if len(call) == 3 and isinstance(function, dict) and function.keys() == _FUNCTION_FIELDS:
            # Nearly every call is of this shape; this way it costs no JSON.
            yield f"{call.get('id')} {call.get('type')} {function['name']}"
            yield str(function["arguments"])
        else:
            yield _encode(call)
    others = {
        name: value
        for name, value in message.items()
        if name not in _PLAIN_FIELDS and name not in _IGNORED_FIELDS and _has_value(value)
    }
    # Many clients do not send thinking back, so it counts only where there is nothing else.
    if not content and not calls:
        others["reasoning"] = message.get("reasoning")
    for name in sorted(others):
        if _has_value(others[name]):
            yield name
            yield _encode(others[name])


def _plain_text(content: Any) -> str | None:
    """The text of a content that is one text part, as clients write it to attach a cache marker."""
    if isinstance(content, list) and len(content) == 1 and isinstance(part := content[0], Mapping):
        names = {name for name in part if name not in _IGNORED_FIELDS}
        if names == {"type", "text"} and part["type"] == "text" and isinstance(part["text"], str):
            return part["text"]
    return None


def _encode(value: Any) -> str:
    if not _has_value(value):
        return ""
    if isinstance(value, str):
        return value
    return _sorted_json(_without_ignored(value))


def _without_ignored(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(name): _without_ignored(inner)
            for name, inner in value.items()
            if name not in _IGNORED_FIELDS and inner is not None
        }
    if isinstance(value, list | tuple):
        return [_without_ignored(inner) for inner in value]
    return value


def _has_value(value: Any) -> bool:
    return value is not None and value is not False and value != "" and value != [] and value != {}


def is_same_message(one: Message, other: Message) -> bool:
    """Whether a message is another one spelled anew: the same role, text, calls, and whatever is no text.

    Looser than `identity_of`: for a message that came back from a client, in its place, after it was written here.
    """
    return one is other or _said(one) == _said(other)


def _said(message: Message) -> tuple[Any, ...]:
    content = message.get("content")
    others = [_encode(part) for part in content if not _is_text(part)] if isinstance(content, list) else []
    calls = [(call.get("id"), _encode(call.get("function"))) for call in calls_of(message)]
    result = (message.get("tool_call_id"), bool(message.get("is_error")))
    return (message.get("role"), text_of(message), others, calls, result)


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)
