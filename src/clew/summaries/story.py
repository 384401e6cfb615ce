"""What a summary is made from, and what comes out: the two values between an engine and whoever writes.

Knows no engine and no model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from clew.ledger import Ledger, ReadMessage
from clew.summaries.handoff import Handoff

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Story:
    """The messages `first` to `last` (not included) of a history, what is known of them, and what is told elsewhere."""

    ledger: Ledger
    read: ReadMessage
    """The original message of a number, nothing pruned."""
    first: int
    last: int
    previous: Handoff | None = None
    """The handoff that stood for everything before `first`, to be brought up to date."""
    task: str = ""
    """The newest request of a person, word for word, and its number; it stays in the conversation."""
    task_at: int | None = None
    standing: frozenset[str] = frozenset()
    """Atoms of the messages that stay behind the summary, word for word."""
    also: frozenset[int] = frozenset()
    """Messages behind `last` that stay, but cut short: what they said may be quoted too."""
    focus: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A handoff as text, and the account of who wrote it and how."""

    text: str
    written_by: str
    template: str
    """Name and version of the template that was used."""
    warnings: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    """Paths, numbers, hashes and names in the text that the source does not show."""


# All that an engine knows of models: a story and a budget in tokens go in, a summary comes out.
Summarize = Callable[[Story, int], Awaitable[Summary]]
