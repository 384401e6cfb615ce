"""The dialect of Anthropic's Messages API: content in blocks, results inside user messages, thinking that is signed.

Knows the rules of that wire: roles alternate, results stand first in the user message behind their calls, thinking
stands before what it led to, and no text is blank. The system prompt beside the messages is not its concern.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from clew.errors import InvalidMessage
from clew.messages.content import arguments_of_call, name_of_call, reasoning_of
from clew.messages.joining import as_parts
from clew.messages.origins import Reading, by_origin, in_former_order
from clew.messages.parts import spelled
from clew.messages.types import Message, Part, ToolCall

_THINKING = frozenset({"thinking", "redacted_thinking"})


def read(items: Sequence[Any]) -> Reading:
    """Messages of the wire in our form: each result a message of its own, calls and thinking apart from the text."""
    reading = Reading()
    for place, item in enumerate(items):
        if not isinstance(item, dict) or "role" not in item:
            raise InvalidMessage(place, "it is no dict with a role", 'Give it the role "user" or "assistant"')
        content = item.get("content")
        if item["role"] == "assistant" and _has_blocks(content, _THINKING | {"tool_use"}):
            reading.add([_read_assistant(item, reading)], [item], place)
        elif item["role"] == "user" and _has_blocks(content, {"tool_result"}):
            runs = list(_runs_of_results(item["content"]))
            reading.add([_read_user(run, reading) for run in runs], [item], place, runs)
        else:
            reading.add([item], [item], place)  # type: ignore[list-item]
    return reading


def _read_assistant(item: dict[str, Any], reading: Reading) -> Message:
    message: Message = {"role": "assistant", "content": None}
    said = [block for block in item["content"] if _kind(block) not in _THINKING and _kind(block) != "tool_use"]
    if said:
        message["content"] = said
    calls = [_read_call(block, reading) for block in item["content"] if _kind(block) == "tool_use"]
    if calls:
        message["tool_calls"] = calls
    thought = [block for block in item["content"] if _kind(block) in _THINKING]
    if thought:
        message["reasoning"] = thought
    for listed in (said, calls, thought):
        reading.pieces[id(listed)] = item
    return message


def _read_call(block: Part, reading: Reading) -> ToolCall:
    arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
    call: ToolCall = {
        "id": block.get("id", ""),
        "type": "function",
        "function": {"name": block.get("name", ""), "arguments": arguments},
    }
    reading.pieces[id(call)] = block
    return call


def _runs_of_results(content: list[Any]) -> Iterator[list[Any]]:
    """The blocks of a user message, as they become messages: each result alone, what is between them together."""
    for is_result, blocks in groupby(content, key=lambda block: _kind(block) == "tool_result"):
        if is_result:
            yield from ([block] for block in blocks)
        else:
            yield list(blocks)


def _read_user(run: list[Any], reading: Reading) -> Message:
    if _kind(run[0]) != "tool_result":
        return {"role": "user", "content": run}
    block = run[0]
    result: Message = {
        "role": "tool",
        "tool_call_id": block.get("tool_use_id", ""),
        "content": block.get("content") or "",
    }
    if "is_error" in block:
        result["is_error"] = block["is_error"]
    reading.results[str(result["tool_call_id"])] = block
    return result


@dataclass(slots=True)
class _Turn:
    """A message of the wire while its neighbours are looked at."""

    role: str
    content: Any
    item: Any = None
    """The message as it came, as long as nothing is joined to it."""
    place: int = -1


def write(messages: Sequence[Message], reading: Reading, *, foreign: bool = False) -> list[Any]:
    """The messages of the wire; those whose every part is unchanged are the very items that came."""
    turns: list[_Turn] = []
    for origin, run in by_origin(messages, reading.origins):
        if origin is not None:
            item = origin.items[0]
            turn = _Turn(item["role"], item.get("content"), item, origin.place)
        else:
            turn = _turn_of(run[0], reading, foreign)
            if run[0]["role"] == "system" and all(before.role == "system" for before in turns):
                turn.role = "system"  # it came in the list, where nothing but the caller's own code reads it
            if not turn.content:
                continue
        if turns and _must_join(turns[-1], turn):
            turns[-1] = _Turn(turn.role, _blocks(turns[-1].content) + _blocks(turn.content))
        else:
            turns.append(turn)
    return [turn.item if turn.item is not None else _written(turn) for turn in turns]


def _must_join(before: _Turn, turn: _Turn) -> bool:
    """Two of one role in a row are joined, unless they came so."""
    if before.role != turn.role or turn.role == "system":
        return False
    return before.item is None or turn.item is None or before.place + 1 != turn.place


def _written(turn: _Turn) -> dict[str, Any]:
    content = turn.content
    if turn.role == "user" and isinstance(content, list):
        content = sorted(content, key=lambda block: _kind(block) != "tool_result")
    return {"role": turn.role, "content": content}


def _turn_of(message: Message, reading: Reading, foreign: bool) -> _Turn:
    origin = reading.origins.get(id(message))
    if origin is not None and origin.blocks is not None:
        return _Turn("user", origin.blocks)
    if message["role"] == "tool":
        return _Turn("user", [_marked(_result(message, reading, foreign), message)])
    if message["role"] == "assistant":
        role, content = "assistant", _assistant_content(message, reading, foreign)
    else:
        # A system message in the middle has no place here, and moving it to the front would move every prefix.
        role, content = "user", _spoken_content(message.get("content"), foreign)
    if "cache_control" in message and content:
        *others, last = _blocks(content)
        content = [*others, _marked(last, message)]
    return _Turn(role, content)


def _marked(block: Part, message: Message) -> Part:
    """A block with the cache marker of its message, which this wire takes on blocks alone."""
    marker = message.get("cache_control")
    return {**block, "cache_control": marker} if marker is not None else block


def _assistant_content(message: Message, reading: Reading, foreign: bool) -> Any:
    thought = [block for block in reasoning_of(message) if _kind(block) in _THINKING]
    said = _spoken_content(message.get("content") or _refusal(message), foreign)
    calls = [reading.pieces.get(id(call)) or _call(call) for call in message.get("tool_calls") or ()]
    if isinstance(said, str) and not thought and not calls:
        return said
    return in_former_order(_former_order(message, reading), {"thought": thought, "said": _blocks(said), "call": calls})


def _former_order(message: Message, reading: Reading) -> list[str] | None:
    for name in ("reasoning", "tool_calls", "content"):
        item = reading.pieces.get(id(message.get(name)))
        if item is not None:
            return [_sort_of_block(block) for block in item["content"]]
    return None


def _sort_of_block(block: Any) -> str:
    kind = _kind(block)
    return "thought" if kind in _THINKING else "call" if kind == "tool_use" else "said"


def _spoken_content(content: Any, foreign: bool) -> Any:
    """Text as it is, or blocks; blank texts are left out, which this wire refuses."""
    if isinstance(content, str):
        return content if content.strip() else []
    return [block for part in content or () if not _is_blank(block := spelled(part, "anthropic", foreign=foreign))]


def _refusal(message: Message) -> str:
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _call(call: ToolCall) -> Part:
    return {"type": "tool_use", "id": call["id"], "name": name_of_call(call), "input": arguments_of_call(call)}


def _result(message: Message, reading: Reading, foreign: bool) -> Part:
    content = message.get("content") or ""
    former = reading.results.get(str(message.get("tool_call_id")))
    if former is not None and (former.get("content") or "") is content and _agree_on_error(former, message):
        return former  # type: ignore[no-any-return]
    if not isinstance(content, str):
        content = [spelled(part, "anthropic", foreign=foreign) for part in content]
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


def _has_blocks(content: Any, kinds: frozenset[str] | set[str]) -> bool:
    return isinstance(content, list) and any(_kind(block) in kinds for block in content)


def _kind(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""
