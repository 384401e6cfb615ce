"""Who a message is: its fingerprint, and the chain of fingerprints that names a whole past.

Knows which differences do not make another message (docs/decisions/0022). Knows no database.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from clew.errors import InvalidMessage
from clew.messages import Message

CHAIN_BYTES = 16
FIRST_CHAIN = bytes(CHAIN_BYTES)
"""The chain before the first message."""

# Clients move their cache markers from request to request.
_PASSING_FIELDS = frozenset({"cache_control"})
_FUNCTION_FIELDS = {"name", "arguments"}
_PLAIN_FIELDS = frozenset({"role", "content", "tool_calls", "reasoning"})
_sorted_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, check_circular=True).encode


def next_chain(before: bytes, message: Message) -> bytes:
    """The chain after one more message."""
    hashed = [before]
    for piece in _pieces(message):
        # Lengths before texts, so that no two messages run into the same bytes.
        raw = piece.encode("utf-8", "surrogatepass")
        hashed.append(b"%d:" % len(raw))
        hashed.append(raw)
    return blake2b(b"".join(hashed), digest_size=CHAIN_BYTES).digest()


def chains_after(before: bytes, messages: Iterable[Message]) -> list[bytes]:
    """The chain after each of these messages."""
    chains: list[bytes] = []
    for index, message in enumerate(messages):
        try:
            before = next_chain(before, message)
        except (TypeError, ValueError) as error:
            raise InvalidMessage(index, f"it cannot be written as JSON ({error})", "Pass plain JSON values") from error
        except RecursionError as error:
            raise InvalidMessage(index, "it is nested too deeply to be stored", "Pass a flatter value") from error
        chains.append(before)
    return chains


class Chain:
    """Remembers the chains of a growing history: a message is hashed once for as long as it is the same object."""

    __slots__ = ("_chains", "_messages")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._chains: list[bytes] = []

    def of(self, history: Sequence[Message]) -> list[bytes]:
        """The chain after each message of a history."""
        same = 0
        for known, message in zip(self._messages, history, strict=False):
            if known is not message:
                break
            same += 1
        before = self._chains[same - 1] if same else FIRST_CHAIN
        self._chains[same:] = chains_after(before, history[same:])
        self._messages[same:] = history[same:]
        return list(self._chains)


def _pieces(message: Message) -> Iterable[str]:
    content = message.get("content")
    calls = message.get("tool_calls") or ()
    yield str(message.get("role"))
    yield content if isinstance(content, str) else _spelled(_plain_text(content) or content)
    for call in calls:
        function = call.get("function")
        if len(call) == 3 and isinstance(function, dict) and function.keys() == _FUNCTION_FIELDS:
            # What nearly every call is: three texts, at the cost of hashing them.
            yield f"{call.get('id')} {call.get('type')} {function['name']}"
            yield str(function["arguments"])
        else:
            yield _spelled(call)
    others = {
        name: value
        for name, value in message.items()
        if name not in _PLAIN_FIELDS and name not in _PASSING_FIELDS and _says(value)
    }
    # Many clients do not send thinking back; it tells messages apart only where there is nothing else.
    if not content and not calls:
        others["reasoning"] = message.get("reasoning")
    for name in sorted(others):
        if _says(others[name]):
            yield name
            yield _spelled(others[name])


def _plain_text(content: Any) -> str | None:
    """The text of a content that is one text part: some clients write a text so to hang a marker on it."""
    if isinstance(content, list) and len(content) == 1 and isinstance(part := content[0], Mapping):
        names = {name for name in part if name not in _PASSING_FIELDS}
        if names == {"type", "text"} and part["type"] == "text" and isinstance(part["text"], str):
            return part["text"]
    return None


def _spelled(value: Any) -> str:
    if not _says(value):
        return ""
    if isinstance(value, str):
        return value
    return _sorted_json(_lasting(value))


def _lasting(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(name): _lasting(inner)
            for name, inner in value.items()
            if name not in _PASSING_FIELDS and inner is not None
        }
    if isinstance(value, list | tuple):
        return [_lasting(inner) for inner in value]
    return value


def _says(value: Any) -> bool:
    return value is not None and value is not False and value != "" and value != [] and value != {}
