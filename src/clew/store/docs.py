"""What search covers, as documents: a stretch of text and where it came from. Knows no index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from clew.store.words import stretches_of

DocKind: TypeAlias = Literal["message", "summary", "output", "system"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a searchable text stands: the row it belongs to, and by what it may be filtered."""

    kind: DocKind
    ref: int
    owner: str
    conversation: int | None
    session: int | None
    seq: int | None
    role: str | None
    tool: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Doc:
    """A stretch of a text, to be indexed; `id` is 0 as long as the database has given none."""

    origin: Origin
    start: int
    stop: int
    text: str
    id: int = 0


def docs_of(origin: Origin, text: str) -> Iterator[Doc]:
    """A text as documents; none for a text that says nothing."""
    for start, stop in stretches_of(text):
        yield Doc(origin, start, stop, text[start:stop])
