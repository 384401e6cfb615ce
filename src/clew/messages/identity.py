"""When two messages are the same: one digest of what a message means, equal in every process.

A client sends a reply back in its own spelling: other key order, defaults filled in, a cache marker, another split into
text parts, fields of its own. None of that makes another message. docs/decisions/0017-identity.md has the reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from clew.messages.message import Message, calls_of

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
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


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


def is_same_message(one: Message, other: Message) -> bool:
    """Whether two messages mean the same."""
    return one is other or digest(one) == digest(other)


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
