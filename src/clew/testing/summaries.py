"""A summary model whose every reply is written in the test, and stories for it to summarise.

An ordinary `SummaryModel`: what it was asked is kept in `prompts`, and its replies may be failures. Nothing waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from clew.errors import SummaryFailed
from clew.ledger import Ledger
from clew.messages import Message
from clew.summaries import HEADINGS, Handoff, Story, SummaryModel

Reply = str | Exception | Callable[[str], str]
"""A text, a failure to raise, or a function from the prompt to a text."""


class ScriptedModel:
    """Gives the replies in their order; the last one goes on for ever."""

    def __init__(
        self, *replies: Reply, name: str = "scripted", context_length: int = 32_000, max_output: int | None = None
    ) -> None:
        if not replies:
            replies = (tells_what_it_read,)
        self.prompts: list[str] = []
        self.max_tokens: list[int] = []
        self._replies = replies
        self.model = SummaryModel(name, self._complete, context_length, max_output)

    async def _complete(self, prompt: str, max_tokens: int) -> str:
        reply = self._replies[min(len(self.prompts), len(self._replies) - 1)]
        self.prompts.append(prompt)
        self.max_tokens.append(max_tokens)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, str) else reply(prompt)


class Waits:
    """An async sleep that takes no time, and remembers how long it should have."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def fails(kind: str, problem: str = "", *, retry_after: float | None = None, limit: int | None = None) -> SummaryFailed:
    """A failure of a kind, as an adapter would raise it."""
    return SummaryFailed(problem or f"a scripted {kind}", kind=kind, retry_after=retry_after, limit=limit)


def handoff_text(**lines: str | Sequence[str]) -> str:
    """A handoff with all headings; `key_decisions="..."` stands under "Key decisions"."""
    sections = {name: [told] if isinstance(told, str) else list(told) for name, told in lines.items()}
    blocks = []
    for heading in HEADINGS:
        name = re.sub(r"\W+", "_", heading).lower()
        told = sections.pop(name, [])
        blocks.append("\n".join([f"## {heading}", *(told or ["None."])]))
    if sections:
        raise ValueError(f"no heading is called {', '.join(sections)}")
    return "\n\n".join(blocks)


def tells_what_it_read(prompt: str) -> str:
    """A small true handoff of any prompt: which messages it was given."""
    numbers = re.findall(r"^@@\w+ (m\d+) ", prompt, re.MULTILINE)
    first, last = (numbers[0], numbers[-1]) if numbers else ("m0", "m0")
    return handoff_text(completed_actions=[f"Read from {first} to {last}."], critical_context="Nothing else.")


def story_of(
    messages: Sequence[Message], *, first: int = 0, last: int | None = None, previous: Handoff | None = None,
    task: str = "", task_at: int | None = None, focus: str | None = None,
) -> Story:  # fmt: skip
    """The story of a history, read from its start."""
    end = len(messages) if last is None else last
    return Story(Ledger.of(messages), lambda number: messages[number], first, end, previous, task, task_at, focus=focus)
