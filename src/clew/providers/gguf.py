"""What a GGUF file says of itself in its first lines: whether it is one, and the window it was trained for.

Reads the metadata in the order of the file and stops at the window, so that gigabytes of weights cost nothing. A file
that it does not understand says nothing.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

MAGIC = b"GGUF"
_WINDOW = b".context_length"
# Of the types of values, by number: how many bytes each takes, with strings (8) and lists (9) apart.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _LIST = 8, 9
_WHOLE = {4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_MOST_KEYS, _MOST_BYTES = 1_000, 1_000_000


class _Unreadable(Exception):  # noqa: N818 (reads as what it says)
    pass


def is_gguf(file: Path) -> bool:
    """Whether the file begins as a model does."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def trained_window(file: Path) -> int | None:
    """The window of the model in a file, in tokens; None where the file does not say."""
    try:
        with file.open("rb") as opened:
            return _window(opened)
    except (OSError, struct.error, _Unreadable):
        return None


def _window(opened: BinaryIO) -> int | None:
    if opened.read(len(MAGIC)) != MAGIC:
        return None
    _number(opened, "<I")  # the version of the format; what is read here is alike in 2 and 3
    _number(opened, "<Q")  # tensors
    for _ in range(min(_number(opened, "<Q"), _MOST_KEYS)):
        key, kind = _string(opened), _number(opened, "<I")
        if key.endswith(_WINDOW) and kind in _WHOLE:
            return _number(opened, _WHOLE[kind])
        _skip(opened, kind)
    return None


def _skip(opened: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _string(opened)
    elif kind in _SIZES:
        opened.seek(_SIZES[kind], 1)
    elif kind == _LIST:
        inner, count = _number(opened, "<I"), _number(opened, "<Q")
        if inner in _SIZES:
            opened.seek(_SIZES[inner] * count, 1)
        elif count <= _MOST_BYTES:
            for _ in range(count):
                _skip(opened, inner)
        else:
            raise _Unreadable
    else:
        raise _Unreadable


def _string(opened: BinaryIO) -> bytes:
    length = _number(opened, "<Q")
    if length > _MOST_BYTES:
        raise _Unreadable
    return opened.read(length)


def _number(opened: BinaryIO, shape: str) -> int:
    found: tuple[int] = struct.unpack(shape, opened.read(struct.calcsize(shape)))
    return found[0]
