"""Detecting what a source holds, by content alone: a program's session file, or a plain conversation.

A plain conversation is a list of messages, a request that holds one, or JSONL of messages. The dialects of
`clew.messages` read and check it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, cast

from clew.errors import InvalidArgument, InvalidMessage, UnreadableTranscript
from clew.importers.claude_code import claude_code_entries, is_claude_code
from clew.importers.codex import codex_entries, is_codex
from clew.importers.database import SQLITE_MAGIC
from clew.importers.gemini_cli import gemini_cli_document, gemini_cli_entries, is_gemini_cli
from clew.importers.hermes import hermes_document, hermes_entries, is_hermes
from clew.importers.json_records import BadJson, json_lines, parse_json
from clew.importers.opencode import is_opencode, is_opencode_session, opencode_entries, storage_document
from clew.importers.pi import is_pi, pi_entries
from clew.importers.session import (
    BadJsonLine,
    JsonLine,
    LineReader,
    Notices,
    Record,
    SourceEntry,
    SourceMetadata,
    SourceSession,
)
from clew.importers.source import ByteSource
from clew.messages import Message, detect_dialect, read_conversation

EXPECTED = (
    "Give a JSON list of messages, a JSON object with `messages`, JSONL with one message a line, "
    "or a session file of Claude Code, Codex, Gemini CLI, opencode, Hermes or pi"
)
_LINES_CHECKED = 50
_OTHER_FORMATS = ((SQLITE_MAGIC, "is a database"), (b"PK\x03\x04", "is a zip file"), (b"<", "is HTML or XML"))

_LINE_KINDS: tuple[tuple[str, Callable[[Record], bool], LineReader], ...] = (
    ("claude_code", is_claude_code, claude_code_entries),
    ("codex", is_codex, codex_entries),
    ("gemini_cli", is_gemini_cli, gemini_cli_entries),
    ("pi", is_pi, pi_entries),
    ("hermes", is_hermes, hermes_entries),
)
_DOCUMENT_KINDS: tuple[
    tuple[str, Callable[[Record], bool], Callable[[Record, SourceMetadata], Iterator[SourceEntry]]], ...
] = (
    ("opencode", is_opencode, opencode_entries),
    ("hermes", is_hermes, hermes_document),
    ("gemini_cli", is_gemini_cli, gemini_cli_document),
)


def detect_session(source: ByteSource, by_line: bool = False) -> SourceSession:
    """The session in a source; raises `UnreadableTranscript` where there is none.

    With `by_line`, plain JSONL of chat messages is read line by line, where it is else read at once.
    """
    metadata = SourceMetadata()
    opening = first_bytes(source)
    if opening.startswith(b"["):
        return _from_document(source, metadata)
    if not opening.startswith(b"{"):
        raise _not_a_transcript(source, opening)
    first, *second = islice(json_lines(source, Notices()), 2)
    if isinstance(first, JsonLine):
        return _from_lines(source, metadata, by_line) if second else _from_object(source, first.record, metadata)
    try:
        return _from_document(source, metadata)
    except UnreadableTranscript:
        if second and isinstance(second[0], JsonLine):
            return _from_lines(source, metadata, by_line)
        raise


def first_bytes(source: ByteSource) -> bytes:
    """The first bytes that are not blank."""
    for chunk in source.chunks(Notices()):
        if opening := chunk.lstrip(b" \t\r\n\0"):
            return opening[:64]
    raise source.unreadable("is empty", EXPECTED)


def _not_a_transcript(source: ByteSource, opening: bytes) -> UnreadableTranscript:
    for magic, what in _OTHER_FORMATS:
        if opening.startswith(magic):
            return source.unreadable(f"{what}, not a transcript", EXPECTED)
    shown = opening[:20].decode("utf-8", "backslashreplace")
    return source.unreadable(f"holds no JSON object or list: it starts with {shown!r}", EXPECTED)


def _from_document(source: ByteSource, metadata: SourceMetadata) -> SourceSession:
    raw = source.document(metadata.notices)
    try:
        value = parse_json(raw, source.limits.depth, metadata.notices)
    except BadJson as bad:
        raise source.unreadable(f"is no JSON: {bad}", "Check that the file is complete. " + EXPECTED) from bad
    if isinstance(value, list):
        return plain_session(source, "json", value, metadata)
    return _from_object(source, value, metadata)


def _from_object(source: ByteSource, document: Record, metadata: SourceMetadata) -> SourceSession:
    """A session of one JSON object; an object that is one message is JSONL of one line."""
    if is_opencode_session(document) and source.path is not None:
        document = storage_document(source.path, document, source.limits.depth, metadata.notices)
    if (session := document_session(source.name, document, metadata)) is not None:
        return session
    request = _request_in(document)
    if request is not None:
        return plain_session(source, "json", request, metadata)
    if _is_message(document) or any(is_kind(document) for _, is_kind, _ in _LINE_KINDS):
        return _from_lines(source, metadata)
    seen = ", ".join(map(repr, list(document)[:6])) or "nothing"
    raise source.unreadable(f"is a JSON object without `messages` (it has {seen})", EXPECTED)


def document_session(name: str, document: Record, metadata: SourceMetadata) -> SourceSession | None:
    """The session in a document of one of the programs; None for any other document."""
    for kind, is_kind, read in _DOCUMENT_KINDS:
        if "role" not in document and is_kind(document):
            return SourceSession(name, kind, metadata, partial(read, document, metadata))
    return None


def _from_lines(source: ByteSource, metadata: SourceMetadata, by_line: bool = False) -> SourceSession:
    for line in islice(json_lines(source, Notices()), _LINES_CHECKED):
        for kind, is_kind, read in _LINE_KINDS:
            if isinstance(line, JsonLine) and is_kind(line.record):
                return SourceSession(source.name, kind, metadata, partial(read, partial(_good_lines, source), metadata))
    if by_line and _is_chat(source):
        return SourceSession(source.name, "jsonl", metadata, partial(_chat_entries, source, metadata))
    return plain_session(source, "jsonl", list(_message_lines(source, metadata)), metadata)


def _is_chat(source: ByteSource) -> bool:
    """Whether every message is in the one dialect in which a message is a line by itself."""
    records = (line.record for line in json_lines(source, Notices()) if isinstance(line, JsonLine))
    return all(detect_dialect([record]) == "openai_chat" for record in records)


def _chat_entries(source: ByteSource, metadata: SourceMetadata) -> Iterator[SourceEntry]:
    for number, record in enumerate(_message_lines(source, metadata), 1):
        yield SourceEntry(cast(Message, record), number)


def _good_lines(source: ByteSource, notices: Notices) -> Iterator[JsonLine]:
    """The lines of a program's session file; bad ones are left out while they are the fewer."""
    good = bad = 0
    first: BadJsonLine | None = None
    for line in json_lines(source, notices):
        if isinstance(line, JsonLine):
            good += 1
            yield line
            continue
        first, bad = first or line, bad + 1
        what = "the last line is cut off, as a crash leaves it, and was" if line.is_last else "broken lines were"
        notices.add(f"{what} left out", line.number)
    if first is not None and bad > good:
        raise source.unreadable(
            f"{bad} of {good + bad} lines are no JSON objects; line {first.number}: {first.problem}",
            "Get the file again from the program that wrote it",
        )


