"""The dialect of OpenAI's Responses API: a flat list of items, of which an assistant message has several.

Reasoning, text and calls that follow each other become one assistant message; an item of any other type is kept as a
part of its content. The instructions of a request are handled in `conversation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from clew.errors import InvalidMessage
from clew.messages.message import (
    Item,
    Message,
    Part,
    ToolCall,
    arguments_of_call,
    as_json,
    in_original_order,
    in_wire_items,
    join_contents,
    name_of_call,
    original_of,
    reasoning_of,
)
from clew.messages.parts import RESPONSES_ITEM, encode_part

_NO_ARGUMENTS = ("type", "call_id", "name")


def read(items: Sequence[Any], start: int = 0, _before: Sequence[Message] = ()) -> list[Item]:
    """The items of the wire as messages."""
    found: list[Item] = []
    group: list[Any] = []
    kinds: list[str] = []

    def close(place: int) -> None:
        """Add the items that were collected as one message of the assistant."""
        if group:
            message = group[0] if kinds == ["text"] else _read_assistant(group, kinds)
            found.append(Item(message, tuple(group), place - len(group)))
            group.clear()
            kinds.clear()

    for place, item in enumerate(items, start):
        kind = _kind_of_item(item, place - start)
        if kind == "other_role" or kind == "result":
            close(place)
            found.append(Item(item if kind == "other_role" else _read_result(item), (item,), place))
            continue
        if _must_end_before(kind, kinds):
            close(place)
        group.append(item)
        kinds.append(kind)
    close(start + len(items))
    return found


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


def _must_end_before(kind: str, kinds: Sequence[str]) -> bool:
    """Whether the next item begins another message. Never between calls, because their results follow all."""
    if "call" in kinds:
        return False
    if kind == "reasoning":
        return any(kind != "reasoning" for kind in kinds)
    return kind == "text" and "text" in kinds


def _read_assistant(items: Sequence[Any], kinds: Sequence[str]) -> Message:
    """Items of the assistant that follow each other as one message."""
    contents: list[Any] = []
    for item, kind in zip(items, kinds, strict=True):
        if kind == "text":
            contents.append(item.get("content"))
        elif kind == "other":
            contents.append([{"type": RESPONSES_ITEM, "item": item}])
    message: Message = {"role": "assistant", "content": join_contents(contents)}
    if calls := [_read_call(item) for item, kind in zip(items, kinds, strict=True) if kind == "call"]:
        message["tool_calls"] = calls
    if reasoning := [item for item, kind in zip(items, kinds, strict=True) if kind == "reasoning"]:
        message["reasoning"] = reasoning
    return message


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


def write(items: Sequence[Item], *, foreign: bool = False) -> list[Any]:
    """The items of the wire; for an unchanged message the places of the items that it was read from."""
    written: list[Any] = []
    kinds: dict[str, str] = {}
    for is_whole, item in in_wire_items(items):
        message = item.message
        for call in message.get("tool_calls") or ():
            if isinstance(call.get("id"), str):
                kinds[call["id"]] = _kind_of(call)
        if is_whole:
            written.extend(range(item.place, item.place + len(item.raw)))
        elif message["role"] == "assistant":
            written.extend(_assistant_items(item, foreign))
        elif message["role"] == "tool":
            written.append(_result(message, kinds, foreign))
        else:
            written.append(_message_item(message["role"], message.get("content") or "", foreign))
    return written


def _assistant_items(item: Item, foreign: bool) -> list[Any]:
    message, kinds = item.message, [_kind_of_item(it, 0) for it in item.raw]
    reasoning = [item for item in reasoning_of(message) if item.get("type") == "reasoning"]
    originals = [it for it, kind in zip(item.raw, kinds, strict=True) if kind == "call"]
    known = item.before.get("tool_calls") if item.before else None
    calls = [original_of(call, known, originals) or _call(call) for call in message.get("tool_calls") or ()]
    content = list(_content_items(item, foreign))
    order = ["content" if kind in ("text", "other") else kind for kind in kinds] if kinds else None
    return in_original_order(order, {"reasoning": reasoning, "content": content, "call": calls})


def _content_items(item: Item, foreign: bool) -> Iterator[Any]:
    message = item.message
    content: Any = message.get("content")
    texts = [it for it in item.raw if it.get("type", "message") == "message"]
    if isinstance(content, list) and (original := original_of(content, [it.get("content") for it in texts], texts)):
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
