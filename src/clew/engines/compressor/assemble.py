"""Phase 4, assemble: head, summary, tail, so that every wire takes them.

Pure functions over messages. Exactly one summary stands in the result, and the system prompt has at most one note.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.messages import Message, Part, Role, text_of
from clew.summaries import SYSTEM_NOTE


def assemble(head: Sequence[Message], summary: str, rest: Sequence[Message]) -> list[Message]:
    """The messages of the new view."""
    role = _role_between(head[-1]["role"] if head else "system", rest[0]["role"] if rest else "assistant")
    if role is None:
        return [*head, merged_into(rest[0], summary), *rest[1:]]
    return [*head, {"role": role, "content": summary}, *rest]


def _role_between(before: Role, after: Role) -> Role | None:
    """A role that repeats neither neighbour's; None where both are taken."""
    # Behind the system prompt some wires want a user message first.
    roles: tuple[Role, ...] = ("user",) if before in ("system", "developer") else ("user", "assistant")
    for role in roles:
        if role not in (before, after):
            return role
    return None


def merged_into(message: Message, summary: str) -> Message:
    """The message with the summary before what it says."""
    content = message.get("content")
    if isinstance(content, list):
        part: Part = {"type": "text", "text": summary}
        return {**message, "content": [part, *content]}
    # Without content it stays without: `unwrap` gives back what was there.
    return {**message, "content": summary if content is None else f"{summary}\n\n{content}"}


def with_note(message: Message, *, as_block: bool) -> Message:
    """The system prompt with the note behind it, once. As a block of its own, the prompt before it stays cached."""
    if SYSTEM_NOTE in text_of(message):
        return message
    content = message.get("content")
    note: Part = {"type": "text", "text": SYSTEM_NOTE}
    if isinstance(content, list):
        return {**message, "content": [*content, note]}
    if as_block:
        return {**message, "content": [{"type": "text", "text": content or ""}, note]}
    return {**message, "content": f"{content or ''}\n\n{SYSTEM_NOTE}"}
