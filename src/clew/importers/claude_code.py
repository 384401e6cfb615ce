"""Session files of Claude Code: JSONL, a tree by `parentUuid`, the Anthropic wire's own blocks.

Three things make them more than a list. One reply is written over several lines of the same message id, with results
of its first calls in between. A person who goes back leaves an abandoned branch. Subagents (sidechains) may stand in
the same file; they are conversations of their own, and are read only where the file holds nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clew.importers.blocks import Reply, as_blocks, as_text, user_messages
from clew.importers.branches import Branches, Living, Node
from clew.importers.entries import Entry, Margin, Pages
from clew.importers.notices import Notices
from clew.importers.records import Line, Record
from clew.messages import Message

_SYNTHETIC = "<synthetic>"
_SPOKEN = ("user", "assistant")
# Lines of type `summary` are none: they tell of whichever session the program had at hand.
_TITLES = (("ai-title", "aiTitle"), ("custom-title", "customTitle"))


def is_claude_code(record: Record) -> bool:
    """Whether this line can only come from Claude Code."""
    if "parentUuid" in record or "leafUuid" in record:
        return True
    return record.get("type") in ("file-history-snapshot", "queue-operation") or (
        "sessionId" in record and "uuid" in record
    )


def claude_code_entries(pages: Pages, margin: Margin) -> Iterator[Entry]:
    sidechain = not any(_is_spoken(line.record) and not line.record.get("isSidechain") for line in pages(Notices()))
    living = _living(pages, sidechain)
    if abandoned := living.abandoned():
        margin.notices.add(f"{abandoned} messages on branches that were abandoned are left out")
    turn = _Turn()
    for line in pages(margin.notices):
        _note_margin(line.record, margin)
        if not _belongs(line, living, sidechain, margin):
            continue
        if not turn.takes(line.record):
            yield from turn.entries()
            turn = _Turn()
        turn.add(line)
    yield from turn.entries()


class _Turn:
    """One reply with the results of its calls, or one line of the user."""

    __slots__ = ("_first", "_last", "_reply", "_said")

    def __init__(self) -> None:
        self._first: Line | None = None
        self._last: Mapping[str, Any] = {}
        self._reply: Reply | None = None
        self._said: list[tuple[Line, Message]] = []

    def takes(self, record: Record) -> bool:
        """Whether a line continues this turn: more of the same reply, or results of its calls."""
        if self._reply is None:
            return False
        wire = _wire(record)
        if record.get("type") == "assistant":
            return wire.get("id") is not None and wire.get("id") == self._last.get("id")
        results = _result_ids(wire)
        return bool(results) and results <= self._reply.calls.keys()

    def add(self, line: Line) -> None:
        self._first = self._first or line
        wire = _wire(line.record)
        if line.record.get("type") == "assistant":
            self._reply = self._reply or Reply()
            self._reply.add_blocks(wire.get("content"))
            self._last = wire
        else:
            self._said.extend((line, message) for message in user_messages(wire.get("content")))

    def entries(self) -> Iterator[Entry]:
        message = self._reply.message() if self._reply else None
        if message is not None and self._first is not None:
            usage = self._last.get("usage")
            yield Entry(
                message,
                self._first.number,
                at=self._first.record.get("timestamp"),
                model=_model(self._last),
                usage=usage if isinstance(usage, Mapping) else None,
                call=as_text(self._last.get("id")) or None,
            )
        for line, said in self._said:
            summary = bool(line.record.get("isCompactSummary"))
            yield Entry(said, line.number, at=line.record.get("timestamp"), is_summary=summary)


def _living(pages: Pages, sidechain: bool) -> Living:
    branches = Branches()
    for line in pages(Notices()):
        record = line.record
        key = record.get("uuid")
        if isinstance(key, str) and bool(record.get("isSidechain")) is sidechain:
            branches.add(_node(key, record))
    return branches.living()


def _node(key: str, record: Record) -> Node:
    parent = record.get("parentUuid") or record.get("logicalParentUuid")
    compacted = record.get("subtype") == "compact_boundary" or bool(record.get("isCompactSummary"))
    joins: str | None = None
    if record.get("type") == "assistant":
        joins = as_text(_wire(record).get("id")) or None
    elif record.get("type") != "user" or _result_ids(_wire(record)):
        joins = ""
    spoken = _is_spoken(record)
    return Node(key, parent if isinstance(parent, str) else None, spoken, joins, continues=compacted)


def _belongs(line: Line, living: Living, sidechain: bool, margin: Margin) -> bool:
    record = line.record
    if not _is_spoken(record):
        return False
    if bool(record.get("isSidechain")) is not sidechain:
        margin.notices.add("messages of subagents are left out", line.number)
        return False
    if record.get("isApiErrorMessage") or _wire(record).get("model") == _SYNTHETIC:
        margin.notices.add("notes that the program put in the model's mouth are left out", line.number)
        return False
    key = record.get("uuid")
    if not isinstance(key, str):
        return True
    return living.is_met_first(key) and key in living


def _is_spoken(record: Record) -> bool:
    return (record.get("type") in _SPOKEN and isinstance(record.get("message"), Mapping)) or _is_queued_prompt(record)


def _is_queued_prompt(record: Record) -> bool:
    """What the user typed while the model was at work is written as an attachment."""
    attachment = record.get("attachment")
    return isinstance(attachment, Mapping) and attachment.get("type") == "queued_command"


def _wire(record: Record) -> Mapping[str, Any]:
    if _is_queued_prompt(record):
        return {"role": "user", "content": record["attachment"].get("prompt")}
    message = record.get("message")
    return message if isinstance(message, Mapping) else {}


def _result_ids(wire: Mapping[str, Any]) -> set[str]:
    blocks = as_blocks(wire.get("content"))
    return {as_text(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"}


def _model(wire: Mapping[str, Any]) -> str | None:
    model = wire.get("model")
    return model if isinstance(model, str) and model != _SYNTHETIC else None


def _note_margin(record: Record, margin: Margin) -> None:
    # The first name counts: a file that goes on with another session begins with a copy of it.
    if margin.session is None and isinstance(record.get("sessionId"), str):
        margin.session = record["sessionId"]
        if record.get("isSidechain") and isinstance(record.get("agentId"), str):
            margin.parent, margin.session = margin.session, f"{margin.session}.{record['agentId']}"
    if isinstance(record.get("cwd"), str):
        margin.directory = record["cwd"]
    for kind, field in _TITLES:
        if record.get("type") == kind and isinstance(record.get(field), str):
            margin.title = record[field]
    if record.get("subtype") == "compact_boundary":
        margin.notices.add("the program compacted here; the messages before it are kept, its summary too")
