"""Questions to the person at the keyboard: may this run, yes or no. The next line that is typed is the answer.

Only an answer that cannot be mistaken counts: half a sentence that was being typed when the question came must not
allow anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text

from clew.agent import Answer
from clew.cli.output import clipped
from clew.cli.tui.harmless import harmless, harmless_line

if TYPE_CHECKING:
    from clew.agent import Risk
    from clew.cli.tui.screen import Screen

ONCE, ALWAYS, NO = ("y", "yes"), ("a", "always"), ("n", "no")
_ANSWERS: dict[Answer, str] = {"once": "allowed once", "session": "allowed for this session", "no": "refused"}
CHOICES = "y once, a for this session, n no (or n REASON), Ctrl-C stops the turn"


def approval_in(line: str) -> tuple[Answer, str] | None:
    """What a typed line says to a question of approval; None where it is no answer."""
    word, _, rest = line.strip().partition(" ")
    word = word.lower().rstrip(",:;.")
    if word in NO:
        return "no", rest.strip()
    if rest.strip():
        return None
    if word in ONCE:
        return "once", ""
    return ("session", "") if word in ALWAYS else None


class Questions:
    """At most one question is open; others wait for it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[str] | None = None
        self.label = ""
        """Stands before what is typed while a question is open."""
        self.on_open: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None
        """Called when a question opens and closes; set by whoever reads lines."""

    @property
    def is_open(self) -> bool:
        return self._answer is not None

    def take(self, line: str) -> None:
        """A line that was typed while a question was open."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(line)
        # At once: the next line that is typed is no answer any more.
        self._answer, self.label = None, ""

    async def approve(self, tool: str, risk: Risk) -> tuple[Answer, str]:
        """Whether a call may run: for `Approvals`."""
        async with self._turn:
            self._screen.gap()
            self._screen.say(_question(tool, risk))
            while True:
                typed = await self._next_line("allow? [y/a/n]")
                found = approval_in(typed)
                if found is not None:
                    break
                said = clipped(harmless_line(typed), 30)
                self._screen.say(Text(f"  {said!r} is no answer: {CHOICES}", "yellow"))
            self._screen.say(Text(f"  {_ANSWERS[found[0]]}", "dim"))
            return found

    async def confirm(self, question: str) -> bool:
        """Yes or no; anything but yes is no."""
        async with self._turn:
            self._screen.say(Text(f"{harmless(question)} [y/n]", "bold"))
            return (await self._next_line("[y/n]")).strip().lower() in ONCE

    async def _next_line(self, label: str) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self.label = label
        self._screen.live.is_asking = True
        self.on_open()
        try:
            return await answer
        finally:
            self._answer, self.label = None, ""
            self._screen.live.is_asking = False
            self.on_close()


def _question(tool: str, risk: Risk) -> Text:
    text = Text.assemble(("? ", "yellow bold"), (f"{tool} wants to ", "bold"), (harmless(risk.action), "bold yellow"))
    for reason in risk.reasons:
        text.append(f"\n  why you are asked: {harmless(reason)}", "yellow")
    text.append(f"\n  {CHOICES}", "dim")
    return text
