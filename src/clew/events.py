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
class Overflowed(Event):
    session: str
    attempt: int
    limit: int | None


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
