"""Session files of Gemini CLI: JSONL whose first line names the session, or one JSON document of the same shape.

A line is a message, which replaces an earlier one of its id; a `$set` of metadata, which may hold all messages anew; or
a `$rewindTo`, which takes back a message and everything after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clew.importers.blocks import AssistantMessageBuilder, as_text, chat_part, result_message, user_messages
from clew.importers.session import LineSource, Notices, Record, SourceEntry, SourceMetadata
from clew.messages import Message

_SPOKEN = ("user", "gemini")
"""The other types are notes to the person at the screen."""


class _MessagePlace(NamedTuple):
    """The index of the newest form of a message."""

    line: int
    position: int
    """Among the messages of that line."""


def is_gemini_cli(record: Record) -> bool:
    """Whether this line, or document, can only come from Gemini CLI."""
    return isinstance(record.get("sessionId"), str) and isinstance(record.get("projectHash"), str)


def gemini_cli_entries(read_lines: LineSource, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    """The messages that are in effect at the end of the file, in their order."""
    places = _places(read_lines, metadata)
    waiting = list(reversed(places))
    read: dict[str, tuple[Record, int]] = {}
    for line in read_lines(metadata.notices):
        _note_metadata(line.record, metadata)
        for index, message in enumerate(_messages_in(line.record)):
            if places.get(message["id"]) == (line.number, index):
                read[message["id"]] = message, line.number
        while waiting and waiting[-1] in read:
            yield from _entries(*read.pop(waiting.pop()))


def _places(read_lines: LineSource, metadata: SourceMetadata) -> dict[str, _MessagePlace]:
    places: dict[str, _MessagePlace] = {}
    taken_back = 0
    for line in read_lines(Notices()):
        record = line.record
        if isinstance(target := record.get("$rewindTo"), str):
            known = list(places)
            dropped = known[known.index(target) :] if target in places else known
            taken_back += len(dropped)
            for name in dropped:
                del places[name]
            continue
        if isinstance(_set_in(record).get("messages"), list):
            places.clear()
        for index, message in enumerate(_messages_in(record)):
            places[message["id"]] = _MessagePlace(line.number, index)
    if taken_back:
        metadata.notices.add(f"{taken_back} messages that were taken back are left out")
    return places


def _set_in(record: Record) -> Mapping[str, Any]:
    value = record.get("$set")
    return value if isinstance(value, Mapping) else {}


def _messages_in(record: Record) -> list[Record]:
    """The messages that a line holds: it is one, or it has a list of them."""
    if isinstance(record.get("id"), str) and "type" in record:
        return [record]
    listed = _set_in(record).get("messages") or (record.get("messages") if is_gemini_cli(record) else None)
    rows = listed if isinstance(listed, list) else []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]


def _entries(record: Record, line: int) -> Iterator[SourceEntry]:
    if record.get("type") not in _SPOKEN:
        return
    timestamp = record.get("timestamp") if isinstance(record.get("timestamp"), str) else None
    model = record.get("model") if isinstance(record.get("model"), str) else None
    usage = _usage(record.get("tokens"))
    for message in _user(record) if record["type"] == "user" else _reply(record):
        is_reply = message["role"] == "assistant"
        yield SourceEntry(message, line, timestamp, model if is_reply else None, usage if is_reply else None)


def _user(record: Record) -> list[Message]:
    content = record.get("content")
    return user_messages(content if isinstance(content, str) else [_block(part) for part in _parts(content)])


def _reply(record: Record) -> Iterator[Message]:
    """The reply, and the results of its calls, which the file keeps in it."""
    reply = AssistantMessageBuilder()
    for thought in record.get("thoughts") or ():
        if isinstance(thought, Mapping):
            text = " ".join(as_text(thought.get(key)) for key in ("subject", "description") if thought.get(key))
            reply.add_reasoning({"type": "thinking", "thinking": text})
    for part in _parts(record.get("content")):
        reply.add_text(as_text(part.get("text")))
    rows = record.get("toolCalls")
    calls = [call for call in rows if isinstance(call, Mapping)] if isinstance(rows, list) else []
    for call in calls:
        reply.add_call(as_text(call.get("id")), as_text(call.get("name")), call.get("args") or {})
    message = reply.message()
    if message is None:
        return
    yield message
    for call in calls:
        if call.get("result") is not None:
            yield result_message(call.get("id"), _output(call["result"]), call.get("status") == "error")


def _parts(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"text": content}]
    rows = content if isinstance(content, list) else [content]
    return [{"text": row} if isinstance(row, str) else row for row in rows if isinstance(row, str | Mapping)]


def _block(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of Gemini's wire as a block of the kind that other files have."""
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    data = part.get("inlineData")
    if isinstance(data, Mapping):
        return chat_part({"type": "image", "data": data.get("data"), "mimeType": data.get("mimeType")})
    return dict(part)


def _output(result: Any) -> str:
    """What a tool returned, as text."""
    texts = []
    for part in _parts(result):
        response = part.get("functionResponse")
        answer = response.get("response") if isinstance(response, Mapping) else None
        output = answer.get("output", answer.get("error")) if isinstance(answer, Mapping) else None
        texts.append(as_text(output if output is not None else answer if answer is not None else part.get("text")))
    return "\n".join(text for text in texts if text)


def _usage(tokens: Any) -> Mapping[str, Any] | None:
    if not isinstance(tokens, Mapping):
        return None
    return {
        "promptTokenCount": tokens.get("input"),
        "candidatesTokenCount": tokens.get("output"),
        "cachedContentTokenCount": tokens.get("cached"),
        "thoughtsTokenCount": tokens.get("thoughts"),
        "totalTokenCount": tokens.get("total"),
    }


def _note_metadata(record: Record, metadata: SourceMetadata) -> None:
    if is_gemini_cli(record):
        metadata.session = record["sessionId"]
    for source in (record, _set_in(record)):
        if isinstance(source.get("summary"), str) and "type" not in source:
            metadata.title = source["summary"]
