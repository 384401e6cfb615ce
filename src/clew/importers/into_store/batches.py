"""Entries in batches: so many, or so much text, that one of them fits into memory whatever the file's size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from clew.importers.entries import Entry

MOST_ENTRIES = 500
MOST_CHARS = 4_000_000


def batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    held = 0
    for entry in entries:
        batch.append(entry)
        held += _chars(entry.message)
        if len(batch) >= MOST_ENTRIES or held >= MOST_CHARS:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _chars(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_chars, value.values()))
    return sum(map(_chars, value)) if isinstance(value, list) else 0
