"""One conversation for every adapter: an agent reads parts of a project until it has passed its window several times.

The mock upstream refuses what a provider would: prompts over the window, calls without results, results without calls.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from clew.testing import call
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer, UpstreamRules
from clew.testing.upstream_cache import listed_messages
from clew.usage import CanonicalUsage

WINDOW = 16_000
"""Tokens that the upstream takes, and that adapters are told."""
KEY = "not-" + "a-real-" + "key"
TASK = "TASK-4711: read the parts of the project one after the other, then tell the sum."
SYSTEM = "You read parts of a project."
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def part(number: int) -> str:
    """What the tool of the conversation gives back."""
    return f"value_{number} = {number * 37}\n" + f"# part {number} of the project, line by line\n" * 40


class PartReader:
    """The model's side: calls `read_part` for one part after the other, two at a time now and then, and then answers.

    Each question of the person is answered after `parts` more parts. Every third call comes with words, every fifth
    with thinking.
    """

    def __init__(self, parts: int = 60) -> None:
        self.parts = parts
        self.asked = 0
        self._left = 0
        self._number = 0

    def __call__(self, received: ReceivedRequest) -> UpstreamAnswer:
        self.asked += 1
        usage = CanonicalUsage(input_tokens=1, output_tokens=9)
        if self._left == 0:
            self._left = self.parts + 1
        self._left -= 1
        if self._left == 0:
            return UpstreamAnswer(f"The sum after {self._number} parts is known.", usage=usage, number=self.asked)
        count = 2 if self._left % 4 == 0 and self._left > 1 else 1
        self._left -= count - 1
        calls = [call("read_part", {"number": self._number + at}, id=f"c{self._number + at}") for at in range(count)]
        self._number += count
        words = "I read on." if self.asked % 3 == 0 else ""
        thinking = "What stands in the next part?" if self.asked % 5 == 0 else ""
        return UpstreamAnswer(words, tuple(calls), thinking, usage=usage, number=self.asked)


@contextmanager
def running(upstream: Upstream | None = None, parts: int = 60) -> Iterator[Upstream]:
    """The mock upstream in a thread of its own, for frameworks that block."""
    served = upstream or Upstream(answers=PartReader(parts), rules=UpstreamRules(WINDOW, pairs=True))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(served.__aenter__(), loop).result()
        yield served
    finally:
        asyncio.run_coroutine_threadsafe(served.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


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
    assert first[: len(last)] == last
    assert len(first) > len(last)
