"""CPU time of cache breakpoints, by length of the conversation.

Beside it a reference that copies everything and marks four, and the bare copy of a list of that length, which
nobody who gives back a new list can avoid. Run: python benchmarks/caching.py [--messages N ...]
"""

from __future__ import annotations

import argparse
import copy
import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import _repository  # noqa: F401
from _table import report
from clew.caching import apply_cache_control
from clew.messages import Message
from clew.testing import system
from tests.support.history import synthetic_history

LENGTHS = (1_000, 5_000, 20_000, 100_000)
COLUMNS = ("messages", "apply ms", "apply native ms", "list copy ms", "deep copy ms")


def copy_all_and_mark_four(messages: list[Message]) -> list[Message]:
    """What comes to mind first: a deep copy, then markers on the system prompt and the last three."""
    copied = copy.deepcopy(messages)
    for message in [copied[0], *copied[-3:]]:
        text: Any = message.get("content")
        message["content"] = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    return copied


def cpu_ms(act: Callable[[], object], times: int) -> float:
    """The median of so many runs, without the time to free what came of each."""
    taken = []
    for _ in range(times):
        start = time.process_time_ns()
        kept = act()
        taken.append(time.process_time_ns() - start)
        del kept
    return median(taken) / 1e6


def measured(messages: list[Message]) -> dict[str, float | int]:
    return {
        "messages": len(messages),
        "apply ms": cpu_ms(lambda: apply_cache_control(messages), 201),
        "apply native ms": cpu_ms(lambda: apply_cache_control(messages, "1h", native=True), 201),
        "list copy ms": cpu_ms(lambda: list(messages), 201),
        "deep copy ms": cpu_ms(lambda: copy_all_and_mark_four(messages), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, nargs="+", default=LENGTHS)
    lengths = parser.parse_args().messages
    history = [system("You are a careful engineer."), *synthetic_history(max(lengths) - 1)]
    gc.disable()  # a collection in the middle of a run would be counted as ours
    report("caching", [measured(history[:length]) for length in lengths], COLUMNS)


if __name__ == "__main__":
    main()
