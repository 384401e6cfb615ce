"""Session files of pi: JSONL, first a line of type `session`, then messages; newer files are a tree by `parentId`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from clew.importers.blocks import (
    AssistantMessageBuilder,
    as_blocks,
    as_text,
    chat_parts,
    result_message,
    user_messages,
)
from clew.importers.branches import TreeNode, read_active_branch
from clew.importers.session import (
    COMPACTED_NOTICE,
    JsonLine,
    LineSource,
    Record,
    SourceEntry,
    SourceMetadata,
    mapping,
    optional_text,
)
from clew.messages import Message, Part

_MESSAGE_TYPES = ("message", "custom_message", "compaction", "branch_summary")
_COMPACTION = "compaction"
_SUMMARY_TYPES = (_COMPACTION, "branch_summary")


def is_pi(record: Record) -> bool:
    """Whether this line can only come from pi."""
    if record.get("type") == "session":
        return "cwd" in record or "version" in record
    return record.get("type") == "message" and isinstance(record.get("message"), Mapping) and "uuid" not in record


def pi_entries(read_lines: LineSource, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    """The messages of the active branch."""
    branch = read_active_branch(read_lines, _node, metadata)
    lines: dict[str, int] = {}
    for line in read_lines(metadata.notices):
        record = line.record
        _note_metadata(record, metadata)
        key = record.get("id")
        if isinstance(key, str):
            lines[key] = line.number
        if record.get("type") in _MESSAGE_TYPES and (not isinstance(key, str) or key in branch):
            yield from _entries(line, metadata, lines)


def _node(record: Record) -> TreeNode | None:
    key, parent = record.get("id"), record.get("parentId")
    # Lines without a parent field are of the older, linear kind.
    if not isinstance(key, str) or "parentId" not in record:
        return None
    return TreeNode(key, parent if isinstance(parent, str) else None, record.get("type") in _MESSAGE_TYPES)


def _entries(line: JsonLine, metadata: SourceMetadata, lines: Mapping[str, int]) -> Iterator[SourceEntry]:
    record = line.record
    timestamp = optional_text(record.get("timestamp"))
    if record["type"] in _SUMMARY_TYPES:
        metadata.notices.add(COMPACTED_NOTICE)
        # An unknown first message means that nothing stayed.
        kept_from = lines.get(as_text(record.get("firstKeptEntryId")), line.number)
        yield SourceEntry(
            {"role": "user", "content": as_text(record.get("summary"))},
            line.number,
            timestamp,
            is_summary=True,
            kept_from=kept_from if record["type"] == _COMPACTION else None,
        )
        return
    is_plain = record["type"] == "message"
    wire = mapping(record.get("message")) if is_plain else {"role": "custom", "content": record.get("content")}
    usage = mapping(wire.get("usage")) or None
    for message in _messages(wire):
        yield SourceEntry(message, line.number, timestamp, optional_text(wire.get("model")), usage)


def _messages(wire: Mapping[str, Any]) -> list[Message]:
    match wire.get("role"):
        case "assistant":
            reply = AssistantMessageBuilder()
            reply.add_blocks([_anthropic_block(block) for block in as_blocks(wire.get("content"))])
            message = reply.message()
            return [message] if message is not None else []
        case "toolResult":
            return [result_message(wire.get("toolCallId"), wire.get("content"), wire.get("isError"))]
        case "bashExecution":
            return [{"role": "user", "content": _shell_text(wire)}]
        case "user" | "custom":
            return user_messages(chat_parts(wire.get("content")))
        case _:
            return []


def _anthropic_block(block: Mapping[str, Any]) -> Mapping[str, Any]:
    if block.get("type") == "toolCall":
        return {**block, "type": "tool_use", "input": block.get("arguments")}
    return _thinking(block) if block.get("type") == "thinking" else block


def _thinking(block: Mapping[str, Any]) -> Part:
    """Reasoning as its wire wrote it: for the Responses API, pi keeps the whole item in place of the signature."""
    signature = block.get("thinkingSignature")
    if isinstance(signature, str) and signature.startswith("{"):
        try:
            item = json.loads(signature)
        except (ValueError, RecursionError):
            item = None
        if isinstance(item, dict) and item.get("type") == "reasoning":
            return item
    part: Part = {"type": "thinking", "thinking": as_text(block.get("thinking"))}
    if isinstance(signature, str):
        part["signature"] = signature
    return part


def _shell_text(wire: Mapping[str, Any]) -> str:
    """A command that the user ran at pi's prompt, as a text for the model."""
    code = wire.get("exitCode")
    return f"Ran `{as_text(wire.get('command'))}` (exit {code}):\n```\n{as_text(wire.get('output'))}\n```"


def _note_metadata(record: Record, metadata: SourceMetadata) -> None:
    metadata.note(record, model="modelId")
    if record.get("type") == "session":
        metadata.note(record, session="id", directory="cwd")
    if record.get("type") == "session_info":
        metadata.title = as_text(record.get("name")) or None
