"""The contract between a host and a context engine: a compaction as a value, `ContextEngine`, and what it may ask for.

A host (library, agent, gateway) talks to this contract only. An engine knows no database and no provider: it gets
messages, a callable that writes summaries and, where the host has a store, an `EngineHost`. What was done to each
message of the input is an item of the `Compaction`; all its other properties are derived from the items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import dataclass as standard_dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeAlias

from clew.config import CompressionSettings, LosslessSettings
from clew.errors import InvalidArgument, PluginError
from clew.handoff import Compute, Handoff, Summarize, compute_now, unwrap
from clew.messages import Message, Tool
from clew.tokens import DEFAULT_WINDOW, count_each

if TYPE_CHECKING:
    from datetime import datetime

    from clew.usage import CanonicalUsage


# -- a compaction ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """A message of the input that is in the result as the same object."""

    index: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A message of the input that is in the result in another form."""

    index: int
    message: Message
    shortened: bool = True
    """Whether content was left out; False if the message was repaired or a note was appended."""


@dataclass(frozen=True, slots=True)
class Added:
    """A message that is not in the input: a stub for a call without a result."""

    message: Message


@dataclass(frozen=True, slots=True)
class Summarized:
    """A message that replaces others."""

    message: Message
    """The message in the result."""
    covers: tuple[int, ...]
    """The indexes of the messages that it replaces, in order."""
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
    """The size of the messages that it replaces."""
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
@standard_dataclass(frozen=True)
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
    """The numbers of the messages that the summary replaces: first, end (exclusive)."""
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
        """Each message of the input in its form in the result, without a summary before its text, or None."""
        after: list[Message | None] = [None] * len(self.source)
        for item in self.items:
            own = item.merged_with if isinstance(item, Summarized) else item
            if isinstance(own, Kept | Changed):
                after[own.index] = own.message if isinstance(own, Changed) else self.source[own.index]
        return tuple(after)

    @property
    def replaced(self) -> tuple[int, int]:
        """The indexes of the messages that the summary replaces: first, end (exclusive)."""
        covered = [item.covers for item in self.summaries if item.covers]
        return (min(map(min, covered)), max(map(max, covered)) + 1) if covered else (0, 0)

    @cached_property
    def regions(self) -> tuple[CompactionRegion, ...]:
        """One for each message of the input: before the summary, in it, between its parts, behind it.

        Without a summary, head and tail are the messages before and after the removed ones.
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
    """The messages of the items in the result, in order."""
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


# -- the engine --------------------------------------------------------------------------------------------------------

_RESERVE = 16_000
_RESERVE_SHARE = 0.25
_LARGEST_RESERVE_SHARE = 0.75
# A count is an estimate: this share of the window stays free in addition to the reserve for a reply.
_MARGIN_SHARE = 0.01
_PROMPTS = ("system", "developer")


AskModel: TypeAlias = Callable[[str, int], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """The settings and dependencies with which an engine is constructed."""

    context_length: int = DEFAULT_WINDOW
    model: str | None = None
    max_output: int | None = None
    """Tokens reserved for a reply; None if unknown."""
    compression: CompressionSettings = field(default_factory=CompressionSettings)
    """The settings under `compression` in the config."""
    summarize: Summarize | None = None
    """Writes a summary with a model; None where none is configured."""
    lossless: LosslessSettings = field(default_factory=LosslessSettings)
    """The settings under `lossless` in the config."""
    ask: AskModel | None = None
    """Answers a prompt in at most so many tokens, for an engine's own tools; None where no model is configured."""
    system_as_blocks: bool = False
    """Whether a note after the system prompt is a separate block."""
    has_store: bool = True
    """Whether the messages are rows of a store, where each can be opened again by its number.

    Without one, leading system messages are in the list and have no number, as a store keeps them beside the history.
    """
    compute: Compute = compute_now
    """Calls what takes long on a large history."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The session that an engine is started for."""

    session_id: str
    continues: str | None = None
    """The session that this one continues after a compaction: not a new conversation."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The engine's last stored `state` of the session."""
    host: EngineHost | None = None
    """None where the host has no store."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The figures that a meter shows to people."""

    last_prompt_tokens: int
    threshold_tokens: int
    context_length: int
    compactions: int
    paused: str | None = None
    """Why automatic compaction is paused; None if it is not."""

    @property
    def percent(self) -> float:
        """How full the window is."""
        return 100 * self.last_prompt_tokens / self.context_length if self.context_length else 0.0


