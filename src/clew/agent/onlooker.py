"""Who watches the agent work: a screen, a log, nobody. Called as things happen; must return at once.

Values here carry text, which events (`clew.events`) never do: an onlooker belongs to one person at one screen.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.agent.tools import ToolResult
from clew.providers import Delta, Reply


@dataclass(frozen=True, slots=True)
class Doing:
    """A call of a tool, as people see it."""

    call_id: str
    tool: str
    headline: str


class Onlooker:
    """Sees everything and shows nothing; screens override what they show."""

    def piece(self, delta: Delta) -> None:
        """A piece of a reply."""
        del delta

    def replied(self, reply: Reply) -> None:
        """A whole reply is in the history; calls may follow."""
        del reply

    def began(self, doing: Doing) -> None:
        del doing

    def output(self, doing: Doing, text: str) -> None:
        """What a running tool prints."""
        del doing, text

    def ended(self, doing: Doing, result: ToolResult, seconds: float) -> None:
        del doing, result, seconds
