"""Messages of one role in a row made one, for wires and models that want roles to alternate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from clew.messages.pairing import Placed
from clew.messages.types import Message, Part, Repair


def join_same_roles(placed: Placed, repairs: list[Repair]) -> Placed:
    """Neighbours of one role joined; results stay apart."""
    result: Placed = []
    for role, same in groupby(placed, key=lambda place: place[1]["role"]):
        run = list(same)
        if role == "tool" or len(run) == 1:
            result.extend(run)
            continue
        start = run[0][0]
        result.append((start, joined([message for _, message in run])))
        repairs.extend(
            Repair(index, f"follows another {role} message", f"joined to message {start}") for index, _ in run[1:]
        )
    return result


def joined(messages: Sequence[Message]) -> Message:
    """Messages of one role as one that says it all; of their other fields the first that has one counts."""
    result: dict[str, Any] = {}
    for message in reversed(messages):
        result.update(message)
    result["content"] = joined_content([message.get("content") for message in messages])
    for field in ("tool_calls", "reasoning"):
        lists = [message.get(field) for message in messages]
        if any(lists):
            result[field] = [entry for entries in lists if isinstance(entries, list) for entry in entries]
    return result  # type: ignore[return-value]


def joined_content(contents: Sequence[str | list[Part] | None]) -> str | list[Part] | None:
    """Contents as one: text as paragraphs where all is text, otherwise one list of parts."""
    said = [content for content in contents if content]
    if not said:
        return contents[0] if contents else None
    if len(said) == 1:
        return said[0]
    texts = [content for content in said if isinstance(content, str)]
    if len(texts) == len(said):
        return "\n\n".join(texts)
    return [part for content in said for part in as_parts(content)]


def as_parts(content: str | list[Part] | None) -> list[Part]:
    """Content as a list of parts, a text as one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())
