"""The dialect of OpenAI's Responses API: a flat list of items, where one assistant turn is several of them.

Reasoning, text and calls that follow each other become one assistant message, and an item that has no other place
is carried in its content. The instructions beside the input are not this module's concern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from clew.errors import InvalidMessage
from clew.messages.content import arguments_of_call, as_json, name_of_call, reasoning_of
from clew.messages.joining import joined_content
from clew.messages.origins import Reading, Source, by_source, in_former_order
from clew.messages.parts import RESPONSES_ITEM, spelled
from clew.messages.types import Message, Part, ToolCall

_NAMED_APART = ("type", "call_id", "name")


def read(items: Sequence[Any]) -> Reading:
    """Items of the wire in our form."""
    reading = Reading()
    turn = _Turn()
    for place, item in enumerate(items):
        sort = _sort_of_item(item, place)
        if sort == "other_side" or sort == "result":
            turn.close(reading)
            reading.add(Source((item,), (item if sort == "other_side" else _read_result(item),), place))
            continue
        if turn.must_end_before(sort):
            turn.close(reading)
        turn.take(sort, item, place, reading)
    turn.close(reading)
    return reading


def _sort_of_item(item: Any, place: int) -> str:
    """One of: other_side (a message that is not the assistant's), text, thought, call, result, item."""
    if not isinstance(item, dict) or ("type" not in item and "role" not in item):
        raise InvalidMessage(place, "it is no dict with a type or a role", "Give it a type, or a role and content")
    kind = str(item.get("type", "message"))
    if kind == "message":
        return "text" if item.get("role") == "assistant" else "other_side"
    if kind == "reasoning":
        return "thought"
    if "call_id" in item and kind.endswith(("_call", "_output")):
        return "result" if kind.endswith("_output") else "call"
    return "item"


@dataclass(slots=True)
class _Turn:
    """The items of one assistant message, while they are gathered."""

    place: int = 0
    items: list[Any] = field(default_factory=list)
    sorts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    def must_end_before(self, sort: str) -> bool:
        """Whether the next item begins a message of its own. Never between calls: their results come after all."""
        if self.calls:
            return False
        if sort == "thought":
            return any(sort != "thought" for sort in self.sorts)
        return sort == "text" and "text" in self.sorts

    def take(self, sort: str, item: Any, place: int, reading: Reading) -> None:
        if not self.items:
            self.place = place
        self.items.append(item)
        self.sorts.append(sort)
        if sort == "call":
            call = _read_call(item)
            reading.pieces[id(call)] = item
            self.calls.append(call)

    def close(self, reading: Reading) -> None:
        """Hand over what was gathered as one message, and begin anew."""
        if self.items:
            message = self.items[0] if self.sorts == ["text"] else self._message(reading)
            reading.add(Source(tuple(self.items), (message,), self.place))
            self.items, self.sorts, self.calls = [], [], []

    def _message(self, reading: Reading) -> Message:
        message: Message = {"role": "assistant", "content": self._content(reading)}
        if self.calls:
            message["tool_calls"] = self.calls
            reading.pieces[id(self.calls)] = self.sorts
        thought = [item for item, sort in self._pairs() if sort == "thought"]
        if thought:
            message["reasoning"] = thought
            reading.pieces[id(thought)] = self.sorts
        return message

    def _content(self, reading: Reading) -> str | list[Part] | None:
        contents: list[Any] = []
        for item, sort in self._pairs():
            if sort == "text":
                contents.append(item.get("content"))
                if isinstance(item.get("content"), list):
                    reading.pieces[id(item["content"])] = item
            elif sort == "item":
                contents.append([{"type": RESPONSES_ITEM, "item": item}])
        return joined_content(contents)

    def _pairs(self) -> Iterator[tuple[Any, str]]:
        return zip(self.items, self.sorts, strict=True)


def _read_call(item: Part) -> ToolCall:
    kind = item["type"]
    if kind == "function_call":
        function = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
        return {"id": item["call_id"], "type": "function", "function": function}  # type: ignore[typeddict-item]
    # Calls of built-in tools differ in their fields: all of them are the arguments.
    fields = {name: value for name, value in item.items() if name not in _NAMED_APART}
    name = item.get("name") or kind.removesuffix("_call")
    arguments = as_json(fields)
    return {"id": item["call_id"], "type": kind, "function": {"name": name, "arguments": arguments}}


def _read_result(item: Part) -> Message:
    output = item.get("output")
    if output is None:
        output = as_json({name: value for name, value in item.items() if name not in _NAMED_APART})
    content = [output] if isinstance(output, dict) else output or ""
    return {"role": "tool", "tool_call_id": item["call_id"], "content": content}


def write(messages: Sequence[Message], reading: Reading, *, foreign: bool = False) -> list[Any]:
    """The items of the wire; those of an unchanged message are the very items that came."""
    items: list[Any] = []
    kinds: dict[str, str] = {}
    for source, run in by_source(messages, reading.sources):
        message = run[0]
        for call in message.get("tool_calls") or ():
            kinds[call["id"]] = call.get("type", "function")
        if source is not None:
            items.extend(source.items)
        elif message["role"] == "assistant":
            items.extend(_assistant_items(message, reading, foreign))
        elif message["role"] == "tool":
            items.append(_result(message, kinds, foreign))
        else:
            items.append(_message_item(message["role"], message.get("content") or "", foreign))
    return items


def _assistant_items(message: Message, reading: Reading, foreign: bool) -> list[Any]:
    thought = [item for item in reasoning_of(message) if item.get("type") == "reasoning"]
    calls = [reading.pieces.get(id(call)) or _call(call) for call in message.get("tool_calls") or ()]
    said = list(_said_items(message, reading, foreign))
    return in_former_order(_former_order(message, reading), {"thought": thought, "said": said, "call": calls})


def _former_order(message: Message, reading: Reading) -> list[str] | None:
    for name in ("reasoning", "tool_calls"):
        sorts = reading.pieces.get(id(message.get(name)))
        if sorts is not None:
            return ["said" if sort in ("text", "item") else sort for sort in sorts]
    return None


def _said_items(message: Message, reading: Reading, foreign: bool) -> Iterator[Any]:
    content: Any = message.get("content")
    former = reading.pieces.get(id(content)) if isinstance(content, list) else None
    if former is not None:
        yield former
        return
    if not content and isinstance(message.get("refusal"), str):
        content = [{"type": "refusal", "refusal": message.get("refusal")}]
    if isinstance(content, str) and content:
        yield _message_item("assistant", content, foreign)
    if not isinstance(content, list):
        return
    for carried, parts in groupby(content, key=_carries_item):
        if carried:
            yield from (part["item"] for part in parts)
        else:
            yield _message_item("assistant", list(parts), foreign)


def _carries_item(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == RESPONSES_ITEM


def _message_item(role: str, content: Any, foreign: bool) -> Part:
    if not isinstance(content, str):
        content = [spelled(part, "responses", foreign=foreign, spoken=role == "assistant") for part in content]
    return {"type": "message", "role": role, "content": content}


def _call(call: ToolCall) -> Part:
    kind = call.get("type", "function")
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
        output = [spelled(part, "responses", foreign=foreign) for part in output]
        if of_type == "computer_call_output" and len(output) == 1:
            output = output[0]
    return {"type": of_type, "call_id": call_id, "output": output}
