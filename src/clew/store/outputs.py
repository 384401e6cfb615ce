"""Spilled outputs: kept whole, once per text, found by search. As steps, for any database."""

from __future__ import annotations

from dataclasses import dataclass

from clew.store import sessions
from clew.store.history import end_of
from clew.store.steps import Steps, one
from clew.store.texts import keep_text, new_output_name


@dataclass(frozen=True, slots=True)
class NewOutput:
    """A tool's output that was too large for the context."""

    session: str
    text: str
    tool: str | None = None
    path: str | None = None
    """Where it was spilled to, for whoever reads the file instead."""
    owner: str | None = None


def keep_output(new: NewOutput, now: int) -> Steps[str]:
    """The id under which an output is kept; the same text in the same conversation keeps its id."""
    found = yield from sessions.find(new.session, new.owner)
    text = yield from keep_text(found.session.owner, new.text)
    next_seq, _ = yield from end_of(found)
    made = yield from one(
        "INSERT INTO outputs (name, conversation, session, text, seq, tool, path, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (conversation, text) DO NOTHING RETURNING name",
        new_output_name(),
        found.conversation,
        found.id,
        text,
        next_seq,
        new.tool,
        new.path,
        now,
    )
    if made is None:
        made = yield from one("SELECT name FROM outputs WHERE conversation = ? AND text = ?", found.conversation, text)
    assert made is not None
    return str(made[0])
