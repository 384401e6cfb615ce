"""The contract between a host and a context engine, and the values they exchange.

The host (library, agent, gateway) talks to this contract only. An engine knows no database and no provider: it gets
messages and a callable that writes summaries, and gives back values. What it must remember over a restart it says in
`memory` and is handed again at the start of a session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from clew.messages import Message, Tool
from clew.usage import CanonicalUsage


class Fate(StrEnum):
    """What became of a message of the input."""

    KEPT = "kept"
    PRUNED = "pruned"
    SUMMARISED = "summarised"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Compaction:
    """What now stands for the messages it replaced, and the account of how."""

    messages: Sequence[Message] = field(repr=False)
    changed: bool
    tokens_before: int
    tokens_after: int
    summary: str | None = field(default=None, repr=False)
    """The handoff itself, without prefix and end marker; None when nothing was summarised."""
    fates: tuple[Fate, ...] = field(default=(), repr=False)
    """One for each message of the input."""
    replaced: tuple[int, int] = (0, 0)
    """The messages of the input that the summary stands for: from, to (not included)."""
    numbers: tuple[int, int] = (0, 0)
    """The same as message numbers of the whole conversation, which go on counting over compactions."""
    written_by: str | None = None
    template: str | None = None
    unverified: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """For people, never for the model."""

    @classmethod
    def nothing(cls, messages: Sequence[Message], tokens: int, *warnings: str) -> Compaction:
        """The account of a compaction that changed nothing."""
        fates = (Fate.KEPT,) * len(messages)
        return cls(messages, False, tokens, tokens, fates=fates, warnings=warnings)


class Place(StrEnum):
    """Where a message of the input stands in a compaction."""

    HEAD = "head"
    HANDOFF = "handoff"
    """An earlier summary, which the new one takes in."""
    FOLDED = "folded"
    KEPT = "kept"
    """Between head and tail, and word for word all the same."""
    TAIL = "tail"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a compaction would do with each message, before anything is written."""

    messages: Sequence[Message]
    """The history as it would be read: the input, repaired where it was broken. The rest is one for each of these."""
    places: tuple[Place, ...]
    numbers: tuple[int | None, ...]
    """What a handoff calls the messages (m12); None for an earlier handoff, which has no number."""
    sizes: tuple[int, ...]
    sizes_after: tuple[int, ...]
    """0 where the message would be folded, smaller where it would be pruned."""
    tokens_before: int
    tokens_after: int
    """At most, with a summary that uses all of its budget."""
    summary_tokens: int
    """What the summary may take; 0 when there is nothing to fold."""

    @property
    def would_fold(self) -> bool:
        return Place.FOLDED in self.places


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What a meter shows to people."""

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


@dataclass(frozen=True, slots=True)
class SessionStart:
    """What an engine is told when a session begins."""

    session_id: str
    continues: str | None = None
    """The session that this one continues after a compaction: not a new conversation."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What `memory` said when the session was last seen."""


class ContextEngine(ABC):
    """Decides when to compact and how, may offer tools to the model, and follows usage."""

    name: str = ""
    """What `context.engine` in the config refers to."""

    @abstractmethod
    def on_session_start(self, start: SessionStart) -> None:
        """A session begins or is resumed. What its memory holds and this engine does not know is left alone."""

    def on_session_end(self, session_id: str) -> None:
        """A session ended for good."""
        del session_id

    @abstractmethod
    def on_session_reset(self) -> None:
        """The conversation starts over (`/new`): counters and strikes go back to zero."""

    def observe(self, messages: Sequence[Message]) -> None:
        """New messages of the history, as they arrive. An engine may read ahead, so that compacting takes less."""
        del messages

    @abstractmethod
    def update_from_response(self, usage: CanonicalUsage) -> None:
        """A reply came; its `prompt_tokens` are the real size of the request."""

    @abstractmethod
    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        """The model changed, or its window was learnt."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether to compact now; without a figure, by the last real one."""

    @abstractmethod
    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        """Whether there is anything between head and tail."""

    @abstractmethod
    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        """The compaction itself. Never changes its input, and never gives back more than it got.

        `current_tokens` is the size of the whole request where it is known, and is then `tokens_before`. `force`: a
        person asked, or a provider proved overflow. It may be cancelled while it waits, and nothing has happened then.
        """

    def get_tool_schemas(self) -> list[Tool]:
        """Tools for the model; none by default."""
        return []

    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The result of one of the engine's own tools; LookupError for a tool that it does not have.

        Arguments come from a model: those that make no sense get a result that says so.
        """
        del arguments
        raise LookupError(f"the engine {self.name!r} has no tool {name!r}")

    @abstractmethod
    def get_status(self) -> EngineStatus:
        """The figures that people see."""

    @property
    def memory(self) -> Mapping[str, Any]:
        """What must outlive a restart, as plain JSON values."""
        return {}
