"""How long requests wait at a fold while the caller's model takes its time to write the handoff.

    python benchmarks/handoff_wait.py [--seconds 40] [--conversations 20] [--window 64000 ...]

Real conversations through the real gateway, on loopback, to a mock upstream that answers at once and writes a handoff
only after `--seconds`. Each conversation grows to a fold twice: first quickly, so that the window is full before the
handoff is there and the built-in one is used, then with a pause behind the point at which it is asked for (one for all
conversations), so that the model's is used. Times are those of a request until its whole reply is there: by the clock,
and in CPU time of client, gateway and mock together, which a busy machine does not change. Requests are sent one after
the other.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

import _repository  # noqa: F401
from _table import report
from clew.events import CompactionFinished
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import ReceivedRequest, Step, StreamedAnswer, Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with
from tests.support.summaries import handoff_text

HANDOFF = handoff_text(goal="Mend the clock.", key_decisions="The blue lantern.", critical_context="Gear 12.")
COLUMNS = ("window", "requests", "count", "p50 ms", "p99 ms", "p50 CPU ms", "p99 CPU ms")


@dataclass
class Talk:
    """A conversation that grows, and how long each request took."""

    number: int
    messages: list[dict[str, Any]] = field(default_factory=list)
    took: list[tuple[str, float, float]] = field(default_factory=list)
    """By whom it was folded in each request, seconds, and seconds of CPU."""

    async def turn(self, flow: GatewayFlow, client: aiohttp.ClientSession) -> None:
        self.messages.append({"role": "user", "content": f"Talk {self.number}: " + f"part {len(self.messages)} " * 300})
        body = {"model": GATEWAY_MODEL, "messages": self.messages}
        folds, started, used = len(written_by(flow)), time.perf_counter(), time.process_time()
        async with client.post(f"{flow.base_url}/chat/completions", json=body) as response:
            reply = await response.json()
        by = "".join(f"fold, {writer} handoff" for writer in written_by(flow)[folds:])
        self.took.append((by or "no fold", time.perf_counter() - started, time.process_time() - used))
        self.messages.append(reply["choices"][0]["message"])
        flow.upstream.calls.clear()  # bodies of a long conversation take gigabytes


def written_by(flow: GatewayFlow) -> list[str | None]:
    return [event.written_by for event in flow.events if isinstance(event, CompactionFinished)]


class Model:
    """Answers at once, and writes a handoff after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.asked = 0
        self._seconds = seconds

    def __call__(self, received: ReceivedRequest) -> Step:
        if not received.asks_for_handoff:
            return UpstreamAnswer("ok")
        self.asked += 1
        return StreamedAnswer(UpstreamAnswer(HANDOFF), first_delay=self._seconds)


async def measured(seconds: float, conversations: int, window: int) -> list[dict[str, Any]]:
    """A row for requests without a fold, and one for those with each kind of handoff."""
    talks = [Talk(number) for number in range(conversations)]
    with tempfile.TemporaryDirectory() as folder:
        model = Model(seconds)
        upstream = Upstream(answers=model)
        async with (
            gateway_with(upstream, Path(folder), window=window, handoffs="model") as flow,
            aiohttp.ClientSession(headers={"Authorization": "Bearer fake-key-of-a-benchmark"}) as client,
        ):
            for talk in talks:
                await grow_to_fold(talk, flow, client)
            for talk in talks:
                asked = model.asked
                while model.asked == asked:
                    await talk.turn(flow, client)
            await asyncio.sleep(seconds + 1.0)
            for talk in talks:
                await grow_to_fold(talk, flow, client)
    rows = list[dict[str, Any]]()
    for kind in ("no fold", "fold, built-in handoff", f"fold, {GATEWAY_MODEL} handoff"):
        clock = [seconds for talk in talks for by, seconds, _ in talk.took if by == kind]
        cpu = [seconds for talk in talks for by, _, seconds in talk.took if by == kind]
        figures = {
            f"{name}{unit} ms": 1_000 * percentile(times, share) if times else None
            for unit, times in (("", clock), (" CPU", cpu))
            for name, share in (("p50", 0.5), ("p99", 0.99))
        }
        rows.append({"window": window, "requests": kind, "count": len(clock), **figures})
    return rows


async def grow_to_fold(talk: Talk, flow: GatewayFlow, client: aiohttp.ClientSession) -> None:
    """Turns until the conversation is folded."""
    folds = len(written_by(flow))
    while len(written_by(flow)) == folds:
        await talk.turn(flow, client)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0, help="how long the model takes for a handoff")
    parser.add_argument("--conversations", type=int, default=20, help="each is folded with either handoff once")
    parser.add_argument("--window", type=int, nargs="+", default=[64_000, 200_000], help="tokens")
    options = parser.parse_args()
    rows = list[dict[str, Any]]()
    for window in options.window:
        rows += asyncio.run(measured(options.seconds, options.conversations, window))
    report("handoff_wait", rows, COLUMNS)


if __name__ == "__main__":
    main()
