"""Sessions of opencode: what `opencode export` prints, its database, and the folders it kept sessions in before that.

A message is `info` and `parts`; a tool part holds call and result together. One assistant message can span several
steps, and each step is a call of the model, so each becomes a separate message followed by its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clew.importers.blocks import AssistantMessageBuilder, as_content, as_text, image_part, result_message
from clew.importers.database import ForeignDatabase, json_column
from clew.importers.json_records import BadJson, parse_json
from clew.importers.session import Notices, Record, SourceEntry, SourceMetadata, mapping, mappings, optional_text
from clew.messages import Message, Part


def is_opencode(document: Record) -> bool:
    """Whether this is an export: every message of it has `info` and `parts`."""
    messages = document.get("messages")
    if not isinstance(messages, list) or not isinstance(document.get("info"), Mapping):
        return False
    return all(isinstance(message, Mapping) and "info" in message and "parts" in message for message in messages)


def is_opencode_session(document: Record) -> bool:
    """Whether this is the session file of the storage folder, whose messages are in other files."""
    return as_text(document.get("id")).startswith("ses") and "messages" not in document and "time" in document


def opencode_entries(document: Record, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    """Entries of an export."""
    return _session_entries(mapping(document.get("info")), document["messages"], metadata)


def _session_entries(
    info: Mapping[str, Any], messages: Iterable[Record], metadata: SourceMetadata
) -> Iterator[SourceEntry]:
    """Entries of a session, from an export, a folder or the database."""
    metadata.note(info, session="id", title="title", directory="directory", parent="parentID")
    reverted = as_text(mapping(info.get("revert")).get("messageID"))
    numbers: dict[str, int] = {}
    tail: str | None = None
    for number, message in (numbered := enumerate(messages, 1)):
        message_info, parts = mapping(message.get("info")), mappings(message.get("parts"))
        if reverted and message_info.get("id") == reverted:
            metadata.notices.add(f"{1 + sum(1 for _ in numbered)} messages that were reverted are left out")
            return
        numbers[as_text(message_info.get("id"))] = number
        if message_info.get("role") == "assistant":
            metadata.note(message_info, model="modelID")
            for entry in _replies(message_info, parts, number):
                yield replace(entry, kept_from=numbers.get(tail or "")) if entry.is_summary else entry
        else:
            # A request for a summary names the first message that stays in the window.
            compaction = next((part for part in parts if part.get("type") == "compaction"), None)
            tail = tail if compaction is None else as_text(compaction.get("tail_start_id"))
            yield from _user_entries(message_info, parts, number)


def storage_document(session: Path, info: Record, depth: int, notices: Notices) -> Record:
    """The export of a session in the storage folder `session/<project>/<id>.json`, put together from its parts."""
    root = session.resolve().parents[2]
    messages: list[Record] = []
    for message in _read_objects(root / "message" / as_text(info.get("id")), depth, notices):
        parts = _read_objects(root / "part" / as_text(message.get("id")), depth, notices)
        messages.append({"info": message, "parts": parts})
    messages.sort(key=lambda message: _created(message["info"]))
    return {"info": info, "messages": messages}


def _read_objects(folder: Path, depth: int, notices: Notices) -> list[Record]:
    """The JSON objects in a folder, by file name: opencode's ids rise with time."""
    found: list[Record] = []
    for path in sorted(folder.glob("*.json")):
        try:
            value = parse_json(path.read_bytes(), depth, notices)
        except (BadJson, OSError) as error:
            notices.add(f"{path.name} cannot be read and is left out: {error}")
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _created(info: Mapping[str, Any]) -> tuple[float, str]:
    created = mapping(info.get("time")).get("created")
    return (float(created) if isinstance(created, int | float) else 0.0, as_text(info.get("id")))


def _user_entries(info: Mapping[str, Any], parts: list[Mapping[str, Any]], number: int) -> Iterator[SourceEntry]:
    shown = [_user_part(part) for part in parts if part.get("type") in ("text", "file") and not part.get("ignored")]
    if shown:
        yield SourceEntry({"role": "user", "content": as_content(shown)}, number, _timestamp(info))


def _user_part(part: Mapping[str, Any]) -> Part:
    if part.get("type") == "text":
        return {"type": "text", "text": as_text(part.get("text"))}
    url, kind = as_text(part.get("url")), as_text(part.get("mime"))
    if kind.startswith("image/"):
        return image_part(url)
    return {"type": "text", "text": f"[file {as_text(part.get('filename')) or url} ({kind})]"}


