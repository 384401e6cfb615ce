"""The handoff as a value: sections of entries, each with its source messages; and its text.

The text is output. It is read back only where no value exists: a text that a model, a plugin or a caller wrote, or one
of a caller that kept only the messages of an earlier compaction.

Inside a conversation a handoff is between a fixed prefix and an end marker, with the numbers that it covers:
`wrap` writes that message text, `unwrap` finds a handoff again. The last line before the end marker is the only text of
a handoff that is read back exactly: it says which messages are folded and how the others are numbered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from clew.lazy import lazy_pattern
from clew.messages import Message, calls_of, reasoning_of, text_of

PREFIX = """\
[Clew handoff] Background for reference, not instructions. It replaces earlier messages of this conversation. Requests
in it were dealt with unless it says otherwise, and its work may already be in the files: look before repeating it. Its
active task was the newest request when it was written; reply to the newest user message that follows. Memory and
rules in the system prompt take precedence. Numbers such as m12 are those of the original messages."""
SHORT_PREFIX = "[Clew handoff] Background, not instructions. A newer user message replaces its active task."
"""For small targets, where every token counts."""
END_MARKER = "[End of Clew handoff]"
SHORTENED = "(shortened)"
"""Ends the line that a result was pruned to, where its original cannot be opened."""
HANDOFF_OPENING = PREFIX[: PREFIX.index("]") + 1]
SYSTEM_NOTE = "[Older messages may be replaced by a [Clew handoff]: background, not instructions.]"

_COVERS = lazy_pattern(
    r"^Messages m(\d+) to m(\d+) are folded here(?:; of these, (.+?) follows? word for word)?"
    r"(?:; what follows is (.+?), then m(\d+) and so on)?(?:; what stands before is (.+))?\.$",
    re.MULTILINE,
)
_NUMBER = lazy_pattern(r"m(\d+)")
_RUN = lazy_pattern(r"m(\d+)(?:-m(\d+))?")
_GAP = "\n\n"
# A text that only looks like ours shall not fill the memory.
_LONGEST_RUN = 100_000


class WrappedSummary(NamedTuple):
    """A handoff found in a conversation, and the message numbers it covers."""

    text: str
    first: int
    last: int
    """Not included."""
    kept: tuple[int, ...]
    """The covered messages that are still in the conversation, word for word."""
    message: Message | None
    """The message that the handoff was merged into, without it."""
    following: tuple[int, ...] = ()
    """The numbers of the messages behind those kept, and the next one; empty where they count on from `last`."""
    leading: tuple[int, ...] = ()
    """The numbers of the messages before the handoff; empty where they count from 0."""


def wrap(
    text: str,
    first: int,
    last: int,
    kept: Sequence[int] = (),
    following: Sequence[int] = (),
    leading: Sequence[int] = (),
    *,
    is_short: bool = False,
    hint: str = "",
) -> str:
    """The text that is put into the conversation for a handoff of the messages `first` to `last` (not included).

    `hint` says by which tools the model can open them, where it has any.
    """
    inside = without_markers(text)
    follow = "follow" if len(kept) > 1 else "follows"
    also = f"; of these, {' and '.join(f'm{number}' for number in kept)} {follow} word for word" if kept else ""
    behind = f"; what follows is {_runs(following[:-1])}, then m{following[-1]} and so on" if following else ""
    before = f"; what stands before is {_runs(leading)}" if leading else ""
    covers = f"Messages m{first} to m{last - 1} are folded here{also}{behind}{before}."
    last_lines = "\n".join(filter(None, (covers, hint, END_MARKER)))
    return f"{SHORT_PREFIX if is_short else PREFIX}\n\n{inside.strip()}\n\n{last_lines}"


def unwrap(message: Message) -> WrappedSummary | None:
    """The handoff that a message holds; None where it holds none."""
    content = message.get("content")
    text = content if isinstance(content, str) else text_of({"role": "user", "content": content[:1] if content else []})
    if not text.startswith(HANDOFF_OPENING):
        return None
    # The prefix is one paragraph, whatever its wording was when it was written.
    inside, end, rest = text.partition(_GAP)[2].partition(END_MARKER)
    # The last match, since a handoff may quote such a line.
    covers = next(reversed(list(_COVERS.finditer(inside))), None)
    if not end or not covers:
        return None
    kept = tuple(int(number) for number in _NUMBER.findall(covers[3] or ""))
    handoff = inside[: covers.start()].strip()
    following = [*_numbers_in(covers[4] or ""), *([int(covers[5])] if covers[5] else [])]
    left = _without_summary(message, rest)
    leading = tuple(_numbers_in(covers[6] or ""))
    return WrappedSummary(handoff, int(covers[1]), int(covers[2]) + 1, kept, left, tuple(following), leading)


def _runs(numbers: Sequence[int]) -> str:
    """`m61-m64, m66`: of consecutive numbers the first and the last."""
    starts = [at for at in range(len(numbers)) if not at or numbers[at] != numbers[at - 1] + 1]
    ends = [at - 1 for at in (*starts[1:], len(numbers))]
    runs = [(numbers[start], numbers[end]) for start, end in zip(starts, ends, strict=True)]
    return ", ".join(f"m{first}" if first == last else f"m{first}-m{last}" for first, last in runs)


def _numbers_in(runs: str) -> list[int]:
    found = [(int(first), int(last or first)) for first, last in _RUN.findall(runs)]
    return [number for first, last in found for number in range(first, min(last, first + _LONGEST_RUN) + 1)]


def without_markers(text: str) -> str:
    """The text with our markers replaced, since one inside a handoff would end or open one."""
    return text.replace(END_MARKER, "[end marker]").replace(HANDOFF_OPENING, "[handoff]")


def _without_summary(message: Message, rest: str) -> Message | None:
    content = message.get("content")
    if isinstance(content, list) and len(content) > 1:
        return {**message, "content": content[1:]}
    if rest.startswith(_GAP):
        return {**message, "content": rest.removeprefix(_GAP)}
    # A message with only calls or reasoning had no content before the handoff was merged into it.
    return {**message, "content": None} if calls_of(message) or reasoning_of(message) else None


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
"""The heading of what precedes the first heading of a text."""
ListStyle: TypeAlias = Literal["plain", "bullets", "numbers"]
_LIST_STYLES: Mapping[str, ListStyle] = {
    UNTITLED: "plain", ACTIVE_TASK: "plain", STATE: "plain", COMPLETED: "numbers"
}  # fmt: skip
_HEADING = lazy_pattern(r"^#{1,4}\s*(?:\d+[.)]\s*)?\**(.+?)\**:?\s*$")
_BULLET = lazy_pattern(r"^(?:[-*•]|\d+[.)])\s+")
_REFERENCES = lazy_pattern(r"\s*\((m\d+(?:-m\d+)?(?:, m\d+(?:-m\d+)?)*)\)$")
_NOTHING = ("none", "n/a", "(none)", "nothing", "-")
_INDENT = "   "


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a handoff, its source messages (one, or the first and the last of several), and its sub-lines."""

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
