"""Session files of pi: JSONL, first a line of type `session`, then messages; newer files are a tree by `parentId`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from clew.importers.blocks import AssistantMessageBuilder, as_blocks, as_text, chat_part, result_message, user_messages
from clew.importers.branches import ActiveBranch, MessageTree, TreeNode
from clew.importers.session import COMPACTED_NOTICE, JsonLine, LineSource, Notices, Record, SourceEntry, SourceMetadata
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
    branch = _active_branch(read_lines)
    if abandoned := branch.abandoned_count():
        metadata.notices.add(f"{abandoned} messages on branches that were abandoned are left out")
    lines: dict[str, int] = {}
    for line in read_lines(metadata.notices):
        record = line.record
        _note_metadata(record, metadata)
        key = record.get("id")
        if isinstance(key, str):
            lines[key] = line.number
        if record.get("type") in _MESSAGE_TYPES and (not isinstance(key, str) or key in branch):
            yield from _entries(line, metadata, lines)


def _active_branch(read_lines: LineSource) -> ActiveBranch:
    tree = MessageTree()
    for line in read_lines(Notices()):
        record = line.record
        key, parent = record.get("id"), record.get("parentId")
        # Lines without a parent field are of the older, linear kind.
        if isinstance(key, str) and "parentId" in record:
            is_message = record.get("type") in _MESSAGE_TYPES
            tree.add(TreeNode(key, parent if isinstance(parent, str) else None, is_message))
    return tree.active_branch()


def _entries(line: JsonLine, metadata: SourceMetadata, lines: Mapping[str, int]) -> Iterator[SourceEntry]:
    record = line.record
    timestamp = record.get("timestamp") if isinstance(record.get("timestamp"), str) else None
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
    wire = (
        record.get("message") if record["type"] == "message" else {"role": "custom", "content": record.get("content")}
    )
    if not isinstance(wire, Mapping):
        return
    usage = wire.get("usage")
    for message in _messages(wire):
        yield SourceEntry(
            message,
            line.number,
            timestamp,
            model=wire["model"] if isinstance(wire.get("model"), str) else None,
            usage=usage if isinstance(usage, Mapping) else None,
        )


def _messages(wire: Mapping[str, Any]) -> list[Message]:
    match wire.get("role"):
        case "assistant":
            message = _reply(wire)
            return [message] if message is not None else []
        case "toolResult":
            return [result_message(wire.get("toolCallId"), wire.get("content"), wire.get("isError"))]
        case "bashExecution":
            return [{"role": "user", "content": _shell_text(wire)}]
        case "user" | "custom":
            return user_messages([chat_part(block) for block in as_blocks(wire.get("content"))])
        case _:
            return []


def _reply(wire: Mapping[str, Any]) -> Message | None:
    reply = AssistantMessageBuilder()
    for block in as_blocks(wire.get("content")):
        match block.get("type"):
            case "text":
                reply.add_text(as_text(block.get("text")))
            case "toolCall":
                reply.add_call(as_text(block.get("id")), as_text(block.get("name")), block.get("arguments") or {})
            case "thinking":
                reply.add_reasoning(_thinking(block))
            case _:
                reply.parts.append(dict(block))
    return reply.message()


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
    model = record.get("modelId")
    if isinstance(model, str):
        metadata.model = model
    if record.get("type") == "session":
        metadata.session = as_text(record.get("id")) or None
        metadata.directory = as_text(record.get("cwd")) or None
    if record.get("type") == "session_info":
        metadata.title = as_text(record.get("name")) or None
