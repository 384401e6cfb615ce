"""The bytes by which two values are the same on every wire: types, order and every character told apart.

A format of its own instead of JSON, because it takes what JSON refuses (lone surrogates, bytes, huge numbers,
nesting of any depth, a value inside itself), and because text goes in without being escaped. The format is part of
what is stored: changing it means that conversations are not recognised once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

DEEPEST = 50
"""Below this many levels the quick way is taken. No real message is deeper; a value inside itself is."""

_FREQUENT_KEYS = (
    "role content type text name id tool_calls tool_call_id tool_use_id function arguments input image_url url source "
    "data media_type is_error reasoning thinking signature call_id output"
).split()
_KEYS = {key: b"s%d:%s" % (len(key), key.encode()) for key in _FREQUENT_KEYS}


def canonical_bytes(value: Any) -> bytes:
    """Bytes that are equal when and only when the values say the same, in every process."""
    pieces: list[bytes] = []
    try:
        _write(value, pieces.append, 0)
    except _TooDeep:
        return canonical_bytes_at_any_depth(value)
    return b"".join(pieces)


class _TooDeep(Exception):  # noqa: N818 (a turn of the road, never seen outside)
    """The quick way ends here."""


def _write(value: Any, add: Callable[[bytes], None], depth: int) -> None:
    kind = type(value)
    if kind is str:
        text = value.encode("utf-8", "surrogatepass")
        add(b"s%d:%b" % (len(text), text))
    elif kind is not dict and kind is not list:
        if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
            raise _TooDeep  # a container of a kind of its own: the careful way knows it
        add(_scalar(value))
    elif depth >= DEEPEST:
        raise _TooDeep
    elif kind is list:
        add(b"[%d:" % len(value))
        for item in value:
            _write(item, add, depth + 1)
    else:
        add(b"{%d:" % len(value))
        for key, item in value.items():
            known = _KEYS.get(key)
            if known is None:
                _write(key, add, depth + 1)
            else:
                add(known)
            _write(item, add, depth + 1)


class _Leave:
    """On the stack after the content of a container: from here on it may occur again."""

    __slots__ = ("container",)

    def __init__(self, container: int) -> None:
        self.container = container


def canonical_bytes_at_any_depth(value: Any) -> bytes:
    """The same bytes, made without recursion and with an eye on values inside themselves; slower."""
    pieces: list[bytes] = []
    open_containers: set[int] = set()
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _Leave):
            open_containers.discard(item.container)
        elif isinstance(item, Mapping | Sequence) and not isinstance(item, str | bytes | bytearray | memoryview):
            _open(item, pieces, stack, open_containers)
        else:
            pieces.append(_scalar(item))
    return b"".join(pieces)


def _open(container: Any, pieces: list[bytes], stack: list[Any], open_containers: set[int]) -> None:
    identity = id(container)
    if identity in open_containers:
        pieces.append(b"@")
        return
    open_containers.add(identity)
    stack.append(_Leave(identity))
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
