"""What a store takes and gives: sessions, rows, views, compactions, leases. Values alone, no database.

A number (`seq`) is a message's place in its conversation, from 0. A range of rows is half open, like `range`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from clew.errors import InvalidArgument
from clew.messages import DialectName, Message

SessionKind: TypeAlias = Literal["root", "continuation", "branch", "subagent"]

COMPRESSION = "compression"
"""The reason for which a compaction ends a session."""


@dataclass(frozen=True, slots=True)
class Session:
    """A stretch of a conversation, from its start, or from a compaction, to its end."""

    id: str
    conversation: int
    parent_session_id: str | None
    kind: SessionKind
    first_seq: int
    created: datetime
    ended: datetime | None
    end_reason: str | None
    title: str | None
    source: str
    model: str | None
    owner: str

    @property
    def is_compacted(self) -> bool:
        """Whether it ended in a compaction, so that a continuation stands for it."""
        return self.end_reason == COMPRESSION


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message with what is known about it beside what it says."""

    message: Message
    at: datetime | None = None
    tokens: int | None = None
    dialect: DialectName | None = None
    """With `items`: the wire items it came from are stored in its place, once for all messages that came from them."""
    items: Sequence[Any] = ()
    part: int = 0
    """Which of the messages that came from those items this is."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row."""

    seq: int
    message: Message
    session: str
    at: datetime
    tool: str | None
    tokens: int | None
    chain: bytes
    dialect: DialectName | None
    items: tuple[Any, ...]
    part: int


@dataclass(frozen=True, slots=True)
class Appended:
    """Where messages went: to `session`, which is the tip when the one named was compacted meanwhile."""

    session: str
    first_seq: int
    next_seq: int
    added: int


@dataclass(frozen=True, slots=True)
class Synced:
    """What a whole history, sent again, amounted to."""

    session: str
    known: int
    added: int
    next_seq: int
    is_branch: bool
    """Whether this call opened a branch, because an earlier message had been edited."""
    is_new: bool
    """Whether this call opened a conversation, because none was known."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the history, as they are."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Written:
    """A message that a compaction wrote: a summary, a shortened result, a stub."""

    message: Message
    seq: int | None = None
    """The row it stands in for, where it is one row's shorter form."""


ViewItem: TypeAlias = Rows | Written


@dataclass(frozen=True, slots=True)
class View:
    """What the model sees of a session now."""

    session: str
    conversation: int
    base: int | None
    """The compaction in effect; None while the history is seen whole."""
    next_seq: int
    """The number that the next message will get: a compaction chosen from this view has considered all below."""
    messages: tuple[Message, ...]
    places: tuple[int | None, ...]
    """For each message its row, or None where a compaction wrote it for no single row."""
    written: frozenset[int] = frozenset()
    """Indexes of the messages that are not their row, but written."""

    def items_for(self, messages: Sequence[Message]) -> tuple[ViewItem, ...]:
        """A new list of messages as items: what is still the same object is a reference, the rest is written."""
        known = {id(message): index for index, message in enumerate(self.messages)}
        items: list[ViewItem] = []
        for message in messages:
            index = known.get(id(message))
            seq = None if index is None else self.places[index]
            if seq is None or index in self.written:
                items.append(Written(message, seq))
            elif items and isinstance(last := items[-1], Rows) and last.stop == seq:
                items[-1] = Rows(last.start, seq + 1)
            else:
                items.append(Rows(seq, seq + 1))
        return tuple(items)


@dataclass(frozen=True, slots=True)
class CompactionEntry:
    """A compaction to be committed: the view that shall be, and the account of how it came about."""

    view: tuple[ViewItem, ...]
    summary: Message | None
    """The message among the written ones that tells what was replaced; search finds it. None for a mere pruning."""
    base: int | None
    """`View.base` of the view that was compacted."""
    until: int
    """`View.next_seq` of that view: what arrived since then stays in the tail."""
    tokens_before: int = 0
    tokens_after: int = 0
    engine: str = ""
    template_version: str = ""
    written_by: str = ""
    focus_topic: str | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """Anything else an engine wants to keep with it, as JSON."""

    @classmethod
    def of(
        cls, view: View, messages: Sequence[Message], summary: Message | None = None, **account: Any
    ) -> CompactionEntry:
        """The entry that turns a loaded view into a new list of messages, unchanged ones being the same objects."""
        return cls(view.items_for(messages), summary, view.base, view.next_seq, **account)

    @property
    def kept(self) -> tuple[Rows, ...]:
        """The rows that stay in view as they are."""
        return tuple(item for item in self.view if isinstance(item, Rows))

    @property
    def replaced(self) -> tuple[Rows, ...]:
        """The rows below `until` that are no longer seen as they are."""
        gaps: list[Rows] = []
        reached = 0
        for rows in sorted(self.kept, key=lambda rows: rows.start):
            if rows.start > reached:
                gaps.append(Rows(reached, rows.start))
            reached = max(reached, rows.stop)
        if reached < self.until:
            gaps.append(Rows(reached, self.until))
        return tuple(gaps)


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction that was committed."""

    id: int
    session: str
    """The continuation whose first entry it is."""
    conversation: int
    at: datetime
    entry: CompactionEntry
    is_in_effect: bool
    previous: int | None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to compact a conversation, until it expires."""

    conversation: int
    holder: str
    token: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LearntWindow:
    """A context window that a provider stated."""

    model: str
    base_url: str
    tokens: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Output:
    """A spilled tool output, whole."""

    id: str
    session: str
    tool: str | None
    path: str | None
    text: str
    at: datetime


def check_items(entry: CompactionEntry, next_seq: int) -> None:
    """Refuse a view that refers to rows that are not there, or to one row twice."""
    if not 0 <= entry.until <= next_seq:
        raise InvalidArgument(f"until is {entry.until}, but the conversation has {next_seq} messages")
    reached = 0
    for rows in sorted(entry.kept, key=lambda rows: rows.start):
        if rows.start < reached or rows.stop <= rows.start or rows.stop > entry.until:
            raise InvalidArgument(
                f"rows {rows.start} to {rows.stop} are empty, seen twice, or not below {entry.until}; "
                "build the entry with CompactionEntry.of(view, messages)"
            )
        reached = rows.stop
