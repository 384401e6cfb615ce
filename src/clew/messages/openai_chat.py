"""The dialect of OpenAI chat completions, which is also our own form: its messages are used as they are."""

from __future__ import annotations

from collections.abc import Sequence

from clew.messages.types import Message


def read(items: Sequence[Message]) -> Sequence[Message]:
    return items


def write(messages: Sequence[Message]) -> list[Message]:
    return list(messages)
