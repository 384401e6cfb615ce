"""Sessions of Hermes Agent, in the four shapes it writes.

A snapshot or a saved conversation: one JSON object with `messages`. An export: JSONL with one such session a line.
A gateway log: JSONL of messages behind a line of role `session_meta`. A trajectory: JSONL of training samples, whose
calls and results are XML in text. Its database is read by `hermes_database`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from clew.importers.blocks import Reply, as_text
from clew.importers.entries import Entry, Margin, Pages
from clew.importers.records import Record
from clew.messages import Message

_SESSION_SIGNS = ("session_start", "system_prompt", "last_updated", "lineage_session_ids", "model_config")
_KEPT = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content", "reasoning_details")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_RESULT = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)
_THOUGHT = re.compile(r"<think>\s*(.*?)\s*</think>\s*", re.DOTALL)
_SPEAKERS = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}


def is_hermes(record: Record) -> bool:
    """Whether this object is a session of Hermes, whole or its first line."""
    if record.get("role") == "session_meta" or isinstance(record.get("conversations"), list):
        return True
    return isinstance(record.get("messages"), list) and any(sign in record for sign in _SESSION_SIGNS)


def hermes_entries(pages: Pages, margin: Margin) -> Iterator[Entry]:
    """Entries of a JSONL file: the messages of a gateway log, or those of the newest session of an export."""
    sessions = 0
    newest: tuple[float, int, Record] | None = None
    for line in pages(margin.notices):
        record = line.record
        if record.get("role") == "session_meta":
            note_margin(record, margin)
        elif "role" in record:
            if (message := tidied(record)) is not None:
                yield Entry(message, line.number, at=at_of(record))
        else:
            sessions += 1
            ranked = (_started(record), line.number, record)
            newest = ranked if newest is None or ranked[:2] > newest[:2] else newest
    if newest is None:
        return
    if sessions > 1:
        margin.notices.add(f"the file holds {sessions} sessions; this is the newest, on line {newest[1]}")
    yield from hermes_document(newest[2], margin)


def hermes_document(document: Record, margin: Margin) -> Iterator[Entry]:
    """Entries of one session object."""
    note_margin(document, margin)
    spoken = document.get("conversations")
    if isinstance(spoken, list):
        yield from _trajectory(spoken)
        return
    for number, record in enumerate(document.get("messages") or (), 1):
        if isinstance(record, Mapping) and (message := tidied(record)) is not None:
            yield Entry(message, number, at=at_of(record))


def note_margin(record: Mapping[str, Any], margin: Margin) -> None:
    margin.model = as_text(record.get("model")) or margin.model
    margin.system = as_text(record.get("system_prompt")) or margin.system
    margin.session = as_text(record.get("session_id") or record.get("id")) or margin.session
    margin.title = as_text(record.get("title")) or margin.title
    margin.directory = as_text(record.get("cwd")) or margin.directory
    margin.parent = as_text(record.get("parent_session_id")) or margin.parent
    tools = record.get("tools")
    if isinstance(tools, list):
        margin.tools[:] = [tool for tool in tools if isinstance(tool, dict)]


def tidied(record: Mapping[str, Any]) -> Message | None:
    """The message without the columns of the table it was stored in."""
    role = record.get("role")
    if role not in _ROLES or (record.get("active") == 0 and not record.get("compacted")):
        return None
    message: Message = {"role": role, "content": None}
    for name in _KEPT:
        if record.get(name) is not None:
            message[name] = record[name]  # type: ignore[literal-required]
    # Where there is plain reasoning only, the chat wire's own field for it is `reasoning_content`.
    told = record.get("reasoning")
    if isinstance(told, str) and told and "reasoning_content" not in message:
        message["reasoning_content"] = told  # type: ignore[typeddict-unknown-key]
    if role == "tool" and "name" not in message and isinstance(record.get("tool_name"), str):
        message["name"] = record["tool_name"]
    return message


def _trajectory(spoken: list[Any]) -> Iterator[Entry]:
    made = 0
    waiting: list[str] = []
    for number, turn in enumerate(spoken, 1):
        if not isinstance(turn, Mapping):
            continue
        speaker, value = as_text(turn.get("from")), as_text(turn.get("value"))
        if speaker == "tool":
            for message in _results(value, waiting):
                yield Entry(message, number)
        elif _SPEAKERS.get(speaker) == "assistant":
            reply, waiting = _reply(value, made)
            made += len(waiting)
            if (said := reply.message()) is not None:
                yield Entry(said, number)
        elif speaker in _SPEAKERS:
            role = "system" if speaker == "system" else "user"
            yield Entry({"role": role, "content": value}, number)  # type: ignore[typeddict-item]


def _reply(value: str, made: int) -> tuple[Reply, list[str]]:
    """A reply out of its XML; a sample keeps no ids on its calls, so they are numbered."""
    reply = Reply()
    ids: list[str] = []
    for thought in _THOUGHT.findall(value):
        if thought:
            reply.add_reasoning({"type": "thinking", "thinking": thought})
    for found in _CALL.findall(value):
        call = _object(found)
        ids.append(f"call_{made + len(ids) + 1}")
        if call is None:
            reply.add_call(ids[-1], "unknown", found)
        else:
            reply.add_call(ids[-1], as_text(call.get("name")), call.get("arguments") or {})
    reply.add_text(_CALL.sub("", _THOUGHT.sub("", value)).strip())
    return reply, ids


def _results(value: str, waiting: list[str]) -> list[Message]:
    results: list[Message] = []
    for position, found in enumerate(_RESULT.findall(value)):
        held = _object(found)
        content = held.get("content", "") if held is not None else found
        # Results stand in the order of the calls; theirs are the ids that the calls were given.
        given = as_text(held.get("tool_call_id")) if held is not None else ""
        call_id = waiting[position] if position < len(waiting) else given
        results.append({"role": "tool", "tool_call_id": call_id, "content": as_text(content)})
    return results


def _object(text: str) -> Record | None:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _started(record: Mapping[str, Any]) -> float:
    started = record.get("started_at")
    return float(started) if isinstance(started, int | float) else 0.0


def at_of(record: Mapping[str, Any]) -> str | None:
    stamp = record.get("timestamp")
    return str(stamp) if isinstance(stamp, str | int | float) else None
