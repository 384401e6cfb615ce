"""The prompts of a summariser: templates with a version, filled without ever reading what they are filled with.

Knows the template files and how an entry of the record is laid out. Knows no tokens and no model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from clew.ledger import shorten
from clew.ledger.verify import MARK
from clew.summaries.chunks import Entry
from clew.summaries.fence import fence_for, quotable

FIRST = "first/1"
UPDATE = "update/1"
_HEADINGS = "headings/1"

_HOLE = re.compile(r"\{([a-z]+)\}")
_FOCUS = (
    "- The user asked to keep this above all: {focus}. Give it 60 to 70% of the length, in full detail; cut all else "
    "harder.\n"
)
_FOCUS_CHARS = 300
_MORE_FOLLOWS = " This is one part of a longer record; more follows later."
_CONTINUED = " It goes on where the handoff ends."


@dataclass(frozen=True, slots=True)
class Ask:
    """Everything that a prompt says besides its fixed words."""

    budget: int
    record: Sequence[Entry]
    previous: str = ""
    newest: str = ""
    """The newest request, where it does not stand in the record itself."""
    focus: str | None = None
    is_last: bool = True


def template_for(ask: Ask) -> str:
    return UPDATE if ask.previous else FIRST


def write_prompt(ask: Ask) -> str:
    """The text that goes to the model."""
    previous, newest = quotable(ask.previous), quotable(ask.newest)
    fence = fence_for(
        [*(entry.text for entry in ask.record), *(entry.header for entry in ask.record), previous, newest]
    )
    record = [f"{fence} {entry.header}\n{entry.text}" for entry in ask.record]
    if newest:
        record.append(f"{fence} user, later on: the newest request, not dealt with yet\n{newest}")
    return fill(
        template_text(template_for(ask)),
        {
            "budget": str(ask.budget),
            "fence": fence,
            "focus": fill(_FOCUS, {"focus": shorten(quotable(ask.focus), _FOCUS_CHARS)}) if ask.focus else "",
            "headings": template_text(_HEADINGS).strip(),
            "mark": MARK,
            "part": (_CONTINUED if ask.previous else "") + ("" if ask.is_last else _MORE_FOLLOWS),
            "previous": previous,
            "record": "\n".join(record),
        },
    )


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its holes filled, in one pass: braces inside a value are text."""
    return _HOLE.sub(lambda hole: values[hole[1]], template)


@cache
def template_text(name: str) -> str:
    """The text of a template; `first/1` stands in the file `first-1.md`."""
    file = resources.files("clew.summaries") / "templates" / f"{name.replace('/', '-')}.md"
    return file.read_text(encoding="utf-8")
