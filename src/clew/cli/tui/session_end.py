"""What a chat came to, said when it is left: how long, how many questions, tokens, cost, and the way back in."""

from __future__ import annotations

from dataclasses import dataclass

from clew.cli.amounts import counted, percent
from clew.cli.tui.status import Spent


@dataclass(frozen=True, slots=True)
class Ended:
    """A chat that is over."""

    session: str
    title: str | None
    seconds: float
    questions: int
    spent: Spent
    """By the whole conversation."""
    compactions: int = 0
    """In this chat."""
    folded: int = 0
    """Tokens that compactions took out of the window."""


def summary_lines(ended: Ended) -> list[str]:
    """The lines."""
    name = f"{ended.session} ({ended.title})" if ended.title else ended.session
    spent = ended.spent
    cached = f" ({percent(spent.cache_read_tokens, spent.prompt_tokens)} from the cache)" if spent.prompt_tokens else ""
    lines = [
        f"session   {name}",
        f"time      {duration(ended.seconds)}, {counted(ended.questions, 'question')}, "
        f"{counted(spent.calls, 'call')} of the model",
        f"tokens    {spent.prompt_tokens:,} in{cached}, {spent.output_tokens:,} out",
        f"cost      {spent.cost_shown}",
    ]
    if ended.compactions:
        lines.append(f"folded    {ended.folded:,} tokens in {counted(ended.compactions, 'compaction')}")
    return [*lines, f"go on     clew chat --resume {ended.session}"]


def duration(seconds: float) -> str:
    """`42 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"
