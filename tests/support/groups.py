"""Checks of calls and their results."""

from __future__ import annotations

from collections.abc import Sequence

from clew.messages import Message, calls_of


def calls_have_results(messages: Sequence[Message]) -> bool:
    """Whether every call has its result directly behind it, and every result its call."""
    waiting: set[str | None] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return False
            waiting.discard(message.get("tool_call_id"))
        elif waiting:
            return False
        waiting |= {call["id"] for call in calls_of(message)}
    return not waiting
