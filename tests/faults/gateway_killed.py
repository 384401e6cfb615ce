# ruff: noqa: E402, T201 (a program of its own)
"""Kill a gateway again and again while clients stream through it: what a client saw to its end is in the store.

python tests/faults/gateway_killed.py --kills 300 [--seconds N]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from clew.messages import text_of
from clew.store import open_store
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer
from tests.support.gateway import gateway_with

WIRES: dict[str, tuple[str, str, dict[str, Any], bytes]] = {
    "chat": ("chat/completions", "messages", {}, b"[DONE]"),
    "messages": ("messages", "messages", {"max_tokens": 99}, b"message_stop"),
    "responses": ("responses", "input", {}, b"response.completed"),
}
CLIENTS, TURNS = 8, 20
"""How many clients ask at once, and how many turns a conversation has."""
_NUMBER = re.compile(r"\[c\d+-\d+\]")


def serve(folder: str, upstream: str, ready: Connection) -> None:
    """A gateway over the store of a folder, until it is killed."""

    async def run() -> None:
        async with gateway_with(Upstream(), Path(folder), upstreams=(upstream,)) as flow:
            ready.send(flow.base_url)
            await asyncio.Event().wait()

    asyncio.run(run())


class Killed:
    """Clients, a gateway that is killed, and what the clients saw to its end."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.seen: list[str] = []
        self.kills = 0
        self.address = ""
        self.is_ending = False

    def answer(self, received: ReceivedRequest) -> UpstreamAnswer:
        number = _NUMBER.findall(str(received.body))[-1]
        return UpstreamAnswer(f"The reply to {number} with some words behind it.", piece_chars=9)

    async def client(self, name: int) -> None:
        path, field, beside, end = WIRES[list(WIRES)[name % len(WIRES)]]
        count, items = 0, list[Any]()
        async with aiohttp.ClientSession() as http:
            while not self.is_ending:
                if len(items) >= 2 * TURNS:
                    items = []
                count += 1
                number = f"[c{name}-{count}]"
                items.append({"role": "user", "content": f"question {number}"})
                body = {"model": GATEWAY_MODEL, "stream": True, field: items, **beside}
                while not self.is_ending:
                    heard = b""
                    with suppress(aiohttp.ClientError, OSError):
                        async with http.post(f"{self.address}/{path}", json=body) as response:
                            async for chunk in response.content.iter_any():
                                heard += chunk
                                if end in heard:
                                    break
                    if end in heard:
                        reply = f"The reply to {number} with some words behind it."
                        self.seen.append(reply)
                        items.append({"role": "assistant", "content": reply})
                        break
                    await asyncio.sleep(0.05)

    async def run(self, kills: int, seconds: float) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.support.gateway", "clew.app"])
        until = time.monotonic() + seconds
        async with Upstream(answers=self.answer) as upstream:
            clients: list[asyncio.Task[None]] = []
            while self.kills < kills and time.monotonic() < until:
                ready, given = context.Pipe()
                process = context.Process(target=serve, args=(str(self.folder), upstream.base_url, given))
                process.start()
                self.address = await asyncio.to_thread(ready.recv)
                clients = clients or [asyncio.create_task(self.client(name)) for name in range(CLIENTS)]
                enough = len(self.seen) + self.chance.randrange(4, 40)
                while len(self.seen) < enough:  # noqa: ASYNC110 (and a little longer)
                    await asyncio.sleep(self.chance.random() * 0.02)
                process.kill()
                await asyncio.to_thread(process.join)
                self.kills += 1
            self.is_ending = True
            await asyncio.gather(*clients)

    async def problems(self) -> list[str]:
        async with open_store(self.folder / "state.db") as store:
            found = [str(problem) for problem in await store.check()]
            kept: set[str] = set()
            for session in await store.list_sessions(limit=100_000):
                rows = await store.messages(session.id)
                replies = Counter(text_of(row.message) for row in rows if row.message["role"] == "assistant")
                found += [f"{session.id} has {reply!r} {count} times" for reply, count in replies.items() if count > 1]
                kept |= replies.keys()
        return found + [f"lost: {reply}" for reply in self.seen if reply not in kept]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=3_600.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        killed = Killed(Path(folder), asked.seed)
        asyncio.run(killed.run(asked.kills, asked.seconds))
        problems = asyncio.run(killed.problems())
    print(f"{killed.kills} kills, {len(killed.seen):,} replies seen to their end, {len(problems)} problems")
    print(*problems[:20], sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
