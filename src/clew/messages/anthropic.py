"""The dialect of Anthropic's Messages API: content in blocks, results inside user messages, signed reasoning.

What is written keeps the rules of that wire: roles alternate, results come first in the user message behind their
calls, reasoning precedes what it led to, and no text is blank. The system prompt is handled in `conversation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from clew.errors import InvalidMessage
from clew.messages.message import (
    Item,
    Message,
    Part,
    ToolCall,
    arguments_of_call,
    as_json,
    as_parts,
    in_original_order,
    in_wire_items,
    name_of_call,
    original_of,
    reasoning_of,
    unmarked,
)
from clew.messages.parts import encode_part


def read(items: Sequence[Any], start: int = 0, _before: Sequence[Message] = ()) -> list[Item]:
    """The messages of the wire in our form: a message for each result, calls and reasoning separate from the text."""
    found: list[Item] = []
    for index, item in enumerate(items):
        if not isinstance(item, dict) or "role" not in item:
            raise InvalidMessage(index, "it is no dict with a role", 'Give it the role "user" or "assistant"')
        content, place = item.get("content"), start + index
        if isinstance(content, list) and item["role"] == "user" and (runs := _split_results(content)):
            found += [
                Item(_read_user(run), (item,), place, part=part, parts=len(runs), blocks=run)
                for part, run in enumerate(runs)
            ]
            continue
        # An item without calls, results or reasoning has our form already.
        message = cast("Message", item)
        if isinstance(content, list) and item["role"] == "assistant":
            message = _read_assistant(content) or message
        found.append(Item(message, (item,), place))
    return found


def _read_assistant(blocks: list[Any]) -> Message | None:
    content = [block for block in blocks if _kind_of_block(block) == "content"]
    calls = [_read_call(block) for block in blocks if _kind_of_block(block) == "call"]
    reasoning = [block for block in blocks if _kind_of_block(block) == "reasoning"]
    if not calls and not reasoning:
        return None
    message: Message = {"role": "assistant", "content": content or None}
    if calls:
        message["tool_calls"] = calls
    if reasoning:
        message["reasoning"] = reasoning
    return message


def _read_call(block: Part) -> ToolCall:
    arguments = as_json(block.get("input") or {})
    return {
        "id": block.get("id", ""),
        "type": "function",
        "function": {"name": block.get("name", ""), "arguments": arguments},
    }


def _split_results(content: list[Any]) -> list[list[Any]]:
    """The blocks of a user message in runs, one for each message: a result alone, or what is between two of them.

    Empty where there is no result.
    """
    runs: list[list[Any]] = []
    open_run: list[Any] | None = None
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            runs.append([block])
            open_run = None
        elif open_run is None:
            open_run = [block]
            runs.append(open_run)
        else:
            open_run.append(block)
    return [] if len(runs) == 1 and open_run is not None else runs


def _read_user(run: list[Any]) -> Message:
    if _block_type(run[0]) != "tool_result":
        return {"role": "user", "content": run}
    block = run[0]
    result: Message = {
        "role": "tool",
        "tool_call_id": block.get("tool_use_id", ""),
        "content": block.get("content") or "",
    }
    if "is_error" in block:
        result["is_error"] = block["is_error"]
    return result


@dataclass(slots=True)
class _WireMessage:
    """A message of the wire that may still be merged with the next one."""

    role: str
    content: Any
    place: int = -1
    """Of the wire item that leaves as received; -1 when it is new, changed or merged."""


def write(items: Sequence[Item], *, foreign: bool = False) -> list[Any]:
    """The messages of the wire, and the places of those whose messages are all unchanged.

    A changed message has no cache markers of the blocks that it was read from.
    """
    written: list[_WireMessage] = []
    for is_whole, item in in_wire_items(items):
        if is_whole:
            received = item.raw[0]
            message = _WireMessage(received["role"], received.get("content"), item.place)
        else:
            message = _wire_message_of(item, foreign)
            if item.message["role"] == "system" and all(before.role == "system" for before in written):
                message.role = "system"  # a system message in the list, which only the caller's own code reads
            if not message.content:
                continue
        if written and _must_merge(written[-1], message):
            written[-1] = _WireMessage(message.role, _blocks(written[-1].content) + _blocks(message.content))
        else:
            written.append(message)
    return [message.place if message.place >= 0 else _encoded(message) for message in written]


def _must_merge(before: _WireMessage, message: _WireMessage) -> bool:
    """Whether two of one role are merged: unless received in a row, or one of them is an unchanged blank message.

    Merged, nothing of a blank message would be left, and what was not changed must leave as received.
    """
    if before.role != message.role or message.role == "system":
        return False
    if before.place >= 0 and before.place + 1 == message.place:
        return False
    return not any(either.place >= 0 and not _blocks(either.content) for either in (before, message))


def _encoded(message: _WireMessage) -> dict[str, Any]:
    content = message.content
    if message.role == "user" and isinstance(content, list):
        content = sorted(content, key=lambda block: _block_type(block) != "tool_result")
    return {"role": message.role, "content": content}


def _wire_message_of(item: Item, foreign: bool) -> _WireMessage:
    message = item.message
    if item.is_unchanged and item.blocks is not None:
        return _WireMessage("user", item.blocks)
    if message["role"] == "tool":
        return _WireMessage("user", [_with_marker(_result(item, foreign), message)])
    if message["role"] == "assistant":
        role, content = "assistant", _assistant_content(item, foreign)
    else:
        # The wire has no system message in the middle; moving it to the front would change the prefix.
        role, content = "user", _content_blocks(message.get("content"), foreign)
    if "cache_control" in message and content:
        *others, last = _blocks(content)
        content = [*others, _with_marker(last, message)]
    return _WireMessage(role, content)


def _with_marker(block: Part, message: Message) -> Part:
    """A block with the cache marker of its message; this wire takes markers on blocks only."""
    marker = message.get("cache_control")
    return {**block, "cache_control": marker} if marker is not None else block


def _assistant_content(item: Item, foreign: bool) -> Any:
    message, received = item.message, _blocks_read(item)
    reasoning = [block for block in reasoning_of(message) if _kind_of_block(block) == "reasoning"]
    content = _content_blocks(message.get("content") or _refusal(message), foreign)
    known = item.before.get("tool_calls") if item.before else None
    originals = [block for block in received or () if _kind_of_block(block) == "call"]
    calls = [unmarked(original_of(call, known, originals)) or _call(call) for call in message.get("tool_calls") or ()]
    if isinstance(content, str) and not reasoning and not calls:
        return content
    order = [_kind_of_block(block) for block in received] if received else None
    return in_original_order(order, {"reasoning": reasoning, "content": _blocks(content), "call": calls})


def _blocks_read(item: Item) -> list[Any] | None:
    """The blocks that a changed message of the assistant was read from."""
    content = item.raw[0].get("content") if item.raw and item.raw[0].get("role") == "assistant" else None
    return content if isinstance(content, list) else None


def _kind_of_block(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "tool_use":
        return "call"
    return "reasoning" if kind == "thinking" or kind == "redacted_thinking" else "content"


def _content_blocks(content: Any, foreign: bool) -> Any:
    """Text as it is, or blocks; blank texts are left out, because this wire refuses them."""
    if isinstance(content, str):
        return content if content.strip() else []
    return [block for part in content or () if not _is_blank(block := encode_part(part, "anthropic", foreign=foreign))]


def _refusal(message: Message) -> str:
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _call(call: ToolCall) -> Part:
    return {"type": "tool_use", "id": call["id"], "name": name_of_call(call), "input": arguments_of_call(call)}


def _result(item: Item, foreign: bool) -> Part:
    message = item.message
    content = message.get("content") or ""
    original = item.blocks[0] if item.blocks else None
    if original is not None and (original.get("content") or "") == content and _agree_on_error(original, message):
        return unmarked(original)  # type: ignore[no-any-return]
    if not isinstance(content, str):
        content = [encode_part(part, "anthropic", foreign=foreign) for part in content]
    block: Part = {"type": "tool_result", "tool_use_id": message.get("tool_call_id", ""), "content": content}
    if message.get("is_error"):
        block["is_error"] = True
    return block


def _agree_on_error(block: Part, message: Message) -> bool:
    return bool(block.get("is_error")) == bool(message.get("is_error"))


def _blocks(content: Any) -> list[Any]:
    return [part for part in as_parts(content) if not _is_blank(part)]


def _is_blank(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and not str(block.get("text") or "").strip()


def _block_type(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""
