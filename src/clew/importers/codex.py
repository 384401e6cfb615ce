"""Session files of Codex ("rollouts"): JSONL of `{timestamp, type, payload}`, the items those of the Responses API.

Reasoning, text and calls of one reply are items of their own and become one message. Turns that were rolled back are
left out. Files older than `payload` hold the bare items; both are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from clew.importers.blocks import Reply, as_blocks, as_content, as_text, image_part
from clew.importers.entries import Entry, Margin, Pages
from clew.importers.notices import Notices
from clew.importers.records import Line, Record
from clew.messages import Message, Part

_LINE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_TEXT_TYPES = ("input_text", "output_text", "text")
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
# What the program itself says in the user's name; it opens no turn.
_PROGRAM_SPEAKS = ("<environment_context", "<user_instructions", "# AGENTS.md instructions", "<permissions", "<turn_")


def is_codex(record: Record) -> bool:
    """Whether this line can only come from Codex."""
    if record.get("type") in _LINE_TYPES and isinstance(record.get("payload"), Mapping):
        return True
    return record.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= record.keys()


def codex_entries(pages: Pages, margin: Margin) -> Iterator[Entry]:
    dropped = _rolled_back(pages)
    if dropped:
        margin.notices.add(f"{len(dropped)} stretches of turns that were rolled back are left out")
    session = _Session(margin)
    for line in pages(margin.notices):
        if any(line.number in stretch for stretch in dropped):
            continue
        yield from session.read(line)
    yield from session.close()


class _Session:
    """The reply that is being put together, and the newest one with its results, whose usage may still be told."""

    __slots__ = ("_at", "_call", "_held", "_is_recorded", "_line", "_margin", "_reply", "_usage")

    def __init__(self, margin: Margin) -> None:
        self._margin = margin
        self._reply = Reply()
        self._line = 0
        self._at: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._call: str | None = None
        self._held: list[Entry] = []
        self._is_recorded = False

    def read(self, line: Line) -> Iterator[Entry]:
        kind, payload = _unwrapped(line.record)
        match kind:
            case "session_meta":
                self._note_session(payload)
            case "turn_context":
                self._margin.model = _string(payload.get("model")) or self._margin.model
            case "event_msg":
                self._note_event(payload)
            case "token_usage_record":
                self._is_recorded = True
                self._take_usage(payload.get("usage"), _string(payload.get("response_id")))
            case "compacted":
                yield from self._summary(payload, line)
            case "response_item":
                yield from self._item(payload, line)

    def close(self) -> Iterator[Entry]:
        self._end_reply()
        yield from self._held
        self._held = []

    def _end_reply(self) -> None:
        message = self._reply.message()
        if message is not None:
            self._held.append(Entry(message, self._line, self._at, self._margin.model, self._usage, self._call))
        self._reply, self._usage, self._call = Reply(), None, None

    def _item(self, item: Mapping[str, Any], line: Line) -> Iterator[Entry]:
        at = _string(line.record.get("timestamp"))
        kind = item.get("type")
        if kind in _OUTPUTS:
            self._end_reply()
            self._held.append(Entry(_result(item), line.number, at))
        elif kind == "message" and item.get("role") != "assistant":
            yield from self.close()
            if (message := _said(item)) is not None:
                yield Entry(message, line.number, at)
        else:
            if self._reply.message() is None or (self._is_recorded and self._usage is not None):
                yield from self.close()
                self._line, self._at = line.number, at
            self._add(item, line)

    def _add(self, item: Mapping[str, Any], line: Line) -> None:
        kind = item.get("type")
        if kind == "message":
            for part in _parts(item.get("content")):
                self._reply.add_text(part["text"]) if part.get("type") == "text" else self._reply.parts.append(part)
        elif kind == "reasoning":
            self._reply.add_reasoning(dict(item))
        elif kind in _CALLS:
            self._reply.add_call(*_call(item))
        elif kind == "web_search_call":
            self._reply.parts.append(dict(item))
        elif kind == "compaction":
            self._margin.notices.add("a compaction that only the provider can read was passed over", line.number)

    def _summary(self, payload: Mapping[str, Any], line: Line) -> Iterator[Entry]:
        yield from self.close()
        self._margin.notices.add("the program compacted here; the messages before it are kept, its summary too")
        if text := _string(payload.get("message")):
            at = _string(line.record.get("timestamp"))
            yield Entry({"role": "user", "content": text}, line.number, at, is_summary=True)

    def _note_session(self, payload: Mapping[str, Any]) -> None:
        margin = self._margin
        if margin.session is None:
            # A fork repeats the line of the session it came from behind its own.
            margin.session = _string(payload.get("id"))
            margin.parent = _parent(payload.get("source"))
        margin.directory = _string(payload.get("cwd")) or margin.directory
        base = payload.get("base_instructions")
        told = base.get("text") if isinstance(base, Mapping) else payload.get("instructions")
        margin.system = margin.system or _string(told)
        tools = payload.get("dynamic_tools")
        if isinstance(tools, list) and not margin.tools:
            margin.tools.extend(tool for tool in tools if isinstance(tool, dict))

    def _note_event(self, payload: Mapping[str, Any]) -> None:
        info = payload.get("info")
        # Newer files have a line for each call beside this event, which comes behind the results, and may come again.
        if payload.get("type") == "token_count" and isinstance(info, Mapping) and not self._is_recorded:
            self._take_usage(info.get("last_token_usage"))

    def _take_usage(self, usage: Any, call: str | None = None) -> None:
        """Usage is told behind the reply, sometimes behind the results of its calls too."""
        if not isinstance(usage, Mapping):
            return
        if self._reply.message() is not None:
            self._usage, self._call = self._usage or usage, self._call or call
        elif self._held and self._held[0].message["role"] == "assistant" and self._held[0].usage is None:
            self._held[0] = replace(self._held[0], usage=usage, call=call)


def _rolled_back(pages: Pages) -> list[range]:
    """Stretches of lines whose turns the user took back."""
    turns: list[int] = []
    dropped: list[range] = []
    for line in pages(Notices()):
        kind, payload = _unwrapped(line.record)
        if kind == "response_item" and payload.get("role") == "user" and not _program_speaks(payload):
            turns.append(line.number)
        elif payload.get("type") == "thread_rolled_back":
            count = payload.get("num_turns")
            back = min(count, len(turns)) if isinstance(count, int) and count > 0 else 0
            if back:
                dropped.append(range(turns[-back], line.number + 1))
                del turns[-back:]
    return dropped


def _unwrapped(record: Record) -> tuple[str, Mapping[str, Any]]:
    payload = record.get("payload")
    if isinstance(payload, Mapping):
        return as_text(record.get("type")), payload
    if "instructions" in record and "type" not in record:
        return "session_meta", record
    return ("response_item" if "type" in record else "state"), record


def _parent(source: Any) -> str | None:
    """The thread that spawned this one, where it is a subagent's."""
    spawned = source.get("subagent") if isinstance(source, Mapping) else None
    spawn = spawned.get("thread_spawn") if isinstance(spawned, Mapping) else None
    return _string(spawn.get("parent_thread_id")) if isinstance(spawn, Mapping) else None


