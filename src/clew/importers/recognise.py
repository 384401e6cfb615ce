"""Recognising what a source holds, by content alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, cast

from clew.errors import InvalidArgument, InvalidMessage, UnreadableTranscript
from clew.importers.claude_code import claude_code_entries, is_claude_code
from clew.importers.codex import codex_entries, is_codex
from clew.importers.databases import SIGN
from clew.importers.entries import Entry, LineReader, Margin
from clew.importers.hermes import hermes_document, hermes_entries, is_hermes
from clew.importers.notices import Notices
from clew.importers.opencode import is_opencode, is_opencode_session, opencode_entries, storage_document
from clew.importers.pi import is_pi, pi_entries
from clew.importers.plain import is_message, problem_with, request_in
from clew.importers.records import BadJson, BadLine, Line, Record, lines_of, parsed
from clew.importers.session import Session
from clew.importers.source import Source
from clew.messages import Message, detect_dialect, read_conversation

EXPECTED = (
    "Give a JSON list of messages, a JSON object with `messages`, JSONL with one message a line, "
    "or a session file of Claude Code, Codex, opencode, Hermes or pi"
)
_LINES_LOOKED_AT = 50
_OTHER_FILES = ((SIGN, "is a database"), (b"PK\x03\x04", "is a zip file"), (b"<", "is HTML or XML"))

_LINE_KINDS: tuple[tuple[str, Callable[[Record], bool], LineReader], ...] = (
    ("claude_code", is_claude_code, claude_code_entries),
    ("codex", is_codex, codex_entries),
    ("pi", is_pi, pi_entries),
    ("hermes", is_hermes, hermes_entries),
)


def recognised(source: Source, by_line: bool = False) -> Session:
    margin = Margin()
    opening = opening_of(source)
    if opening.startswith(b"["):
        return _whole_document(source, margin)
    if not opening.startswith(b"{"):
        raise _no_transcript(source, opening)
    first, *second = islice(lines_of(source, Notices()), 2)
    if isinstance(first, Line):
        return _from_lines(source, margin, by_line) if second else _from_object(source, first.record, margin)
    try:
        return _whole_document(source, margin)
    except UnreadableTranscript:
        if second and isinstance(second[0], Line):
            return _from_lines(source, margin, by_line)
        raise


def opening_of(source: Source) -> bytes:
    """The first bytes that are not blank."""
    for chunk in source.chunks(Notices()):
        if opening := chunk.lstrip(b" \t\r\n\0"):
            return opening[:64]
    raise source.unreadable("is empty", EXPECTED)


def _no_transcript(source: Source, opening: bytes) -> UnreadableTranscript:
    for sign, what in _OTHER_FILES:
        if opening.startswith(sign):
            return source.unreadable(f"{what}, not a transcript", EXPECTED)
    shown = opening[:20].decode("utf-8", "backslashreplace")
    return source.unreadable(f"holds no JSON object or list: it starts with {shown!r}", EXPECTED)


def _whole_document(source: Source, margin: Margin) -> Session:
    raw = source.document(margin.notices)
    try:
        value = parsed(raw, source.limits.depth, margin.notices)
    except BadJson as bad:
        raise source.unreadable(f"is no JSON: {bad}", "Check that the file is complete. " + EXPECTED) from bad
    if isinstance(value, list):
        return plain_session(source, "json", value, margin)
    return _from_object(source, value, margin)


def _from_object(source: Source, document: Record, margin: Margin) -> Session:
    """A session of one JSON object; an object that is one message is JSONL of one line."""
    if is_opencode_session(document) and source.path is not None:
        document = storage_document(source.path, document, source.limits.depth, margin.notices)
    if is_opencode(document):
        return Session(source.name, "opencode", margin, partial(opencode_entries, document, margin))
    if is_hermes(document) and "role" not in document:
        return Session(source.name, "hermes", margin, partial(hermes_document, document, margin))
    request = request_in(document)
    if request is not None:
        return plain_session(source, "json", request, margin)
    if is_message(document) or any(is_kind(document) for _, is_kind, _ in _LINE_KINDS):
        return _from_lines(source, margin)
    seen = ", ".join(map(repr, list(document)[:6])) or "nothing"
    raise source.unreadable(f"is a JSON object without `messages` (it has {seen})", EXPECTED)


def _from_lines(source: Source, margin: Margin, by_line: bool = False) -> Session:
    for line in islice(lines_of(source, Notices()), _LINES_LOOKED_AT):
        for kind, is_kind, read in _LINE_KINDS:
            if isinstance(line, Line) and is_kind(line.record):
                return Session(source.name, kind, margin, partial(read, partial(_good_lines, source), margin))
    if by_line and _is_chat(source):
        return Session(source.name, "jsonl", margin, partial(_chat_entries, source, margin))
    return plain_session(source, "jsonl", list(_message_lines(source, margin)), margin)


def _is_chat(source: Source) -> bool:
    """Whether every message is in the one dialect in which a message is a line by itself."""
    records = (line.record for line in lines_of(source, Notices()) if isinstance(line, Line))
    return all(detect_dialect([record]) == "openai_chat" for record in records)


def _chat_entries(source: Source, margin: Margin) -> Iterator[Entry]:
    for number, record in enumerate(_message_lines(source, margin), 1):
        yield Entry(cast(Message, record), number)


def _good_lines(source: Source, notices: Notices) -> Iterator[Line]:
    """The lines of a program's session file; bad ones are passed over while they are the fewer."""
    good = bad = 0
    first: BadLine | None = None
    for line in lines_of(source, notices):
        if isinstance(line, Line):
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


def _message_lines(source: Source, margin: Margin) -> Iterator[Record]:
    """The lines of a plain JSONL file; each is a message, so that a bad one cannot be passed over."""
    is_first = True
    for line in lines_of(source, margin.notices):
        if isinstance(line, BadLine):
            if line.is_last and line.is_cut and not is_first:
                margin.notices.add("the last line is cut off, as a crash leaves it, and was left out", line.number)
                continue
            raise source.unreadable(f"line {line.number}: {line.problem}", "Mend or remove that line")
        if not is_message(line.record):
            what = "is a whole conversation" if "messages" in line.record else "has no role"
            raise source.unreadable(
                f"line {line.number} {what} and not one message (it has {', '.join(map(repr, list(line.record)[:4]))})",
                "Put each conversation in a file of its own" if "messages" in line.record else EXPECTED,
            )
        is_first = False
        yield line.record


def plain_session(
    source: Source, kind: str, wire: list[Any] | Record, margin: Margin, name: str | None = None
) -> Session:
    """A conversation in one of the dialects; a request brings its own system prompt, tools and model."""
    if problem := problem_with(wire):
        raise source.unreadable(problem, EXPECTED)
    if isinstance(wire, dict) and isinstance(wire.get("model"), str):
        margin.model = wire["model"]
    try:
        return Session(name or source.name, kind, margin, read_conversation(wire))
    except (InvalidMessage, InvalidArgument) as error:
        raise source.unreadable(str(error).rstrip("."), "Mend that message, or give another dialect") from error
