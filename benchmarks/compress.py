"""CPU time of what a turn and a compaction cost, beside Hermes in the same run, by length of the conversation.

    python benchmarks/compress.py [--hermes FOLDER] [--messages N ...] [--full] [--repeats N] [--profile]

One system prompt and rounds of request, call and result of 2 to 8 KB: 20,000 messages are 47 MB. The summariser is a
stub on both sides where the row says so. Every figure is CPU time, the least and the median of several runs: the
least is what the work costs, the median what a busy machine makes of it. The garbage collector runs as it does in
real life, on both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import _repository  # noqa: F401
import clew
from _table import report
from clew.engines import ContextCompressor
from clew.facts import Record
from clew.handoff import Summary, SummaryInput
from clew.messages import Message, text_of
from clew.testing import system, user
from clew.tokens import ConversationSize, counter_for
from hermes_side import STUB_SUMMARY, WINDOW, HermesSide, load_hermes
from tests.support.history import synthetic_history

LENGTHS = (1_000, 5_000, 20_000)
FULL_LENGTHS = (*LENGTHS, 100_000)
COLUMNS = (
    "operation",
    "messages",
    "clew min ms",
    "clew median ms",
    "hermes min ms",
    "hermes median ms",
    "at most ms",
    "times faster",
)
RECORD_COLUMNS = ("operation", "messages", "KB", "min us/KB", "median us/KB", "at most us/KB")
# The limits are those of 20,000 messages; what depends on the new message alone has the same limit at any length.
LIMITED_LENGTH = 20_000
SIZE = "size of the next request"
BREAKPOINTS = "cache breakpoints"
WARM_STUB = "compress, history known, summariser stubbed"
WARM = "compress, history known, built-in summariser"
WARM_OPEN = "compress, history known, a call still open, built-in summariser"
COLD = "compress, cold, built-in summariser"
LIMITS_MS = {SIZE: 1.0, BREAKPOINTS: 0.1, WARM_STUB: 150.0, WARM: 150.0, WARM_OPEN: 150.0, COLD: 2_000.0}
LIMIT_RECORD_US = 50.0
RECORD_NEW_MESSAGES = 1_500


@dataclass(frozen=True)
class Times:
    """CPU milliseconds of several runs."""

    least: float
    median: float


def cpu_ms(act: Callable[[], object], repeats: int, prepare: Callable[[], object] | None = None) -> Times:
    """The time of `act` alone: not of `prepare`, and not of freeing what came of it or what was before."""
    taken = []
    gc.collect()
    for _ in range(repeats):
        if prepare is not None:
            prepare()
        start = time.process_time_ns()
        kept = act()
        taken.append((time.process_time_ns() - start) / 1e6)
        del kept
    return Times(min(taken), median(taken))


def history_of(length: int) -> list[Message]:
    """So many messages, with a system prompt first."""
    return [
        system("You are a careful engineer. Change what was asked for and nothing else."),
        *synthetic_history(length - 1),
    ]


def request_size(messages: Sequence[Message], repeats: int) -> Times:
    size = ConversationSize(counter_for(None))
    for message in messages:
        size.append(message)
    new = user("One more question about the ledger. " * 100)

    def turn() -> int:
        size.append(new)
        return size.tokens

    return cpu_ms(turn, 20 * repeats, lambda: size.truncate(len(messages)))


def warm_compress(messages: Sequence[Message], repeats: int, **options: Any) -> Times:
    """A compaction by an engine that saw each message as it arrived; a new engine for each run."""
    engines: list[ContextCompressor] = []

    def prepare() -> None:
        engines[:] = [ContextCompressor(WINDOW, **options)]
        engines[0].observe(messages)
        gc.collect()

    return cpu_ms(lambda: asyncio.run(engines[0].compress(messages, force=True)), repeats, prepare)


async def stub_summary(source: SummaryInput, budget: int) -> Summary:
    del source, budget
    return Summary(STUB_SUMMARY, written_by="stub", template="stub")


def with_open_call(messages: Sequence[Message]) -> Sequence[Message]:
    """The same up to the last call, whose result is still to come: so a history stands when tools run."""
    last = max(place for place, message in enumerate(messages) if message["role"] == "assistant")
    return messages[: last + 1]


def measured(messages: Sequence[Message], hermes: HermesSide | None, repeats: int) -> Iterator[dict[str, Any]]:
    def row(operation: str, ours: Times, theirs: Callable[[], object] | None) -> dict[str, Any]:
        other = cpu_ms(theirs, repeats) if theirs else None
        return {
            "operation": operation,
            "messages": len(messages),
            "clew min ms": ours.least,
            "clew median ms": ours.median,
            "hermes min ms": other.least if other else None,
            "hermes median ms": other.median if other else None,
            "at most ms": _limit(operation, len(messages)),
            "times faster": other.least / ours.least if other else None,
        }

    their_compress = partial(hermes.compress, messages) if hermes else None
    yield row(SIZE, request_size(messages, repeats), partial(hermes.request_size, messages) if hermes else None)
    yield row(
        BREAKPOINTS,
        cpu_ms(lambda: clew.apply_cache_control(messages), 20 * repeats),
        partial(hermes.breakpoints, messages) if hermes else None,
    )
    yield row(WARM_STUB, warm_compress(messages, repeats, summarize=stub_summary), their_compress)
    yield row(WARM, warm_compress(messages, repeats), None)
    yield row(WARM_OPEN, warm_compress(with_open_call(messages), repeats), None)
    yield row(COLD, cpu_ms(lambda: clew.compress(messages, context_length=WINDOW), repeats), their_compress)


def _limit(operation: str, length: int) -> float | None:
    return LIMITS_MS[operation] if length == LIMITED_LENGTH or operation in (SIZE, BREAKPOINTS) else None


def record_rows(repeats: int, warm_lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Reading new messages: in a process that never saw a word, and behind histories of several lengths."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        first = [pool.submit(record_pass, 0).result() for _ in range(repeats)]
        rows = [_record_row("record, the first messages of a process", 0, first)]
        for length in warm_lengths:
            later = [pool.submit(record_pass, length).result() for _ in range(repeats)]
            rows.append(_record_row("record, new messages", length, later))
    return rows


def record_pass(length: int) -> tuple[float, float]:
    """KB of new text and CPU microseconds to take it in behind `length` messages."""
    messages = synthetic_history(length + RECORD_NEW_MESSAGES)
    record = Record()
    record.extend(messages[:length])
    new = messages[length:]
    gc.collect()
    start = time.process_time_ns()
    record.extend(new)
    taken = (time.process_time_ns() - start) / 1e3
    return sum(len((text_of(message) + str(message.get("tool_calls", ""))).encode()) for message in new) / 1_000, taken


def _record_row(operation: str, length: int, passes: Sequence[tuple[float, float]]) -> dict[str, Any]:
    figures = [us / kb for kb, us in passes]
    return {
        "operation": operation,
        "messages": length,
        "KB": round(passes[0][0]),
        "min us/KB": min(figures),
        "median us/KB": median(figures),
        "at most us/KB": LIMIT_RECORD_US,
    }


def profile(length: int) -> None:
    """The functions that a warm and a cold compaction spend their time in."""
    messages = history_of(length)
    engine = ContextCompressor(WINDOW)
    engine.observe(messages)
    acts: tuple[tuple[str, Callable[[], object]], ...] = (
        (WARM, lambda: asyncio.run(engine.compress(messages, force=True))),
        (COLD, lambda: clew.compress(messages, context_length=WINDOW)),
        ("record", lambda: Record().extend(messages)),
    )
    for name, act in acts:
        print(f"\n{name}, {length:,} messages")
        profiler = cProfile.Profile()
        profiler.runcall(act)
        pstats.Stats(profiler).sort_stats("tottime").print_stats("clew", 25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hermes", type=Path, help="the folder that hermes-agent 0.19.0 was installed into")
    parser.add_argument("--messages", type=int, nargs="+", help="lengths of the conversation")
    parser.add_argument("--full", action="store_true", help="100,000 messages too: about 240 MB and some minutes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print where the time goes, and measure nothing")
    options = parser.parse_args()
    lengths = options.messages or (FULL_LENGTHS if options.full else LENGTHS)
    if options.profile:
        profile(max(lengths))
        return
    hermes = load_hermes(options.hermes)
    if hermes:
        print(f"beside hermes-agent {hermes.version}")
    report("record_speed", record_rows(options.repeats, lengths), RECORD_COLUMNS)
    rows = [row for length in lengths for row in measured(history_of(length), hermes, options.repeats)]
    report("compress", sorted(rows, key=_by_operation), COLUMNS)


def _by_operation(row: Mapping[str, Any]) -> tuple[int, int]:
    return list(LIMITS_MS).index(row["operation"]), row["messages"]


if __name__ == "__main__":
    main()
