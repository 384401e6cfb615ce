"""What is going on right now, below what was said and above the line that is typed; redrawn often, kept never.

Pure: what goes on in, rows of styled text out, each as wide as the terminal at most, and no more rows than there is
room for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from clew.cli.output import clipped
from clew.cli.tui.harmless import harmless_line, rows_of

OUTPUT_ROWS = 4
QUEUED_ROWS = 3
TAIL_ROWS = 12
PAUSE_SECONDS = 1.0
_KEPT_CHARS = 4_000
_SPINNING = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
Row = tuple[str, str]
"""A style and a text of one row."""


@dataclass(slots=True)
class Running:
    """A call of a tool that runs, and the end of what it prints."""

    headline: str
    since: float
    printed: deque[str] = field(default_factory=deque)
    _chars: int = 0

    def print(self, text: str) -> None:
        self.printed.append(text)
        self._chars += len(text)
        while self._chars > _KEPT_CHARS and len(self.printed) > 1:
            self._chars -= len(self.printed.popleft())

    @property
    def end(self) -> str:
        return "".join(self.printed)[-_KEPT_CHARS:].rstrip("\r\n")


@dataclass(slots=True)
class Compacting:
    """A compaction that runs."""

    reason: str
    tokens: int
    since: float
    phase: str = "summarise"


@dataclass(slots=True)
class Live:
    """Everything that goes on."""

    tail: str = ""
    """Of the reply: what is not finished."""
    thinking: str = ""
    waiting: str = ""
    """For what the model or the program is waited for; empty when nobody waits."""
    waiting_since: float = 0.0
    spoke_at: float = float("-inf")
    """When the newest piece of a reply came: between two pieces nobody waits yet."""
    running: dict[str, Running] = field(default_factory=dict)
    compacting: Compacting | None = None
    queued: list[str] = field(default_factory=list)
    is_stopping: bool = False
    is_asking: bool = False
    """A person is asked something: what waits for the answer does not run."""
    unicode: bool = True

    def rows(self, now: float, width: int, most: int) -> list[Row]:
        """What there is to see, the newest where not all fits."""
        rows = [*self._reply(width, most), *self._tools(now, width), *self._work(now, width), *self._queue(width)]
        return rows[-most:] if most > 0 else []

    def _reply(self, width: int, most: int) -> Iterator[Row]:
        if self.thinking and not self.tail:
            thought = harmless_line(self.thinking[-4 * width :])
            start = max(0, len(thought) - (width - 12))
            yield "class:live.dim", clipped(f"thinking: {'…' if start else ''}{thought[start:]}", width)
        if self.tail:
            for row in rows_of(self.tail, width, min(TAIL_ROWS, most)):
                yield "", row

    def _tools(self, now: float, width: int) -> Iterator[Row]:
        if self.is_asking:
            return
        sign = "⏵" if self.unicode else ">"
        for running in self.running.values():
            seconds = now - running.since
            clock = f"  {seconds:.0f} s" if seconds >= 1 else ""
            yield "class:live.tool", clipped(f"{sign} {harmless_line(running.headline)}{clock}", width)
            if running.printed:
                for row in rows_of(running.end, width - 2, OUTPUT_ROWS):
                    yield "class:live.dim", f"  {row}"

    def _work(self, now: float, width: int) -> Iterator[Row]:
        spin = _SPINNING[int(now * 8) % len(_SPINNING)] if self.unicode else "|/-\\"[int(now * 8) % 4]
        if self.is_stopping:
            yield "class:live.work", clipped(f"{spin} stopping; Ctrl-C again does not wait", width)
        elif self.compacting is not None:
            it = self.compacting
            dot = "·" if self.unicode else "|"
            seconds = f"{it.phase} {now - it.since:.0f} s {dot} {it.tokens:,} tokens"
            yield "class:live.work", clipped(f"{spin} compacting ({it.reason}): {seconds}", width)
        elif self.waiting and not (self.running or self.tail or self.is_asking or now - self.spoke_at < PAUSE_SECONDS):
            yield "class:live.dim", clipped(f"{spin} {self.waiting} {now - self.waiting_since:.0f} s", width)

    def _queue(self, width: int) -> Iterator[Row]:
        for line in self.queued[:QUEUED_ROWS]:
            yield "class:live.dim", clipped(f"queued: {harmless_line(line)}", width)
        if len(self.queued) > QUEUED_ROWS:
            yield "class:live.dim", f"queued: {len(self.queued) - QUEUED_ROWS} more"