class ContextEngine(ABC):
    """Decides when to compact and how, may offer tools to the model, and follows usage.

    Only `compress` must be written; everything else has a default. A subclass with its own `__init__` calls
    `super().__init__(setup)`. What an engine remembers is its `state`, an immutable JSON value that the host stores:
    `compress` and `should_compress` do not change it. What can be computed again, such as counted tokens, is a cache
    and no state.
    """

    name: str = ""
    """What `context.engine` in the config refers to."""

    def __init__(self, setup: EngineSetup | None = None) -> None:
        setup = setup or EngineSetup()
        self.settings = setup.compression
        self.summarize = setup.summarize
        self.compute = setup.compute
        self.session_id: str | None = None
        self.host: EngineHost | None = None
        self.recall_hint = ""
        """A sentence for the handoff that names the tools which open folded messages; empty if there are none."""
        self.last_prompt_tokens = 0
        self.model = setup.model
        self.context_length = setup.context_length
        self.max_output = setup.max_output
        self._state: Mapping[str, Any] = {}

    # -- sessions and state --------------------------------------------------------------------------------------------

    def on_session_start(self, start: SessionStart) -> None:
        """A session begins or is resumed. An engine drops its state of another conversation."""
        if self.session_id not in (None, start.session_id, start.continues):
            self.on_session_reset()
            self.host = None
        self.session_id = start.session_id
        self.host = start.host or self.host
        if start.state:
            self.restore(start.state)

    def on_session_end(self, session_id: str) -> None:
        """A session ended for good."""
        del session_id

    def on_session_reset(self) -> None:
        """The conversation starts over (`/new`): state and figures go back to those of a new engine."""
        self.last_prompt_tokens = 0
        self._state = {}

    @property
    def state(self) -> Mapping[str, Any]:
        """The state to restore after a restart, as plain JSON values."""
        return self._state

    def restore(self, state: Mapping[str, Any] | None) -> None:
        """Adopt a state: a stored one, or that of a compaction which is in effect. None changes nothing.

        The host also calls it with the state of a `compress` that changed nothing, unless it was a preview. The state
        of a preview or of a dropped preparation is not restored. Unknown keys are ignored.
        """
        if state is not None:
            self._state = dict(state)

    def on_compaction_undone(self) -> None:
        """The newest compaction was undone and no longer counts."""
        made = self.state.get("compactions")
        if isinstance(made, int) and made > 0:
            self.restore({**self.state, "compactions": made - 1})

    # -- what happens in the conversation ------------------------------------------------------------------------------

    def observe(self, messages: Sequence[Message]) -> None:
        """New messages of the history, as they arrive. An engine may read ahead, so that compacting takes less."""
        del messages

    def update_from_response(self, usage: CanonicalUsage) -> None:
        """A reply arrived; its `prompt_tokens` are the real size of the request. Unknown usage is ignored.

        A host gives a `CanonicalUsage`; any other usage is read as `clew.normalize_usage` reads it.
        """
        from clew.usage import normalize_usage  # imported here, since a fold alone has no usage

        read = normalize_usage(usage)
        if read.is_known:
            self.last_prompt_tokens = read.prompt_tokens

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        """The model changed, or its window became known."""
        self.model = model
        self.context_length = context_length
        self.max_output = max_output

    # -- when ----------------------------------------------------------------------------------------------------------

    @property
    def threshold_tokens(self) -> int:
        """The size of a request from which on it is compacted."""
        return threshold_for(self.context_length, self.settings.threshold, self.max_output)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether to compact now; without an argument, by the last real size. Does not change the engine."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return self.settings.enabled and tokens >= self.get_status().threshold_tokens

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        """Whether there is anything to fold; by default, whether there is more than one exchange."""
        return sum(message.get("role") not in _PROMPTS for message in messages) > 2

    def get_status(self) -> EngineStatus:
        """The figures of the meter."""
        compactions = self._state.get("compactions")
        return EngineStatus(
            self.last_prompt_tokens,
            self.threshold_tokens,
            self.context_length,
            compactions if isinstance(compactions, int) else 0,
        )

    # -- how -----------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        """The compaction, as a value: neither the messages nor the engine's state change.

        The result is never larger than the input. `current_tokens` is the size of the whole request where it is
        known, and is then `tokens_before`. `force`: a person asked, or a provider proved overflow. It may be cancelled
        while it waits.
        """

    @property
    def has_background_work(self) -> bool:
        """Whether there is background work, for which no turn has to wait."""
        return False

    async def work_in_background(self) -> Sequence[str]:
        """Do the background work and return notices for the user. The host calls it after a turn and may cancel it."""
        return ()

    def compaction(
        self,
        source: Sequence[Message],
        items: Sequence[CompactionItem],
        current_tokens: int | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        **account: Any,
    ) -> Compaction:
        """The compaction with these items and their sizes; one that changes nothing if the result would not be smaller.

        Its state is the engine's with `state` over it and one compaction more. `account` are further fields of
        `Compaction`, such as `written_by` and `records`.
        """
        counted = sum(count_each(source, self.model))
        before = counted if current_tokens is None else current_tokens
        after = before - counted + sum(count_each(list(messages_of(source, items)), self.model))
        if after >= before:
            return Compaction.nothing(source, before)
        new = {**self.state, **(state or {}), "compactions": self.get_status().compactions + 1}
        return Compaction(source, tuple(items), before, after, new, **account)

    def unchanged(self, source: Sequence[Message], current_tokens: int | None = None, *warnings: str) -> Compaction:
        """A compaction that changes nothing, with the reasons for people."""
        tokens = sum(count_each(source, self.model)) if current_tokens is None else current_tokens
        return Compaction.nothing(source, tokens, *warnings)

    # -- tools for the model -------------------------------------------------------------------------------------------

    def get_tool_schemas(self) -> list[Tool]:
        """Tools for the model; none by default."""
        return []

    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The result of one of the engine's own tools; LookupError for a tool that it does not have.

        Arguments are written by a model: invalid ones get a result that names the problem.
        """
        del arguments
        raise LookupError(f"the engine {self.name!r} has no tool {name!r}")


