"""How long the calls of the dashboard take: 2,000 sessions, and one of 20,000 messages with 6,000 requests.

    python benchmarks/dashboard.py [--sessions 2000] [--messages 20000] [--store FILE]

Each call is made through real HTTP against a dashboard that was just started, three times: the first time nothing was
read before, then twice with what is remembered. Beside the time that passes, which a busy machine makes longer, is the
CPU time of the first call, of this whole process: the server, the store's threads, and who asks.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import _repository  # noqa: F401
from clew.store import ModelCall, NewMessage, NewSession, Store, open_store
from clew.testing.messages import assistant, user
from clew.usage import CanonicalUsage
from tests.support.dashboard import DASHBOARD_MODEL, DashboardVisitor, running_dashboard, visiting
from tests.support.history import synthetic_history

LIMIT_MS = 200.0
_COMPACTION_AT = 3
_CHUNK = 1_500
_ROUND = 3


@dataclass(frozen=True, slots=True)
class Timing:
    """One call: how long it took the first time and at most later, and the CPU time of the first."""

    name: str
    first_ms: float
    later_ms: float
    cpu_ms: float
    answer_bytes: int


async def fill(store: Store, sessions: int, messages: int) -> tuple[str, str]:
    """Many small sessions, and a large one; the ids of the large one and of a small one."""
    rng = Random(1)
    now = datetime.now(UTC)
    large = await store.start_session(NewSession(source="terminal", model=DASHBOARD_MODEL, title="The large one"))
    history = synthetic_history(messages)
    for start in range(0, len(history), _CHUNK):
        chunk = history[start : start + _CHUNK]
        when = [now - timedelta(seconds=len(history) - start - at) for at in range(len(chunk))]
        calls = {at: _call(rng, when[at], start + at) for at in range(1, len(chunk), _ROUND)}
        counted = start % (2 * _CHUNK) == 0
        rows = [
            NewMessage(message, when[at], len(str(message)) // 4 if counted else None)
            for at, message in enumerate(chunk)
        ]
        await store.append(large.id, rows, calls=calls)
    small = large
    for number in range(sessions):
        began = now - timedelta(minutes=sessions - number)
        new = NewSession(
            source=rng.choice(("terminal", "gateway", "claude-code", "hosted")),
            model=rng.choice((DASHBOARD_MODEL, "gpt-5", "claude-opus-4-1")),
            title=f"Session {number}" if number % 2 else None,
            created=began,
        )
        small = await store.start_session(new)
        asked = [user(f"What about part {number}?"), assistant("It is done, and all tests pass.")] * 5
        rows = [NewMessage(message, began + timedelta(seconds=at)) for at, message in enumerate(asked)]
        calls = {at: _call(rng, began + timedelta(seconds=at), at * 200) for at in range(1, 10, 2)}
        await store.append(small.id, rows, calls=calls if number % 4 else {})
    return large.id, small.id


def _call(rng: Random, at: datetime, size: int) -> ModelCall:
    read = min(180_000, 5_000 + size * 9)
    usage = CanonicalUsage(rng.randint(5, 900), rng.randint(50, 900), read, rng.randint(100, 2_000))
    return ModelCall(usage, DASHBOARD_MODEL, "anthropic", "terminal", rng.randint(900, 90_000), at=at)


def calls_of(large: str, small: str) -> dict[str, tuple[str, dict[str, object]]]:
    return {
        "me": ("me", {}),
        "sessions": ("sessions", {}),
        "sessions, by cost": ("sessions", {"sort": "cost"}),
        "sessions, by words": ("sessions", {"q": "part 77"}),
        "sessions, full ones": ("sessions", {"state": "full"}),
        "sessions, page of 200": ("sessions", {"limit": 200}),
        "search": ("search", {"q": "checksum mismatch"}),
        "search, three letters": ("search", {"q": "che"}),
        "session, large": (f"sessions/{large}", {}),
        "timeline, large": (f"sessions/{large}/timeline", {}),
        "timeline, 5,000 points": (f"sessions/{large}/timeline", {"points": 5000}),
        "tree, large": (f"sessions/{large}/tree", {}),
        "context, large": (f"sessions/{large}/context", {}),
        "messages, newest": (f"sessions/{large}/messages", {}),
        "messages, in the middle": (f"sessions/{large}/messages", {"around": 9000, "limit": 200}),
        "one message": (f"sessions/{large}/messages/9002", {}),
        "session, small": (f"sessions/{small}", {}),
        "insights, 30 days": ("insights", {"days": 30}),
        "insights, a year": ("insights", {"days": 366}),
    }


async def measure(visitor: DashboardVisitor, name: str, path: str, query: dict[str, object]) -> Timing:
    times: list[float] = []
    cpu = time.process_time()
    size = 0
    first_cpu = 0.0
    for _ in range(3):
        began = time.perf_counter()
        async with visitor.http.get(f"{visitor.address}/dashboard/api/{path}", params=query) as response:  # type: ignore[arg-type]
            size = len(await response.read())
            assert response.status == 200, await response.text()
        times.append(1_000 * (time.perf_counter() - began))
        first_cpu = first_cpu or 1_000 * (time.process_time() - cpu)
    return Timing(name, times[0], max(times[1:]), first_cpu, size)


async def run(folder: Path, arguments: argparse.Namespace) -> list[Timing]:
    path = Path(arguments.store) if arguments.store else folder / "state.db"
    async with open_store(path, flush="normal") as store:
        print(f"filling {arguments.sessions:,} sessions and one of {arguments.messages:,} messages ...", flush=True)
        large, small = await fill(store, arguments.sessions, arguments.messages)
        await store.index_waiting()
        async with running_dashboard(folder, store=store, window=200_000) as flow, visiting(flow) as visitor:
            timings = [await measure(visitor, name, *call) for name, call in calls_of(large, small).items()]
            began = time.perf_counter()
            done = await visitor.act("POST", f"{large}/compress", {"preview": True})
            preview = 1_000 * (time.perf_counter() - began)
            print(f"preview of the large one: {preview:,.0f} ms, {done['folded']:,} messages folded")
            await visitor.act("POST", f"{large}/compress", {"apply": done["preview"]})
            more = {"session, compacted": f"sessions/{large}", "context, compacted": f"sessions/{large}/context"}
            found = await visitor.get(f"sessions/{large}")
            number = found["compactions"][0]["id"]
            more["handoff"] = f"sessions/{large}/compactions/{number}"
            more["messages, compacted"] = f"sessions/{large}/messages"
            timings += [await measure(visitor, name, path, {}) for name, path in more.items()]
            replaced = {"compaction": number, "around": 9_000}
            timings.append(await measure(visitor, "what it replaced", f"sessions/{large}/messages", replaced))
            return timings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--store", help="fill this file, and keep it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        timings = asyncio.run(run(Path(folder), arguments))
    print(f"\n{'call':<26}{'first':>10}{'later':>10}{'CPU, first':>13}{'answer':>11}")
    for each in timings:
        mark = "" if each.cpu_ms <= LIMIT_MS else f"  above {LIMIT_MS:.0f} ms of CPU"
        times = f"{each.first_ms:>7.1f} ms{each.later_ms:>7.1f} ms{each.cpu_ms:>10.1f} ms"
        print(f"{each.name:<26}{times}{each.answer_bytes / 1024:>8.1f} KB{mark}")


if __name__ == "__main__":
    main()
