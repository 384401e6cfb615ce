"""The shape of a handoff: fixed headings, one fact a line. Written by a model or by us, it reads back the same way.

Knows text only.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
# A reader looks for these first; when there is nothing to say, that is said.
_ALWAYS = frozenset({ACTIVE_TASK, BLOCKED})
_PLAIN = frozenset({ACTIVE_TASK, STATE})

_HEADING = re.compile(r"^#{1,4}\s*(?:\d+[.)]\s*)?\**(.+?)\**:?\s*$")
_MARK = re.compile(r"^(?:[-*•]|\d+[.)])\s+")
# What models call the same part.
_OTHER_NAMES = {
    "constraints & preferences": RULES,
    "constraints": RULES,
    "rules and preferences": RULES,
    "decisions": DECISIONS,
    "answered": ANSWERED,
    "resolved": ANSWERED,
    "pending user asks": PENDING,
    "exact values": VALUES,
}
_BY_NAME = {heading.lower(): heading for heading in HEADINGS} | _OTHER_NAMES


@dataclass(frozen=True, slots=True)
class Handoff:
    """The lines under each heading, without bullets and numbers."""

    sections: Mapping[str, Sequence[str]]

    def lines(self, heading: str) -> Sequence[str]:
        return self.sections.get(heading, ())

    def render(self) -> str:
        """The text; completed actions are numbered from 1 without a gap."""
        blocks = []
        for heading in HEADINGS:
            lines = self.lines(heading)
            if lines:
                blocks.append("\n".join([f"## {heading}", *_marked(heading, lines)]))
            elif heading in _ALWAYS:
                blocks.append(f"## {heading}\nNone.")
        return "\n\n".join(blocks)


def parse_handoff(text: str) -> Handoff:
    """Reads a handoff back; what stands under no known heading is kept as critical context."""
    sections: dict[str, list[str]] = {}
    heading = VALUES
    for line in text.splitlines():
        found = _HEADING.match(line)
        if found:
            heading = _BY_NAME.get(found[1].strip().lower(), VALUES)
            continue
        said = _MARK.sub("", line.strip())
        if not said or said.rstrip(".").lower() in ("none", "n/a", "(none)"):
            continue
        lines = sections.setdefault(heading, [])
        goes_on = line.startswith((" ", "\t")) and not _MARK.match(line.strip())
        if goes_on and lines and not (heading == COMPLETED and said.startswith("(")):
            lines[-1] += f" {said}"
        else:
            lines.append(said)
    return Handoff(sections)


def _marked(heading: str, lines: Sequence[str]) -> list[str]:
    if heading == COMPLETED:
        numbers = itertools.count(1)
        # A remark in brackets is no action.
        return [f"   {line}" if line.startswith("(") else f"{next(numbers)}. {line}" for line in lines]
    if heading in _PLAIN:
        return list(lines)
    return [f"- {line}" for line in lines]
