"""A source that was recognised: which program wrote it, and its messages one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from clew.importers.entries import Entry, Margin
from clew.messages import Conversation

_Entries: TypeAlias = Callable[[], Iterable[Entry]]


class Session:
    """A source that was recognised. Its margin is full when its entries have been read."""

    __slots__ = ("_conversation", "_entries", "kind", "margin", "name")

    def __init__(self, name: str, kind: str, margin: Margin, held: _Entries | Conversation) -> None:
        self.name = name
        self.kind = kind
        """`json`, `jsonl`, or the program that wrote it: `claude_code`, `codex`, `opencode`, `hermes`, `pi`."""
        self.margin = margin
        self._conversation = held if isinstance(held, Conversation) else None
        self._entries = None if isinstance(held, Conversation) else held

    @property
    def conversation(self) -> Conversation | None:
        """The conversation of a plain kind, which was read whole; None for a program's session file."""
        return self._conversation

    def entries(self) -> Iterator[Entry]:
        """The messages, one by one."""
        if self._conversation is not None:
            for number, message in enumerate(self._conversation.messages, 1):
                yield Entry(message, number)
        elif self._entries is not None:
            yield from self._entries()
