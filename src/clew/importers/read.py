"""Reading transcripts: all at once, or message by message, one session of a source or all of them.

`read_transcript` returns a whole conversation; `open_session` and `open_sessions` read message by message;
`session_files` finds the files of a folder that may hold sessions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from clew.errors import UnreadableTranscript
from clew.importers.database import SQLITE_MAGIC, open_database
from clew.importers.detect import EXPECTED, detect_session, document_session, first_bytes, plain_session
from clew.importers.hermes import HermesDatabase, is_hermes
from clew.importers.json_records import json_lines
from clew.importers.opencode import OpencodeDatabase
from clew.importers.session import BadJsonLine, JsonLine, Notices, Record, SourceMetadata, SourceSession
from clew.importers.source import ByteSource, ReadLimits, TranscriptSource
from clew.messages import DialectName, Message, ParsedConversation, Tool, read_conversation

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".db", ".sqlite")
_SKIPPED_FOLDERS = frozenset(
    {".git", "node_modules", "__pycache__", "file-history", "tool-results", "todos", "plugins", "skills"}
)
# The storage folder of opencode holds a session in pieces; the file under `session` leads to the others.
_STORAGE_FOLDERS = frozenset({"message", "part", "session_diff", "session_message", "todo", "project"})
_DATABASE_KINDS: tuple[tuple[str, type[HermesDatabase] | type[OpencodeDatabase]], ...] = (
    ("hermes", HermesDatabase),
    ("opencode", OpencodeDatabase),
)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation that was read from a file."""

    messages: tuple[Message, ...]
    """The system prompt first, where the file has one."""
    tools: tuple[Tool, ...]
    dialect: DialectName
    model: str | None
    conversation: ParsedConversation
    kind: str
    """`json`, `jsonl`, or the program that wrote it: `claude_code`, `codex`, `gemini_cli`, `opencode`, `hermes`,
    `pi`."""
    notices: tuple[str, ...] = ()
    usage: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    """What providers reported, in the program's own shape, with the index of the message of each report."""


def read_transcript(
    source: TranscriptSource, *, name: str | None = None, limits: ReadLimits | None = None
) -> Transcript:
    """Read a conversation from a path, `-` for standard input, a binary stream or bytes.

    `name` is what errors call the source. Raises `UnreadableTranscript` where there is no conversation in it.
    """
    with open_session(source, name=name, limits=limits) as session:
        conversation = session.conversation
        return _read_entries(session) if conversation is None else _transcript(session, conversation)


def _read_entries(session: SourceSession) -> Transcript:
    """All messages of a program's session file, as a conversation of OpenAI chat messages."""
    messages: list[Message] = []
    usage: list[tuple[int, Mapping[str, Any]]] = []
    model: str | None = None
    for entry in session.entries():
        if entry.usage is not None:
            usage.append((len(messages), entry.usage))
        model = entry.model or model
        messages.append(entry.message)
    if not messages:
        raise UnreadableTranscript(
            session.name, f"holds no messages, though it looks like a session of {session.kind}", "Name another session"
        )
    if session.metadata.system is not None:
        messages.insert(0, {"role": "system", "content": session.metadata.system})
        usage = [(index + 1, report) for index, report in usage]
    conversation = read_conversation(messages, dialect="openai_chat", tools=session.metadata.tools or None)
    return _transcript(session, conversation, model, tuple(usage))


def _transcript(
    session: SourceSession,
    conversation: ParsedConversation,
    model: str | None = None,
    usage: tuple[tuple[int, Mapping[str, Any]], ...] = (),
) -> Transcript:
    return Transcript(
        messages=conversation.messages,
        tools=conversation.tools,
        dialect=conversation.dialect,
        model=model or session.metadata.model,
        conversation=conversation,
        kind=session.kind,
        notices=session.metadata.notices.sentences(),
        usage=usage,
    )


@contextmanager
def open_session(
    source: TranscriptSource, *, name: str | None = None, limits: ReadLimits | None = None
) -> Iterator[SourceSession]:
    """Open a transcript to be read message by message, in the memory of one turn where its format allows."""
    opened = ByteSource(source, name, limits or ReadLimits())
    with closing(opened), ExitStack() as stack:
        if _is_database(opened):
            yield _newest_in_database(opened, stack)
            return
        opened.refuse_too_many()
        yield detect_session(opened)


