"""The handoff as a value: sections of entries, each with the messages it came from; and its text.

The text is output. It is read back only where no value exists: a text that a model, a plugin or a caller wrote, or one
of a caller that kept only the messages of an earlier compaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from clew.lazy import dataclass

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
UNTITLED = ""
"""The heading of what stands before the first heading of a text."""
ListStyle: TypeAlias = Literal["plain", "bullets", "numbers"]
_LIST_STYLES: Mapping[str, ListStyle] = {
    UNTITLED: "plain", ACTIVE_TASK: "plain", STATE: "plain", COMPLETED: "numbers"
}  # fmt: skip
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

    def mapped(self, change: Callable[[str], str]) -> Entry:
        """The entry with each text changed."""
        return Entry(change(self.text), self.numbers, tuple(line.mapped(change) for line in self.lines))

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


def list_style(heading: str) -> ListStyle:
    """How the entries under a heading are listed."""
    return _LIST_STYLES.get(heading, "bullets")


@dataclass(frozen=True, slots=True)
class Handoff:
    """The entries under each heading. Headings of a model that are not among `HEADINGS` are kept behind them."""

    sections: Mapping[str, Sequence[Entry]] = field(default_factory=dict)

    def entries(self, heading: str) -> Sequence[Entry]:
        """The entries under a heading; critical context includes everything under other headings than `HEADINGS`."""
        if heading != VALUES:
            return self.sections.get(heading, ())
        return [
            entry
            for name, entries in self.ordered_sections()
            for entry in entries
            if name == VALUES or name not in HEADINGS
        ]

    def ordered_sections(self) -> Iterator[tuple[str, Sequence[Entry]]]:
        """Each heading with its entries, in the order of the text."""
        others = (heading for heading in self.sections if heading not in HEADINGS and heading != UNTITLED)
        for heading in (UNTITLED, *HEADINGS, *others):
            if entries := self.sections.get(heading):
                yield heading, entries

    def all_entries(self) -> Iterator[Entry]:
        """Every entry and every sub-line."""
        for _, entries in self.ordered_sections():
            for entry in entries:
                yield entry
                yield from entry.lines

    def mapped(self, change: Callable[[str], str]) -> Handoff:
        """The handoff with the text of each entry changed, for example redacted."""
        return Handoff(
            {heading: tuple(entry.mapped(change) for entry in entries) for heading, entries in self.ordered_sections()}
        )

    def render(self) -> str:
        """The text; completed actions are numbered from 1."""
        blocks = []
        for heading, entries in self.ordered_sections():
            lines = [f"## {heading}"] if heading else []
            style = list_style(heading)
            for number, entry in enumerate(entries, 1):
                mark = f"{number}. " if style == "numbers" else "- " if style == "bullets" else ""
                lines.append(f"{mark}{entry.render()}")
                lines += [f"{_INDENT}{line.render()}" for line in entry.lines]
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def as_json(self) -> dict[str, Any]:
        return {heading: [entry.as_json() for entry in entries] for heading, entries in self.ordered_sections()}

    @classmethod
    def of_json(cls, value: Any) -> Handoff:
        """The handoff that `as_json` gave; an empty one where the value is no object.

        `TypeError` or `ValueError` where an entry is not one.
        """
        if not isinstance(value, Mapping):
            return cls()
        return cls({str(heading): tuple(map(Entry.of_json, entries)) for heading, entries in value.items()})

    @classmethod
    def of_text(cls, text: str) -> Handoff:
        """Read a text that a model wrote, or that is all that is left of an earlier handoff.

        An indented line belongs to the entry above it.
        """
        sections: dict[str, list[list[str]]] = {}
        heading = UNTITLED
        for line in text.splitlines():
            if found := _HEADING.match(line):
                name = found[1].strip()
                heading = _BY_NAME.get(name.lower(), name)
                continue
            said = line.strip()
            entries = sections.setdefault(heading, [])
            if line.startswith((" ", "\t")) and entries:
                if said:
                    entries[-1].append(_BULLET.sub("", said))
            elif (plain := _BULLET.sub("", said)) and plain.rstrip(".").lower() not in _NOTHING:
                entries.append([plain])
        return cls({heading: tuple(map(_entry_of, entries)) for heading, entries in sections.items() if entries})


def _entry_of(lines: Sequence[str]) -> Entry:
    first = Entry.of_line(lines[0])
    return Entry(first.text, first.numbers, tuple(map(Entry.of_line, lines[1:])))
