"""Messages as the wire of chat completions takes them from a history that may have been written on any wire.

What is plain already passes as the same object. Fields of our own are taken off, cache markers stand inside content
parts, pictures of results follow them in a user message, and calls of other wires become functions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from clew.messages import Conversation, Message, Part, ToolCall, arguments_of_call, convert, name_of_call
from clew.providers.known import ALL_REASONING

_MARKER = "cache_control"
_NATIVE_PARTS = frozenset({"text", "image_url", "file", "input_audio", "refusal"})
_NATIVE_CALLS = frozenset({None, "function", "custom"})
_PLAIN = frozenset({"role", "content", "tool_call_id", "name"})
_OURS = frozenset({"is_error", _MARKER, "annotations"})
"""On a message: what the wire has no such field for, or gives and does not take back."""


def chat_messages(messages: Sequence[Message], takes_back: Collection[str]) -> list[Message]:
    """The messages for the wire; `takes_back` names the reasoning fields that the server wants to see again."""
    written: list[Any] = []
    pictures: list[Part] = []
    for message in messages:
        if message["role"] != "tool" and pictures:
            written.append({"role": "user", "content": pictures})
            pictures = []
        spelled = _spelled(message, takes_back)
        if message["role"] == "tool" and isinstance(spelled.get("content"), list):
            spelled, shown = _without_pictures(spelled)
            pictures = pictures + shown
        written.append(spelled)
    return [*written, {"role": "user", "content": pictures}] if pictures else written


def _spelled(message: Any, takes_back: Collection[str]) -> dict[str, Any]:
    if message.keys() <= _PLAIN and not isinstance(message.get("content"), list):
        return message  # type: ignore[no-any-return]
    fields: dict[str, Any] = dict(message)
    for name in message:
        if name in _OURS or (name in ALL_REASONING and not _goes_back(name, fields[name], takes_back)):
            del fields[name]
    content = message.get("content")
    if isinstance(content, list) and any(_is_foreign(part) for part in content):
        fields["content"] = [native for part in content for native in _native_parts(part)]
    if _MARKER in message and fields.get("content"):
        fields["content"] = _marked(fields["content"], message[_MARKER])
    calls = message.get("tool_calls")
    if calls and any(call.get("type") not in _NATIVE_CALLS for call in calls):
        fields["tool_calls"] = [_native_call(call) for call in calls]
    return fields


def _goes_back(name: str, value: Any, takes_back: Collection[str]) -> bool:
    # Under `reasoning` this wire has a text, and other wires of ours a list of signed blocks.
    return name in takes_back and not (name == "reasoning" and isinstance(value, list))


def _is_foreign(part: Any) -> bool:
    return not isinstance(part, dict) or (isinstance(part.get("type"), str) and part["type"] not in _NATIVE_PARTS)


def _native_parts(part: Any) -> list[Part]:
    if not _is_foreign(part):
        return [part]
    request = convert(Conversation("anthropic", ({"role": "user", "content": [part]},)), "openai_chat")
    content = request["messages"][0]["content"] if request["messages"] else ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
    marker = part.get(_MARKER) if isinstance(part, dict) else None
    return _marked(parts, marker) if marker and parts else parts


def _marked(content: Any, marker: Any) -> list[Part]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    return [*parts[:-1], {**parts[-1], _MARKER: marker}]


def _without_pictures(message: dict[str, Any]) -> tuple[dict[str, Any], list[Part]]:
    """A result as text alone, which is all that a tool message may be here, and its pictures."""
    pictures = [part for part in message["content"] if part.get("type") in ("image_url", "file")]
    if not pictures:
        return message, []
    texts = [part for part in message["content"] if part.get("type") not in ("image_url", "file")]
    marker = next((part[_MARKER] for part in pictures if part.get(_MARKER)), None)
    told = texts or [{"type": "text", "text": "[the picture follows]"}]
    content: Any = _marked(told, marker) if marker else told
    bare = [{name: value for name, value in part.items() if name != _MARKER} for part in pictures]
    return {**message, "content": content}, bare


def _native_call(call: ToolCall) -> ToolCall:
    if call.get("type") in _NATIVE_CALLS:
        return call
    function = call.get("function")
    arguments = function["arguments"] if function else ""
    if not isinstance(arguments, str) or not arguments:
        arguments = json.dumps(arguments_of_call(call), ensure_ascii=False)
    return {"id": call["id"], "type": "function", "function": {"name": name_of_call(call), "arguments": arguments}}
