"""The bytes by which two values are the same on every wire: types, order and every character told apart.

A format of its own instead of JSON, because it takes what JSON refuses (lone surrogates, bytes, huge numbers,
nesting of any depth, a value inside itself), and because text goes in without being escaped. The format is part of
what is stored: changing it means that conversations are not recognised once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class _Leave:
    """On the stack after the content of a container: from here on it may occur again."""

    __slots__ = ("container",)

    def __init__(self, container: int) -> None:
        self.container = container


def canonical_bytes(value: Any) -> bytes:
    """Bytes that are equal when and only when the values say the same, in every process."""
    pieces: list[bytes] = []
    open_containers: set[int] = set()
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str:
            text = item.encode("utf-8", "surrogatepass")
            pieces += (b"s%d:" % len(text), text)
        elif kind is dict or kind is list:
            _open(item, pieces, stack, open_containers)
        elif kind is _Leave:
            open_containers.discard(item.container)
        else:
            _rare(item, pieces, stack, open_containers)
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


def _rare(item: Any, pieces: list[bytes], stack: list[Any], open_containers: set[int]) -> None:
    if item is None:
        pieces.append(b"n")
    elif isinstance(item, bool):
        pieces.append(b"t" if item else b"f")
    elif isinstance(item, int):
        # Hexadecimal has no limit on digits, decimal has.
        pieces.append(b"i%x;" % item)
    elif isinstance(item, float):
        pieces.append(b"d%s;" % float.__repr__(item).encode())
    elif isinstance(item, str):
        stack.append(str.__str__(item))
    elif isinstance(item, bytes | bytearray | memoryview):
        raw = bytes(item)
        pieces += (b"b%d:" % len(raw), raw)
    elif isinstance(item, Mapping | Sequence):
        _open(item, pieces, stack, open_containers)
    else:
        shown = f"{type(item).__qualname__} {item!r}".encode("utf-8", "surrogatepass")
        pieces += (b"o%d:" % len(shown), shown)
