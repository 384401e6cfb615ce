"""The content of a tool result, whichever shape it has: how long its text is, and the same with other text.

Pictures and parts we do not know stay where they are; only text is measured and replaced.
"""

from __future__ import annotations

from typing import Any

from clew.messages import Message, Part, text_of


def text_chars(message: Message) -> int:
    """How many chars of text the result holds."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return len(content)
    return len(text_of(message)) if isinstance(content, list) else 0


def with_text(message: Message, text: str) -> Message:
    """A copy whose text is this one: in place of the string, or of the first text part, the others left out."""
    content: Any = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": text}
    parts: list[Part] = []
    placed = False
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            parts.append(part)
        elif not placed:
            parts.append({**part, "text": text})
            placed = True
    return {**message, "content": parts}
