"""What is on the screen: lines that stay, and below them what goes on, both drawn around the line that is typed.

Lines that stay are printed once, in order, and never again. Knows that something is typed below; not what for.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.cli.tui.drawing import Look, drawing_of, drawn
from clew.cli.tui.harmless import harmless, harmless_line
from clew.cli.tui.live import Live
from clew.cli.tui.streaming import Block

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_LIVE_ROWS = 14
_BESIDE_LIVE = 6
"""Rows for what is typed, the status line, and a little of what was said."""

_EDGES = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m)*\n)+|(?:\n(?:\x1b\[[0-9;]*m)*)+\Z")
"""Empty rows before and after, coloured or not."""

Size = tuple[int, int]
"""Columns and rows."""


class Screen:
    """Takes what is to be seen, at any moment, and puts it there in order."""

    def __init__(self, look: Look, size: Callable[[], Size], write: Callable[[str], None]) -> None:
        self.look = look
        self.live = Live(unicode=look.unicode)
        self._size = size
        self._write = write
        self._pending: list[str] = []
        self._wake = asyncio.Event()
        self._printing = asyncio.Lock()
        self._is_fresh = True
        self.redraw: Callable[[], None] = lambda: None
        """Draws what goes on again; set by whoever reads lines."""
        self.above: Callable[[Callable[[], None]], Awaitable[None]] = _at_once
        """Does something to the terminal above the line that is typed; set by whoever reads lines."""

    @property
    def width(self) -> int:
        return self._size()[0]

    def live_rows(self) -> list[tuple[str, str]]:
        """What goes on, as rows."""
        width, rows = self._size()
        return self.live.rows(time.monotonic(), width - 1, max(2, min(MOST_LIVE_ROWS, rows - _BESIDE_LIVE)))

    # -- lines that stay -----------------------------------------------------------------------------------------------

    def say(self, renderable: RenderableType) -> None:
        """Something that stays, below what was said before."""
        self._put(drawn(renderable, self.width, self.look))

    def say_first(self, renderable: RenderableType) -> None:
        """The same, before everything that waits to be printed."""
        waiting, self._pending = self._pending, []
        self.say(renderable)
        self._pending += waiting

    def say_block(self, block: Block) -> None:
        """A block of a reply, with a gap before it unless it goes on from the one before."""
        # Harmless only here, since a piece of a stream may end in the middle of an escape sequence. As wide as the
        # tail was, so that no word moves when it stays.
        safe = replace(block, text=harmless(block.text), language=harmless_line(block.language))
        text = _EDGES.sub("", drawn(drawing_of(safe), self.width - 1, self.look))
        self._put(f"{text}\n" if block.continues else f"\n{text}\n")

    def gap(self) -> None:
        """An empty row, unless there is one."""
        if not self._is_fresh:
            self._put("\n")

    def changed(self) -> None:
        """What goes on has changed."""
        # What waits to be printed brings a new drawing with it; one before would show a hole.
        if not self._pending:
            self.redraw()

    def _put(self, text: str) -> None:
        if text.startswith("\n") and self._is_fresh:
            text = text.lstrip("\n")
        if text:
            self._is_fresh = text.endswith("\n\n") or text == "\n"
            self._pending.append(text)
            self._wake.set()

    # -- printing ------------------------------------------------------------------------------------------------------

    async def print_for_ever(self) -> None:
        """Print what is said, as it is said; a task of its own, until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.flush()

    async def flush(self) -> None:
        """Print what waits."""
        async with self._printing:
            if self._pending:
                await self.above(self._print)

    def _print(self) -> None:
        # Taken only now: what was said while the terminal was made ready must not miss above what is drawn below it.
        text = "".join(self._pending)
        self._pending.clear()
        self._write(text)


async def _at_once(action: Callable[[], None]) -> None:
    action()
