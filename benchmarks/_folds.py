"""Folds as benchmarks make them: to a target, to a number of chars, timed, in fresh processes.

By the public functions of the `clew` that is importable, so that another checkout can be measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import clew

SOURCE = Path(clew.__file__).parent
NEAR = 0.9625
"""A result of this share of the wanted chars is near enough; the same as in quality.py."""
TRIES = 8


def folded(messages: Sequence[Any], target: int) -> list[Any]:
    return clew.compress(messages, target_tokens=target).messages


def cpu_ms(act: Callable[[], object], runs: int = 3) -> float:
    """The least CPU time of several runs."""
    taken = []
    for _ in range(runs):
        start = time.process_time_ns()
        act()
        taken.append((time.process_time_ns() - start) / 1e6)
    return min(taken)


def target_for_size(size_at: Callable[[int], int], limit: int, first: int) -> int:
    """The target whose result has nearly, and at most, `limit` chars; else the smallest target that was accepted."""
    tried, low, high = first, 0, 4 * limit
    sizes: dict[int, int] = {}
    for _ in range(TRIES):
        try:
            sizes[tried] = got = size_at(tried)
        except clew.InvalidArgument:  # the target is too small
            got = 0
        if NEAR * limit <= got <= limit:
            break
        low, high = (max(low, tried), high) if got <= limit else (low, min(high, tried))
        aim = round(tried * (1 + NEAR) / 2 * limit / max(1, got))
        tried = aim if low < aim < high else (low + high) // 2
    fitting = [target for target, size in sizes.items() if size <= limit]
    return max(fitting, key=lambda target: sizes[target]) if fitting else min(sizes)


def outputs_of(*arguments: str, runs: int = 1) -> list[str]:
    """What new processes with the same `clew` print, one after the other; bytecode is cached for these alone."""
    with tempfile.TemporaryDirectory() as cache:
        settings = {"PYTHONPATH": str(SOURCE.parent), "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        command, environment = [sys.executable, *arguments], os.environ | settings
        return [subprocess.check_output(command, env=environment, text=True) for _ in range(runs)]
