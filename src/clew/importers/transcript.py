"""A file in, a whole conversation out, with what was noticed on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clew.errors import UnreadableTranscript
from clew.importers.opening import open_session
from clew.importers.session import Session
from clew.importers.source import ReadLimits, TranscriptSource
from clew.messages import Conversation, DialectName, Message, Tool, read_conversation


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation that was read from a file."""

    messages: tuple[Message, ...]
    """The system prompt first, where the file has one."""
    tools: tuple[Tool, ...]
    dialect: DialectName
    model: str | None
    conversation: Conversation
    kind: str
    """`json`, `jsonl`, or the program that wrote it: `claude_code`, `codex`, `opencode`, `hermes`, `pi`."""
    notices: tuple[str, ...] = ()
    usage: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    """What providers reported, in the program's own shape, with the index of the message each report came with."""


def read_transcript(
    source: TranscriptSource, *, name: str | None = None, limits: ReadLimits | None = None
) -> Transcript:
    """Read a conversation from a path, `-` for standard input, a binary stream or bytes.

    `name` is what errors call the source. Raises `UnreadableTranscript` where there is no conversation in it.
    """
    with open_session(source, name=name, limits=limits) as session:
        conversation = session.conversation
        return _gathered(session) if conversation is None else _transcript(session, conversation)


def _gathered(session: Session) -> Transcript:
    """Everything in a program's session file, as a conversation of OpenAI chat messages."""
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
    if session.margin.system is not None:
        messages.insert(0, {"role": "system", "content": session.margin.system})
        usage = [(index + 1, report) for index, report in usage]
    conversation = read_conversation(messages, dialect="openai_chat", tools=session.margin.tools or None)
    return _transcript(session, conversation, model, tuple(usage))


def _transcript(
    session: Session,
    conversation: Conversation,
    model: str | None = None,
    usage: tuple[tuple[int, Mapping[str, Any]], ...] = (),
) -> Transcript:
    return Transcript(
        messages=conversation.messages,
        tools=conversation.tools,
        dialect=conversation.dialect,
        model=model or session.margin.model,
        conversation=conversation,
        kind=session.kind,
        notices=session.margin.notices.sentences(),
        usage=usage,
    )