def _message_lines(source: ByteSource, metadata: SourceMetadata) -> Iterator[Record]:
    """The lines of a plain JSONL file; each is a message, so that a bad one cannot be left out."""
    is_first = True
    for line in json_lines(source, metadata.notices):
        if isinstance(line, BadJsonLine):
            if line.is_last and line.is_cut and not is_first:
                metadata.notices.add("the last line is cut off, as a crash leaves it, and was left out", line.number)
                continue
            raise source.unreadable(f"line {line.number}: {line.problem}", "Correct or remove that line")
        if not _is_message(line.record):
            what = "is a whole conversation" if "messages" in line.record else "has no role"
            raise source.unreadable(
                f"line {line.number} {what} and not one message (it has {', '.join(map(repr, list(line.record)[:4]))})",
                "Put each conversation in a separate file" if "messages" in line.record else EXPECTED,
            )
        is_first = False
        yield line.record


def plain_session(
    source: ByteSource, kind: str, wire: list[Any] | Record, metadata: SourceMetadata, name: str | None = None
) -> SourceSession:
    """A session of a conversation in one of the dialects; a request has its own system prompt, tools and model."""
    if isinstance(wire, dict) and isinstance(wire.get("model"), str):
        metadata.model = wire["model"]
    try:
        return SourceSession(name or source.name, kind, metadata, read_conversation(wire))
    except InvalidMessage as error:
        raise source.unreadable(f"message {error.index}: {error.problem}", EXPECTED) from error
    except InvalidArgument as error:
        raise source.unreadable(str(error).removesuffix(f"; {error.remedy}"), EXPECTED) from error


_LIST_FIELDS = ("messages", "input", "contents")


def _is_message(record: Mapping[str, Any]) -> bool:
    """Whether an object can be a message of one of the dialects."""
    if isinstance(record.get("role"), str) or isinstance(record.get("parts"), list):
        return True
    # Items of the Responses wire without a role: calls, their outputs, reasoning.
    kind = record.get("type")
    return isinstance(kind, str) and (kind.endswith(("_call", "_call_output")) or kind in ("reasoning", "message"))


def _request_in(document: Record) -> Record | None:
    """The request in a document: the document itself, or what a request log wrapped around it."""
    for candidate in (document, document.get("body"), document.get("request")):
        if isinstance(candidate, dict):
            if _list_field_of(candidate):
                return candidate
            inner = candidate.get("body")
            if isinstance(inner, dict) and _list_field_of(inner):
                return inner
    return None


def _list_field_of(request: Record) -> str | None:
    """The field of a request that has its messages."""
    return next((name for name in _LIST_FIELDS if name in request), None)
