"""The way to the office: every waiting batch is sent, in order, and acknowledged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tidepost.backoff import Backoff
from tidepost.spool import Spool

log = logging.getLogger("tidepost.uplink")

Transport = Callable[[bytes], int]


class LinkDownError(ConnectionError):
    """The office did not answer."""


@dataclass
class Uplink:
    transport: Transport
    spool: Spool
    backoff: Backoff = field(default_factory=Backoff)

    def flush(self) -> int:
        """Send what waits; the number of batches that were sent is returned."""
        sent = []
        for name in self.spool.pending():
            self._send(name)
            sent.append(name)
        for name in sent:
            self.spool.ack(name)
        return len(sent)

    def _send(self, name: str) -> None:
        raw = self.spool.read(name)
        delays = self.backoff.delays()
        while True:
            try:
                status = self.transport(raw)
            except OSError as error:
                status = 0
                log.warning("send %s failed: %s", name, error)
            if status == 200:
                log.info("sent %s (%d bytes)", name, len(raw))
                return
            delay = next(delays, None)
            if delay is None:
                raise LinkDownError(f"gave up on {name} after {self.backoff.max_tries} tries (last status {status})")
            time.sleep(delay)
