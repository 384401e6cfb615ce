"""Whether a dangerous call may run: a tool states the risk, and a person or a fixed mode decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

ApprovalAnswer: TypeAlias = Literal["once", "session", "no"]
ApprovalMode: TypeAlias = Literal["ask", "allow", "deny"]
EditMode: TypeAlias = Literal["allow", "ask", "plan"]
"""Whether files are edited without a question, after one, or not at all, because a plan is being made."""


@dataclass(frozen=True, slots=True)
class Risk:
    """Why a person has to agree to a call before it runs."""

    action: str
    """What would happen, in one line: `run: rm -rf build`."""
    reasons: tuple[str, ...]
    """Why that is dangerous: `deletes files without a way back`."""
    scope: str
    """What "for this session" would allow: calls of the same scope are not asked for again."""
    text: str = ""
    """What a person should read before they agree, such as a script that would run."""


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """Whether a call may run; if not, the reason that the model reads."""

    allowed: bool
    reason: str = ""


AskPerson: TypeAlias = Callable[[str, Risk], Awaitable[tuple[ApprovalAnswer, str]]]
"""Asks a person about a call of a tool. Returns the answer and, where it is no, what they want instead."""


class Approvals:
    """Decides about risks, and remembers what a person allowed for the session."""

    def __init__(self, mode: ApprovalMode = "ask", ask: AskPerson | None = None, edits: EditMode = "allow") -> None:
        self._mode = mode
        self.edits = edits
        self._ask = ask
        self._allowed: set[tuple[str, str]] = set()
        self._asking = asyncio.Lock()

    async def decide(self, tool: str, risk: Risk) -> ApprovalDecision:
        """Allow or refuse a call; asks the person where the mode is `ask`. Without a person to ask, it is refused."""
        if self._mode == "allow":
            return ApprovalDecision(True)
        why = "; ".join(risk.reasons)
        if self._mode == "deny" or self._ask is None:
            return ApprovalDecision(
                False, f"not run, since nobody is here to approve it: {why}. Find a safer way, or say what you need."
            )
        answer, words = await self._answer(tool, risk)
        if answer != "no":
            return ApprovalDecision(True)
        said = f" They said: {words.rstrip('.')}." if words else ""
        return ApprovalDecision(
            False, f"not run: the user refused it ({why}).{said} Do not try it again in another way."
        )

    async def confirm(self, tool: str, risk: Risk) -> bool | None:
        """What a person answers; None where the mode decides, or no person is present."""
        if self._mode != "ask" or self._ask is None:
            return None
        return (await self._answer(tool, risk))[0] != "no"

    async def _answer(self, tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        assert self._ask is not None
        # One question at a time: concurrent calls would ask over each other, and the first answer may settle both.
        async with self._asking:
            if (tool, risk.scope) in self._allowed:
                return "session", ""
            answer, words = await self._ask(tool, risk)
            if answer == "session":
                self._allowed.add((tool, risk.scope))
        return answer, words
