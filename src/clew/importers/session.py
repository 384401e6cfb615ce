"""The values that readers of session files work with: notices, lines, entries, and a session with its metadata.

Readers are generators over lines, so that a file of any size needs the memory of one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from clew.messages import Message, ParsedConversation, Tool

Record: TypeAlias = dict[str, Any]
"""A JSON object."""

COMPACTED_NOTICE = "the program compacted here; the messages before it are kept, its summary too"
_LINES_SHOWN = 3


class Notices:
    """Remarks of a reader about odd content, for the user: each once, with the lines it is about.

    Ten thousand bad lines make one sentence. Remarks are in the order of their first occurrence.
    """

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, tuple[int, tuple[int, ...]]] = {}

    def add(self, remark: str, line: int | None = None) -> None:
        count, shown = self._lines.get(remark, (0, ()))
        if line is not None and len(shown) < _LINES_SHOWN:
            shown = (*shown, line)
        self._lines[remark] = (count + 1, shown)

    def sentences(self) -> tuple[str, ...]:
        return tuple(_sentence(remark, count, shown) for remark, (count, shown) in self._lines.items())


def _sentence(remark: str, count: int, shown: tuple[int, ...]) -> str:
    if not shown:
        return remark if count == 1 else f"{remark} ({count} times)"
    where = ("line " if count == 1 else "lines ") + ", ".join(map(str, shown))
    more = count - len(shown)
    return f"{remark} ({where} and {more} more)" if more else f"{remark} ({where})"


def optional_text(value: Any) -> str | None:
    """A text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def mapping(value: Any) -> Mapping[str, Any]:
    """A JSON object; empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The JSON objects in a list; empty for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class JsonLine:
    """A line of a JSONL file that holds an object."""

    number: int
    record: Record


@dataclass(frozen=True, slots=True)
class BadJsonLine:
    """A line of a JSONL file that holds something else."""

    number: int
    problem: str
    is_cut: bool
    """Whether it is no JSON at all, as a killed writer leaves it; False for JSON of another type."""
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One message of a session, with what its file says about it."""

    message: Message
    line: int
    """Its line in a JSONL file, or its position in a list, counted from 1."""
    timestamp: str | None = None
    """As the program wrote it."""
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    """What the provider reported for the call that gave this message, in the program's own shape."""
    call_id: str | None = None
    """The provider's id of that call, where the file has it."""
    is_summary: bool = False
    """The program's own summary of earlier messages; those are kept too."""
    kept_from: int | None = None
    """Of a compaction: the line of the first message that stayed in the window, where the file names one."""
    kept: tuple[Message, ...] = ()
    """Of a compaction: the messages that stayed in the window, where the file repeats them."""


@dataclass(frozen=True, slots=True)
class SourceUsage:
    """The usage of one model in a whole session, where the program counts per session and not per call."""

    model: str
    usage: Mapping[str, Any]
    timestamp: str | None = None


@dataclass(slots=True)
class SourceMetadata:
    """The data of a file beside the messages; filled while they are read."""

    notices: Notices = field(default_factory=Notices)
    system: str | None = None
    tools: list[Tool] = field(default_factory=list)
    model: str | None = None
    session: str | None = None
    """The program's own id of the session."""
    directory: str | None = None
    title: str | None = None
    parent: str | None = None
    """The program's own id of the parent session."""
    parent_relation: Literal["subagent", "branch"] = "subagent"
    """How it left its parent."""
    usage: list[SourceUsage] = field(default_factory=list)

    def note(self, record: Mapping[str, Any], **fields: str) -> None:
        """Take over the texts that a record has: `note(record, directory="cwd")`. Other fields stay as they are."""
        for name, field_of_record in fields.items():
            if (text := optional_text(record.get(field_of_record))) is not None:
                setattr(self, name, text)


# Gives the lines from the beginning, as often as it is called: a tree needs a pass to find its active branch.
LineSource: TypeAlias = Callable[[Notices], Iterator[JsonLine]]
LineReader: TypeAlias = Callable[[LineSource, SourceMetadata], Iterable[SourceEntry]]


class SourceSession:
    """A session in a source. Its metadata is complete when its entries have been read."""

    __slots__ = ("_entries", "conversation", "kind", "metadata", "name")

    def __init__(
        self,
        name: str,
        kind: str,
        metadata: SourceMetadata,
        content: Callable[[], Iterable[SourceEntry]] | ParsedConversation,
    ) -> None:
        self.name = name
        self.kind = kind
        """`json`, `jsonl`, or the program that wrote it: `claude_code`, `codex`, `gemini_cli`,
        `opencode`, `hermes`, `pi`."""
        self.metadata = metadata
        self.conversation = content if isinstance(content, ParsedConversation) else None
        """The conversation of a plain kind, which was read at once; None for a program's session file."""
        self._entries = None if isinstance(content, ParsedConversation) else content

    def entries(self) -> Iterator[SourceEntry]:
        """The messages, one by one."""
        if self.conversation is not None:
            for number, message in enumerate(self.conversation.messages, 1):
                yield SourceEntry(message, number)
        elif self._entries is not None:
            yield from self._entries()
