"""A compaction as a value: what became of every message of the input, item by item.

Everything else that can be asked of a compaction (the new messages, what was replaced, the fate of a message) is
derived from its items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

from clew.handoff import Handoff, unwrap
from clew.messages import Message


@dataclass(frozen=True, slots=True)
class Kept:
    """A message of the input that stands in the result as the same object."""

    index: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A message of the input that stands in the result in another form."""

    index: int
    message: Message
    shortened: bool = True
    """Whether something of it was left out; False where it was repaired or got a note behind it."""


@dataclass(frozen=True, slots=True)
class Added:
    """A message that belongs to none of the input: a stub for a call without a result."""

    message: Message


@dataclass(frozen=True, slots=True)
class Summarized:
    """A message that stands for others."""

    message: Message
    """As it stands in the result."""
    covers: tuple[int, ...]
    """The indexes of the input that it stands for, in order."""
    text: str = ""
    """The bare summary, without prefix and end marker; empty in a plan, where it is not written yet."""
    merged_with: Kept | Changed | None = None
    """The message whose text follows the summary in this one, because no role would fit between its neighbours."""
    node: str | None = None
    """The id under which the engine keeps the summary, where it does."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A message of the input that is in the result in no form, such as a result without a call."""

    index: int


@dataclass(frozen=True, slots=True)
class Node:
    """A summary that an engine keeps under an id, of the messages `first` to `last` (not included)."""

    id: str
    depth: int
    """0: a leaf, over messages; otherwise over other nodes."""
    first: int
    last: int
    text: str
    tokens: int
    covered_tokens: int
    """The size of the messages that it stands for."""
    written_by: str
    template: str = ""
    is_final: bool = True
    """False: provisional, written without a model, to be written again by one."""
    children: tuple[str, ...] = ()
    """The ids of the nodes it was made from, oldest first; none for a leaf."""
    replaces: str | None = None
    """The id of the provisional node of the same messages that this one is a better text for."""


CompactionItem: TypeAlias = Kept | Changed | Added | Summarized | Removed


class Fate(StrEnum):
    """What became of a message of the input."""

    KEPT = "kept"
    PRUNED = "pruned"
    SUMMARISED = "summarised"
    REMOVED = "removed"


class CompactionRegion(StrEnum):
    """Which part of the conversation a message of the input is in, for a compaction."""

    HEAD = "head"
    HANDOFF = "handoff"
    """An earlier summary, which the new one takes in."""
    FOLDED = "folded"
    KEPT = "kept"
    """Between head and tail, and not summarised."""
    TAIL = "tail"
    REMOVED = "removed"


