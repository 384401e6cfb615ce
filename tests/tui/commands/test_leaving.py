"""A chat ends when the person leaves, also where a prompt was just about to open and does not hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from clew.cli.tui.chat import Chat, ChatTerminal, run_chat
from clew.cli.tui.markdown import TerminalLook
from clew.cli.tui.prompt import LineReader
from clew.cli.tui.screen import Screen


class DeafReader:
    """Gives one line, and then waits for keys for ever, whoever stops it."""

    def __init__(self, line: str) -> None:
        self._lines = [line]
        self.is_cancelled = False

    async def line(self) -> str:
        if self._lines:
            return self._lines.pop()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        raise AssertionError("it never gets here")

    def stop(self) -> None: ...

    def redraw(self) -> None: ...

    def insert_text(self, text: str) -> None: ...

    async def run_above(self, action: Callable[[], None]) -> None:
        action()


async def test_a_prompt_that_does_not_hear_of_the_end_is_ended(chat: Any) -> None:
    screen = Screen(TerminalLook(colors=False), lambda: (80, 24), lambda _: None)
    talk = Chat(chat.app, chat.state.session, ChatTerminal.on(screen))
    reader = DeafReader("/quit")
    async with asyncio.timeout(10):
        await run_chat(talk, cast(LineReader, reader))
    assert reader.is_cancelled