@dataclass(frozen=True, slots=True)
class SessionFile:
    """All the sessions of a source; each has to be read before the next one is requested."""

    sessions: Iterator[SourceSession]
    notices: Notices
    """Remarks about the file; complete when all sessions have been read."""


@contextmanager
def open_sessions(
    source: TranscriptSource, *, name: str | None = None, limits: ReadLimits | None = None
) -> Iterator[SessionFile]:
    """Open everything in a source: an export or a database can hold many sessions.

    Each is read message by message, in the memory of one turn; only a JSON document is held as a whole.
    """
    opened = ByteSource(source, name, limits or ReadLimits())
    notices = Notices()
    with closing(opened), ExitStack() as stack:
        yield SessionFile(_sessions(opened, notices, stack), notices)


def _sessions(source: ByteSource, notices: Notices, stack: ExitStack) -> Iterator[SourceSession]:
    if _is_database(source):
        yield from _database_sessions(source, stack)
        return
    source.refuse_too_many()
    if _is_session_per_line(source):
        yield from _session_lines(source, notices)
    else:
        yield detect_session(source, by_line=True)


def _is_database(source: ByteSource) -> bool:
    return source.path is not None and first_bytes(source).startswith(SQLITE_MAGIC)


def _database_sessions(source: ByteSource, stack: ExitStack) -> Iterator[SourceSession]:
    assert source.path is not None
    database = stack.enter_context(open_database(source.path))
    found = next(((kind, reader(database)) for kind, reader in _DATABASE_KINDS if reader.matches(database)), None)
    if found is None:
        raise database.unreadable("is a database, but not one of Hermes or opencode")
    kind, program = found
    for row in program.sessions():
        metadata = SourceMetadata()
        yield SourceSession(
            f"{source.name}, session {row['id']}", kind, metadata, partial(program.entries, row, metadata)
        )


def _newest_in_database(source: ByteSource, stack: ExitStack) -> SourceSession:
    sessions = list(_database_sessions(source, stack))
    if not sessions:
        raise source.unreadable("is a database without sessions", EXPECTED)
    if len(sessions) > 1:
        sessions[-1].metadata.notices.add(f"the database holds {len(sessions)} sessions; this is the newest")
    return sessions[-1]


def _is_session_per_line(source: ByteSource) -> bool:
    """Whether this is JSONL whose lines are whole conversations."""
    if not first_bytes(source).startswith(b"{"):
        return False
    first, *second = islice(json_lines(source, Notices()), 2)
    return bool(second) and isinstance(first, JsonLine) and _is_whole_session(first.record)


def _is_whole_session(record: Record) -> bool:
    return "role" not in record and (is_hermes(record) or isinstance(record.get("messages"), list))


def _session_lines(source: ByteSource, notices: Notices) -> Iterator[SourceSession]:
    for line in json_lines(source, notices):
        if isinstance(line, BadJsonLine):
            notices.add("broken lines were left out", line.number)
        elif not _is_whole_session(line.record):
            notices.add("lines that hold no conversation were left out", line.number)
        else:
            yield _session_in_line(source, line)


def _session_in_line(source: ByteSource, line: JsonLine) -> SourceSession:
    name, metadata, record = f"{source.name}, line {line.number}", SourceMetadata(), line.record
    if (session := document_session(name, record, metadata)) is not None:
        return session
    own = record.get("session_id") or record.get("id")
    metadata.session = own if isinstance(own, str) else None
    return plain_session(source, "jsonl", record, metadata, name)


def session_files(folder: Path) -> list[Path]:
    """Files below a folder whose names are those of sessions; sessions before their subagents."""
    return sorted(_candidates(folder), key=lambda path: (is_subagent_file(path), str(path)))


def _candidates(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        skipped = _SKIPPED_FOLDERS | _STORAGE_FOLDERS if "session" in folders else _SKIPPED_FOLDERS
        folders[:] = [name for name in folders if name not in skipped]
        for name in names:
            # Some archives hold a second file for each, with what macOS knows of it.
            if name.endswith(_SUFFIXES) and not name.startswith("._") and not name.endswith(".meta.json"):
                yield Path(where) / name


def is_subagent_file(path: Path) -> bool:
    """Whether this is the file of a subagent, as Claude Code names them."""
    return path.name.startswith("agent-") or path.parent.name == "subagents"
