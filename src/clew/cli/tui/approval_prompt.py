"""Prompts for approval: whether a tool may run, and yes or no questions. The next typed line is the answer.

Only a clear answer counts: half a sentence that was being typed when the prompt opened must not allow anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text

from clew.agent import ApprovalAnswer
from clew.cli.views.text import clip, sanitize, sanitize_line

if TYPE_CHECKING:
    from clew.agent import Risk
    from clew.cli.tui.screen import Screen

ONCE, ALWAYS, NO = ("y", "yes"), ("a", "always"), ("n", "no")
_ANSWERS: dict[ApprovalAnswer, str] = {"once": "allowed once", "session": "allowed for this session", "no": "refused"}
CHOICES = "y once, a for this session, n no (or n REASON), Ctrl-C stops the turn"


def parse_approval(line: str) -> tuple[ApprovalAnswer, str] | None:
    """The answer in a typed line, with the reason for a no; None where it is no answer."""
    word, _, rest = line.strip().partition(" ")
    word = word.lower().rstrip(",:;.")
    if word in NO:
        return "no", rest.strip()
    if rest.strip():
        return None
    if word in ONCE:
        return "once", ""
    return ("session", "") if word in ALWAYS else None


class ApprovalPrompts:
    """At most one prompt is open; others wait for it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._one_at_a_time = asyncio.Lock()
        self._answer: asyncio.Future[str] | None = None
        self.label = ""
        """Shown before what is typed while a prompt is open."""
        self.on_open: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None
        """Called when a prompt opens and closes; set by `run_terminal_chat`."""

    @property
    def is_open(self) -> bool:
        return self._answer is not None

    def answer(self, line: str) -> None:
        """Take a line that was typed while a prompt was open."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(line)
        # Closed at once, so that the next line is no answer any more.
        self._answer, self.label = None, ""

    async def approve(self, tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        """Ask whether a tool call may run; the `AskPerson` of `Approvals`."""
        async with self._one_at_a_time:
            self._screen.blank_line()
            self._screen.print(_question_text(tool, risk))
            while True:
                typed = await self._next_line("allow? [y/a/n]")
                found = parse_approval(typed)
                if found is not None:
                    break
                shown = clip(sanitize_line(typed), 30)
                self._screen.print(Text(f"  {shown!r} is no answer: {CHOICES}", "yellow"))
            self._screen.print(Text(f"  {_ANSWERS[found[0]]}", "dim"))
            return found

    async def confirm(self, question: str) -> bool:
        """Ask yes or no; anything but yes is no."""
        async with self._one_at_a_time:
            self._screen.print(Text(f"{sanitize(question)} [y/n]", "bold"))
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


def _question_text(tool: str, risk: Risk) -> Text:
    text = Text.assemble(("? ", "yellow bold"), (f"{tool} wants to ", "bold"), (sanitize(risk.action), "bold yellow"))
    for reason in risk.reasons:
        text.append(f"\n  why you are asked: {sanitize(reason)}", "yellow")
    text.append(f"\n  {CHOICES}", "dim")
    return text
