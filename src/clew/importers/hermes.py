"""Sessions of Hermes Agent, in the five shapes it writes.

A snapshot or a saved conversation: one JSON object with `messages`. An export: JSONL with one such session a line.
A gateway log: JSONL of messages behind a line of role `session_meta`. A trajectory: JSONL of training samples, whose
calls and results are XML in text. And its database, `state.db`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from clew.facts import tagged_blocks, without_blocks
from clew.importers.blocks import AssistantMessageBuilder, as_text
from clew.importers.database import ForeignDatabase, json_column
from clew.importers.session import (
    COMPACTED_NOTICE,
    LineSource,
    Record,
    SourceEntry,
    SourceMetadata,
    SourceUsage,
    mappings,
    optional_text,
)
from clew.messages import Message, calls_of, text_of

_SESSION_FIELDS = ("session_start", "system_prompt", "last_updated", "lineage_session_ids", "model_config")
_MESSAGE_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "reasoning_details")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_CALL_TAG, _RESULT_TAG, _THINK_TAG = map(re.compile, ("<(tool_call)>", "<(tool_response)>", "<(think)>"))
# A summary may be merged into the message behind it, whose own text then precedes this line.
_MERGED = "[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]"
_SUMMARY_OPENINGS = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:", "[Clew handoff]")
_ROLE_OF_SPEAKER = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}


def is_hermes(record: Record) -> bool:
    """Whether this object is a session of Hermes, or the first line of one."""
    if record.get("role") == "session_meta" or isinstance(record.get("conversations"), list):
        return True
    return isinstance(record.get("messages"), list) and any(name in record for name in _SESSION_FIELDS)


def hermes_entries(read_lines: LineSource, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    """Entries of a JSONL file: the messages of a gateway log, or those of the newest session of an export."""
    sessions = 0
    newest: tuple[float, int, Record] | None = None
    for line in read_lines(metadata.notices):
        record = line.record
        if record.get("role") == "session_meta":
            _note_metadata(record, metadata)
        elif "role" in record:
            if (message := _clean_message(record)) is not None:
                yield SourceEntry(message, line.number, timestamp=_timestamp_of(record))
        else:
            sessions += 1
            ranked = (_started(record), line.number, record)
            newest = ranked if newest is None or ranked[:2] > newest[:2] else newest
    if newest is None:
        return
    if sessions > 1:
        metadata.notices.add(f"the file holds {sessions} sessions; this is the newest, on line {newest[1]}")
    yield from hermes_document(newest[2], metadata)


def hermes_document(document: Record, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    """Entries of one session object."""
    _note_metadata(document, metadata)
    turns = document.get("conversations")
    if isinstance(turns, list):
        yield from _trajectory(turns)
        return
    listed = document.get("messages")
    for number, record in enumerate(listed if isinstance(listed, list) else (), 1):
        if isinstance(record, Mapping) and (message := _clean_message(record)) is not None:
            yield SourceEntry(message, number, timestamp=_timestamp_of(record))


def _note_metadata(record: Mapping[str, Any], metadata: SourceMetadata) -> None:
    metadata.note(record, model="model", system="system_prompt", title="title", directory="cwd")
    metadata.note(record, session="session_id" if record.get("session_id") else "id", parent="parent_session_id")
    if isinstance(tools := record.get("tools"), list):
        metadata.tools = [dict(tool) for tool in mappings(tools)]


def _clean_message(record: Mapping[str, Any]) -> Message | None:
    """The message of a record, without the other columns of its table; None for one that the user took back."""
    role = record.get("role")
    if role not in _ROLES or (record.get("active") == 0 and not record.get("compacted")):
        return None
    message: Message = {"role": role, "content": None}
    for name in _MESSAGE_FIELDS:
        if record.get(name) is not None:
            message[name] = record[name]  # type: ignore[literal-required]
    # Where there is plain reasoning only, the chat wire's own field for it is `reasoning_content`.
    if (reasoning := optional_text(record.get("reasoning"))) and "reasoning_content" not in message:
        message["reasoning_content"] = reasoning  # type: ignore[typeddict-unknown-key]
    if role == "tool" and "name" not in message and isinstance(record.get("tool_name"), str):
        message["name"] = record["tool_name"]
    return message


def _trajectory(turns: list[Any]) -> Iterator[SourceEntry]:
    call_count = 0
    open_calls: list[str] = []
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, Mapping):
            continue
        speaker, value = as_text(turn.get("from")), as_text(turn.get("value"))
        if speaker == "tool":
            for message in _results(value, open_calls):
                yield SourceEntry(message, number)
        elif _ROLE_OF_SPEAKER.get(speaker) == "assistant":
            reply, open_calls = _reply(value, call_count)
            call_count += len(open_calls)
            if (reply_message := reply.message()) is not None:
                yield SourceEntry(reply_message, number)
        elif speaker in _ROLE_OF_SPEAKER:
            role = "system" if speaker == "system" else "user"
            yield SourceEntry({"role": role, "content": value}, number)  # type: ignore[typeddict-item]


def _reply(value: str, call_count: int) -> tuple[AssistantMessageBuilder, list[str]]:
    """A reply out of its XML; calls have no ids there, so they are numbered."""
    reply = AssistantMessageBuilder()
    ids: list[str] = []
    for thought in _inside(_THINK_TAG, value):
        if thought:
            reply.add_reasoning({"type": "thinking", "thinking": thought})
    for found in _inside(_CALL_TAG, value):
        call = _parse_object(found)
        ids.append(f"call_{call_count + len(ids) + 1}")
        if call is None:
            reply.add_call(ids[-1], "unknown", found)
        else:
            reply.add_call(ids[-1], as_text(call.get("name")), call.get("arguments") or {})
    rest = without_blocks(value, tagged_blocks(value, _THINK_TAG))
    reply.add_text(without_blocks(rest, tagged_blocks(rest, _CALL_TAG)).strip())
    return reply, ids


def _inside(opening: re.Pattern[str], text: str) -> list[str]:
    """The texts between each opening tag and its closing tag."""
    return [text[block.inside : block.inside_stop].strip() for block in tagged_blocks(text, opening)]


def _results(value: str, open_calls: list[str]) -> list[Message]:
    results: list[Message] = []
    for position, found in enumerate(_inside(_RESULT_TAG, value)):
        result = _parse_object(found)
        content = result.get("content", "") if result is not None else found
        # Results are in the order of the calls, and get the ids that the calls were given.
        own_id = as_text(result.get("tool_call_id")) if result is not None else ""
        call_id = open_calls[position] if position < len(open_calls) else own_id
        results.append({"role": "tool", "tool_call_id": call_id, "content": as_text(content)})
    return results


def _parse_object(text: str) -> Record | None:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _started(record: Mapping[str, Any]) -> float:
    started = record.get("started_at")
    return float(started) if isinstance(started, int | float) else 0.0


def _timestamp_of(record: Mapping[str, Any]) -> str | None:
    stamp = record.get("timestamp")
    return str(stamp) if isinstance(stamp, str | int | float) else None


_STRUCTURED = "\x00json:"
"""What Hermes writes before content that is not plain text."""
_JSON_COLUMNS = ("tool_calls", "reasoning_details", "codex_reasoning_items")
_USAGE_COLUMNS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class HermesDatabase:
    """A database of Hermes.

    A session that was compacted in place keeps its old rows, marked, and holds copies of those that stayed in view. The
    copies are left out, so that each message is read once and in order; the summary lists them as kept. Rows
    that the user took back are left out, too.
    """

    __slots__ = ("_database",)

    def __init__(self, database: ForeignDatabase) -> None:
        self._database = database

    @staticmethod
    def matches(database: ForeignDatabase) -> bool:
        """Whether the tables are those of Hermes."""
        return database.has("sessions", "id", "started_at") and database.has(
            "messages", "session_id", "role", "content"
        )

    def sessions(self) -> list[Record]:
        """The rows of its sessions, oldest first, so that a parent precedes its children."""
        return list(self._database.rows("SELECT * FROM sessions ORDER BY started_at, rowid"))

    def entries(self, session: Record, metadata: SourceMetadata) -> Iterator[SourceEntry]:
        """The messages of one session."""
        _note_metadata(session, metadata)
        metadata.parent_relation = "branch" if self._continues(session) else "subagent"
        metadata.usage[:] = self._model_usage(session)
        rows = self._database.rows("SELECT * FROM messages WHERE session_id = ? ORDER BY id", session["id"])
        yield from self._read_rows(rows, metadata)

    def _read_rows(self, rows: Iterator[Record], metadata: SourceMetadata) -> Iterator[SourceEntry]:
        archived: set[bytes] = set()
        copies: dict[bytes, Message] = {}
        summary: SourceEntry | None = None
        for number, row in enumerate(rows, 1):
            message = _clean_message(_decode_row(row, metadata))
            if message is None:
                continue
            is_summary = bool(archived) and _is_summary(message)
            if is_summary:
                message.pop("tool_calls", None)  # of the message that it was merged into, which has been read
            calls = [str(call.get("id")) for call in calls_of(message) if isinstance(call, Mapping)]
            key = _row_key(row, calls, by_text=is_summary)
            is_copy = key in archived
            if summary is not None and (not is_copy or key in copies):
                yield replace(summary, kept=tuple(copies.values()))
                summary, copies = None, {}
            if is_copy:
                copies[key] = message
                continue
            if not is_summary:
                copies = {}
            if row.get("compacted"):
                if not archived:
                    metadata.notices.add(COMPACTED_NOTICE)
                archived.add(key)
            items = row.get("codex_reasoning_items")
            if isinstance(items, list) and message["role"] == "assistant":
                message["reasoning"] = [item for item in items if isinstance(item, dict)]
            entry = SourceEntry(message, number, _timestamp_of(row), is_summary=is_summary)
            if is_summary:
                summary = entry  # copies of what stayed may follow
            else:
                yield entry
        if summary is not None:
            yield replace(summary, kept=tuple(copies.values()))

    def _continues(self, session: Record) -> bool:
        """Whether its parent had ended in a compaction; the parent of a subagent continues."""
        found = self._database.rows(
            "SELECT 1 AS found FROM sessions WHERE id = ? AND end_reason = 'compression' AND ended_at <= ?",
            session.get("parent_session_id"),
            session.get("started_at"),
        )
        return any(found)

    def _model_usage(self, session: Record) -> Iterator[SourceUsage]:
        for row in self._usage_rows(session):
            usage = {name: row.get(name) for name in _USAGE_COLUMNS}
            if any(usage.values()):
                time = row.get("last_seen") or session.get("ended_at") or session.get("started_at")
                model = row.get("model") or session.get("model")
                yield SourceUsage(model if isinstance(model, str) else "", usage, None if time is None else str(time))

    def _usage_rows(self, session: Record) -> list[Record]:
        """The rows that hold usage: per model, where this version of Hermes counts so."""
        if not self._database.has("session_model_usage", "session_id", "model"):
            return [session]
        rows = self._database.rows("SELECT * FROM session_model_usage WHERE session_id = ?", session["id"])
        return list(rows) or [session]


def _decode_row(row: Record, metadata: SourceMetadata) -> Record:
    """The row with its JSON columns parsed."""
    content = row.get("content")
    if isinstance(content, str) and content.startswith(_STRUCTURED):
        row["content"] = json_column(content[len(_STRUCTURED) :], metadata.notices)
    for name in _JSON_COLUMNS:
        row[name] = json_column(row.get(name), metadata.notices)
    return row


def _is_summary(message: Message) -> bool:
    return text_of(message).rpartition(_MERGED)[2].lstrip().startswith(_SUMMARY_OPENINGS)


def _row_key(row: Record, calls: list[str], *, by_text: bool) -> bytes:
    """A key that a row and its copy behind a compaction share.

    The copy keeps the time. The text of calls and results may have been shortened, but their ids stay.
    """
    answered = row.get("tool_call_id")
    content = [answered, *calls] if (answered or calls) and not by_text else row.get("content")
    text = json.dumps([row.get("timestamp"), row.get("role"), content], default=str)
    return blake2b(text.encode(), digest_size=12).digest()
