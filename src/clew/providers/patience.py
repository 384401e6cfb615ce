"""How often and how long to wait for a provider: retries with jitter that honour Retry-After and end.

Knows kinds of faults and seconds. Sleeps through what it was given, so that tests do not.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from clew.providers.classify import ErrorClass

PASSING = frozenset({"rate_limit", "overloaded", "network"})
"""Faults that another try may find gone."""

Sleep = Callable[[float], Awaitable[None]]


async def sleep(seconds: float) -> None:
    """The real one."""
    import asyncio

    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Patience:
    """The retries before the first byte of a reply, and the time limits of a connection."""

    retries: int = 3
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 60.0
    """A provider that asks for a longer wait is not waited for: the person decides."""
    connect_seconds: float = 15.0
    idle_seconds: float = 300.0
    """Between two pieces of a reply, and before the first: models think for minutes."""
    last_seconds: float = 5.0
    """Behind the last word of a reply, for what it cost: some servers never say, and never hang up."""
    sleep: Sleep = sleep
    jitter: Callable[[], float] = random.random
    """A number from 0 up to 1."""

    def wait_before(self, retry: int, fault: ErrorClass) -> float | None:
        """Seconds to wait before this retry, the first being 0; None when there is none."""
        if retry >= self.retries or fault.kind not in PASSING:
            return None
        doubled = min(self.first_wait_seconds * 2.0**retry, self.longest_wait_seconds)
        if fault.retry_after is None:
            return doubled * (0.5 + 0.5 * self.jitter())
        if fault.retry_after > self.longest_wait_seconds:
            return None
        # Never sooner than asked, and not all at the same moment.
        return fault.retry_after + self.jitter() * min(1.0, doubled)
