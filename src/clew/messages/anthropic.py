"""The dialect of Anthropic's Messages API: content in blocks, results inside user messages, thinking that is signed.

Knows the rules of that wire: roles alternate, results stand first in the user message behind their calls, thinking
stands before what it led to, and no text is blank. The system prompt beside the messages is not its concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from clew.errors import InvalidMessage
from clew.messages.content import arguments_of_call, as_json, name_of_call, reasoning_of
from clew.messages.joining import as_parts
from clew.messages.origins import Reading, Source, by_source, in_former_order
from clew.messages.parts import spelled
from clew.messages.types import Message, Part, ToolCall


def read(items: Sequence[Any]) -> Reading:
    """Messages of the wire in our form: each result a message of its own, calls and thinking apart from the text."""
    reading = Reading()
    for place, item in enumerate(items):
        if not isinstance(item, dict) or "role" not in item:
            raise InvalidMessage(place, "it is no dict with a role", 'Give it the role "user" or "assistant"')
        made: tuple[Message, ...] | None = None
        runs: list[list[Any]] = []
        if isinstance(item.get("content"), list):
            if item["role"] == "assistant":
                made = _read_assistant(item, reading)
            elif item["role"] == "user":
                runs = _runs_of_results(item["content"])
                made = tuple([_read_user(run, reading) for run in runs])
        # An item without calls, results or thinking is a message in our form as it is.
        reading.add(Source((item,), made or (cast("Message", item),), place, runs))
    return reading


def _read_assistant(item: dict[str, Any], reading: Reading) -> tuple[Message] | None:
    said: list[Any] = []
    calls: list[ToolCall] = []
    thought: list[Any] = []
    for block in item["content"]:
        sort = _sort_of_block(block)
        if sort == "call":
            calls.append(_read_call(block, reading))
        else:
            (said if sort == "said" else thought).append(block)
    if not calls and not thought:
        return None
    message: Message = {"role": "assistant", "content": said or None}
    if calls:
        message["tool_calls"] = calls
    if thought:
        message["reasoning"] = thought
    for listed in (said, calls, thought):
        if listed:  # an empty one is not in the message, and its identity may be another's soon
            reading.pieces[id(listed)] = item
    return (message,)


def _read_call(block: Part, reading: Reading) -> ToolCall:
    arguments = as_json(block.get("input") or {})
    call: ToolCall = {
        "id": block.get("id", ""),
        "type": "function",
        "function": {"name": block.get("name", ""), "arguments": arguments},
    }
    reading.pieces[id(call)] = block
    return call


def _runs_of_results(content: list[Any]) -> list[list[Any]]:
    """The blocks of a user message, as they become messages: each result alone, what is between them together.

    None at all where there is no result.
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
    for source, run in by_source(messages, reading.sources):
        if source is not None:
            item = source.items[0]
            turn = _Turn(item["role"], item.get("content"), item, source.place)
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
    origin = reading.origin_of(message)
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
    thought = [block for block in reasoning_of(message) if _sort_of_block(block) == "thought"]
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
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "tool_use":
        return "call"
    return "thought" if kind == "thinking" or kind == "redacted_thinking" else "said"


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


def _kind(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""