def checked_tokens(name: str, value: object) -> int:
    """A caller's number of tokens as an int; raises `InvalidArgument` for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return value.__index__()
    raise InvalidArgument(f"{name}={value!r:.80} is no number of tokens", remedy="pass a whole number, such as 10_000")


def checked_window(value: object) -> int:
    """A caller's context length; raises `InvalidArgument` if it cannot be a window."""
    window = checked_tokens("context_length", value)
    if window < 1:
        raise InvalidArgument(f"context_length={window} is no window", remedy="give it in tokens, or leave it out")
    return window


def checked_compaction(value: object, engine: str) -> Compaction:
    """An engine's result; raises `PluginError` if it is no compaction."""
    if not isinstance(value, Compaction):
        raise PluginError(
            f"engine {engine!r}: compress() returned {type(value).__name__}",
            remedy="it must return a clew.engines.Compaction",
        )
    return value


def checked_topic(value: object) -> str | None:
    """A caller's focus topic: a text, or None."""
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"focus_topic={value!r:.80} is no text", remedy="pass a text, or None")
    return value


def threshold_for(window: int, share: float, max_output: int | None = None) -> int:
    """`share` of a window, or less where the reply needs more than the rest.

    `max_output` is the limit of a reply, which a provider adds to the prompt before it compares with the window. A
    quarter of the window stays for the prompt, whatever the limit is.
    """
    window = checked_window(window)
    if max_output is None:
        reserve = min(int(window * _RESERVE_SHARE), _RESERVE)
    else:
        reserve = min(int(window * _LARGEST_RESERVE_SHARE), max_output + int(window * _MARGIN_SHARE))
    return min(int(window * share), window - reserve)


EngineFactory: TypeAlias = Callable[[EngineSetup], ContextEngine]


# -- the host ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A message of the conversation with its number and metadata."""

    number: int
    message: Message
    at: datetime
    tool: str | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """A query over a conversation, and the limits of its result."""

    text: str
    exact: bool = False
    """Only literal matches of the text, case-insensitive."""
    regex: bool = False
    """Only where the text, as a regular expression, matches a line."""
    role: str | None = None
    limit: int = 20
    snippet_chars: int = 600
    later_chars: int | None = None
    """Of the hits behind the first few, where not as many: so that a page has room for more of them."""
    seen_from: int | None = None
    """Messages from this number on are in view: they are no first hits."""


@dataclass(frozen=True, slots=True)
class HistoryHit:
    """A match: a message, a persisted output, or a summary."""

    kind: str
    """`message`, `output` or `summary`."""
    number: int | None
    """Of the message; for an output or a summary, the number of messages before it."""
    text: str
    """The passage around the match."""
    at: datetime
    role: str | None = None
    tool: str | None = None
    ref: str = ""
    """The id of an output."""
    is_start: bool = True
    is_end: bool = True


@dataclass(frozen=True, slots=True)
class HistoryHits:
    """The hits, the best first; `searched` names what was searched."""

    hits: tuple[HistoryHit, ...]
    searched: str
    problem: str = ""
    """Why the query was changed, or why hits may be missing."""


class EngineHost(Protocol):
    """The services of a host for its engine: messages of the conversation, nodes, and records of the engine."""

    offers_tools: bool
    """Whether the model can call the tools of the engine."""

    async def rows(self, first: int, last: int) -> Sequence[Message]:
        """The original messages of the conversation with the numbers `first` to `last` (exclusive)."""

    async def records(self, ids: Sequence[str] | None = None) -> Mapping[str, Any]:
        """The engine's records of this conversation by id; all of them without `ids`, unknown ids left out."""

    async def put_records(self, records: Mapping[str, Any]) -> None:
        """Store records, plain JSON by id, outside a compaction. Those of a compaction are `Compaction.records`."""

    async def nodes(self, ids: Sequence[str] | None = None) -> Sequence[Node]:
        """The nodes of this conversation in the order of what they cover; only existing ones of `ids`, if given."""

    async def put_node(self, node: Node) -> None:
        """Store a better text for a provisional node. New nodes of a compaction are `Compaction.nodes`."""

    async def shown_nodes(self) -> Sequence[Node]:
        """The nodes that the view shows now, oldest first."""

    async def history(self, first: int, last: int) -> Sequence[HistoryRow]:
        """The messages with the numbers `first` to `last` (exclusive), with their times."""

    async def message_count(self) -> int:
        """How many messages the conversation has."""

    async def search(self, query: HistoryQuery) -> HistoryHits:
        """The hits of a query in this conversation. Every text is a valid query."""

    async def state(self, at: int | None = None) -> Sequence[str]:
        """The state of the conversation's entities, a line each; with `at`, the state after that message."""

    async def output(self, id: str) -> str | None:
        """The whole text of a persisted output; None for an unknown id."""
