"""Content blocks of session files as chat messages.

Programs write the blocks of Anthropic's wire or of the Responses API, or blocks close to these. Blocks of unknown types
are kept as they are, and reasoning keeps its signature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from clew.messages import Message, Part, ToolCall

_TEXTS = ("text", "input_text", "output_text")


class AssistantMessageBuilder:
    """Puts an assistant message together from pieces: several lines of a file can hold one reply."""

    __slots__ = ("calls", "parts", "reasoning")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.calls: dict[str, ToolCall] = {}
        self.reasoning: list[Part] = []

    def add_text(self, text: str) -> None:
        part: Part = {"type": "text", "text": text}
        if text and part not in self.parts[-1:]:
            self.parts.append(part)

    def add_call(self, call_id: str, name: str, arguments: Any) -> None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        call: ToolCall = {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
        self.calls.setdefault(call_id, call)

    def add_reasoning(self, block: Part) -> None:
        if block not in self.reasoning:
            self.reasoning.append(block)

    def add_blocks(self, content: Any) -> None:
        """Add blocks of an Anthropic assistant message; a plain string is one text block."""
        for block in as_blocks(content):
            match block.get("type"):
                case "text":
                    self.add_text(as_text(block.get("text")))
                case "tool_use" | "server_tool_use" | "mcp_tool_use":
                    self.add_call(as_text(block.get("id")), as_text(block.get("name")), block.get("input") or {})
                case "thinking" | "redacted_thinking" | "reasoning":
                    self.add_reasoning(dict(block))
                case _:
                    self.parts.append(dict(block))

    def message(self) -> Message | None:
        """The message; None where it has no text, call or reasoning."""
        if not (self.parts or self.calls or self.reasoning):
            return None
        message: Message = {"role": "assistant", "content": as_content(self.parts) or None}
        if self.calls:
            message["tool_calls"] = list(self.calls.values())
        if self.reasoning:
            message["reasoning"] = self.reasoning
        return message


def user_messages(content: Any) -> list[Message]:
    """The messages in an Anthropic user turn: results of calls first, as the wire requires, then the user's text."""
    results: list[Message] = []
    parts: list[Part] = []
    for block in as_blocks(content):
        if block.get("type") == "tool_result":
            results.append(result_message(block.get("tool_use_id"), block.get("content"), block.get("is_error")))
        else:
            parts.append(chat_part(block))
    if parts:
        results.append({"role": "user", "content": as_content(parts)})
    return results


def result_message(call_id: Any, content: Any, is_error: Any = None) -> Message:
    """The result of a call."""
    message: Message = {"role": "tool", "tool_call_id": as_text(call_id), "content": ""}
    message["content"] = as_content(chat_parts(content))
    if is_error:
        message["is_error"] = True
    return message


def chat_parts(content: Any) -> list[Part]:
    """Content of any shape as chat parts."""
    return [chat_part(block) for block in as_blocks(content)]


def chat_part(block: Mapping[str, Any]) -> Part:
    """A block as a chat part; pictures become the data or web address that chat completions take."""
    if block.get("type") in _TEXTS:
        return {"type": "text", "text": as_text(block.get("text"))}
    if block.get("type") == "input_image" and isinstance(block.get("image_url"), str):
        return image_part(block["image_url"])
    if block.get("type") == "image":
        source = block.get("source")
        if isinstance(source, Mapping) and isinstance(source.get("url"), str):
            return image_part(source["url"])
        held = source if isinstance(source, Mapping) else block
        if isinstance(held.get("data"), str):
            kind = held.get("media_type") or held.get("mimeType") or "image/png"
            return image_part(f"data:{kind};base64,{held['data']}")
    return dict(block)


def image_part(url: str) -> Part:
    return {"type": "image_url", "image_url": {"url": url}}


def as_blocks(content: Any) -> list[Mapping[str, Any]]:
    """Content of any shape as blocks; what is no block is left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if isinstance(content, Sequence):
        return [_block(item) for item in content if isinstance(item, str | Mapping)]
    return [content] if isinstance(content, Mapping) else []


def _block(item: str | Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "text", "text": item} if isinstance(item, str) else item


def as_content(parts: list[Part]) -> str | list[Part]:
    """One text as a string, anything else as a list of parts, nothing as an empty string."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].get("type") == "text":
        text = parts[0].get("text")
        return text if isinstance(text, str) else ""
    return parts


def as_text(value: Any) -> str:
    """A string as it is, None as an empty one, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
