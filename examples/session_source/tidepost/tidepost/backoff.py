"""How long to wait between two tries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    max_tries: int = 5
    first_delay_s: float = 2.0
    factor: float = 2.0

    def delays(self) -> Iterator[float]:
        """The pauses between tries: one fewer than there are tries."""
        delay = self.first_delay_s
        for _ in range(self.max_tries - 1):
            yield delay
            delay *= self.factor