# Without slots: what is derived is computed once, when it is asked for.
@dataclass(frozen=True)
class Compaction:
    """What `compress` made of its input. Each index of `source` occurs in exactly one of the items."""

    source: Sequence[Message] = field(repr=False)
    """The messages that were handed to `compress`."""
    items: tuple[CompactionItem, ...] = field(repr=False)
    """In the order of the result."""
    tokens_before: int
    tokens_after: int
    """`tokens_before` without the tokens of `source` and with those of `messages`."""
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    """The engine's state once this compaction is in effect, for `ContextEngine.restore`; None: it stays as it is."""
    records: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Records of the engine, JSON by id, that the host stores in the same transaction as the compaction."""
    nodes: tuple[Node, ...] = field(default=(), repr=False)
    """New nodes, which the host stores in the same transaction, once it is proven that they cover what is folded."""
    shown_nodes: tuple[str, ...] | None = field(default=None, repr=False)
    """The ids of the nodes that the result shows, oldest first; None from an engine that keeps no nodes."""
    numbers: tuple[int, int] = (0, 0)
    """The numbers of the conversation that the summary stands for: from, to (not included)."""
    handoff: Handoff | None = field(default=None, repr=False)
    """The summary as a value; None from an engine or a summariser that gives only text."""
    written_by: str | None = None
    template: str | None = None
    unverified: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """For people, never for the model."""

    @classmethod
    def nothing(
        cls, source: Sequence[Message], tokens: int, *warnings: str, state: Mapping[str, Any] | None = None
    ) -> Compaction:
        """A compaction that changed nothing."""
        return cls(source, tuple(map(Kept, range(len(source)))), tokens, tokens, state, warnings=warnings)

    @cached_property
    def changed(self) -> bool:
        """Whether the result is another one than the input."""
        if len(self.items) != len(self.source):
            return True
        return not all(isinstance(item, Kept) and item.index == at for at, item in enumerate(self.items))

    @cached_property
    def messages(self) -> Sequence[Message]:
        """The result; the very input where nothing changed."""
        return list(messages_of(self.source, self.items)) if self.changed else self.source

    @property
    def summaries(self) -> tuple[Summarized, ...]:
        """The summaries that this compaction wrote, in the order of the result."""
        return tuple(item for item in self.items if isinstance(item, Summarized))

    @property
    def summary(self) -> str | None:
        """The text of the summary, of all where there are several; None when nothing was summarised."""
        return "\n\n".join(item.text for item in self.summaries) or None

    def read_handoff(self) -> Handoff | None:
        """The summary as a value, read from its text where there is only text; None when nothing was summarised."""
        if self.handoff is not None or self.summary is None:
            return self.handoff
        return Handoff.of_text(self.summary)

    @cached_property
    def fates(self) -> tuple[Fate, ...]:
        """One for each message of the input."""
        fates = [Fate.REMOVED] * len(self.source)
        for item in self.items:
            for index, fate in _fates_of(item):
                fates[index] = fate
        return tuple(fates)

    @cached_property
    def messages_after(self) -> tuple[Message | None, ...]:
        """Each message of the input as it stands in the result, without a summary before its text, or None."""
        after: list[Message | None] = [None] * len(self.source)
        for item in self.items:
            own = item.merged_with if isinstance(item, Summarized) else item
            if isinstance(own, Kept | Changed):
                after[own.index] = own.message if isinstance(own, Changed) else self.source[own.index]
        return tuple(after)

    @property
    def replaced(self) -> tuple[int, int]:
        """The messages of the input that the summary stands for: from, to (not included)."""
        covered = [item.covers for item in self.summaries if item.covers]
        return (min(map(min, covered)), max(map(max, covered)) + 1) if covered else (0, 0)

    @cached_property
    def regions(self) -> tuple[CompactionRegion, ...]:
        """One for each message of the input: before the summary, in it, between its parts, behind it.

        Without a summary, head and tail are what stands before and behind the removed messages.
        """
        first, last = self.replaced
        if not self.summaries and (removed := [at for at, fate in enumerate(self.fates) if fate is Fate.REMOVED]):
            first, last = removed[0], removed[-1] + 1
        return tuple(self._region(index, fate, first, last) for index, fate in enumerate(self.fates))

    def _region(self, index: int, fate: Fate, first: int, last: int) -> CompactionRegion:
        if fate is Fate.REMOVED:
            return CompactionRegion.REMOVED
        if fate is Fate.SUMMARISED:
            return CompactionRegion.HANDOFF if is_handoff(self.source[index]) else CompactionRegion.FOLDED
        if index < first:
            return CompactionRegion.HEAD
        return CompactionRegion.KEPT if index < last else CompactionRegion.TAIL


@dataclass(frozen=True, slots=True)
class CompactionPreview:
    """What a compaction would do with each message of its input. No summary is written for it."""

    source: Sequence[Message] = field(repr=False)
    items: tuple[CompactionItem, ...] = field(repr=False)
    """The items of the compaction, its summary without text."""
    regions: tuple[CompactionRegion, ...] = field(repr=False)
    """This and the following three: one for each message of the input."""
    numbers: tuple[int | None, ...] = field(repr=False)
    """What a handoff calls the messages (m12); None for leading system messages and an earlier handoff."""
    sizes: tuple[int, ...] = field(repr=False)
    sizes_after: tuple[int, ...] = field(repr=False)
    """0 where the message would be folded or removed, smaller where it would be pruned."""
    tokens_before: int
    tokens_after: int
    """At most, with a summary that uses all of its budget."""
    summary_tokens: int
    """What the summary may take; 0 when there is nothing to fold."""

    @property
    def would_fold(self) -> bool:
        return CompactionRegion.FOLDED in self.regions


def messages_of(source: Sequence[Message], items: Iterable[CompactionItem]) -> Iterator[Message]:
    """The messages that items stand for, in their order."""
    for item in items:
        if not isinstance(item, Removed):
            yield source[item.index] if isinstance(item, Kept) else item.message


def indexes_of(item: CompactionItem) -> tuple[int, ...]:
    """The indexes of the input that an item is about."""
    if isinstance(item, Summarized):
        return item.covers if item.merged_with is None else (*item.covers, item.merged_with.index)
    return () if isinstance(item, Added) else (item.index,)


def is_handoff(message: Message) -> bool:
    """Whether a message is a summary of an earlier compaction and nothing else."""
    wrapped = unwrap(message) if message.get("role") in ("user", "assistant") else None
    return wrapped is not None and wrapped.message is None


def _fates_of(item: CompactionItem) -> Iterator[tuple[int, Fate]]:
    if isinstance(item, Summarized):
        yield from ((index, Fate.SUMMARISED) for index in item.covers)
        if item.merged_with is not None:
            yield from _fates_of(item.merged_with)
    elif isinstance(item, Kept):
        yield item.index, Fate.KEPT
    elif isinstance(item, Changed):
        yield item.index, Fate.PRUNED if item.shortened else Fate.KEPT
