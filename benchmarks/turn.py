"""CPU time of a turn without its model, by length of the conversation; and the wait at the threshold.

    python benchmarks/turn.py [--lengths N ...] [--turns N] [--flush normal] [--summary-seconds S]

A turn is one user message, a request, a reply with usage, recorded: two durable transactions of a real SQLite file.
The provider answers at once, so what is measured is everything else. CPU time of the whole process, threads included,
in milliseconds. "Wait" is wall time from a turn that reaches the threshold to the moment its request goes out, with a
summary model that takes `--summary-seconds`; once with nothing prepared, once with a summary prepared ahead.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import _repository  # noqa: F401
from _table import report
from clew.events import CompactionFinished
from clew.messages import Message
from clew.providers import OnDelta, Provider, Reply, Request
from clew.store import open_store
from clew.testing import assistant, user
from clew.turn import receive, run_turn
from clew.usage import CanonicalUsage
from tests.support.flow import SESSION, Flow, flow_with
from tests.support.history import synthetic_history
from tests.support.summaries import handoff_text

LENGTHS = (100, 1_000, 20_000)
HUGE = 100_000_000
"""A window that nothing fills: a compaction is no part of an ordinary turn."""
Flush = Literal["full", "normal"]


class Instant(Provider):
    """Answers at once, and notes when it was asked."""

    name = "instant"

    def __init__(self) -> None:
        self.asked_at = 0.0
        self.prompt_tokens = 1_000

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        del on_delta
        self.asked_at = time.perf_counter()
        usage = CanonicalUsage(input_tokens=self.prompt_tokens, output_tokens=40)
        return Reply({"role": "assistant", "content": "Done, and the tests pass."}, usage, "stop", request.model)


class Slow(Provider):
    """A summary model that takes its time."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        del on_delta
        await asyncio.sleep(self.seconds)
        text = handoff_text(goal="Keep the job running.", completed_actions="1. Looked at the log.")
        usage = CanonicalUsage(input_tokens=9_000, output_tokens=300)
        return Reply({"role": "assistant", "content": text}, usage, "stop", request.model)


def main() -> None:
    options = _options()
    rows = [asyncio.run(overhead(length, options.turns, options.flush)) for length in options.lengths]
    report("turn", rows, ("messages", "load once", "mean of a turn", "median", "p95", "request alone"))
    report("turn_wait", asyncio.run(waits(options.summary_seconds)), ("prepared", "wait ms", "summary seconds"))


async def overhead(length: int, turns: int, flush: Flush) -> dict[str, Any]:
    """What turns cost at the end of a history of that length."""
    history = synthetic_history(length)
    # The newest message must be a reply: what comes next is a person's.
    history = [*history, assistant("That was the last of it.")] if history[-1]["role"] != "assistant" else history
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        async with open_store(Path(folder) / "state.db", flush=flush) as store:
            async with flow_with(Instant(), Path(folder), window=HUGE, store=store) as flow:
                await _fill(flow, history)
            async with flow_with(Instant(), Path(folder), window=HUGE, store=store) as flow:
                flow.runtime.target = _without_checker(flow)
                loading: list[float] = []
                with _cpu(loading):
                    await flow.runtime.conversation(SESSION)
                costs = await _turns(flow, turns)
                building = [cost async for cost in _requests(flow)]
    return {
        "messages": length,
        "load once": loading[0],
        "mean of a turn": statistics.mean(costs),
        "median": statistics.median(costs),
        "p95": sorted(costs)[int(0.95 * len(costs))],
        "request alone": statistics.median(building),
    }


async def _turns(flow: Flow, turns: int) -> list[float]:
    costs: list[float] = []
    for number in range(turns + 5):
        with _cpu(costs):
            await run_turn(flow.runtime, SESSION, [user(f"Step {number}: check the next batch, and say what is new.")])
    return costs[5:]


async def _requests(flow: Flow) -> Any:
    from clew.turn import TurnOptions

    live = await flow.runtime.conversation(SESSION)
    for _ in range(20):
        cost: list[float] = []
        with _cpu(cost):
            live.build_request(TurnOptions(), None)
        yield cost[0]


def _without_checker(flow: Flow) -> Any:
    """The checker reads every request to check it; that is a test's work, not a turn's."""
    from dataclasses import replace

    return replace(flow.runtime.target, provider=flow.checker.provider)


async def _fill(flow: Flow, history: Sequence[Message]) -> None:
    for start in range(0, len(history), 500):
        await flow.store.append(SESSION, history[start : start + 500])
    await flow.store.index_waiting()


async def waits(seconds: float) -> list[dict[str, Any]]:
    """From a turn that reaches the threshold to its request."""
    rows = []
    for prepared in (False, True):
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
            provider = Instant()
            async with flow_with(provider, Path(folder), window=100_000, auxiliary=Slow(seconds)) as flow:
                await receive(flow.runtime, SESSION, synthetic_history(60 if prepared else 120))
                if prepared:
                    await _until_prepared(flow, provider)
                started = time.perf_counter()
                await run_turn(flow.runtime, SESSION, [user("And now? " + "word " * 9_000 * prepared)])
                assert flow.events_of(CompactionFinished)
                rows.append(
                    {
                        "prepared": "yes" if prepared else "no",
                        "wait ms": 1_000 * (provider.asked_at - started),
                        "summary seconds": seconds,
                    }
                )
    return rows


async def _until_prepared(flow: Flow, provider: Instant) -> None:
    live = await flow.runtime.conversation(SESSION)
    number = 0
    while live.preparer.task is None:
        number += 1
        provider.prompt_tokens = live.size.tokens + 1_000
        await run_turn(flow.runtime, SESSION, [user(f"Step {number}. " + "and the next part of it " * 150)])
    await live.preparer.task


@contextmanager
def _cpu(into: list[float]) -> Iterator[None]:
    started = time.process_time()
    yield
    into.append(1_000 * (time.process_time() - started))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--flush", choices=("full", "normal"), default="full")
    parser.add_argument("--summary-seconds", type=float, default=3.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
