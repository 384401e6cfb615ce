"""What a reader of session files gives: messages one by one, and beside them what the file says of itself.

Readers are generators over lines, so that a file of any size needs the memory of one turn. This file knows their
common values; each program's own module knows its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from clew.importers.notices import Notices
from clew.importers.records import Line
from clew.messages import Message, Tool


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a session, with what its file tells about it."""

    message: Message
    line: int
    """Where it stands: a line of a JSONL file, or the place in a list, counted from 1."""
    at: str | None = None
    """When, as the program wrote it."""
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    """What the provider reported for the call that gave this message, in the program's own shape."""
    call: str | None = None
    """The provider's id of that call, where the file has it."""
    is_summary: bool = False
    """The program's own summary of what came before; the messages it stands for are kept too."""


@dataclass(frozen=True, slots=True)
class Total:
    """What a whole session took of one model, where the program counts per session and not per call."""

    model: str
    usage: Mapping[str, Any]
    at: str | None = None


@dataclass(slots=True)
class Margin:
    """What stands beside the messages; filled while they are read."""

    notices: Notices = field(default_factory=Notices)
    system: str | None = None
    tools: list[Tool] = field(default_factory=list)
    model: str | None = None
    session: str | None = None
    directory: str | None = None
    title: str | None = None
    parent: str | None = None
    """The session that this one came out of, by the name that the program gave it."""
    descent: Literal["subagent", "branch"] = "subagent"
    """How it came out of its parent."""
    totals: list[Total] = field(default_factory=list)


# Gives the lines from the beginning, as often as it is called: a tree needs a pass to find its living branch.
Pages: TypeAlias = Callable[[Notices], Iterator[Line]]
LineReader: TypeAlias = Callable[[Pages, Margin], Iterable[Entry]]
DocumentReader: TypeAlias = Callable[[dict[str, Any], Margin], Iterable[Entry]]