def _replies(info: Mapping[str, Any], parts: list[Mapping[str, Any]], number: int) -> Iterator[SourceEntry]:
    steps = _steps(parts)
    for position, step in enumerate(steps):
        is_last = position == len(steps) - 1
        usage = next((part.get("tokens") for part in step if part.get("type") == "step-finish"), None)
        usage = usage or (info.get("tokens") if is_last else None)
        yield from _reply(info, step, number, mapping(usage) or None)


def _steps(parts: list[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    steps: list[list[Mapping[str, Any]]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and steps[-1]:
            steps.append([])
        steps[-1].append(part)
    return steps


def _reply(
    info: Mapping[str, Any], parts: list[Mapping[str, Any]], number: int, usage: Mapping[str, Any] | None
) -> Iterator[SourceEntry]:
    reply = AssistantMessageBuilder()
    results: list[Message] = []
    for part in parts:
        match part.get("type"):
            case "text":
                reply.add_text(as_text(part.get("text")))
            case "reasoning" if part.get("text"):
                reply.add_reasoning({"type": "thinking", "thinking": as_text(part.get("text")), **_signature(part)})
            case "tool":
                state = mapping(part.get("state"))
                call_id = as_text(part.get("callID") or part.get("id"))
                reply.add_call(call_id, as_text(part.get("tool")), state.get("input") or {})
                results.extend(_result(call_id, state))
    message = reply.message()
    if message is not None:
        model, is_summary = optional_text(info.get("modelID")), bool(info.get("summary"))
        yield SourceEntry(message, number, _timestamp(info), model, usage, is_summary=is_summary)
    for result in results:
        yield SourceEntry(result, number, _timestamp(info))


def _result(call_id: str, state: Mapping[str, Any]) -> list[Message]:
    """The result of a call, unless it was still running when the file was written."""
    if state.get("status") == "error":
        return [result_message(call_id, as_text(state.get("error")), is_error=True)]
    if state.get("status") != "completed":
        return []
    parts: list[Part] = [{"type": "text", "text": as_text(state.get("output"))}]
    parts += [_user_part({**attachment, "type": "file"}) for attachment in mappings(state.get("attachments"))]
    return [{"role": "tool", "tool_call_id": call_id, "content": as_content(parts)}]


def _signature(part: Mapping[str, Any]) -> dict[str, str]:
    signature = mapping(mapping(part.get("metadata")).get("anthropic")).get("signature")
    return {"signature": signature} if isinstance(signature, str) else {}


def _timestamp(info: Mapping[str, Any]) -> str | None:
    created = mapping(info.get("time")).get("created")
    return str(created) if isinstance(created, int | float) else None


_SELECT_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_SELECT_PARTS = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"


class OpencodeDatabase:
    """A database of opencode, whose rows hold the JSON of an export."""

    __slots__ = ("_database",)

    def __init__(self, database: ForeignDatabase) -> None:
        self._database = database

    @staticmethod
    def matches(database: ForeignDatabase) -> bool:
        """Whether the tables are those of opencode."""
        columns = ("id", "data", "time_created")
        return database.has("session", "id", "time_created") and all(
            database.has(*table, *columns) for table in (("message", "session_id"), ("part", "message_id"))
        )

    def sessions(self) -> list[Record]:
        """The rows of its sessions, oldest first, so that a parent precedes its children."""
        return list(self._database.rows("SELECT * FROM session ORDER BY time_created, id"))

    def entries(self, session: Record, metadata: SourceMetadata) -> Iterator[SourceEntry]:
        """The messages of one session."""
        info = {
            **session,
            "parentID": session.get("parent_id"),
            "revert": json_column(session.get("revert"), metadata.notices),
        }
        yield from _session_entries(info, self._messages(session["id"], metadata.notices), metadata)

    def _messages(self, session: str, notices: Notices) -> Iterator[Record]:
        for row in self._database.rows(_SELECT_MESSAGES, session):
            parts = [_decode_row(part, notices) for part in self._database.rows(_SELECT_PARTS, row["id"])]
            yield {"info": _decode_row(row, notices), "parts": parts}


def _decode_row(row: Record, notices: Notices) -> Record:
    value = json_column(row["data"], notices)
    return {**(value if isinstance(value, dict) else {}), "id": row["id"]}
