"""Compactions that are recorded in session files: what was in the window, what replaced it, and what followed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from clew.importers import SourceEntry
from clew.messages import Message, text_of

_SUMMARY_OPENINGS = (
    "This session is being continued from a previous conversation",
    "The conversation history before this point was compacted into the following summary",
    "Another language model started to solve this problem and produced a summary",
    "[CONTEXT COMPACTION",
    "[Clew handoff]",
)
"""How summaries begin in transcripts whose format does not mark them."""
_UNMARKED_KINDS = ("json", "jsonl")


@dataclass(slots=True)
class RecordedCompaction:
    """One compaction of a session."""

    before: Sequence[SourceEntry]
    """The window before it, an earlier summary included."""
    summary: SourceEntry
    kept: Sequence[Message]
    """Messages that stayed in the window word for word, as far as the file says it."""
    after: list[SourceEntry] = field(default_factory=list)
    """The entries up to the next compaction or the end."""

    @property
    def result(self) -> list[Message]:
        """The messages that replaced the window."""
        return [self.summary.message, *self.kept]


def find_compactions(kind: str, entries: Iterable[SourceEntry]) -> tuple[list[SourceEntry], list[RecordedCompaction]]:
    """All entries of a session, and the compactions among them, in order."""
    every: list[SourceEntry] = []
    window: list[SourceEntry] = []
    found: list[RecordedCompaction] = []
    for entry in entries:
        every.append(entry)
        if not _is_compaction(kind, entry):
            window.append(entry)
            if found:
                found[-1].after.append(entry)
            continue
        kept = [SourceEntry(message, entry.line) for message in entry.kept]
        kept = kept or [it for it in window if entry.kept_from is not None and it.line >= entry.kept_from]
        if window:
            found.append(RecordedCompaction(tuple(window), entry, [it.message for it in kept]))
        window = [entry, *kept]
    return every, found


def _is_compaction(kind: str, entry: SourceEntry) -> bool:
    if kind in _UNMARKED_KINDS:
        return entry.message["role"] == "user" and text_of(entry.message).lstrip().startswith(_SUMMARY_OPENINGS)
    # pi summarises abandoned branches too; only a compaction names the first message that it keeps.
    return entry.is_summary and (kind != "pi" or entry.kept_from is not None)
