"""The dialect of OpenAI chat completions, which is also our own form: its messages are used as they are.

What came from another wire is put into the words of this one: plain parts, plain calls, and pictures of results in a
user message, because a tool message here is text alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.messages.content import IMAGE_TYPES, arguments_of_call, name_of_call, reasoning_of, text_of
from clew.messages.mending import object_json
from clew.messages.origins import Reading
from clew.messages.parts import RESPONSES_ITEM, spelled, text_in
from clew.messages.types import Message, Part, ToolCall


def read(items: Sequence[Any]) -> Reading:
    """The messages themselves: the same objects, in no other form."""
    return Reading(messages=list(items))


def write(messages: Sequence[Message], _reading: Reading, *, foreign: bool = False) -> list[Any]:
    """The messages as they are, or, when foreign, put into the words of this wire."""
    if not foreign:
        return list(messages)
    written: list[Any] = []
    pictures: list[Part] = []
    for message in messages:
        if message["role"] != "tool" and pictures:
            written.append({"role": "user", "content": pictures})
            pictures = []
        written.append(_plain(message))
        if message["role"] == "tool":
            pictures = pictures + _pictures_of_result(message)
    return [*written, {"role": "user", "content": pictures}] if pictures else written


def _plain(message: Message) -> dict[str, Any]:
    role = message["role"]
    if role == "tool":
        content = [part for part in _parts(message.get("content")) if part.get("type") not in IMAGE_TYPES]
        return {"role": role, "tool_call_id": message.get("tool_call_id", ""), "content": _content(content)}
    result: dict[str, Any] = {"role": role, "content": _content(_parts(message.get("content")))}
    if role == "assistant":
        calls = message.get("tool_calls")
        if calls:
            result["content"] = result["content"] or None
            result["tool_calls"] = [_call(call) for call in calls]
        thought = plain_reasoning(message)
        if thought:
            result["reasoning_content"] = thought
    return result


def plain_reasoning(message: Message) -> str:
    """What an assistant message thought, as text: no signature and nothing encrypted is in it."""
    texts: list[str] = []
    for part in reasoning_of(message):
        if isinstance(part.get("thinking"), str):
            texts.append(part["thinking"])
        for listed in (part.get("summary"), part.get("content")):
            if isinstance(listed, list):
                texts += [inner["text"] for inner in listed if isinstance(inner, dict) and inner.get("text")]
    stated = [message.get("reasoning_content"), message.get("reasoning")]
    return "\n\n".join(text for text in [*stated, *texts] if isinstance(text, str) and text)


def _content(parts: list[Part]) -> str | list[Part]:
    """Text alone as a text, which every server of this wire takes; parts only where there is more than text."""
    plain = [spelled(part, "openai_chat", foreign=True) for part in parts if part.get("type") != RESPONSES_ITEM]
    if all(text_in(part) is not None for part in plain):
        return text_of({"role": "user", "content": plain})
    return plain


def _parts(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [part for part in content or () if isinstance(part, dict)]


def _pictures_of_result(message: Message) -> list[Part]:
    pictures = [part for part in _parts(message.get("content")) if part.get("type") in IMAGE_TYPES]
    return [spelled(part, "openai_chat", foreign=True) for part in pictures]


def _call(call: ToolCall) -> ToolCall:
    arguments = (
        object_json(call["function"]["arguments"]) if "function" in call else object_json(arguments_of_call(call))
    )
    return {"id": call["id"], "type": "function", "function": {"name": name_of_call(call), "arguments": arguments}}
