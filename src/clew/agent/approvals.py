"""Whether a dangerous call may run: what was allowed before, what a person says now, and what holds without one.

Knows risks as values; which calls are dangerous is each tool's own knowledge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from clew.agent.tools import Risk

Answer: TypeAlias = Literal["once", "session", "no"]
Mode: TypeAlias = Literal["ask", "allow", "deny"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a call may run, and where not, why: the model reads it."""

    allowed: bool
    reason: str = ""


AskPerson: TypeAlias = Callable[[str, Risk], Awaitable[tuple[Answer, str]]]
"""Asks a person about a call of a tool; the answer, and what they want instead where it is no."""


class Approvals:
    """What a person has agreed to so far."""

    def __init__(self, mode: Mode = "ask", ask: AskPerson | None = None) -> None:
        self._mode = mode
        self._ask = ask
        self._allowed: set[tuple[str, str]] = set()
        self._asking = asyncio.Lock()

    async def decide(self, tool: str, risk: Risk) -> Decision:
        """Ask where it must be asked. Without anybody to ask, what is dangerous is refused."""
        if self._mode == "allow":
            return Decision(True)
        why = "; ".join(risk.reasons)
        if self._mode == "deny" or self._ask is None:
            return Decision(
                False, f"not run, since nobody is here to approve it: {why}. Find a safer way, or say what you need."
            )
        # One question at a time: calls side by side would ask over each other, and the first answer may settle both.
        async with self._asking:
            if (tool, risk.scope) in self._allowed:
                return Decision(True)
            answer, words = await self._ask(tool, risk)
            if answer == "session":
                self._allowed.add((tool, risk.scope))
        if answer != "no":
            return Decision(True)
        said = f" They said: {words}" if words else ""
        return Decision(False, f"not run: the user refused it ({why}).{said} Do not try it again in another way.")
