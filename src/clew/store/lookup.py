"""What the index is asked: words and phrases that must stand in a document, and filters. Pure values, no SQL.

Every word consists of letters and digits alone, so that no spelling of a query can mean anything to a database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand in a row; the last may be the beginning of one."""

    words: tuple[str, ...]
    is_prefix: bool = False


Clause: TypeAlias = tuple[Phrase, ...]
"""Any of these."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which documents count. An empty tuple, or None, lets all pass."""

    owner: str | None = None
    segments: tuple[tuple[int, int | None], ...] = ()
    """Conversations, each with the number at which it ends for this search: a branch sees its origin up to the fork."""
    sessions: tuple[int, ...] = ()
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    since: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """All of these clauses, the newest `limit` documents."""

    clauses: tuple[Clause, ...]
    filters: Filters
    limit: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """Documents, newest first, and about how many there are in all."""

    docs: tuple[int, ...]
    estimate: int
