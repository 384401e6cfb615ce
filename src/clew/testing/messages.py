"""Builders of messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from clew.messages import Message, Part, ToolCall


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def user(content: str | list[Part]) -> Message:
    return {"role": "user", "content": content}


def assistant(text: str | None = None, calls: Sequence[ToolCall] = ()) -> Message:
    """An assistant message; with calls and no text its content is None, as providers send it."""
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = list(calls)
    return message


def call(name: str, args: Mapping[str, object] | str | None = None, id: str = "call_1") -> ToolCall:
    """A tool call; a string for `args` is taken as it is, so that a test can give broken JSON."""
    arguments = args if isinstance(args, str) else json.dumps(args or {}, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(call_id: str, text: str, *, is_error: bool = False) -> Message:
    message: Message = {"role": "tool", "tool_call_id": call_id, "content": text}
    if is_error:
        message["is_error"] = True
    return message
