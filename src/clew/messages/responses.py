"""The dialect of OpenAI's Responses API: a flat list of items, of which an assistant message has several.

Reasoning, text and calls that follow each other become one assistant message; an item of any other type is kept as a
part of its content. The instructions of a request are handled in `conversation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from clew.errors import InvalidMessage
from clew.messages.message import (
    Message,
    ParsedMessages,
    Part,
    ToolCall,
    WireSource,
    arguments_of_call,
    as_json,
    group_by_source,
    in_original_order,
    join_contents,
    name_of_call,
    reasoning_of,
)
from clew.messages.parts import RESPONSES_ITEM, encode_part

_NO_ARGUMENTS = ("type", "call_id", "name")


def read(items: Sequence[Any]) -> ParsedMessages:
    """The items of the wire as messages."""
    parsed = ParsedMessages()
    group = _AssistantItems()
    for index, item in enumerate(items):
        kind = _kind_of_item(item, index)
        if kind == "other_role" or kind == "result":
            group.close(parsed)
            parsed.add(WireSource((item,), (item if kind == "other_role" else _read_result(item),), index))
            continue
        if group.must_end_before(kind):
            group.close(parsed)
        group.add(kind, item, index, parsed)
    group.close(parsed)
    return parsed


def _kind_of_item(item: Any, index: int) -> str:
    """One of: other_role (a message that is not the assistant's), text, reasoning, call, result, other."""
    if not isinstance(item, dict) or ("type" not in item and "role" not in item):
        raise InvalidMessage(index, "it is no dict with a type or a role", "Give it a type, or a role and content")
    item_type = str(item.get("type", "message"))
    if item_type == "message":
        return "text" if item.get("role") == "assistant" else "other_role"
    if item_type == "reasoning":
        return "reasoning"
    if "call_id" in item and item_type.endswith(("_call", "_output")):
        return "result" if item_type.endswith("_output") else "call"
    return "other"


@dataclass(slots=True)
class _AssistantItems:
    """The items of one assistant message, while they are collected."""

    index: int = 0
    items: list[Any] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    def must_end_before(self, kind: str) -> bool:
        """Whether the next item begins another message. Never between calls, because their results come after all."""
        if self.calls:
            return False
        if kind == "reasoning":
            return any(kind != "reasoning" for kind in self.kinds)
        return kind == "text" and "text" in self.kinds

    def add(self, kind: str, item: Any, index: int, parsed: ParsedMessages) -> None:
        if not self.items:
            self.index = index
        self.items.append(item)
        self.kinds.append(kind)
        if kind == "call":
            call = _read_call(item)
            parsed.pieces[id(call)] = item
            self.calls.append(call)

    def close(self, parsed: ParsedMessages) -> None:
        """Add the collected items as one message, and start with the next."""
        if self.items:
            message = self.items[0] if self.kinds == ["text"] else self._message(parsed)
            parsed.add(WireSource(tuple(self.items), (message,), self.index))
            self.items, self.kinds, self.calls = [], [], []

    def _message(self, parsed: ParsedMessages) -> Message:
        message: Message = {"role": "assistant", "content": self._content(parsed)}
        if self.calls:
            message["tool_calls"] = self.calls
            parsed.pieces[id(self.calls)] = self.kinds
        reasoning = [item for item, kind in zip(self.items, self.kinds, strict=True) if kind == "reasoning"]
        if reasoning:
            message["reasoning"] = reasoning
            parsed.pieces[id(reasoning)] = self.kinds
        return message

    def _content(self, parsed: ParsedMessages) -> str | list[Part] | None:
        contents: list[Any] = []
        for item, kind in zip(self.items, self.kinds, strict=True):
            if kind == "text":
                contents.append(item.get("content"))
                if isinstance(item.get("content"), list):
                    parsed.pieces[id(item["content"])] = item
            elif kind == "other":
                contents.append([{"type": RESPONSES_ITEM, "item": item}])
        return join_contents(contents)


def _read_call(item: Part) -> ToolCall:
    kind = item["type"]
    if kind == "function_call":
        function = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
        return {"id": item["call_id"], "type": "function", "function": function}  # type: ignore[typeddict-item]
    # Calls of built-in tools differ in their fields: all of them are the arguments.
    fields = {name: value for name, value in item.items() if name not in _NO_ARGUMENTS}
    name = item.get("name") or kind.removesuffix("_call")
    arguments = as_json(fields)
    return {"id": item["call_id"], "type": kind, "function": {"name": name, "arguments": arguments}}


def _read_result(item: Part) -> Message:
    output = item.get("output")
    if output is None:
        output = as_json({name: value for name, value in item.items() if name not in _NO_ARGUMENTS})
    content = [output] if isinstance(output, dict) else output or ""
    return {"role": "tool", "tool_call_id": item["call_id"], "content": content}


def write(messages: Sequence[Message], parsed: ParsedMessages, *, foreign: bool = False) -> list[Any]:
    """The items of the wire; an unchanged message gives the items that it was read from."""
    items: list[Any] = []
    kinds: dict[str, str] = {}
    for source, run in group_by_source(messages, parsed.sources):
        message = run[0]
        for call in message.get("tool_calls") or ():
            if isinstance(call.get("id"), str):
                kinds[call["id"]] = _kind_of(call)
        if source is not None:
            items.extend(source.items)
        elif message["role"] == "assistant":
            items.extend(_assistant_items(message, parsed, foreign))
        elif message["role"] == "tool":
            items.append(_result(message, kinds, foreign))
        else:
            items.append(_message_item(message["role"], message.get("content") or "", foreign))
    return items


def _assistant_items(message: Message, parsed: ParsedMessages, foreign: bool) -> list[Any]:
    reasoning = [item for item in reasoning_of(message) if item.get("type") == "reasoning"]
    calls = [parsed.pieces.get(id(call)) or _call(call) for call in message.get("tool_calls") or ()]
    content = list(_content_items(message, parsed, foreign))
    items = {"reasoning": reasoning, "content": content, "call": calls}
    return in_original_order(_original_order(message, parsed), items)


def _original_order(message: Message, parsed: ParsedMessages) -> list[str] | None:
    for name in ("reasoning", "tool_calls"):
        kinds = parsed.pieces.get(id(message.get(name)))
        if kinds is not None:
            return ["content" if kind in ("text", "other") else kind for kind in kinds]
    return None


def _content_items(message: Message, parsed: ParsedMessages, foreign: bool) -> Iterator[Any]:
    content: Any = message.get("content")
    original = parsed.pieces.get(id(content)) if isinstance(content, list) else None
    if original is not None:
        yield original
        return
    if not content and isinstance(message.get("refusal"), str):
        content = [{"type": "refusal", "refusal": message.get("refusal")}]
    if isinstance(content, str) and content:
        yield _message_item("assistant", content, foreign)
    if not isinstance(content, list):
        return
    for is_item, parts in groupby(content, key=_is_whole_item):
        if is_item:
            yield from (part["item"] for part in parts)
        else:
            yield _message_item("assistant", list(parts), foreign)


def _is_whole_item(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == RESPONSES_ITEM


def _message_item(role: str, content: Any, foreign: bool) -> Part:
    if not isinstance(content, str):
        content = [
            encode_part(part, "responses", foreign=foreign, by_assistant=role == "assistant") for part in content
        ]
    return {"type": "message", "role": role, "content": content}


def _kind_of(call: ToolCall) -> str:
    kind: Any = call.get("type")
    return kind if isinstance(kind, str) else "function"


def _call(call: ToolCall) -> Part:
    kind = _kind_of(call)
    if kind.endswith("_call"):
        named = {"name": name_of_call(call)} if name_of_call(call) != kind.removesuffix("_call") else {}
        return {"type": kind, "call_id": call["id"], **named, **arguments_of_call(call)}
    custom: Any = call.get("custom")
    if kind == "custom" and isinstance(custom, dict):
        return {"type": "custom_tool_call", "call_id": call["id"], "name": name_of_call(call), "input": custom["input"]}
    arguments = call["function"]["arguments"]
    return {"type": "function_call", "call_id": call["id"], "name": name_of_call(call), "arguments": arguments}


def _result(message: Message, kinds: dict[str, str], foreign: bool) -> Part:
    call_id = message.get("tool_call_id", "")
    kind = kinds.get(call_id, "function")
    of_type = {"function": "function_call_output", "custom": "custom_tool_call_output"}.get(kind, f"{kind}_output")
    output: Any = message.get("content") or ""
    if not isinstance(output, str):
        output = [encode_part(part, "responses", foreign=foreign) for part in output]
        if of_type == "computer_call_output" and len(output) == 1:
            output = output[0]
    return {"type": of_type, "call_id": call_id, "output": output}
