"""What a message says: its text, its calls and its pictures, whatever shape its content has.

Reads only, and never raises on a shape it does not know: a part without text says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from clew.messages.types import Message, Part, ToolCall

# A tuple: `in` must also answer for a type that is a list, which cannot be hashed.
IMAGE_TYPES = ("image_url", "image", "input_image")


UNREADABLE = "unreadable_arguments"
"""Under this name stand arguments that are no JSON object, so that not a character is lost."""

as_json = json.JSONEncoder(ensure_ascii=False).encode
"""A value as JSON, for arguments that a wire carries as an object; an encoder of its own is half the price."""


def text_of(message: Message) -> str:
    """The text of the content, its parts joined by line ends; calls and reasoning are not in it."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return "\n".join(part["text"] for part in content if _has_text(part))
    return ""


def calls_of(message: Message) -> Sequence[ToolCall]:
    """The tool calls of an assistant message; empty for every other."""
    return message.get("tool_calls") or ()


def reasoning_of(message: Message) -> list[Part]:
    """The thinking blocks or reasoning items of an assistant message, as their wire wrote them.

    Some chat wires have a text under the same name: it is no part, and has no signature to keep.
    """
    reasoning: Any = message.get("reasoning")
    return [part for part in reasoning if isinstance(part, dict)] if isinstance(reasoning, list) else []


def name_of_call(call: ToolCall) -> str:
    """The tool that a call names, whichever of the two shapes it has; "" where it names none."""
    raw: Any = call
    inner = raw.get("function") or raw.get("custom")
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else ""


def arguments_of_call(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as an object: free text under "input", what is no JSON object under its own name."""
    raw: Any = call
    if not raw.get("function") and isinstance(raw.get("custom"), Mapping):
        return {"input": raw["custom"].get("input", "")}
    arguments = (raw.get("function") or {}).get("arguments")
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str) or not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {UNREADABLE: arguments}
    return value if isinstance(value, dict) else {UNREADABLE: value}


def images_of(message: Message) -> list[Part]:
    """The parts that are pictures."""
    content = message.get("content")
    if isinstance(content, str) or not isinstance(content, Sequence):
        return []
    return [part for part in content if isinstance(part, Mapping) and part.get("type") in IMAGE_TYPES]


def _has_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)
