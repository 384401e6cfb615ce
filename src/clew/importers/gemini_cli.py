"""Session files of Gemini CLI: JSONL whose first line names the session, or one JSON document of the same shape.

A line is a message, which replaces an earlier one of its id; a `$set` of metadata, which may hold all messages anew; or
a `$rewindTo`, which takes back a message and everything after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clew.importers.blocks import AssistantMessageBuilder, as_text, result_message, user_messages
from clew.importers.session import (
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
from clew.messages import Message

_SPOKEN = ("user", "gemini")
"""The other types are notes to the person at the screen."""
_USAGE = {
    "promptTokenCount": "input",
    "candidatesTokenCount": "output",
    "cachedContentTokenCount": "cached",
    "thoughtsTokenCount": "thoughts",
    "totalTokenCount": "total",
}
"""The fields of Gemini's wire by their names in the file."""


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
    read: dict[str, tuple[Mapping[str, Any], int]] = {}
    for line in read_lines(metadata.notices):
        _note_metadata(line.record, metadata)
        for index, message in enumerate(_messages_in(line.record)):
            if places.get(message["id"]) == (line.number, index):
                read[message["id"]] = message, line.number
        while waiting and waiting[-1] in read:
            yield from _entries(*read.pop(waiting.pop()))


def gemini_cli_document(document: Record, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    """The messages of one JSON document."""
    return gemini_cli_entries(lambda _: iter([JsonLine(1, document)]), metadata)


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
        if isinstance(mapping(record.get("$set")).get("messages"), list):
            places.clear()
        for index, message in enumerate(_messages_in(record)):
            places[message["id"]] = _MessagePlace(line.number, index)
    if taken_back:
        metadata.notices.add(f"{taken_back} messages that were taken back are left out")
    return places


def _messages_in(record: Record) -> list[Mapping[str, Any]]:
    """The messages that a line holds: it is one, or it has a list of them."""
    if isinstance(record.get("id"), str) and "type" in record:
        return [record]
    listed = mapping(record.get("$set")).get("messages") or (record.get("messages") if is_gemini_cli(record) else None)
    return [row for row in mappings(listed) if isinstance(row.get("id"), str)]


def _entries(record: Mapping[str, Any], line: int) -> Iterator[SourceEntry]:
    if record.get("type") not in _SPOKEN:
        return
    timestamp, model = optional_text(record.get("timestamp")), optional_text(record.get("model"))
    tokens = record.get("tokens")
    usage = {name: tokens.get(field) for name, field in _USAGE.items()} if isinstance(tokens, Mapping) else None
    for message in _user(record) if record["type"] == "user" else _reply(record):
        is_reply = message["role"] == "assistant"
        yield SourceEntry(message, line, timestamp, model if is_reply else None, usage if is_reply else None)


def _user(record: Mapping[str, Any]) -> list[Message]:
    content = record.get("content")
    return user_messages(content if isinstance(content, str) else [_block(part) for part in _parts(content)])


def _reply(record: Mapping[str, Any]) -> Iterator[Message]:
    """The reply, and the results of its calls, which the file keeps in it."""
    reply = AssistantMessageBuilder()
    for thought in mappings(record.get("thoughts")):
        text = " ".join(as_text(thought.get(key)) for key in ("subject", "description") if thought.get(key))
        reply.add_reasoning({"type": "thinking", "thinking": text})
    for part in _parts(record.get("content")):
        reply.add_text(as_text(part.get("text")))
    calls = mappings(record.get("toolCalls"))
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
    data = mapping(part.get("inlineData"))
    return {"type": "image", "data": data.get("data"), "mimeType": data.get("mimeType")} if data else dict(part)


def _output(result: Any) -> str:
    """What a tool returned, as text."""
    texts = []
    for part in _parts(result):
        answer = mapping(part.get("functionResponse")).get("response")
        output = answer.get("output", answer.get("error")) if isinstance(answer, Mapping) else None
        texts.append(as_text(output if output is not None else answer if answer is not None else part.get("text")))
    return "\n".join(text for text in texts if text)


def _note_metadata(record: Record, metadata: SourceMetadata) -> None:
    if is_gemini_cli(record):
        metadata.session = record["sessionId"]
    for source in (record, mapping(record.get("$set"))):
        if "type" not in source:
            metadata.note(source, title="summary")
