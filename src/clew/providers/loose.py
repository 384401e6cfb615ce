"""Values from a server that promises much: read as what they should be, or as nothing; and texts that grow.

Knows JSON and no wire. A reply is never broken by a field of the wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def fields(value: object) -> Mapping[str, Any]:
    """A JSON object; empty where it is something else."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """A JSON list; empty where it is something else."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """A text; empty where it is something else."""
    return value if isinstance(value, str) else ""


def place(value: object, otherwise: int) -> int:
    """An index into a reply."""
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


class Growing:
    """A text that comes in thousands of pieces; put together once, when it is read."""

    __slots__ = ("_pieces",)

    def __init__(self, first: str = "") -> None:
        self._pieces = [first]

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]


def settled(value: Any) -> Any:
    """The value with every growing text as a text."""
    if isinstance(value, Growing):
        return str(value)
    if isinstance(value, dict):
        return {name: settled(inner) for name, inner in value.items()}
    return value
