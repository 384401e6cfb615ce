"""A history on a wire: its items, each with the message it means, and when two messages are the same.

A history grows, and what is known is not read again: for hosts that are given the whole history with each call. The
time of a call depends on what is new in it, and on one comparison of the wire items that are known.

A client sends a reply back in its own spelling: other key order, defaults filled in, a cache marker, another split into
text parts, fields of its own. None of that makes another message: `digest` is of what a message means, and equal in
every process. docs/decisions/0017-identity.md has the reasons.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from clew.messages.message import DialectName, Item, Message, calls_of, dialect_of, is_plain
from clew.messages.plain import plain_messages

DIGEST_BYTES = 20
_TEXT_PARTS = (None, "text", "output_text", "input_text")
# Clients move or leave out these fields when they send a part again.
_SPELLING = frozenset({"cache_control", "thoughtSignature", "thought_signature"})
_MEANING = frozenset({"role", "content", "tool_calls", "reasoning", "cache_control"})
# What the wires of OpenAI put beside a reply; clients send some of it back, or none.
_REPLY_FIELDS = frozenset({"id", "type", "status", "reasoning_content", "reasoning_details", "annotations"})
# Letters and digits mixed, as in a provider's random ids; "call_0" and "functions.read:3" occur in other replies too.
_RANDOM_ID = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{8}")
_ID_CHARS = 200
# What JSON cannot say is refused by the store, which names the message; a digest of it is needed until then.
_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=lambda value: type(value).__name__
).encode


class History:
    """The items of one history in a dialect, and the wire items that they were read from."""

    def __init__(self, dialect: DialectName) -> None:
        self.dialect = dialect
        self.raw: list[Any] = []
        """The wire items, as the received objects."""
        self.items: list[Item] = []
        """One for each message; as many as the store has of this history."""

    def __len__(self) -> int:
        return len(self.items)

    def follow(self, raw: Sequence[Any]) -> int | None:
        """Become the history that is given; how many of its messages were known. None, and nothing done, where it is
        another one.

        Wire items that are the same objects, or equal, are unchanged. Those behind the first that is neither are read
        anew: a client may spell them otherwise than before, with its cache marker elsewhere for one.
        """
        start = self._start_of_change(raw)
        if start is None:
            return None
        known = len(self.items)
        self.cut(start)
        self.extend(raw[start:])
        return known

    def is_followed_by(self, raw: Sequence[Any]) -> bool:
        """Whether `follow` would take a history for this one."""
        return self._start_of_change(raw) is not None

    def _start_of_change(self, raw: Sequence[Any]) -> int | None:
        """The first wire item that has to be read to become a history; None where it is another history."""
        same = self._count_same(raw)
        if same == len(self.raw) and (same == len(raw) or not self._joins(raw[same])):
            return same
        first = max(0, bisect_right(self.items, same, key=lambda item: item.place) - 1)
        while first and self.items[first].part:
            first -= 1
        start = self.place_of(first) if self.items else 0
        old = self.items[first:]
        new = self._read(_as_plain(raw[start:]), start, first)
        is_same = len(new) >= len(old) and all(one.digest == other.digest for one, other in zip(old, new, strict=False))
        return start if is_same else None

    def _count_same(self, raw: Sequence[Any]) -> int:
        known = self.raw
        if len(raw) >= len(known) and list(raw[: len(known)]) == known:
            return len(known)
        return next((at for at, (old, new) in enumerate(zip(known, raw, strict=False)) if old != new), len(raw))

    def cut(self, raw: int) -> None:
        """Forget what is behind so many wire items."""
        while self.items and self.items[-1].place >= raw:
            self.items.pop()
        del self.raw[raw:]

    def extend(self, raw: Sequence[Any]) -> Sequence[Item]:
        """Read the wire items behind the known ones; the items they give."""
        fresh = self._read(_as_plain(raw), len(self.raw), len(self.items))
        self.items.extend(fresh)
        self.raw.extend(raw)
        return fresh

    def _read(self, plain: Sequence[Any], start: int, before: int) -> list[Item]:
        known: Sequence[Message] = ()
        if self.dialect == "gemini":  # a result finds the call that it is for
            known = [item.message for item in self.items[:before]]
        read: list[Item] = dialect_of(self.dialect).read(list(plain), start, known)
        return read

    def place_of(self, number: int) -> int:
        """The wire item that a message begins at; behind the last one where there is no such message."""
        return self.items[number].place if number < len(self.items) else len(self.raw)

    def write(self, items: Iterable[Item]) -> list[Any]:
        """Items as wire items: those of this history as the received objects, the others encoded."""
        return [self.raw[it] if isinstance(it, int) else it for it in self.places(items)]

    def places(self, items: Iterable[Item]) -> list[Any]:
        """The same, with the place of each wire item that leaves as received."""
        written: list[Any] = dialect_of(self.dialect).write(list(items))
        return written

    def _joins(self, raw: Any) -> bool:
        """Whether a wire item belongs to the last message that was read: then that message is another one now.

        Only on the Responses wire: an assistant's items follow each other, and are one message together.
        """
        if self.dialect != "responses" or not self.raw:
            return False
        return len(self._read(plain_messages([self.raw[-1], raw]), 0, 0)) < 2


def written(messages: Iterable[Message], dialect: DialectName) -> list[Any]:
    """Messages that are of no history as wire items."""
    return History(dialect).write(map(Item, messages))


def _as_plain(raw: Sequence[Any]) -> Sequence[Any]:
    """Wire items as plain values: what was parsed from JSON is that already."""
    return raw if all(map(is_plain, raw)) else plain_messages(raw)


def digest(message: Message) -> bytes:
    """The identity of a message by what it means.

    `TypeError`, `ValueError` or `RecursionError` for a message that is no JSON value.
    """
    hashed = blake2b(digest_size=DIGEST_BYTES)
    for piece in _pieces(message):
        # With lengths, so that two different messages never give the same bytes.
        raw = piece.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(raw))
        hashed.update(raw)
    return hashed.digest()


def _pieces(message: Message) -> Iterator[str]:
    role, calls = message.get("role"), calls_of(message)
    yield str(role)
    if role == "assistant" and calls and all(_is_random(call.get("id")) for call in calls):
        # The provider gave these ids to one reply only, so they identify it, whatever the client did to its spelling.
        for call in calls:
            yield str(call["id"])
        return
    content = message.get("content")
    text, others = _split(content)
    yield text
    for part in others:
        yield _json(part)
    for call in calls:
        yield from _call_pieces(call)
    yield from _field_pieces(message, is_empty=not (text or others or calls))


def _split(content: Any) -> tuple[str, list[Any]]:
    """The text of a content, without space around it, and its parts that are no text."""
    if isinstance(content, str):
        return content.strip(), []
    if not isinstance(content, list):
        return "", [content] if _has_value(content) else []
    texts, others = [], []
    for part in content:
        if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, str):
            texts.append(part)
        else:
            others.append(part)
    return "".join(texts).strip(), others


def _call_pieces(call: Mapping[str, Any]) -> Iterator[str]:
    function = call.get("function")
    if not isinstance(function, Mapping):
        yield _json(call)
        return
    yield f"{call.get('id')} {call.get('type')} {function.get('name')}"
    yield _arguments(function.get("arguments"))


def _arguments(arguments: Any) -> str:
    """Arguments with sorted keys and without null values; a text that is no JSON as it is."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return str(arguments).strip()
    return _json(arguments)


def _field_pieces(message: Message, *, is_empty: bool) -> Iterator[str]:
    """The other fields that count: what a result answers, the names of users; of a reply only what an empty one has."""
    role = message.get("role")
    fields: dict[str, Any]
    if role == "tool":
        fields = {name: message.get(name) for name in ("tool_call_id", "is_error")}
    elif role == "assistant" and not is_empty:
        fields = {}
    else:
        fields = {name: value for name, value in message.items() if name not in _MEANING | _REPLY_FIELDS}
        if is_empty:
            fields["reasoning"] = message.get("reasoning") or message.get("reasoning_content")
    for name in sorted(fields):
        if _has_value(fields[name]):
            yield name
            yield _json(fields[name])


def _is_random(call_id: Any) -> bool:
    return isinstance(call_id, str) and len(call_id) <= _ID_CHARS and _RANDOM_ID.search(call_id) is not None


def _json(value: Any) -> str:
    return value if isinstance(value, str) else _encode(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(name): _plain(inner) for name, inner in value.items() if name not in _SPELLING and inner is not None
        }
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _has_value(value: Any) -> bool:
    return value is not None and value is not False and value != "" and value != [] and value != {}
