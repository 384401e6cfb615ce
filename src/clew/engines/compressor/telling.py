"""What a person is told about a compaction: why it stopped, what it may cost, what had to be mended.

Words and numbers only. Nothing of this is ever shown to a model.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.engines.compressor.budgets import SMALLEST_WINDOW, Budgets
from clew.engines.compressor.memory import Strikes
from clew.messages import Repair

NOTHING_TO_FOLD = "Nothing lies between the head and the tail: nothing to fold."
NOT_SMALLER = "The result would not be smaller: nothing was changed."
_AGAIN = (
    "This conversation has been compacted {often}; details may get less accurate each time. "
    "Nothing is lost: undo the compaction, search the history, or start afresh with /new."
)
_REPAIRS_TOLD = 5


def often_compacted(times: int) -> str:
    """From the second compaction on; a new process knows only that there was one before."""
    return _AGAIN.format(often=f"{times} times" if times > 1 else "before")


def repairs_told(repairs: Sequence[Repair], opening: str = "The history was repaired") -> list[str]:
    """What was wrong with the history and what was done about it; nothing where nothing was."""
    if not repairs:
        return []
    told = "; ".join(f"message {done.index}: {done.problem} ({done.remedy})" for done in repairs[:_REPAIRS_TOLD])
    more = f"; and {len(repairs) - _REPAIRS_TOLD} more" if len(repairs) > _REPAIRS_TOLD else ""
    return [f"{opening}: {told}{more}."]


def small_window(budgets: Budgets) -> list[str]:
    if budgets.total is not None or budgets.window >= SMALLEST_WINDOW:
        return []
    return [
        f"A window of {budgets.window:,} tokens leaves a handoff hardly any room; "
        f"from {SMALLEST_WINDOW:,} on it can say what matters."
    ]


def why_paused(strikes: Strikes, threshold: int, system: int, beside: int) -> str:
    """`system` and `beside` (tools and what else is sent) are what no compaction makes smaller."""
    # A host may send the system prompt beside the messages: then its size is not known apart.
    apart = f"The system prompt takes {system:,} tokens, tools and what else is sent {beside:,}."
    return (
        f"Automatic compaction is paused: the last {strikes.count} freed less than 10% or left the request "
        f"over the threshold of {threshold:,} tokens. "
        f"{apart if system else f'System prompt, tools and what else is sent take {beside:,} tokens.'} "
        "Make those smaller, compact by hand, or start afresh with /new."
    )
