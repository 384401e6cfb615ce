"""How many requests may come in a minute, and how many may be under way: of one caller, and of all of them.

A bucket holds the requests that a caller may still send, and fills steadily. A caller whose bucket is full again and
who has nothing under way is forgotten. Where they are counted is `CallCounts`: in this process, or in a file that the
workers of a gateway share.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from clew.gateway.callers import Refusal

MAX_CALLERS = 10_000
"""Remembered at the same time; beyond it those are forgotten who have rested longest."""
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """None is no limit."""

    per_minute: int | None = 6_000
    at_once: int | None = 256
    total_per_minute: int | None = None
    total_at_once: int | None = 1_024


@dataclass(slots=True)
class CallCount:
    """Of one caller, or of all."""

    left: float
    """Requests that may come now."""
    filled_at: float
    under_way: int = 0

    def fill(self, now: float, per_minute: int | None) -> None:
        if per_minute is not None:
            self.left = min(float(per_minute), self.left + (now - self.filled_at) * per_minute / _MINUTE)
            self.filled_at = now


class CallCounts(ABC):
    """Where requests are counted."""

    @abstractmethod
    def changing(self, caller: str, new: CallCount, total: CallCount) -> AbstractContextManager[tuple[CallCount, ...]]:
        """The counts of a caller and of all, to be changed within the block; `new` and `total` where there are none."""

    def forget_resting(self, now: float, per_minute: int | None) -> None:  # noqa: B027 (a table of fixed size need not)
        """Forget those who may send as much as anybody who has never come."""

    @property
    def callers(self) -> int:
        """How many are remembered here."""
        return 0


class ProcessCallCounts(CallCounts):
    """In the memory of this process."""

    def __init__(self) -> None:
        self._total: CallCount | None = None
        self._callers: OrderedDict[str, CallCount] = OrderedDict()

    @property
    def callers(self) -> int:
        return len(self._callers)

    @contextmanager
    def changing(self, caller: str, new: CallCount, total: CallCount) -> Iterator[tuple[CallCount, ...]]:
        self._total = self._total or total
        known = self._callers.get(caller, new)
        yield known, self._total
        self._callers[caller] = known
        self._callers.move_to_end(caller)
        if len(self._callers) > MAX_CALLERS:
            self._forget_one()

    def forget_resting(self, now: float, per_minute: int | None) -> None:
        for caller, calls in list(self._callers.items()):
            calls.fill(now, per_minute)
            if not calls.under_way and (per_minute is None or calls.left >= per_minute):
                del self._callers[caller]

    def _forget_one(self) -> None:
        resting = next((caller for caller, calls in self._callers.items() if not calls.under_way), None)
        if resting is not None:
            del self._callers[resting]


class CallMeter:
    """Counts requests, and refuses those beyond the limits."""

    def __init__(
        self,
        limits: CallLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        counts: CallCounts | None = None,
    ) -> None:
        self.limits = limits or CallLimits()
        self.under_way = 0
        """Requests of this process that have not ended."""
        self._clock = clock
        self._counts = counts or ProcessCallCounts()

    @property
    def callers(self) -> int:
        """How many are remembered."""
        return self._counts.callers

    @contextmanager
    def admit(self, caller: str) -> Iterator[None]:
        """Count a request for as long as the block lasts; raises `Refusal` where it is one too many."""
        limits, now = self.limits, self._clock()
        with self._changing(caller, now) as (calls, total):
            calls.fill(now, limits.per_minute)
            total.fill(now, limits.total_per_minute)
            _check(calls, limits.per_minute, limits.at_once, "this caller")
            _check(total, limits.total_per_minute, limits.total_at_once, "this gateway")
            for one in (calls, total):
                one.left -= 1
                one.under_way += 1
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            with self._changing(caller, now) as counted:
                for one in counted:
                    one.under_way = max(0, one.under_way - 1)

    def forget_resting(self) -> None:
        """Forget those who may send as much as anybody who has never come."""
        self._counts.forget_resting(self._clock(), self.limits.per_minute)

    def _changing(self, caller: str, now: float) -> AbstractContextManager[tuple[CallCount, ...]]:
        new = CallCount(float(self.limits.per_minute or 0), now)
        return self._counts.changing(caller, new, CallCount(float(self.limits.total_per_minute or 0), now))


def _check(calls: CallCount, per_minute: int | None, at_once: int | None, whose: str) -> None:
    if at_once is not None and calls.under_way >= at_once:
        raise Refusal(429, f"{whose} has {at_once} requests under way, which is the limit", {"Retry-After": "1"})
    if per_minute is not None and calls.left < 1:
        seconds = max(1, math.ceil((1 - calls.left) * _MINUTE / per_minute))
        message = f"{whose} has sent {per_minute} requests in a minute, which is the limit"
        raise Refusal(429, message, {"Retry-After": str(seconds)})
