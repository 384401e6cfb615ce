"""The dialect of Anthropic's Messages API: content in blocks, results inside user messages, signed reasoning.

What is written keeps the rules of that wire: roles alternate, results come first in the user message behind their
calls, reasoning comes before what it led to, and no text is blank. The system prompt is handled in `conversation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from clew.errors import InvalidMessage
from clew.messages.message import (
    Message,
    ParsedMessages,
    Part,
    ToolCall,
    WireSource,
    arguments_of_call,
    as_json,
    as_parts,
    group_by_source,
    in_original_order,
    name_of_call,
    reasoning_of,
    unmarked,
)
from clew.messages.parts import encode_part


def read(items: Sequence[Any]) -> ParsedMessages:
    """The messages of the wire in our form: a message for each result, calls and reasoning separate from the text."""
    parsed = ParsedMessages()
    for index, item in enumerate(items):
        if not isinstance(item, dict) or "role" not in item:
            raise InvalidMessage(index, "it is no dict with a role", 'Give it the role "user" or "assistant"')
        messages: tuple[Message, ...] | None = None
        runs: list[list[Any]] = []
        if isinstance(item.get("content"), list):
            if item["role"] == "assistant":
                messages = _read_assistant(item, parsed)
            elif item["role"] == "user":
                runs = _split_results(item["content"])
                messages = tuple([_read_user(run, parsed) for run in runs])
        # An item without calls, results or reasoning has our form already.
        parsed.add(WireSource((item,), messages or (cast("Message", item),), index, runs))
    return parsed


def _read_assistant(item: dict[str, Any], parsed: ParsedMessages) -> tuple[Message] | None:
    content: list[Any] = []
    calls: list[ToolCall] = []
    reasoning: list[Any] = []
    for block in item["content"]:
        kind = _kind_of_block(block)
        if kind == "call":
            calls.append(_read_call(block, parsed))
        else:
            (content if kind == "content" else reasoning).append(block)
    if not calls and not reasoning:
        return None
    message: Message = {"role": "assistant", "content": content or None}
    if calls:
        message["tool_calls"] = calls
    if reasoning:
        message["reasoning"] = reasoning
    for listed in (content, calls, reasoning):
        if listed:  # an empty one is not in the message: it is freed, and its identity used again
            parsed.pieces[id(listed)] = item
    return (message,)


def _read_call(block: Part, parsed: ParsedMessages) -> ToolCall:
    arguments = as_json(block.get("input") or {})
    call: ToolCall = {
        "id": block.get("id", ""),
        "type": "function",
        "function": {"name": block.get("name", ""), "arguments": arguments},
    }
    parsed.pieces[id(call)] = block
    return call


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


def _read_user(run: list[Any], parsed: ParsedMessages) -> Message:
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
    parsed.results[str(result["tool_call_id"])] = block
    return result


@dataclass(slots=True)
class _WireMessage:
    """A message of the wire that may still be merged with the next one."""

    role: str
    content: Any
    item: Any = None
    """The message as it was read; None when it is new, changed or merged."""
    index: int = -1


def write(messages: Sequence[Message], parsed: ParsedMessages, *, foreign: bool = False) -> list[Any]:
    """The messages of the wire; an item whose messages are all unchanged is written as it was read.

    A changed message has no cache markers of the blocks that it was read from.
    """
    written: list[_WireMessage] = []
    for source, run in group_by_source(messages, parsed.sources):
        if source is not None:
            item = source.items[0]
            message = _WireMessage(item["role"], item.get("content"), item, source.position)
        else:
            message = _wire_message_of(run[0], parsed, foreign)
            if run[0]["role"] == "system" and all(before.role == "system" for before in written):
                message.role = "system"  # a system message in the list, which only the caller's own code reads
            if not message.content:
                continue
        if written and _must_merge(written[-1], message):
            written[-1] = _WireMessage(message.role, _blocks(written[-1].content) + _blocks(message.content))
        else:
            written.append(message)
    return [message.item if message.item is not None else _encoded(message) for message in written]


def _must_merge(before: _WireMessage, message: _WireMessage) -> bool:
    """Whether two of one role are merged: unless they came in a row, or one of them is an unchanged blank message.

    Merged, nothing of a blank message would be left, and what was not changed must leave as it came.
    """
    if before.role != message.role or message.role == "system":
        return False
    if before.item is not None and message.item is not None and before.index + 1 == message.index:
        return False
    return not any(either.item is not None and not _blocks(either.content) for either in (before, message))


def _encoded(message: _WireMessage) -> dict[str, Any]:
    content = message.content
    if message.role == "user" and isinstance(content, list):
        content = sorted(content, key=lambda block: _block_type(block) != "tool_result")
    return {"role": message.role, "content": content}


def _wire_message_of(message: Message, parsed: ParsedMessages, foreign: bool) -> _WireMessage:
    origin = parsed.origin_of(message)
    if origin is not None and origin.blocks is not None:
        return _WireMessage("user", origin.blocks)
    if message["role"] == "tool":
        return _WireMessage("user", [_with_marker(_result(message, parsed, foreign), message)])
    if message["role"] == "assistant":
        role, content = "assistant", _assistant_content(message, parsed, foreign)
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


def _assistant_content(message: Message, parsed: ParsedMessages, foreign: bool) -> Any:
    reasoning = [block for block in reasoning_of(message) if _kind_of_block(block) == "reasoning"]
    content = _content_blocks(message.get("content") or _refusal(message), foreign)
    calls = [unmarked(parsed.pieces.get(id(call))) or _call(call) for call in message.get("tool_calls") or ()]
    if isinstance(content, str) and not reasoning and not calls:
        return content
    blocks = {"reasoning": reasoning, "content": _blocks(content), "call": calls}
    return in_original_order(_original_order(message, parsed), blocks)


def _original_order(message: Message, parsed: ParsedMessages) -> list[str] | None:
    for name in ("reasoning", "tool_calls", "content"):
        item = parsed.pieces.get(id(message.get(name)))
        if item is not None:
            return [_kind_of_block(block) for block in item["content"]]
    return None


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


def _result(message: Message, parsed: ParsedMessages, foreign: bool) -> Part:
    content = message.get("content") or ""
    original = parsed.results.get(str(message.get("tool_call_id")))
    if original is not None and (original.get("content") or "") is content and _agree_on_error(original, message):
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
