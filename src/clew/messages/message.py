"""What a message is inside Clew (an OpenAI chat-completions dict, typed), and functions that read one.

Messages are never changed in place. A changed message is a new dict, and an unchanged one is the same object, which
is how a dialect knows what may leave exactly as it entered. Reading never raises on a shape that is not known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
DialectName: TypeAlias = Literal["openai_chat", "responses", "anthropic"]


class FunctionCall(TypedDict):
    name: str
    arguments: str
    """JSON as the model wrote it, broken or not."""


class ToolCall(TypedDict):
    id: str
    type: NotRequired[str]
    function: FunctionCall


# Any dict: {"type": "text", "text": ...}, {"type": "image_url", ...}, or a block of a type we do not know and keep.
Part: TypeAlias = dict[str, Any]


class Message(TypedDict, total=False):
    role: Required[Role]
    content: str | list[Part] | None
    name: str
    tool_calls: list[ToolCall]
    tool_call_id: str
    is_error: bool
    """On a tool message: the wire said that the call failed."""
    reasoning: list[Part]
    """On an assistant message: thinking blocks or reasoning items, as their wire wrote them, signatures included."""


# The definition of a tool, in the format of its dialect.
Tool: TypeAlias = dict[str, Any]

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was wrong with a history, and what was done about it."""

    index: int
    """Of the message, in the history as it came."""
    problem: str
    remedy: str


# A tuple: `in` must also answer for a type that is a list, which cannot be hashed.
IMAGE_TYPES = ("image_url", "image", "input_image")

UNREADABLE = "unreadable_arguments"
"""The key under which arguments that are no JSON object are kept, complete."""

as_json = json.JSONEncoder(ensure_ascii=False).encode
"""A value as JSON, for arguments that a wire carries as an object. One encoder, made once, takes half the time."""


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
    """The tool that a call names, a function or a custom tool; "" where it names none."""
    raw: Any = call
    inner = raw.get("function") or raw.get("custom")
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else ""


def arguments_of_call(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as an object: free text under "input", what is no JSON object under `UNREADABLE`."""
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
    """The parts that are images."""
    content = message.get("content")
    if isinstance(content, str) or not isinstance(content, Sequence):
        return []
    return [part for part in content if _is_image(part)]


def without_images(message: Message, placeholder: str) -> Message:
    """The message with a text part in place of each image; the same object where it has none."""
    content: Any = message.get("content")
    if not images_of(message):
        return message
    return {**message, "content": [_text_part(placeholder) if _is_image(part) else part for part in content]}


def with_text_after_system(message: Message, text: str, *, as_block: bool) -> Message:
    """The system prompt with a text appended: as a paragraph, or `as_block`, which keeps the prompt before it cached.

    A prompt that is a list of blocks gets one more block in either case.
    """
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [*content, _text_part(text)]}
    if as_block:
        return {**message, "content": [_text_part(content or ""), _text_part(text)]}
    return {**message, "content": f"{content or ''}\n\n{text}"}


def join_contents(contents: Sequence[str | list[Part] | None]) -> str | list[Part] | None:
    """Several contents as one: paragraphs where all of them are texts, otherwise one list of parts."""
    filled = [content for content in contents if content]
    if not filled:
        return contents[0] if contents else None
    if len(filled) == 1:
        return filled[0]
    texts = [content for content in filled if isinstance(content, str)]
    if len(texts) == len(filled):
        return "\n\n".join(texts)
    return [part for content in filled for part in as_parts(content)]


def as_parts(content: str | list[Part] | None) -> list[Part]:
    """Content as a list of parts; a text is one part, an empty text none."""
    if isinstance(content, str):
        return [_text_part(content)] if content else []
    return list(content or ())


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def _is_image(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in IMAGE_TYPES


def _has_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)
