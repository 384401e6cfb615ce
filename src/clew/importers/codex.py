"""Session files of Codex ("rollouts"): JSONL of `{timestamp, type, payload}`, with the items of the Responses API.

Reasoning, text and calls of one reply are items of their own and become one message. Turns that were rolled back are
left out. Files older than `payload` hold the bare items; both are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from clew.importers.blocks import AssistantMessageBuilder, as_content, as_text, chat_parts, result_message
from clew.importers.session import (
    COMPACTED_NOTICE,
    JsonLine,
    LineSource,
    Notices,
    Record,
    SourceEntry,
    SourceMetadata,
    mapping,
    mappings,
    optional_text,
)
from clew.messages import Message, text_of

_LINE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
# How messages begin that the program itself writes as the user; they begin no turn.
_PROGRAM_PREFIXES = ("<environment_context", "<user_instructions", "# AGENTS.md instructions", "<permissions", "<turn_")


def is_codex(record: Record) -> bool:
    """Whether this line can only come from Codex."""
    if record.get("type") in _LINE_TYPES and isinstance(record.get("payload"), Mapping):
        return True
    return record.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= record.keys()


def codex_entries(read_lines: LineSource, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    """The messages that were not rolled back."""
    dropped = _rolled_back(read_lines)
    if dropped:
        metadata.notices.add(f"{len(dropped)} stretches of turns that were rolled back are left out")
    reader = _RolloutReader(metadata)
    for line in read_lines(metadata.notices):
        if any(line.number in lines for lines in dropped):
            continue
        yield from reader.read(line)
    yield from reader.close()


class _RolloutReader:
    """Holds the reply that is being put together, and the last one with its results, whose usage may still follow."""

    __slots__ = ("_call_id", "_held", "_is_recorded", "_line", "_metadata", "_reply", "_timestamp", "_usage")

    def __init__(self, metadata: SourceMetadata) -> None:
        self._metadata = metadata
        self._reply = AssistantMessageBuilder()
        self._line = 0
        self._timestamp: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._call_id: str | None = None
        self._held: list[SourceEntry] = []
        self._is_recorded = False

    def read(self, line: JsonLine) -> Iterator[SourceEntry]:
        kind, payload = _unwrap(line.record)
        match kind:
            case "session_meta":
                self._note_session(payload)
            case "turn_context":
                self._metadata.note(payload, model="model")
            case "event_msg":
                self._note_event(payload)
            case "token_usage_record":
                self._is_recorded = True
                self._add_usage(payload.get("usage"), optional_text(payload.get("response_id")))
            case "compacted":
                yield from self._summary(payload, line)
            case "response_item":
                yield from self._add_item(payload, line)

    def close(self) -> Iterator[SourceEntry]:
        self._finish_reply()
        yield from self._held
        self._held = []

    def _finish_reply(self) -> None:
        message = self._reply.message()
        if message is not None:
            self._held.append(
                SourceEntry(message, self._line, self._timestamp, self._metadata.model, self._usage, self._call_id)
            )
        self._reply, self._usage, self._call_id = AssistantMessageBuilder(), None, None

    def _add_item(self, item: Mapping[str, Any], line: JsonLine) -> Iterator[SourceEntry]:
        timestamp = optional_text(line.record.get("timestamp"))
        kind = item.get("type")
        if kind in _OUTPUTS:
            self._finish_reply()
            self._held.append(SourceEntry(_result(item), line.number, timestamp))
        elif kind == "message" and item.get("role") != "assistant":
            yield from self.close()
            if (message := _user_message(item)) is not None:
                yield SourceEntry(message, line.number, timestamp)
        else:
            if self._reply.message() is None or (self._is_recorded and self._usage is not None):
                yield from self.close()
                self._line, self._timestamp = line.number, timestamp
            self._add_to_reply(item, line)

    def _add_to_reply(self, item: Mapping[str, Any], line: JsonLine) -> None:
        kind = item.get("type")
        if kind == "message":
            for part in chat_parts(item.get("content")):
                self._reply.add_text(part["text"]) if part.get("type") == "text" else self._reply.parts.append(part)
        elif kind == "reasoning":
            self._reply.add_reasoning(dict(item))
        elif kind in _CALLS:
            self._reply.add_call(*_call(item))
        elif kind == "web_search_call":
            self._reply.parts.append(dict(item))
        elif kind == "compaction":
            self._metadata.notices.add("a compaction that only the provider can read was passed over", line.number)

    def _summary(self, payload: Mapping[str, Any], line: JsonLine) -> Iterator[SourceEntry]:
        yield from self.close()
        self._metadata.notices.add(COMPACTED_NOTICE)
        if text := optional_text(payload.get("message")):
            items = mappings(payload.get("replacement_history"))
            kept_messages = [_user_message(item) for item in items if item.get("role") == "user"]
            kept = tuple(message for message in kept_messages if message is not None and text_of(message) != text)
            summary: Message = {"role": "user", "content": text}
            timestamp = optional_text(line.record.get("timestamp"))
            yield SourceEntry(summary, line.number, timestamp, is_summary=True, kept=kept)

    def _note_session(self, payload: Mapping[str, Any]) -> None:
        metadata = self._metadata
        if metadata.session is None:
            # A fork repeats the line of its origin after its own.
            metadata.note(payload, session="id")
            # Of a subagent: the thread that spawned it.
            spawn = mapping(mapping(mapping(payload.get("source")).get("subagent")).get("thread_spawn"))
            metadata.note(spawn, parent="parent_thread_id")
        metadata.note(payload, directory="cwd")
        base = payload.get("base_instructions")
        instructions = base.get("text") if isinstance(base, Mapping) else payload.get("instructions")
        metadata.system = metadata.system or optional_text(instructions)
        metadata.tools = metadata.tools or [dict(tool) for tool in mappings(payload.get("dynamic_tools"))]

    def _note_event(self, payload: Mapping[str, Any]) -> None:
        info = payload.get("info")
        # Newer files have a line for each call beside this event, which follows the results, and may come again.
        if payload.get("type") == "token_count" and isinstance(info, Mapping) and not self._is_recorded:
            self._add_usage(info.get("last_token_usage"))

    def _add_usage(self, usage: Any, call_id: str | None = None) -> None:
        """Add the usage of the last reply, which is written behind it, sometimes behind the results of its calls."""
        if not isinstance(usage, Mapping):
            return
        if self._reply.message() is not None:
            self._usage, self._call_id = self._usage or usage, self._call_id or call_id
        elif self._held and self._held[0].message["role"] == "assistant" and self._held[0].usage is None:
            self._held[0] = replace(self._held[0], usage=usage, call_id=call_id)


def _rolled_back(read_lines: LineSource) -> list[range]:
    """Ranges of lines whose turns the user took back."""
    turns: list[int] = []
    dropped: list[range] = []
    for line in read_lines(Notices()):
        kind, payload = _unwrap(line.record)
        if kind == "response_item" and payload.get("role") == "user" and not _is_from_program(payload):
            turns.append(line.number)
        elif payload.get("type") == "thread_rolled_back":
            count = payload.get("num_turns")
            back = min(count, len(turns)) if isinstance(count, int) and count > 0 else 0
            if back:
                dropped.append(range(turns[-back], line.number + 1))
                del turns[-back:]
    return dropped


def _unwrap(record: Record) -> tuple[str, Mapping[str, Any]]:
    payload = record.get("payload")
    if isinstance(payload, Mapping):
        return as_text(record.get("type")), payload
    if "instructions" in record and "type" not in record:
        return "session_meta", record
    return ("response_item" if "type" in record else "state"), record


def _is_from_program(item: Mapping[str, Any]) -> bool:
    first = chat_parts(item.get("content"))[:1]
    return any(as_text(part.get("text")).lstrip().startswith(_PROGRAM_PREFIXES) for part in first)


def _user_message(item: Mapping[str, Any]) -> Message | None:
    role = item.get("role")
    if role not in ("user", "developer", "system"):
        return None
    return {"role": role, "content": as_content(chat_parts(item.get("content")))}


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
    return result_message(item.get("call_id") or item.get("id"), output, failed)
