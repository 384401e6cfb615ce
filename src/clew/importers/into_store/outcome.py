"""What became of one session that was imported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session that was imported, or with a dry run would have been."""

    source: str
    """The file, or the place in it."""
    kind: str
    """The program that wrote it, or `json`, `jsonl`."""
    session: str | None
    """Its id in the store; None where the source held no messages."""
    title: str | None
    added: int
    known: int
    """Messages that were there already."""
    calls: int
    """Model calls whose usage was added."""
    is_new: bool
    is_branch: bool
    """Whether an earlier message differs from what was imported before, so that a branch was opened."""
    notices: tuple[str, ...] = ()
