"""Kills a process at every statement of a store: for each n, a child runs a scenario and is killed before statement n.

Run as a module with a folder, a scenario and a database to start from. Each child works on its own copy, writes down
what was acknowledged, and kills itself with SIGKILL; a scenario that ends alive was the last. The output's last line is
the number of children. POSIX only.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from clew.config import LosslessSettings, Settings
from clew.engines import LosslessEngine
from clew.messages import Message
from clew.store import CompactionEntry, ModelCall, NewSession, Store, open_store
from clew.testing.messages import assistant, call, tool, user
from clew.testing.scripted import ScriptedProvider
from clew.tooloutput import SpillFolder
from clew.turn import ModelTarget, Runtime, RuntimeOptions
from clew.usage import CanonicalUsage

SUMMARY = user("summary of walrus matters")
FIRST = [user("walrus zero"), assistant("walrus one", [call("terminal", id="c1")]), tool("c1", "walrus two")]
LATER = [user("walrus three"), assistant("walrus four")]
EDITED = [FIRST[0], user("walrus edited"), user("walrus after the edit")]

Acknowledge = Callable[[str], None]


async def prepare(where: str) -> None:
    """The database that most scenarios start from: one session, some messages, one compaction."""
    async with open_store(where) as store:
        await store.start_session(NewSession(id="s", system="be a walrus"))
        await store.append("s", FIRST)
        await store.index_waiting()


async def prepare_compacted(where: str) -> None:
    await prepare(where)
    async with open_store(where) as store:
        await _compact(store)
        await store.append("s", LATER)
        await store.index_waiting()


async def append(store: Store, acknowledge: Acknowledge) -> None:
    for message in LATER:
        await store.append("s", [message], call=ModelCall(CanonicalUsage(1, 1), "m"))
        acknowledge(str(message["content"]))


async def sync(store: Store, acknowledge: Acknowledge) -> None:
    await store.sync(EDITED, session="s")
    acknowledge("branch")


async def compact(store: Store, acknowledge: Acknowledge) -> None:
    await _compact(store)
    acknowledge("compacted")


async def undo(store: Store, acknowledge: Acknowledge) -> None:
    await store.undo("s")
    acknowledge("undone")


async def index(store: Store, acknowledge: Acknowledge) -> None:
    await store.append("s", [user(f"walrus number {number}") for number in range(40)])
    acknowledge("appended")
    await store.search("walrus")


async def rebuild(store: Store, acknowledge: Acknowledge) -> None:
    await store.rebuild_index()
    acknowledge("rebuilt")


async def delete(store: Store, acknowledge: Acknowledge) -> None:
    await store.delete("s")
    acknowledge("deleted")


async def start(store: Store, acknowledge: Acknowledge) -> None:
    await store.start_session(NewSession(id="s"))
    acknowledge("started")


async def sweep(store: Store, acknowledge: Acknowledge) -> None:
    """A fold of the lossless engine over an earlier one: leaves, nodes over nodes, and the new view."""
    await _sweep(store)
    acknowledge("folded")


async def prepare_folded(where: str) -> None:
    """The database that `sweep` starts from: a map over the first messages, and more behind it."""
    async with open_store(where) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", walrus_rounds(0, 20))
        await _sweep(store)
        await store.append("s", walrus_rounds(20, 40))
        await store.index_waiting()


def walrus_rounds(first: int, last: int) -> Sequence[Message]:
    """Questions and answers that are long enough to be folded."""
    said = [
        (user(f"walrus {n}? " + "fish " * 60), assistant(f"walrus {n}. " + "herring " * 60)) for n in range(first, last)
    ]
    return [message for exchange in said for message in exchange]


async def _sweep(store: Store) -> None:
    settings = Settings(lossless=LosslessSettings(leaf_tokens=600, leaves_condensed=3, nodes_condensed=2))
    target = ModelTarget(ScriptedProvider(), "any-model", context_length=4_000)
    folder = SpillFolder(Path(store.where).parent / "outputs")
    runtime = Runtime(store, target, RuntimeOptions(LosslessEngine, folder, settings, summarizes=False))
    await (await runtime.conversation("s")).compact_now()
    await runtime.close()


SCENARIOS: dict[str, Callable[[Store, Acknowledge], Awaitable[None]]] = {
    it.__name__: it for it in (append, sync, compact, sweep, undo, index, rebuild, delete, start)
}


async def _compact(store: Store) -> None:
    view = await store.view("s")
    await store.commit_compaction("s", CompactionEntry.of(view, [SUMMARY, *view.messages[-1:]], SUMMARY), new_id="s2")


def _run_child(where: Path, scenario: str, kill_at: int) -> None:
    seen = 0

    def on_statement(sql: str) -> None:
        del sql
        nonlocal seen
        seen += 1
        if seen == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def acknowledge(what: str) -> None:
        with where.with_suffix(".acks").open("a") as acks:
            acks.write(what + "\n")

    async def run() -> None:
        async with open_store(where, on_statement=on_statement) as store:
            await SCENARIOS[scenario](store, acknowledge)

    asyncio.run(run())


def main(folder: str, scenario: str, start_from: str) -> int:
    """Kill a child at every statement; the number of points there were."""
    point = 0
    while True:
        point += 1
        where = Path(folder) / f"{point:03d}.db"
        if start_from:
            shutil.copyfile(start_from, where)
        child = os.fork()
        if child == 0:
            try:
                _run_child(where, scenario, point)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return point


if __name__ == "__main__":
    sys.stdout.write(f"{main(*sys.argv[1:4])}\n")
