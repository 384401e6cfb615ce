"""The values of a store: sessions, messages, views, compactions, leases, records of engines.

A message's number in its conversation (`seq`) counts from 0. A range of numbers is half open, like `range`.
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
"""The `end_reason` of a session that a compaction ended."""


@dataclass(frozen=True, slots=True)
class Session:
    """A part of a conversation: from its start or a compaction to its end or the next compaction."""

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
        """Whether a compaction ended it, so that a continuation continues."""
        return self.end_reason == COMPRESSION


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to append, with its time, its size and its wire items."""

    message: Message
    at: datetime | None = None
    tokens: int | None = None
    dialect: DialectName | None = None
    """With `items`: the wire items are stored instead of the message, once for all messages of those items."""
    items: Sequence[Any] = ()
    part: int = 0
    """The index of this message among those of the items."""
    digest: bytes | None = None
    """The digest of the message, if it is known."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as the history holds it."""

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
    damage: str | None = None
    """Why the row cannot be read; `message` is then a note in its place."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Where messages were appended. `session` is the tip when the session named was compacted meanwhile."""

    session: str
    first_seq: int
    next_seq: int
    added: int


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync found known and added."""

    session: str
    known: int
    added: int
    next_seq: int
    is_branch: bool
    """Whether this call made a branch, because an earlier message had been edited."""
    is_new: bool
    """Whether this call started a conversation, because no beginning was known."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Messages of the history as they are, by their numbers."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class WrittenMessage:
    """A message that a compaction wrote: a summary, a shortened result, a stub."""

    message: Message
    seq: int | None = None
    """The row that it is a shorter form of; None where it replaces no single row."""


ViewItem: TypeAlias = Rows | WrittenMessage


@dataclass(frozen=True, slots=True)
class View:
    """What the model sees of a session now."""

    session: str
    conversation: int
    base: int | None
    """The id of the compaction in effect; None where there is none."""
    next_seq: int
    """The number of the next message. A compaction made from this view has considered all messages below it."""
    messages: tuple[Message, ...]
    seqs: tuple[int | None, ...]
    """The number of each message; None where a compaction wrote it for no single row."""
    written: frozenset[int] = frozenset()
    """Indexes of the messages that a compaction wrote."""
    undone_tokens: int = 0
    """Where the newest compaction was undone: the size of the request that it was made for."""

    def items_for(self, messages: Sequence[Message]) -> tuple[ViewItem, ...]:
        """A new list of messages as view items: an object of this view becomes a reference, any other is written."""
        known = {id(message): index for index, message in enumerate(self.messages)}
        items: list[ViewItem] = []
        for message in messages:
            index = known.get(id(message))
            seq = None if index is None else self.seqs[index]
            if seq is None or index in self.written:
                items.append(WrittenMessage(message, seq))
            elif items and isinstance(last := items[-1], Rows) and last.stop == seq:
                items[-1] = Rows(last.start, seq + 1)
            else:
                items.append(Rows(seq, seq + 1))
        return tuple(items)


@dataclass(frozen=True, slots=True)
class CompactionEntry:
    """A compaction to commit: the new view, and how it was made."""

    view: tuple[ViewItem, ...]
    summary: Message | None
    """The written message that summarises what was replaced; search finds it. None where results were only pruned."""
    base: int | None
    """`View.base` of the view that was compacted."""
    until: int
    """`View.next_seq` of that view. Messages that arrived since then follow it."""
    tokens_before: int = 0
    tokens_after: int = 0
    engine: str = ""
    template_version: str = ""
    written_by: str = ""
    focus_topic: str | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """More that the engine keeps with it, as JSON values."""

    @classmethod
    def of(
        cls, view: View, messages: Sequence[Message], summary: Message | None = None, **account: Any
    ) -> CompactionEntry:
        """The entry that changes a loaded view into a list of messages; unchanged ones must be the same objects."""
        return cls(view.items_for(messages), summary, view.base, view.next_seq, **account)

    @property
    def kept(self) -> tuple[Rows, ...]:
        """The rows that stay in the view as they are."""
        return tuple(item for item in self.view if isinstance(item, Rows))

    @property
    def replaced(self) -> tuple[Rows, ...]:
        """The rows below `until` that are no longer in the view as they are."""
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
class CommittedCompaction:
    """A compaction that was committed."""

    id: int
    session: str
    """The continuation that it opened."""
    conversation: int
    at: datetime
    entry: CompactionEntry
    is_in_effect: bool
    previous: int | None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to compact a conversation until it expires."""

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
class StoredOutput:
    """A spilled tool output with its whole text."""

    id: str
    session: str
    tool: str | None
    path: str | None
    text: str
    at: datetime


RECALLS = "recall"
"""The name under which a gateway keeps what a model recalled; `asked` of each record says by which calls."""


@dataclass(frozen=True, slots=True)
class EngineRecord:
    """Something that a context engine keeps with a conversation, such as a node of its summary tree."""

    id: str
    value: Any
    """Any JSON value."""
    until: int = 0
    """The record depends on messages below this number only: a branch that starts at or after it gets a copy."""


def check_view_items(entry: CompactionEntry, next_seq: int) -> None:
    """Refuse a view that refers to rows that are not there, or to one row twice."""
    if not 0 <= entry.until <= next_seq:
        raise InvalidArgument(f"until is {entry.until}, but the conversation has {next_seq} messages")
    reached = 0
    for rows in sorted(entry.kept, key=lambda rows: rows.start):
        if rows.start < reached or rows.stop <= rows.start or rows.stop > entry.until:
            raise InvalidArgument(
                f"rows {rows.start} to {rows.stop} are empty, seen twice, or not below {entry.until}",
                remedy="build the entry with CompactionEntry.of(view, messages)",
            )
        reached = rows.stop
