"""Times as the database keeps them: whole microseconds since 1970, UTC. For showing and filtering, never for order."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Seconds since 1970, as `time.time` gives them."""

_START = datetime(1970, 1, 1, tzinfo=UTC)
wall_clock: Clock = time.time


def as_micros(at: datetime) -> int:
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - _START) // timedelta(microseconds=1)


def as_datetime(micros: int) -> datetime:
    return _START + timedelta(microseconds=micros)


def micros_of(seconds: float) -> int:
    return int(seconds * 1_000_000)
