"""The dialect of OpenAI chat completions, which is also our own form: its messages are used as they are.

Messages of another dialect are converted: parts and calls to the types of this wire, and images of tool results into
a user message, because a tool message here holds only text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.messages.message import (
    IMAGE_TYPES,
    Item,
    Message,
    Part,
    ToolCall,
    arguments_of_call,
    as_parts,
    name_of_call,
    reasoning_of,
    refuse_unusable,
    text_of,
)
from clew.messages.parts import RESPONSES_ITEM, encode_part, text_of_part
from clew.messages.repair import as_json_object


def read(items: Sequence[Any], start: int = 0, _before: Sequence[Message] = ()) -> list[Item]:
    """The messages of the wire, as the same objects; `InvalidMessage` for an item that is none."""
    for index, item in enumerate(items):
        if type(item) is not dict or type(item.get("role")) is not str:
            refuse_unusable(item, index)
    return [Item(item, (item,), start + index) for index, item in enumerate(items)]


def write(items: Sequence[Item], *, foreign: bool = False) -> list[Any]:
    """The messages as they are, or the places of the given ones; converted when they are `foreign`."""
    if not foreign:
        return [item.place if item.is_unchanged else item.message for item in items]
    written: list[Any] = []
    images: list[Part] = []
    for message in (item.message for item in items):
        if message["role"] != "tool" and images:
            written.append({"role": "user", "content": images})
            images = []
        written.append(_chat_message(message))
        if message["role"] == "tool":
            images = images + _images_of_result(message)
    return [*written, {"role": "user", "content": images}] if images else written


def _chat_message(message: Message) -> dict[str, Any]:
    role = message["role"]
    if role == "tool":
        content = [part for part in _parts(message) if part.get("type") not in IMAGE_TYPES]
        return {"role": role, "tool_call_id": message.get("tool_call_id", ""), "content": _content(content)}
    result: dict[str, Any] = {"role": role, "content": _content(_parts(message))}
    if role == "assistant":
        calls = message.get("tool_calls")
        if calls:
            result["content"] = result["content"] or None
            result["tool_calls"] = [_call(call) for call in calls]
        reasoning = reasoning_text(message)
        if reasoning:
            result["reasoning_content"] = reasoning
    return result


def reasoning_text(message: Message) -> str:
    """The reasoning of an assistant message as text, without signatures and encrypted parts."""
    texts: list[str] = []
    for part in reasoning_of(message):
        if isinstance(part.get("thinking"), str):
            texts.append(part["thinking"])
        if part.get("thought") and isinstance(part.get("text"), str):
            texts.append(part["text"])
        for listed in (part.get("summary"), part.get("content")):
            if isinstance(listed, list):
                texts += [inner["text"] for inner in listed if isinstance(inner, dict) and inner.get("text")]
    stated = [message.get("reasoning_content"), message.get("reasoning")]
    return "\n\n".join(text for text in [*stated, *texts] if isinstance(text, str) and text)


def _content(parts: list[Part]) -> str | list[Part]:
    """A string where all parts are text, since every server of this wire takes that; otherwise a list of parts."""
    plain = [encode_part(part, "openai_chat", foreign=True) for part in parts if part.get("type") != RESPONSES_ITEM]
    if all(text_of_part(part) is not None for part in plain):
        return text_of({"role": "user", "content": plain})
    return plain


def _parts(message: Message) -> list[Part]:
    return [part for part in as_parts(message.get("content")) if isinstance(part, dict)]


def _images_of_result(message: Message) -> list[Part]:
    images = [part for part in _parts(message) if part.get("type") in IMAGE_TYPES]
    return [encode_part(part, "openai_chat", foreign=True) for part in images]


def _call(call: ToolCall) -> ToolCall:
    arguments = (
        as_json_object(call["function"]["arguments"]) if "function" in call else as_json_object(arguments_of_call(call))
    )
    return {"id": call["id"], "type": "function", "function": {"name": name_of_call(call), "arguments": arguments}}
