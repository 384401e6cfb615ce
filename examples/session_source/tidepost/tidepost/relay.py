"""The whole way of a gauge line: reading, quality, dedupe, batch, spool."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from tidepost.batch import Batcher
from tidepost.codec import encode
from tidepost.dedupe import Deduper
from tidepost.quality import QualityCheck
from tidepost.readings import ReadingError, parse_line
from tidepost.spool import Spool
from tidepost.stations import STATIONS

log = logging.getLogger("tidepost.relay")


class Relay:
    def __init__(self, spool: Spool, batch_size: int, batch_age_s: float, now: Callable[[], float]) -> None:
        self.spool = spool
        self.quality = QualityCheck(STATIONS)
        self.deduper = Deduper()
        self.batcher = Batcher(batch_size, batch_age_s, now)
        self.rejected = 0

    def feed(self, lines: Iterable[str]) -> None:
        for line in lines:
            try:
                reading = parse_line(line)
            except ReadingError as error:
                self.rejected += 1
                log.warning("rejected: %s", error)
                continue
            if self.deduper.is_new(reading):
                self._store(self.batcher.add(self.quality.check(reading)))

    def close(self) -> None:
        if self.batcher.held:
            self._store(self.batcher.take())

    def _store(self, batch: list | None) -> None:
        if batch:
            name = self.spool.put(encode(batch))
            log.info("spooled %s with %d readings", name, len(batch))
