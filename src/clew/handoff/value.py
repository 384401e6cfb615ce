"""The handoff as a value: sections of entries, each with the messages it came from; and its text.

The text is output. It is read back only where nothing else is there: from a model, or from a caller that kept nothing
but the messages of an earlier compaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ACTIVE_TASK = "Active task"
GOAL = "Goal"
RULES = "Constraints and preferences"
COMPLETED = "Completed actions"
STATE = "Active state"
IN_PROGRESS = "In progress"
BLOCKED = "Blocked"
TRIED = "Tried, and did not work"
DECISIONS = "Key decisions"
ANSWERED = "Resolved questions"
PENDING = "Pending asks"
FILES = "Relevant files"
REMAINING = "Remaining work"
VALUES = "Critical context"

HEADINGS = (
    ACTIVE_TASK, GOAL, RULES, COMPLETED, STATE, IN_PROGRESS, BLOCKED, TRIED, DECISIONS, ANSWERED, PENDING, FILES,
    REMAINING, VALUES,
)  # fmt: skip
# Other names that models give to a heading.
_OTHER_NAMES = {
    "constraints & preferences": RULES,
    "constraints": RULES,
    "rules": RULES,
    "rules and preferences": RULES,
    "decisions": DECISIONS,
    "answered": ANSWERED,
    "resolved": ANSWERED,
    "pending user asks": PENDING,
    "exact values": VALUES,
    "files": FILES,
    "state": STATE,
    "tried": TRIED,
}
_BY_NAME = {heading.lower(): heading for heading in HEADINGS} | _OTHER_NAMES
_WITHOUT_BULLETS = frozenset({ACTIVE_TASK, STATE})
_HEADING = re.compile(r"^#{1,4}\s*(?:\d+[.)]\s*)?\**(.+?)\**:?\s*$")
_BULLET = re.compile(r"^(?:[-*•]|\d+[.)])\s+")
_REFERENCES = re.compile(r"\s*\((m\d+(?:-m\d+)?(?:, m\d+(?:-m\d+)?)*)\)$")
_NUMBER = re.compile(r"m(\d+)")
_NOTHING = ("none", "n/a", "(none)", "nothing", "-")
_INDENT = "   "


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a handoff, the messages it came from (one, or the first and the last of several), and its sub-lines."""

    text: str
    numbers: tuple[int, ...] = ()
    lines: tuple[Entry, ...] = ()

    def render(self) -> str:
        """The line with its reference; sub-lines are not in it."""
        if not self.numbers:
            return self.text
        first, last = self.numbers[0], self.numbers[-1]
        return f"{self.text} (m{first})" if first == last else f"{self.text} (m{first}-m{last})"

    def as_json(self) -> Any:
        return [self.text, list(self.numbers), [line.as_json() for line in self.lines]]

    @classmethod
    def of_json(cls, value: Any) -> Entry:
        text, numbers, lines = value
        return cls(str(text), tuple(map(int, numbers)), tuple(map(cls.of_json, lines)))

    @classmethod
    def of_line(cls, line: str) -> Entry:
        """A line as a model or an earlier handoff wrote it, with the reference at its end as numbers."""
        found = _REFERENCES.search(line)
        if not found:
            return cls(line)
        numbers = [int(number) for number in _NUMBER.findall(found[1])]
        return cls(line[: found.start()], tuple(dict.fromkeys((min(numbers), max(numbers)))))


@dataclass(frozen=True, slots=True)
class Handoff:
    """The entries under each heading, in the order of the headings."""

    sections: Mapping[str, Sequence[Entry]] = field(default_factory=dict)

    def entries(self, heading: str) -> Sequence[Entry]:
        return self.sections.get(heading, ())

    def all_entries(self) -> Iterator[Entry]:
        """Every entry and every sub-line."""
        for heading in HEADINGS:
            for entry in self.entries(heading):
                yield entry
                yield from entry.lines

    def render(self) -> str:
        """The text; completed actions are numbered from 1."""
        blocks = []
        for heading in HEADINGS:
            if entries := self.entries(heading):
                lines = [f"## {heading}"]
                for number, entry in enumerate(entries, 1):
                    mark = f"{number}. " if heading == COMPLETED else "" if heading in _WITHOUT_BULLETS else "- "
                    lines.append(f"{mark}{entry.render()}")
                    lines += [f"{_INDENT}{line.render()}" for line in entry.lines]
                blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def as_json(self) -> dict[str, Any]:
        return {heading: [entry.as_json() for entry in entries] for heading, entries in self.sections.items()}

    @classmethod
    def of_json(cls, value: Any) -> Handoff:
        """The handoff that `as_json` gave; an empty one where the value is something else."""
        if not isinstance(value, Mapping):
            return cls()
        return cls({heading: tuple(map(Entry.of_json, value[heading])) for heading in HEADINGS if heading in value})

    @classmethod
    def of_text(cls, text: str) -> Handoff:
        """Read a text that a model wrote, or that is all that is left of an earlier handoff.

        What stands under an unknown heading is critical context. An indented line belongs to the entry above it.
        """
        sections: dict[str, list[list[str]]] = {}
        heading = VALUES
        for line in text.splitlines():
            if found := _HEADING.match(line):
                heading = _BY_NAME.get(found[1].strip().lower(), VALUES)
                continue
            said = line.strip()
            entries = sections.setdefault(heading, [])
            if line.startswith((" ", "\t")) and entries:
                if said:
                    entries[-1].append(_BULLET.sub("", said))
            elif (plain := _BULLET.sub("", said)) and plain.rstrip(".").lower() not in _NOTHING:
                entries.append([plain])
        return cls(
            {
                heading: tuple(_entry_of(lines) for lines in sections[heading])
                for heading in HEADINGS
                if sections.get(heading)
            }
        )


def _entry_of(lines: Sequence[str]) -> Entry:
    first = Entry.of_line(lines[0])
    return Entry(first.text, first.numbers, tuple(map(Entry.of_line, lines[1:])))
