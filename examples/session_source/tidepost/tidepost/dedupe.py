"""Readings that were seen before, recognised by station and time."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from tidepost.readings import Reading


class Deduper:
    """Remembers the newest `size` keys; a reading older than those passes."""

    def __init__(self, size: int = 10_000) -> None:
        self.size = size
        self.seen: OrderedDict[tuple[str, datetime], None] = OrderedDict()

    def is_new(self, reading: Reading) -> bool:
        if reading.key in self.seen:
            return False
        self.seen[reading.key] = None
        if len(self.seen) > self.size:
            self.seen.popitem(last=False)
        return True
