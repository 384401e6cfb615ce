"""A history on a wire that grows: what is known is not read again, and is written back as the very objects.

For hosts that are given the whole history with each call. The time of a call depends on what is new in it, and on one
comparison of the items that are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.messages import anthropic, gemini, openai_chat, responses
from clew.messages.message import DialectName, Message, ParsedMessages
from clew.messages.plain import plain_messages

_DIALECTS = {"openai_chat": openai_chat, "responses": responses, "anthropic": anthropic, "gemini": gemini}


class GrowingHistory:
    """The items of one history in a dialect, and the messages that were read from them."""

    def __init__(self, dialect: DialectName) -> None:
        self.dialect = dialect
        self.items: list[Any] = []
        self._parsed = ParsedMessages()
        self._came: dict[int, Any] = {}
        """The objects that came, by the identity of the plain items that were read from them."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of all items; as many as the store has of this history."""
        return self._parsed.messages

    def is_extended_by(self, items: Sequence[Any]) -> bool:
        """Whether a history is this one with nothing or something behind it.

        Items that are the same objects are taken for unchanged; others are compared.
        """
        known = len(self.items)
        if len(items) < known or list(items[:known]) != self.items:
            return False
        return known == len(items) or not self._joins(items[known])

    def extend(self, items: Sequence[Any]) -> Sequence[Message]:
        """Read the items behind the known ones; the messages they give."""
        start, before = len(self.items), len(self.messages)
        plain = list(plain_messages(items))
        self._came.update((id(read), came) for read, came in zip(plain, items, strict=True) if read is not came)
        parsed = self._parsed
        if self.dialect == "gemini":
            fresh = gemini.read(plain, start, parsed.messages)  # calls without ids get them from their place
        else:
            fresh = _DIALECTS[self.dialect].read(plain)
        parsed.messages.extend(fresh.messages)
        parsed.pieces.update(fresh.pieces)
        parsed.results.update(fresh.results)
        parsed.calls.update(fresh.calls)
        moved = 0 if self.dialect == "gemini" else start
        for identity, source in fresh.sources.items():
            parsed.sources[identity] = source._replace(position=source.position + moved)
        self.items.extend(items)
        return self.messages[before:]

    def write(self, messages: Sequence[Message]) -> list[Any]:
        """Messages as items: those of this history as the objects they were read from, the others encoded."""
        items: list[Any] = _DIALECTS[self.dialect].write(messages, self._parsed)
        return [self._came.get(id(item), item) for item in items] if self._came else items

    def _joins(self, item: Any) -> bool:
        """Whether an item belongs to the last message that was read: then that message is another one now.

        Only on the Responses wire: an assistant's items follow each other, and are one message together.
        """
        if self.dialect != "responses" or not self.items:
            return False
        together = responses.read(list(plain_messages([self.items[-1], item]))).messages
        return len(together) < 2
