"""Session files of Claude Code: JSONL, a tree by `parentUuid`, with the blocks of Anthropic's wire.

One reply is written over several lines of the same message id, with results of its first calls in between. A person who
goes back leaves an abandoned branch. Subagents (sidechains) may be in the same file; they are conversations of their
own, and are read only where the file holds nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clew.importers.blocks import AssistantMessageBuilder, as_blocks, as_text, user_messages
from clew.importers.branches import ActiveBranch, TreeNode, read_active_branch
from clew.importers.session import (
    COMPACTED_NOTICE,
    JsonLine,
    LineSource,
    Notices,
    Record,
    SourceEntry,
    SourceMetadata,
    mapping,
)
from clew.messages import Message

_SYNTHETIC = "<synthetic>"
_MESSAGE_TYPES = ("user", "assistant")
# Lines of type `summary` are no titles of this session: the program writes them into whichever file is open.
_TITLES = {"ai-title": "aiTitle", "custom-title": "customTitle"}


def is_claude_code(record: Record) -> bool:
    """Whether this line can only come from Claude Code."""
    if "parentUuid" in record or "leafUuid" in record:
        return True
    return record.get("type") in ("file-history-snapshot", "queue-operation") or (
        "sessionId" in record and "uuid" in record
    )


def claude_code_entries(read_lines: LineSource, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    """The messages of the active branch."""
    sidechain = not any(
        _is_message(line.record) and not line.record.get("isSidechain") for line in read_lines(Notices())
    )
    branch = read_active_branch(read_lines, lambda record: _node(record, sidechain), metadata)
    turn = _ClaudeCodeTurn()
    kept: int | None = None
    lines: dict[str, int] = {}
    for line in read_lines(metadata.notices):
        _note_metadata(line.record, metadata)
        if line.record.get("subtype") == "compact_boundary":
            kept = lines.get(_first_kept(line.record))
        if not _belongs(line, branch, sidechain, metadata):
            continue
        if not turn.is_continued_by(line.record):
            yield from turn.entries()
            turn = _ClaudeCodeTurn(kept)
        turn.add(line)
        lines[as_text(line.record.get("uuid"))] = line.number
    yield from turn.entries()


class _ClaudeCodeTurn:
    """One reply with the results of its calls, or one message of the user."""

    __slots__ = ("_first", "_kept", "_last", "_reply", "_user_messages")

    def __init__(self, kept: int | None = None) -> None:
        self._kept = kept
        """The line of the first message that a compaction left in the window."""
        self._first: JsonLine | None = None
        self._last: Mapping[str, Any] = {}
        self._reply: AssistantMessageBuilder | None = None
        self._user_messages: list[tuple[JsonLine, Message]] = []

    def is_continued_by(self, record: Record) -> bool:
        """Whether a line continues this turn: more of the same reply, or results of its calls."""
        if self._reply is None:
            return False
        wire = _wire_message(record)
        if record.get("type") == "assistant":
            return wire.get("id") is not None and wire.get("id") == self._last.get("id")
        results = _result_ids(wire)
        return bool(results) and results <= self._reply.calls.keys()

    def add(self, line: JsonLine) -> None:
        self._first = self._first or line
        wire = _wire_message(line.record)
        if line.record.get("type") == "assistant":
            self._reply = self._reply or AssistantMessageBuilder()
            self._reply.add_blocks(wire.get("content"))
            self._last = wire
        else:
            self._user_messages.extend((line, message) for message in user_messages(wire.get("content")))

    def entries(self) -> Iterator[SourceEntry]:
        message = self._reply.message() if self._reply else None
        if message is not None and self._first is not None:
            yield SourceEntry(
                message,
                self._first.number,
                timestamp=self._first.record.get("timestamp"),
                model=_model(self._last),
                usage=mapping(self._last.get("usage")) or None,
                call_id=as_text(self._last.get("id")) or None,
            )
        for line, user_message in self._user_messages:
            summary = bool(line.record.get("isCompactSummary"))
            yield SourceEntry(
                user_message,
                line.number,
                timestamp=line.record.get("timestamp"),
                is_summary=summary,
                kept_from=self._kept if summary else None,
            )


def _node(record: Record, sidechain: bool) -> TreeNode | None:
    key = record.get("uuid")
    if not isinstance(key, str) or bool(record.get("isSidechain")) is not sidechain:
        return None
    parent = record.get("parentUuid") or record.get("logicalParentUuid")
    compacted = record.get("subtype") == "compact_boundary" or bool(record.get("isCompactSummary"))
    joins: str | None = None
    if record.get("type") == "assistant":
        joins = as_text(_wire_message(record).get("id")) or None
    elif record.get("type") != "user" or _result_ids(_wire_message(record)):
        joins = ""
    parent = parent if isinstance(parent, str) else None
    return TreeNode(key, parent, _is_message(record), joins, continues=compacted)


def _belongs(line: JsonLine, branch: ActiveBranch, sidechain: bool, metadata: SourceMetadata) -> bool:
    record = line.record
    if not _is_message(record):
        return False
    if bool(record.get("isSidechain")) is not sidechain:
        metadata.notices.add("messages of subagents are left out", line.number)
        return False
    if record.get("isApiErrorMessage") or _wire_message(record).get("model") == _SYNTHETIC:
        metadata.notices.add("notes that the program put in the model's mouth are left out", line.number)
        return False
    key = record.get("uuid")
    if not isinstance(key, str):
        return True
    return branch.is_first_copy(key) and key in branch


def _first_kept(boundary: Record) -> str:
    """The first message that a compaction left in the window, of programs that name it."""
    return as_text(mapping(mapping(boundary.get("compactMetadata")).get("preservedSegment")).get("headUuid"))


def _is_message(record: Record) -> bool:
    if _is_queued_prompt(record):
        return True
    return record.get("type") in _MESSAGE_TYPES and isinstance(record.get("message"), Mapping)


def _is_queued_prompt(record: Record) -> bool:
    """Whether this is what the user typed while the model worked, which is written as an attachment."""
    return mapping(record.get("attachment")).get("type") == "queued_command"


def _wire_message(record: Record) -> Mapping[str, Any]:
    if _is_queued_prompt(record):
        return {"role": "user", "content": record["attachment"].get("prompt")}
    return mapping(record.get("message"))


def _result_ids(wire: Mapping[str, Any]) -> set[str]:
    blocks = as_blocks(wire.get("content"))
    return {as_text(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"}


def _model(wire: Mapping[str, Any]) -> str | None:
    model = wire.get("model")
    return model if isinstance(model, str) and model != _SYNTHETIC else None


def _note_metadata(record: Record, metadata: SourceMetadata) -> None:
    # The first name counts: a file that continues with another session begins with a copy of it.
    if metadata.session is None and isinstance(record.get("sessionId"), str):
        metadata.session = record["sessionId"]
        if record.get("isSidechain") and isinstance(record.get("agentId"), str):
            metadata.parent, metadata.session = metadata.session, f"{metadata.session}.{record['agentId']}"
    metadata.note(record, directory="cwd", title=_TITLES.get(as_text(record.get("type")), ""))
    if record.get("subtype") == "compact_boundary":
        metadata.notices.add(COMPACTED_NOTICE)
