"""Events: what happened, as frozen values, for screens, logs and metrics that listen.

A listener is a callable. One that fails is logged, and never stops what it listens to. No event has the text of a
message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

_log = logging.getLogger("clew.events")


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events."""


@dataclass(frozen=True, slots=True)
class CompactionStarted(Event):
    session: str
    tokens: int
    reason: str
    """`preflight`, `usage`, `overflow`, `manual`, `idle`, `cold` or `finished`."""


@dataclass(frozen=True, slots=True)
class CompactionPhase(Event):
    session: str
    phase: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CompactionFinished(Event):
    session: str
    continued_as: str | None
    tokens_before: int
    tokens_after: int
    written_by: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SummaryReplied(Event):
    """A model answered the request for a summary; the real figures of the call."""

    session: str
    model: str
    extends: bool
    """Whether the request extended the conversation, which the provider then reads from its cache; otherwise it was
    one of its own, with the conversation as text."""
    prompt_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cost_micros: int | None
    """Millionths of a dollar; None where no price is known."""


@dataclass(frozen=True, slots=True)
class CompactionUndone(Event):
    """The view from before a compaction is back."""

    session: str


@dataclass(frozen=True, slots=True)
class Overflowed(Event):
    """A provider refused a request as too large; what follows is one compaction and one more call."""

    session: str
    attempt: int
    limit: int | None
    """The window that the provider states; None where it states none."""
    model: str = ""
    provider: str = ""
    window: int | None = None
    """The window that is used from now on; None where it stays the same."""
    configured: int | None = None
    """A configured window that is larger than the stated one, and is not used any more."""


@dataclass(frozen=True, slots=True)
class Replied(Event):
    """A model answered; the real figures of the call."""

    session: str
    model: str
    prompt_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_micros: int | None
    """Millionths of a dollar; None where no price is known."""


@dataclass(frozen=True, slots=True)
class OutputCapLowered(Event):
    """A call asked for more output than fits, and is repeated with a smaller limit."""

    session: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class WindowLearnt(Event):
    """The window of a model turned out to be smaller."""

    session: str
    model: str
    tokens: int
    is_stated: bool
    """By the provider; otherwise it is a guess, which ends with the session."""


@dataclass(frozen=True, slots=True)
class OutputSpilled(Event):
    """A tool's result was too large for the context, and was written to a file."""

    session: str
    tool: str | None
    chars: int


@dataclass(frozen=True, slots=True)
class PassagesRecalled(Event):
    """Passages that are not in view were put behind the newest message, for one turn."""

    session: str
    messages: tuple[str, ...]
    """Where they stand: `m12`, and in another conversation `s_4f1c m12`."""
    tokens: int


@dataclass(frozen=True, slots=True)
class HistoryRecalled(Event):
    """The model behind a gateway searched its conversation, or opened messages of it."""

    session: str
    tool: str
    messages: tuple[str, ...]
    """Those that it was shown, as `m12`."""
    tokens: int


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something a person should read."""

    text: str


Listener = Callable[[Event], None]


class Events:
    """The listeners of a runtime."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                # A failing screen must not stop a turn.
                _log.exception("a listener failed on %s", type(event).__name__)
