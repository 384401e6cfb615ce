"""Fingerprints of messages and of prefixes of a conversation, and the bytes they are made of.

Cache markers do not count, because they move from turn to turn and are no content. A chain hashes each message once;
whether one request continues another is then one comparison.

`canonical_bytes` is a format of its own instead of JSON, because it takes what JSON refuses (lone surrogates, bytes,
huge numbers, nesting of any depth, a value inside itself) and does not escape text. Fingerprints are stored: if the
format changes, conversations are not recognised once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from clew.caching.breakpoints import MARKER
from clew.errors import InvalidArgument
from clew.messages import Message

DIGEST_BYTES = 16
QUICK_DEPTH = 50
"""Values up to this many levels deep are encoded by recursion. No real message is deeper; a value inside itself is."""

_FREQUENT_KEYS = (
    "role content type text name id tool_calls tool_call_id tool_use_id function arguments input image_url url source "
    "data media_type is_error reasoning thinking signature call_id output"
).split()
_ENCODED_KEYS = {key: b"s%d:%s" % (len(key), key.encode()) for key in _FREQUENT_KEYS}


def fingerprint(message: Message) -> bytes:
    """16 bytes of a hash of the message without its cache markers; the order of its keys counts."""
    return sha256(canonical_bytes(unmarked(message))).digest()[:DIGEST_BYTES]


def unmarked(message: Any) -> Any:
    """The message without markers; a content of one text block becomes a string, since marking made it a block."""
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
    # Only here are parts inside a part; a tool call's input may have a key of any name.
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
    """One digest per prefix of a conversation, each made of the previous digest and one more message.

    It only grows at its end, and keeps 16 bytes a message. `scope` separates what must never be taken for the same
    conversation, such as the requests of two keys.
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
        """Add one message; returns the digest of everything up to it."""
        self._newest = sha256(self._newest + fingerprint(message)).digest()[:DIGEST_BYTES]
        self._digests += self._newest
        return self._newest

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.append(message)

    @property
    def digest(self) -> bytes:
        """The digest of all messages so far."""
        return self._newest

    def digest_at(self, length: int) -> bytes:
        """The digest of the first `length` messages; for 0 it depends on the scope only."""
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
    """Whether the current chain starts with all messages of the previous one."""
    return len(previous) <= len(current) and current.digest_at(len(previous)) == previous.digest


def shared_length(one: PrefixChain, other: PrefixChain) -> int:
    """How many messages both chains start with: a binary search, because a difference changes every later digest."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one.digest_at(middle) == other.digest_at(middle):
            low = middle
        else:
            high = middle - 1
    return low


def canonical_bytes(value: Any) -> bytes:
    """Bytes that are equal when and only when the values say the same, in every process."""
    pieces: list[bytes] = []
    try:
        _append_bytes(value, pieces.append, 0)
    except _TooDeepForRecursion:
        return canonical_bytes_at_any_depth(value)
    return b"".join(pieces)


class _TooDeepForRecursion(Exception):  # noqa: N818 (never leaves this file)
    """The value has to be encoded without recursion."""


def _append_bytes(value: Any, add: Callable[[bytes], None], depth: int) -> None:
    kind = type(value)
    if kind is str:
        text = value.encode("utf-8", "surrogatepass")
        add(b"s%d:%b" % (len(text), text))
    elif kind is not dict and kind is not list:
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
            raise _TooDeepForRecursion  # another kind of container, which the slower way handles
        add(_scalar(value))
    elif depth >= QUICK_DEPTH:
        raise _TooDeepForRecursion
    elif kind is list:
        add(b"[%d:" % len(value))
        for item in value:
            _append_bytes(item, add, depth + 1)
    else:
        add(b"{%d:" % len(value))
        for key, item in value.items():
            known = _ENCODED_KEYS.get(key)
            if known is None:
                _append_bytes(key, add, depth + 1)
            else:
                add(known)
            _append_bytes(item, add, depth + 1)


class _ContainerEnd:
    """Put on the stack behind the content of a container: after it the container may occur again."""

    __slots__ = ("container",)

    def __init__(self, container: int) -> None:
        self.container = container


def canonical_bytes_at_any_depth(value: Any) -> bytes:
    """The same bytes, made without recursion, also for a value inside itself; slower."""
    pieces: list[bytes] = []
    open_containers: set[int] = set()
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _ContainerEnd):
            open_containers.discard(item.container)
        elif isinstance(item, Mapping | Sequence) and not isinstance(item, str | bytes | bytearray | memoryview):
            _open_container(item, pieces, stack, open_containers)
        else:
            pieces.append(_scalar(item))
    return b"".join(pieces)


def _open_container(container: Any, pieces: list[bytes], stack: list[Any], open_containers: set[int]) -> None:
    identity = id(container)
    if identity in open_containers:
        pieces.append(b"@")
        return
    open_containers.add(identity)
    stack.append(_ContainerEnd(identity))
    if isinstance(container, Mapping):
        pieces.append(b"{%d:" % len(container))
        entries = [side for entry in container.items() for side in entry]
    else:
        pieces.append(b"[%d:" % len(container))
        entries = list(container)
    entries.reverse()
    stack.extend(entries)


def _scalar(item: Any) -> bytes:
    if item is None:
        return b"n"
    if isinstance(item, str):
        text = str.encode(item, "utf-8", "surrogatepass")
        return b"s%d:%b" % (len(text), text)
    if isinstance(item, bool):
        return b"t" if item else b"f"
    if isinstance(item, int):
        # Hexadecimal has no limit on digits, decimal has.
        return b"i%x;" % item
    if isinstance(item, float):
        return b"d%b;" % float.__repr__(item).encode()
    if isinstance(item, bytes | bytearray | memoryview):
        return b"b%d:%b" % (len(bytes(item)), bytes(item))
    shown = f"{type(item).__qualname__} {item!r}".encode("utf-8", "surrogatepass")
    return b"o%d:%b" % (len(shown), shown)


def prompt_cache_key(conversation: str, *also: str) -> str:
    """The `prompt_cache_key` of OpenAI-style providers: requests with one key go to the machine that has the cache.

    Pass the id of the conversation's first session, which a compaction does not change. `also` separates requests that
    share no prefix, for example by the model, or the name of a subagent. The key is a hash, so that it tells nothing,
    and is the same in every process; OpenAI refuses more than 64 chars.
    """
    if not conversation:
        raise InvalidArgument("the conversation id of a prompt_cache_key is empty; pass the id of its first session")
    return "clew-" + sha256(canonical_bytes([conversation, *also])).hexdigest()[:32]
