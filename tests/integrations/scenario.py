"""One conversation for every adapter: an agent reads parts of a project until it has passed its window several times.

The mock upstream refuses what a provider would: prompts over the window, calls without results, results without calls.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from clew.testing.part_reader import WINDOW, PartReader, part, running
from clew.testing.upstream import Upstream
from clew.testing.upstream_rules import listed_messages

__all__ = ["WINDOW", "PartReader", "part", "running"]
EXAMPLES = Path(__file__).parents[2] / "examples"
KEY = "not-" + "a-real-" + "key"
TASK = "TASK-4711: read the parts of the project one after the other, then tell the sum."
SYSTEM = "You read parts of a project."
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def requests_of(upstream: Upstream, leaving_out: str = "") -> list[list[str]]:
    """The messages of each call of the model, each as JSON."""

    def as_json(message: Any) -> str:
        kept = {name: value for name, value in message.items() if name != leaving_out}
        return json.dumps(kept, sort_keys=True)

    return [[as_json(message) for message in listed_messages(it.body)] for it in upstream.calls]


def folds_between(requests: Sequence[Sequence[str]]) -> int:
    """How often a request does not begin with the whole one before it."""
    return sum(list(later[: len(earlier)]) != list(earlier) for earlier, later in pairwise(requests))


def assert_it_went_well(upstream: Upstream, folds: int = 2) -> None:
    """Nothing was refused, the history was folded so often, and the task was there to the end."""
    assert [it.status for it in upstream.calls if it.status != 200] == []
    requests = requests_of(upstream)
    assert folds_between(requests) >= folds
    assert folds_between(requests) <= len(requests) // 5, f"{folds_between(requests)} folds in {len(requests)} calls"
    assert all("TASK-4711" in json.dumps(request) for request in requests)


def assert_it_goes_on(before: Upstream, after: Upstream, leaving_out: str = "") -> None:
    """The first request after a restart begins with all of the last one before it.

    `leaving_out` is a field that the framework itself changes when it goes on.
    """
    last, first = requests_of(before, leaving_out)[-1], requests_of(after, leaving_out)[0]
    other = next((at for at, pair in enumerate(zip(last, first, strict=False)) if pair[0] != pair[1]), None)
    assert other is None, f"message {other} was {last[other]} and is {first[other]}"
    assert len(first) > len(last)


def assert_the_example_runs(name: str) -> None:
    """It runs as it stands, in a process of its own and with no key; it folds more than once, and recalls."""
    environ = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    folds = re.search(r"folded (\d+) times", done.stdout)
    assert folds is not None, done.stdout
    assert int(folds[1]) >= 2
    assert "recalled: value_3 = 111" in done.stdout
