"""The contract between a host and a context engine: `ContextEngine`, what it is made from, and what it may ask for.

A host (library, agent, gateway) talks to this contract only. An engine knows no database and no provider: it gets
messages, a callable that writes summaries and, where the host has a store, an `EngineHost`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

from clew.config import CompressionSettings, LosslessSettings
from clew.engines.compaction import Compaction, CompactionItem, messages_of
from clew.errors import InvalidArgument, PluginError
from clew.handoff import Summarize
from clew.messages import Message, Tool
from clew.tokens import DEFAULT_WINDOW, count_each

if TYPE_CHECKING:
    from clew.engines.host import EngineHost
    from clew.usage import CanonicalUsage

_RESERVE = 16_000
_RESERVE_SHARE = 0.25
_LARGEST_RESERVE_SHARE = 0.75
# A count is an estimate: so much of the window stays free beside what a reply was promised.
_MARGIN_SHARE = 0.01
_PROMPTS = ("system", "developer")


AskModel: TypeAlias = Callable[[str, int], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """What an engine is made from. What it needs later comes by the contract."""

    context_length: int = DEFAULT_WINDOW
    model: str | None = None
    max_output: int | None = None
    """What is kept free for a reply; None where nothing is known of it."""
    compression: CompressionSettings = field(default_factory=CompressionSettings)
    """The settings under `compression` in the config."""
    summarize: Summarize | None = None
    """Writes a summary with a model; None where none is configured."""
    lossless: LosslessSettings = field(default_factory=LosslessSettings)
    """The settings under `lossless` in the config."""
    ask: AskModel | None = None
    """Answers a prompt in at most so many tokens, for an engine's own tools; None where no model is configured."""
    system_as_blocks: bool = False
    """Whether what is put behind the system prompt is a block of its own."""
    has_store: bool = True
    """Whether the messages are rows of a store, where each can be opened again by its number.

    Without one, leading system messages are in the list and have no number, as a store keeps them beside the history.
    """


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The session that an engine is started for."""

    session_id: str
    continues: str | None = None
    """The session that this one continues after a compaction: not a new conversation."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The engine's `state` when the session was last seen."""
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
    """Why automatic compaction stopped, where it did."""

    @property
    def percent(self) -> float:
        """How full the window is."""
        return 100 * self.last_prompt_tokens / self.context_length if self.context_length else 0.0


class ContextEngine(ABC):
    """Decides when to compact and how, may offer tools to the model, and follows usage.

    Only `compress` must be written; everything else has a default. A subclass with an `__init__` of its own calls
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
        self.session_id: str | None = None
        self.host: EngineHost | None = None
        self.last_prompt_tokens = 0
        self.model = setup.model
        self.context_length = setup.context_length
        self.max_output = setup.max_output
        self._state: Mapping[str, Any] = {}

    # -- sessions and state --------------------------------------------------------------------------------------------

    def on_session_start(self, start: SessionStart) -> None:
        """A session begins or is resumed. An engine that was in another conversation forgets that one."""
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
        """What must outlive a restart, as plain JSON values."""
        return self._state

    def restore(self, state: Mapping[str, Any] | None) -> None:
        """Take over a state: a stored one, or that of a compaction which is in effect. None changes nothing.

        The host also calls it with the state of a `compress` that was asked for in earnest and changed nothing. What
        a preview or a dropped preparation gave is not restored. Keys that are not known are no error.
        """
        if state is not None:
            self._state = dict(state)

    def on_compaction_undone(self) -> None:
        """The newest compaction is not in effect any more, and so does not count among those of the conversation."""
        made = self.state.get("compactions")
        if isinstance(made, int) and made > 0:
            self.restore({**self.state, "compactions": made - 1})

    # -- what happens in the conversation ------------------------------------------------------------------------------

    def observe(self, messages: Sequence[Message]) -> None:
        """New messages of the history, as they arrive. An engine may read ahead, so that compacting takes less."""
        del messages

    def update_from_response(self, usage: CanonicalUsage) -> None:
        """A reply came; its `prompt_tokens` are the real size of the request. A usage that is not known says nothing.

        A host gives a `CanonicalUsage`; any other usage is read as `clew.normalize_usage` reads it.
        """
        from clew.usage import normalize_usage  # late, since a fold alone has no usage

        read = normalize_usage(usage)
        if read.is_known:
            self.last_prompt_tokens = read.prompt_tokens

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        """The model changed, or its window was learnt."""
        self.model = model
        self.context_length = context_length
        self.max_output = max_output

    # -- when ----------------------------------------------------------------------------------------------------------

    @property
    def threshold_tokens(self) -> int:
        """The size of a request from which on it is compacted."""
        return threshold_for(self.context_length, self.settings.threshold, self.max_output)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether to compact now; without a figure, by the last real one. Changes nothing in the engine."""
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return self.settings.enabled and tokens >= self.get_status().threshold_tokens

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        """Whether there is anything to fold; by default, whether there is more than one exchange."""
        return sum(message.get("role") not in _PROMPTS for message in messages) > 2

    def get_status(self) -> EngineStatus:
        """The figures that people see."""
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
        """Whether there is something to do that no turn has to wait for."""
        return False

    async def work_in_background(self) -> Sequence[str]:
        """Do it; what people should be told. The host calls it after a turn, and may cancel it while it waits."""
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
        """The compaction with these items, sizes counted; one that changes nothing where it would not be smaller.

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

        Arguments come from a model: those that make no sense get a result that says so.
        """
        del arguments
        raise LookupError(f"the engine {self.name!r} has no tool {name!r}")


def checked_tokens(name: str, value: object) -> int:
    """A number of tokens that a caller gave, as an int; `InvalidArgument` for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return value.__index__()
    raise InvalidArgument(f"{name}={value!r:.80} is no number of tokens; pass a whole number, such as 10_000")


def checked_window(value: object) -> int:
    """A context length that a caller gave; `InvalidArgument` where it is no window."""
    window = checked_tokens("context_length", value)
    if window < 1:
        raise InvalidArgument(f"context_length={window} is no window; give it in tokens, or leave it out")
    return window


def checked_compaction(value: object, engine: str) -> Compaction:
    """What an engine returned; `PluginError` where that is no compaction."""
    if not isinstance(value, Compaction):
        raise PluginError(
            f"engine {engine!r}: compress() returned {type(value).__name__}; it must return a clew.engines.Compaction"
        )
    return value


def checked_topic(value: object) -> str | None:
    """A focus topic that a caller gave: a text, or None."""
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"focus_topic={value!r:.80} is no text; pass a text, or None")
    return value


def threshold_for(window: int, share: float, max_output: int | None = None) -> int:
    """`share` of a window, or less where the reply needs more than the rest.

    `max_output` is what a reply may take, which a provider adds to the prompt before it compares with the window. What
    leaves no quarter of the window for the prompt cannot be had.
    """
    window = checked_window(window)
    if max_output is None:
        reserve = min(int(window * _RESERVE_SHARE), _RESERVE)
    else:
        reserve = min(int(window * _LARGEST_RESERVE_SHARE), max_output + int(window * _MARGIN_SHARE))
    return min(int(window * share), window - reserve)


EngineFactory: TypeAlias = Callable[[EngineSetup], ContextEngine]
