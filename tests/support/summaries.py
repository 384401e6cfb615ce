"""Fakes around summaries: a scripted summary model, a sleep that takes no time, failures, inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from clew.errors import SummaryFailed
from clew.facts import Record
from clew.handoff import HEADINGS, Handoff, SummaryInput, SummaryModel
from clew.messages import Message

ScriptedReply = str | Exception | Callable[[str], str]
"""A text, a failure to raise, or a function from the prompt to a text."""


class ScriptedSummaryModel:
    """A summary model that gives its replies in order; the last one is repeated. `prompts` are what it was asked."""

    def __init__(
        self,
        *replies: ScriptedReply,
        name: str = "scripted",
        context_length: int = 32_000,
        max_output: int | None = None,
    ) -> None:
        if not replies:
            replies = (summary_of_prompt,)
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


class RecordedSleep:
    """An async sleep that takes no time and records how long it was asked to sleep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def fails(kind: str, problem: str = "", *, retry_after: float | None = None, limit: int | None = None) -> SummaryFailed:
    """A failure of a kind, as an adapter would raise it."""
    return SummaryFailed(problem or f"a scripted {kind}", kind=kind, retry_after=retry_after, limit=limit)


def summary_of_prompt(prompt: str) -> str:
    """A short handoff for any prompt: which messages it was given."""
    numbers = re.findall(r"^@@\w+ (m\d+) ", prompt, re.MULTILINE)
    first, last = (numbers[0], numbers[-1]) if numbers else ("m0", "m0")
    return handoff_text(completed_actions=[f"Read from {first} to {last}."], critical_context="Nothing else.")


def summary_input_of(
    messages: Sequence[Message], *, first: int = 0, last: int | None = None, previous: Handoff | None = None,
    task: str = "", task_number: int | None = None, focus: str | None = None,
) -> SummaryInput:  # fmt: skip
    """The input of a summary over a history, or a part of it."""
    end = len(messages) if last is None else last
    return SummaryInput(
        Record.of(messages),
        lambda number: messages[number],
        first,
        end,
        previous,
        task=task,
        task_number=task_number,
        focus=focus,
    )


def handoff_text(**lines: str | Sequence[str]) -> str:
    """A handoff with all headings; `key_decisions="..."` is the text under "Key decisions"."""
    sections = {name: [text] if isinstance(text, str) else list(text) for name, text in lines.items()}
    blocks = []
    for heading in HEADINGS:
        name = re.sub(r"\W+", "_", heading).lower()
        texts = sections.pop(name, [])
        blocks.append("\n".join([f"## {heading}", *(texts or ["None."])]))
    if sections:
        raise ValueError(f"no heading is called {', '.join(sections)}")
    return "\n\n".join(blocks)
