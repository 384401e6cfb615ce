"""Pictures out of a view, for a request whose bytes are too many: placeholders stand where they were.

Pure functions over messages. The originals stay in the history.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.engines import Compaction, Fate
from clew.messages import Message, Part, images_of

PLACEHOLDER = "[picture left out: the request was too large in bytes; the original is kept in the history]"


def without_media(messages: Sequence[Message], tokens: int, *, keep_newest: bool) -> Compaction:
    """The messages without pictures; with `keep_newest`, those of the newest user message stay."""
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    newest = users[-1] if keep_newest and users else None
    smaller = [
        message if place == newest or not images_of(message) else _without(message)
        for place, message in enumerate(messages)
    ]
    fates = tuple(Fate.KEPT if old is new else Fate.PRUNED for old, new in zip(messages, smaller, strict=True))
    changed = Fate.PRUNED in fates
    return Compaction(smaller if changed else messages, changed, tokens, tokens, fates=fates)


def _without(message: Message) -> Message:
    content = message.get("content")
    pictures = {id(part) for part in images_of(message)}
    note: Part = {"type": "text", "text": PLACEHOLDER}
    parts = [note if id(part) in pictures else part for part in content] if isinstance(content, list) else content
    return {**message, "content": parts}
