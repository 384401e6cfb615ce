"""A mock model that reads a project part by part until any window is full: it tries adapters without a key.

`running` serves it on loopback in a separate thread, for programs that block.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from clew.testing.messages import call
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer, UpstreamRules
from clew.usage import CanonicalUsage

WINDOW = 16_000
"""The window in tokens that an adapter gets."""


def part(number: int) -> str:
    """The result of the tool for a part."""
    return f"value_{number} = {number * 37}\n" + f"# part {number} of the project, line by line\n" * 40


class PartReader:
    """The model's side: calls `read_part` for one part after the other, two at a time now and then, and then answers.

    Each question of the person is answered after `parts` more parts. Every third call has text, every fifth
    has thinking. `final_tool` is one that it answers with, for frameworks that want that.
    """

    def __init__(self, parts: int = 60, final_tool: str = "") -> None:
        self.parts = parts
        self.final_tool = final_tool
        self.asked = 0
        self._left = 0
        self._number = 0

    def __call__(self, _: ReceivedRequest) -> UpstreamAnswer:
        self.asked += 1
        usage = CanonicalUsage(input_tokens=1, output_tokens=9)
        if self._left == 0:
            self._left = self.parts + 1
        self._left -= 1
        if self._left == 0:
            text = f"The sum after {self._number} parts is known."
            final = [call(self.final_tool, {"answer": text}, id=f"f{self.asked}")] if self.final_tool else []
            return UpstreamAnswer("" if final else text, tuple(final), usage=usage, number=self.asked)
        count = 2 if self._left % 4 == 0 and self._left > 1 else 1
        self._left -= count - 1
        calls = [call("read_part", {"number": self._number + at}, id=f"c{self._number + at}") for at in range(count)]
        self._number += count
        words = "I read on." if self.asked % 3 == 0 else ""
        thinking = "What stands in the next part?" if self.asked % 5 == 0 else ""
        return UpstreamAnswer(words, tuple(calls), thinking, usage=usage, number=self.asked)


@contextmanager
def running(
    upstream: Upstream | None = None, parts: int = 60, final_tool: str = "", *, caches: bool = False
) -> Iterator[Upstream]:
    """The mock upstream in a separate thread, for frameworks that block. With `caches` usage is counted."""
    rules = UpstreamRules(WINDOW, pairs=True)
    served = upstream or Upstream(answers=PartReader(parts, final_tool), rules=rules, caches=caches)
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
