"""A history on a wire that grows: what is known is not read again, and is written back as the very objects.

For hosts that are given the whole history with each call. The time of a call depends on what is new in it, and on one
comparison of the items that are known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from clew.messages import anthropic, gemini, openai_chat, responses
from clew.messages.identity import is_same_message
from clew.messages.message import DialectName, Message, ParsedMessages, WireOrigin
from clew.messages.plain import plain_messages

_DIALECTS = {"openai_chat": openai_chat, "responses": responses, "anthropic": anthropic, "gemini": gemini}


class GrowingHistory:
    """The items of one history in a dialect, and the messages that were read from them."""

    def __init__(self, dialect: DialectName) -> None:
        self.dialect = dialect
        self.items: list[Any] = []
        self._parsed = ParsedMessages()
        self._starts: list[int] = []
        """For each message the first of its items."""
        self._came: dict[int, Any] = {}
        """The objects that came, by the identity of the plain items that were read from them."""
        self.spelling: object = object()
        """Another one each time that messages which were known are other objects now."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of all items; as many as the store has of this history."""
        return self._parsed.messages

    def follow(self, items: Sequence[Any]) -> int | None:
        """Become the history that is given; how many of its messages were known. None, and nothing done, where it is
        another one.

        Items that are the same objects, or equal, are taken for unchanged. Those behind the first that is neither are
        read anew: a client may spell them otherwise than before, with its cache marker elsewhere for one.
        """
        start = self._start_of_change(items)
        if start is None:
            return None
        known = len(self.messages)
        if start < len(self.items):
            self.cut(start)
            self.spelling = object()
        self.extend(items[start:])
        return known

    def is_followed_by(self, items: Sequence[Any]) -> bool:
        """Whether `follow` would take a history for this one."""
        return self._start_of_change(items) is not None

    def _start_of_change(self, items: Sequence[Any]) -> int | None:
        """The first item that has to be read to become a history; None where it is another history."""
        same = self._count_same(items)
        if same == len(self.items) and (same == len(items) or not self._joins(items[same])):
            return same
        first = next((at for at in range(len(self._starts) - 1, -1, -1) if self._starts[at] <= same), 0)
        start = self._starts[first] if self._starts else 0
        old = self.messages[first:]
        new = self._read(list(plain_messages(items[start:])), start, self.messages[:first]).messages
        return start if len(new) >= len(old) and all(map(is_same_message, old, new)) else None

    def _count_same(self, items: Sequence[Any]) -> int:
        known = self.items
        if len(items) >= len(known) and list(items[: len(known)]) == known:
            return len(known)
        return next((at for at, (old, new) in enumerate(zip(known, items, strict=False)) if old != new), len(items))

    def cut(self, items: int) -> None:
        """Forget what is behind so many items, and whatever is known by the identity of it."""
        parsed, messages = self._parsed, bisect_left(self._starts, items)
        for message in parsed.messages[messages:]:
            parsed.sources.pop(id(message), None)
            content, calls = message.get("content"), message.get("tool_calls")
            parts = content if isinstance(content, list) else ()
            for piece in (message.get("reasoning"), calls, content, *(calls or ()), *parts):
                parsed.pieces.pop(id(piece), None)
        if self._came:
            kept = {id(item) for item in self.items[:items]}
            self._came = {read: came for read, came in self._came.items() if id(came) in kept}
        del parsed.messages[messages:], self._starts[messages:], self.items[items:]

    def extend(self, items: Sequence[Any]) -> Sequence[Message]:
        """Read the items behind the known ones; the messages they give."""
        start, before = len(self.items), len(self.messages)
        plain = list(plain_messages(items))
        self._came.update((id(read), came) for read, came in zip(plain, items, strict=True) if read is not came)
        parsed = self._parsed
        fresh = self._read(plain, start, parsed.messages)
        parsed.messages.extend(fresh.messages)
        parsed.pieces.update(fresh.pieces)
        parsed.results.update(fresh.results)
        parsed.calls.update(fresh.calls)
        moved = 0 if self.dialect == "gemini" else start
        for identity, source in fresh.sources.items():
            parsed.sources[identity] = source._replace(position=source.position + moved)
        self._starts += [self._position(message, start + at) for at, message in enumerate(fresh.messages)]
        self.items.extend(items)
        return self.messages[before:]

    def _read(self, plain: list[Any], start: int, before: Sequence[Message]) -> ParsedMessages:
        if self.dialect == "gemini":
            return gemini.read(plain, start, before)  # calls without ids get them from their place
        read: ParsedMessages = _DIALECTS[self.dialect].read(plain)
        return read

    def _position(self, message: Message, default: int) -> int:
        source = self._parsed.sources.get(id(message))
        return default if source is None else source.position

    def origin_of(self, message: Message) -> WireOrigin | None:
        """The plain items that a message of this history was read from; None where it is an item itself."""
        origin = self._parsed.origin_of(message)
        return None if origin is None or (len(origin.items) == 1 and origin.items[0] is message) else origin

    def place_of(self, number: int) -> int:
        """The item that a message begins at; behind the last one where there is no such message."""
        return self._starts[number] if number < len(self._starts) else len(self.items)

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


def with_pieces_of(own: Message, written: Message) -> Message:
    """A shorter form of a message that was read from the store, with the calls and lists of the message itself where
    they are equal: by these objects a wire knows what is written as it came, its ids for one.
    """
    calls, known = written.get("tool_calls"), own.get("tool_calls") or ()
    kept: Any = {
        name: own.get(name) for name in ("tool_calls", "reasoning", "content") if _is_equal_list(name, own, written)
    }
    if calls and "tool_calls" not in kept:
        kept["tool_calls"] = [next((it for it in known if it == call), call) for call in calls]
    return {**written, **kept}


def _is_equal_list(name: str, own: Any, written: Any) -> bool:
    return isinstance(written.get(name), list) and written[name] == own.get(name)