def _program_speaks(item: Mapping[str, Any]) -> bool:
    return any(part.get("text", "").lstrip().startswith(_PROGRAM_SPEAKS) for part in _parts(item.get("content"))[:1])


def _said(item: Mapping[str, Any]) -> Message | None:
    role = item.get("role")
    if role not in ("user", "developer", "system"):
        return None
    return {"role": role, "content": as_content(_parts(item.get("content")))}


def _parts(content: Any) -> list[Part]:
    return [_part(block) for block in as_blocks(content)]


def _part(block: Mapping[str, Any]) -> Part:
    if block.get("type") in _TEXT_TYPES:
        return {"type": "text", "text": as_text(block.get("text"))}
    if block.get("type") == "input_image" and isinstance(block.get("image_url"), str):
        return image_part(block["image_url"])
    return dict(block)


def _call(item: Mapping[str, Any]) -> tuple[str, str, Any]:
    call_id = as_text(item.get("call_id") or item.get("id"))
    if item.get("type") == "local_shell_call":
        return call_id, "local_shell", item.get("action") or {}
    if item.get("type") == "custom_tool_call":
        # A custom tool takes free text, and chat completions want an object.
        return call_id, as_text(item.get("name")), {"input": as_text(item.get("input"))}
    return call_id, as_text(item.get("name")), as_text(item.get("arguments"))


def _result(item: Mapping[str, Any]) -> Message:
    output = item.get("output")
    failed = False
    if isinstance(output, Mapping):
        failed = output.get("success") is False
        output = output.get("content")
    message: Message = {
        "role": "tool",
        "tool_call_id": as_text(item.get("call_id") or item.get("id")),
        "content": as_content(_parts(output)),
    }
    if failed:
        message["is_error"] = True
    return message


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
