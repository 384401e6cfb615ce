"""Readings gathered until there are enough of them, or until they have waited long enough."""

from __future__ import annotations

from collections.abc import Callable

from tidepost.readings import Reading


class Batcher:
    def __init__(self, max_size: int, max_age_s: float, now: Callable[[], float]) -> None:
        self.max_size = max_size
        self.max_age_s = max_age_s
        self.now = now
        self.held: list[Reading] = []
        self.since = 0.0

    def add(self, reading: Reading) -> list[Reading] | None:
        """A full batch, or None while it is still filling."""
        if not self.held:
            self.since = self.now()
        self.held.append(reading)
        return self.take() if self.is_due() else None

    def is_due(self) -> bool:
        if not self.held:
            return False
        return len(self.held) >= self.max_size or self.now() - self.since >= self.max_age_s

    def take(self) -> list[Reading]:
        batch, self.held = self.held, []
        return batch
