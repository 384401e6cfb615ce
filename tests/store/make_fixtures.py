"""Makes the databases that later versions must still open: one per schema, and one per release.

Run by hand, once per schema and release. A file that is there stays as it is: what was written does not change.
"""

from __future__ import annotations

import asyncio
import gzip
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from clew import __version__
from clew.messages import Message
from clew.store import (
    CompactionEntry,
    EngineRecord,
    ModelCall,
    NewKey,
    NewNode,
    NewOutput,
    NewSession,
    NodePublication,
    open_store,
)
from clew.store.migrate import latest_version
from clew.testing import ScriptedProvider, assistant, call, says, tool, user
from clew.turn import Pin, receive
from clew.usage import CanonicalUsage
from tests.support.flow import SESSION, Flow, answers, flow_with
from tests.support.summaries import handoff_text

FIXTURES = Path(__file__).parent / "fixtures"
# The paths of spilled outputs are in the file of a release: this one says nothing about a machine.
FOLDER = Path("/tmp/clew")

WORDS = "the keeper counts the herring and writes each bucket down before the next one is opened "
LOG = "".join(f"{number:04d} the quokka log has nothing to report on this line\n" for number in range(120))
HANDOFF = handoff_text(
    active_task="Find out why the herring is short.",
    key_decisions="The walrus is fed at the third pool (m2).",
    critical_context="The word for the gate is narwhal.",
)
PAUSED = {
    "strikes": 2,
    "left_at": 5_000,
    "compactions": 3,
    "cooldowns": {"summary-model": {"until": 1_700_000_600.0, "reason": "rate_limit"}},
}
"""The compressor's memory after two compactions in a row that freed too little."""


async def main() -> None:
    schema = FIXTURES / f"schema_{latest_version('sqlite')}.db.gz"
    if not schema.exists():
        with TemporaryDirectory() as folder:
            where = Path(folder) / "state.db"
            await write_by_the_store(where)
            schema.write_bytes(gzip.compress(where.read_bytes(), mtime=0))
    release = FIXTURES / f"version_{__version__}.db.gz"
    if not release.exists():
        where = FOLDER / "state.db"
        where.unlink(missing_ok=True)
        await write_in_turns(where)
        release.write_bytes(gzip.compress(where.read_bytes(), mtime=0))


async def write_by_the_store(where: Path) -> None:
    """One session with everything that the store itself keeps."""
    summary = user("It was asked where the walrus is.")
    async with open_store(where, clock=lambda: 1_700_000_000.0) as store:
        await store.start_session(NewSession(id="old", source="terminal", model="m-1", system="You keep walruses."))
        await store.append(
            "old", [user("Where is the walrus?"), assistant(None, [call("terminal", {"command": "ls"})])]
        )
        reply = ModelCall(CanonicalUsage(10, 4, 3, 2, 1), "m-1", "p", "terminal", 42)
        await store.append("old", [tool("call_1", "In the third pool.")], call=reply)
        await store.keep_output(NewOutput("old", "walrus " * 50, tool="terminal"))
        await store.set_state("old", {"strikes": 1})
        await store.put_engine_records("old", "tree", [EngineRecord("n1", {"rows": [0, 3]}, until=3)])
        await store.learn_window("m-1", "http://localhost", 8_192)
        view = await store.view("old")
        kept = [view.messages[0], summary, view.messages[2]]
        node = NewNode("n1-1", 0, 1, 2, "It was asked where the walrus is.", 8, 20, "built-in", "builtin/2", False)
        await store.commit_compaction(
            "old",
            CompactionEntry.of(view, kept, summary, engine="compressor"),
            nodes=NodePublication((node,), ("n1-1",)),
            new_id="old-2",
        )
        await store.append("old", [user("谢谢")])
        await store.create_key(NewKey("keeper", sha256(b"a key of the walrus").digest(), "spill", 5_000_000))
        await store.index_waiting()


async def write_in_turns(where: Path) -> None:
    """A conversation as a runtime writes it, and another owner's with a paused engine."""
    provider = ScriptedProvider(*(answers(f"Answer {number}.") for number in range(9)))
    summaries = ScriptedProvider(*(says(HANDOFF, prompt_tokens=900) for _ in range(2)), name="summaries")
    async with (
        open_store(where, clock=lambda: 1_700_000_000.0) as store,
        flow_with(provider, FOLDER, window=8_000, auxiliary=summaries, store=store) as flow,
    ):
        await talk(flow)
        await store.rename(SESSION, "Herring")
        await store.learn_window("scripted-model", "http://localhost:8000/v1", 8_000)
        await store.start_session(NewSession(id="other", source="terminal", owner="somebody"))
        await store.append("other", [user("another owner's walrus")])
        await store.set_state("other", {"engine.compressor": PAUSED})
        await store.index_waiting()


async def talk(flow: Flow) -> None:
    """A spilled result, a pin, two compactions with turns between them, and a branch of the first continuation."""
    await (await flow.conversation()).pin(Pin("rule", "Never feed the walrus on a Friday."))
    await receive(flow.runtime, SESSION, [user("Where is the walrus?")])
    await flow.turn(assistant(None, [call("terminal", {"command": "cat quokka.log"}, id="c1")]), tool("c1", LOG))
    await receive(flow.runtime, SESSION, steps(0, 8))
    await flow.compact("herring")
    await flow.turn(user("How many buckets are there?"))
    tip = await flow.store.get_compression_tip(SESSION)
    branch = await flow.store.branch(tip, new_id="branch")
    await flow.store.append(branch.id, [user("What if there were none?"), assistant("Then it would starve.")])
    await receive(flow.runtime, SESSION, steps(8, 16))
    await flow.compact()
    await flow.turn(user("谢谢, and the gate?"))


def steps(start: int, stop: int) -> list[Message]:
    return [message for number in range(start, stop) for message in _step(number)]


def _step(number: int) -> list[Message]:
    read = call("read_file", {"path": f"bucket_{number}.txt"}, id=f"r{number}")
    return [
        user(f"Step {number}: " + WORDS * 8),
        assistant(f"Doing step {number}.", [read]),
        tool(f"r{number}", f"bucket {number}: " + WORDS * 10),
        assistant(f"Did step {number}."),
    ]


if __name__ == "__main__":
    asyncio.run(main())
