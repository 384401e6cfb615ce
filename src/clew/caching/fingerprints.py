"""Fingerprints of messages, and of whole prefixes: what was sent stays as sent, and here is how to know.

A fingerprint leaves cache markers out of account, since they move from turn to turn and are no content. A chain
hashes each message once; whether one request continues another is then one comparison.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from hashlib import sha256
from typing import Any

from clew.caching.canonical import canonical_bytes
from clew.caching.markers import MARKER
from clew.messages import Message

DIGEST_BYTES = 16


def fingerprint(message: Message) -> bytes:
    """16 bytes that stand for the message without its cache markers; the order of its keys counts."""
    return sha256(canonical_bytes(unmarked(message))).digest()[:DIGEST_BYTES]


def unmarked(message: Any) -> Any:
    """The message as it says the same with and without markers: a lone text block is the string it holds."""
    if not isinstance(message, Mapping):
        return message
    content = message.get("content")
    if MARKER not in message and not isinstance(content, list):
        return message
    plain = {key: value for key, value in message.items() if key != MARKER}
    if isinstance(content, list):
        plain["content"] = _as_string_if_alone([_unmarked_part(part) for part in content])
    return plain


def _unmarked_part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    plain = {key: value for key, value in part.items() if key != MARKER}
    # Only here are parts inside a part; a tool call's input is content, whatever its keys are called.
    if plain.get("type") == "tool_result" and isinstance(plain.get("content"), list):
        plain["content"] = [_unmarked_part(block) for block in plain["content"]]
    return plain


def _as_string_if_alone(parts: list[Any]) -> Any:
    if len(parts) == 1 and isinstance(parts[0], dict) and len(parts[0]) == 2:
        text = parts[0].get("text")
        if parts[0].get("type") == "text" and isinstance(text, str):
            return text
    return parts


class PrefixChain:
    """One digest per prefix of a conversation, each made of the one before it and one more message.

    It grows at its end only, and keeps 16 bytes a message. `scope` sets apart what must never be taken for the
    same conversation, such as the requests of two keys.
    """

    __slots__ = ("_digests", "_newest", "_start")

    def __init__(self, messages: Iterable[Message] = (), scope: str = "") -> None:
        self._start = sha256(b"clew prefix 1" + canonical_bytes(scope)).digest()[:DIGEST_BYTES]
        self._newest = self._start
        self._digests = bytearray()
        self.extend(messages)

    def __len__(self) -> int:
        return len(self._digests) // DIGEST_BYTES

    def append(self, message: Message) -> bytes:
        """Add one message; gives the digest of everything up to it."""
        self._newest = sha256(self._newest + fingerprint(message)).digest()[:DIGEST_BYTES]
        self._digests += self._newest
        return self._newest

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.append(message)

    @property
    def digest(self) -> bytes:
        """What stands for all messages so far."""
        return self._newest

    def digest_at(self, length: int) -> bytes:
        """What stands for the first `length` messages; 0 stands for none of them, within the scope."""
        if not 0 <= length <= len(self):
            raise IndexError(f"a chain of {len(self)} messages has no prefix of {length}")
        return bytes(self._digests[(length - 1) * DIGEST_BYTES : length * DIGEST_BYTES]) if length else self._start

    def longest_known(self, known: Container[bytes]) -> int:
        """How many messages the longest prefix has whose digest is known; 0 when none is."""
        return next((length for length in range(len(self), 0, -1) if self.digest_at(length) in known), 0)

    def branch(self, length: int) -> PrefixChain:
        """A chain of its own over the first `length` messages."""
        twin = PrefixChain()
        twin._newest = self.digest_at(length)
        twin._start = self._start
        twin._digests = self._digests[: length * DIGEST_BYTES]
        return twin


def extends(previous: PrefixChain, current: PrefixChain) -> bool:
    """Whether the current chain starts with everything that the previous one holds. Costs one comparison."""
    return len(previous) <= len(current) and current.digest_at(len(previous)) == previous.digest


def shared_length(one: PrefixChain, other: PrefixChain) -> int:
    """How many messages both chains start with: a binary search, since a difference spoils every later digest."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.digest_at(middle) == other.digest_at(middle):
            low = middle
        else:
            high = middle - 1
    return low
