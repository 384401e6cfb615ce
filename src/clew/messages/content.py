"""What a message says: its text, its calls and its pictures, whatever shape its content has.

Reads only, and never raises on a shape it does not know: a part without text says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.messages.types import Message, Part, ToolCall

IMAGE_TYPES = frozenset({"image_url", "image", "input_image"})


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


def images_of(message: Message) -> list[Part]:
    """The parts that are pictures."""
    content = message.get("content")
    if isinstance(content, str) or not isinstance(content, Sequence):
        return []
    return [part for part in content if isinstance(part, Mapping) and part.get("type") in IMAGE_TYPES]


def _has_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)
