"""What happened, as frozen values. Screens, logs and metrics listen; rooms tell and never call them.

A listener is a callable; one that fails is logged and never stops what it listens to. No message text is in an event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

_log = logging.getLogger("clew.events")


@dataclass(frozen=True, slots=True)
class Event:
    """Anything that happened."""


@dataclass(frozen=True, slots=True)
class CompactionStarted(Event):
    session: str
    tokens: int
    reason: str
    """`preflight`, `usage`, `overflow` or `manual`."""


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
class CompactionUndone(Event):
    """The view from before a compaction is back."""

    session: str


@dataclass(frozen=True, slots=True)
class Overflowed(Event):
    session: str
    attempt: int
    limit: int | None


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
    """A call asked for more output than there is room for, and asks again for less."""

    session: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class WindowLearnt(Event):
    """The window of a model turned out to be smaller."""

    session: str
    model: str
    tokens: int
    is_stated: bool
    """By the provider; otherwise a guess, which is forgotten with the session."""


@dataclass(frozen=True, slots=True)
class OutputSpilled(Event):
    """A tool's result was too large for the context, and lies in a file."""

    session: str
    tool: str | None
    chars: int


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something a person should read."""

    text: str


Listener = Callable[[Event], None]


class Events:
    """Those who listen."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def tell(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                # A broken screen must not break a turn.
                _log.exception("a listener failed on %s", type(event).__name__)
