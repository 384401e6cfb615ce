"""The screen of a chat: permanent lines, and below them the live area, which is redrawn.

Both are above the prompt. The live area shows the unfinished reply, running tools, waiting messages and queued lines.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rich.text import Text

from clew.cli.text import clip, sanitize, sanitize_line, tail_rows
from clew.cli.tui.markdown import MarkdownBlock, TerminalLook, block_renderable, render

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_LIVE_ROWS = 14
_OTHER_ROWS = 6
"""Rows for the prompt, the status line, and some permanent lines."""
_EMPTY_EDGE_ROWS = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m)*\n)+|(?:\n(?:\x1b\[[0-9;]*m)*)+\Z")
"""Empty rows before and after, coloured or not."""
Size = tuple[int, int]
"""Columns and rows."""
MAX_OUTPUT_ROWS = 4
MAX_QUEUED_ROWS = 3
MAX_TAIL_ROWS = 12
PAUSE_SECONDS = 1.0
_MAX_OUTPUT_CHARS = 4_000
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
Row = tuple[str, str]
"""Style and text of a row."""


@dataclass(slots=True)
class RunningTool:
    """A running tool call, and the end of its output."""

    headline: str
    since: float
    output: deque[str] = field(default_factory=deque)
    _chars: int = 0

    def append(self, text: str) -> None:
        self.output.append(text)
        self._chars += len(text)
        while self._chars > _MAX_OUTPUT_CHARS and len(self.output) > 1:
            self._chars -= len(self.output.popleft())

    @property
    def output_tail(self) -> str:
        return "".join(self.output)[-_MAX_OUTPUT_CHARS:].rstrip("\r\n")


@dataclass(slots=True)
class RunningCompaction:
    """A running compaction."""

    reason: str
    tokens: int
    since: float
    phase: str = "summarise"


@dataclass(slots=True)
class LiveArea:
    """The current activity, as rows that fit the terminal."""

    tail: str = ""
    """The unfinished end of the reply."""
    thinking: str = ""
    waiting: str = ""
    """The waiting message, if any."""
    waiting_since: float = 0.0
    last_text_at: float = float("-inf")
    """When the newest piece of a reply arrived: short pauses are not shown as waiting."""
    running: dict[str, RunningTool] = field(default_factory=dict)
    compacting: RunningCompaction | None = None
    queued: list[str] = field(default_factory=list)
    is_stopping: bool = False
    is_asking: bool = False
    """An approval prompt is open: the tool is not running yet."""
    unicode: bool = True

    def rows(self, now: float, width: int, most: int) -> list[Row]:
        """At most this many rows of this width; the last ones if not all fit."""
        rows = [*self._reply(width, most), *self._tools(now, width), *self._work(now, width), *self._queue(width)]
        return rows[-most:] if most > 0 else []

    def _reply(self, width: int, most: int) -> Iterator[Row]:
        if self.thinking and not self.tail:
            thought = sanitize_line(self.thinking[-4 * width :])
            start = max(0, len(thought) - (width - 12))
            yield "class:live.dim", clip(f"thinking: {'…' if start else ''}{thought[start:]}", width)
        if self.tail:
            for row in tail_rows(self.tail, width, min(MAX_TAIL_ROWS, most)):
                yield "", row

    def _tools(self, now: float, width: int) -> Iterator[Row]:
        if self.is_asking:
            return
        sign = "⏵" if self.unicode else ">"
        for running in self.running.values():
            seconds = now - running.since
            clock = f"  {seconds:.0f} s" if seconds >= 1 else ""
            yield "class:live.tool", clip(f"{sign} {sanitize_line(running.headline)}{clock}", width)
            if running.output:
                for row in tail_rows(running.output_tail, width - 2, MAX_OUTPUT_ROWS):
                    yield "class:live.dim", f"  {row}"

    def _work(self, now: float, width: int) -> Iterator[Row]:
        spin = _SPINNER[int(now * 8) % len(_SPINNER)] if self.unicode else "|/-\\"[int(now * 8) % 4]
        if self.is_stopping:
            yield "class:live.work", clip(f"{spin} stopping; Ctrl-C again does not wait", width)
        elif self.compacting is not None:
            it = self.compacting
            dot = "·" if self.unicode else "|"
            seconds = f"{it.phase} {now - it.since:.0f} s {dot} {it.tokens:,} tokens"
            yield "class:live.work", clip(f"{spin} compacting ({it.reason}): {seconds}", width)
        elif self.waiting and not (
            self.running or self.tail or self.is_asking or now - self.last_text_at < PAUSE_SECONDS
        ):
            yield "class:live.dim", clip(f"{spin} {self.waiting} {now - self.waiting_since:.0f} s", width)

    def _queue(self, width: int) -> Iterator[Row]:
        for line in self.queued[:MAX_QUEUED_ROWS]:
            yield "class:live.dim", clip(f"queued: {sanitize_line(line)}", width)
        if len(self.queued) > MAX_QUEUED_ROWS:
            yield "class:live.dim", f"queued: {len(self.queued) - MAX_QUEUED_ROWS} more"


class Screen:
    """Queues output, and prints it in order above the prompt."""

    def __init__(self, look: TerminalLook, size: Callable[[], Size], write: Callable[[str], None]) -> None:
        self.look = look
        self.live = LiveArea(unicode=look.unicode)
        self._size = size
        self._write = write
        self._pending: list[str] = []
        self._wake = asyncio.Event()
        self._printing = asyncio.Lock()
        self._is_fresh = True
        self.redraw: Callable[[], None] = lambda: None
        """Draws the live area and the prompt again; set by `run_chat`."""
        self.run_above: Callable[[Callable[[], None]], Awaitable[None]] = _immediately
        """Runs a function that writes above the prompt; set by `run_chat`."""

    @property
    def width(self) -> int:
        return self._size()[0]

    def live_rows(self) -> list[tuple[str, str]]:
        """The rows of the live area."""
        width, rows = self._size()
        return self.live.rows(time.monotonic(), width - 1, max(2, min(MAX_LIVE_ROWS, rows - _OTHER_ROWS)))

    def print(self, renderable: RenderableType) -> None:
        """Queue permanent output."""
        self._put(render(renderable, self.width, self.look))

    def say(self, words: str, style: str = "") -> None:
        """Print words, sanitized."""
        self.print(Text(sanitize(words), style))

    def print_first(self, renderable: RenderableType) -> None:
        """Queue permanent output before everything that is queued."""
        waiting, self._pending = self._pending, []
        self.print(renderable)
        self._pending += waiting

    def print_block(self, block: MarkdownBlock) -> None:
        """Print a block of a reply, after an empty row unless it continues the previous block."""
        # Sanitized here, since a piece of a stream may end within an escape sequence. As wide as the live tail, so that
        # words keep their positions.
        safe = replace(block, text=sanitize(block.text), language=sanitize_line(block.language))
        text = _EMPTY_EDGE_ROWS.sub("", render(block_renderable(safe), self.width - 1, self.look))
        self._put(f"{text}\n" if block.continues else f"\n{text}\n")

    def blank_line(self) -> None:
        """Print an empty row, unless the last one is empty."""
        if not self._is_fresh:
            self._put("\n")

    def refresh(self) -> None:
        """Redraw the live area."""
        # Printing redraws too; an earlier redraw would show neither the tail nor its block.
        if not self._pending:
            self.redraw()

    def _put(self, text: str) -> None:
        if text.startswith("\n") and self._is_fresh:
            text = text.lstrip("\n")
        if text:
            self._is_fresh = text.endswith("\n\n") or text == "\n"
            self._pending.append(text)
            self._wake.set()

    async def print_forever(self) -> None:
        """Write queued output until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.flush()

    async def flush(self) -> None:
        """Write queued output."""
        async with self._printing:
            if self._pending:
                await self.run_above(self._write_pending)

    def _write_pending(self) -> None:
        # Read here, with output that was queued while the terminal was prepared.
        text = "".join(self._pending)
        self._pending.clear()
        self._write(text)


async def _immediately(action: Callable[[], None]) -> None:
    action()
