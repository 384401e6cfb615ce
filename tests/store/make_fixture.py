"""Makes the database file of the present schema that later versions must still open. Run once per schema, by hand."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from clew.store import CompactionEntry, ModelCall, NewOutput, NewSession, open_store
from clew.store.migrate import latest_version
from clew.testing import assistant, call, tool, user
from clew.usage import CanonicalUsage


async def main() -> None:
    where = Path(__file__).parent / "fixtures" / f"schema_{latest_version('sqlite')}.db"
    if where.exists():
        sys.exit(f"{where} is there already: a released schema does not change")
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
        await store.learn_window("m-1", "http://localhost", 8_192)
        view = await store.view("old")
        kept = [view.messages[0], summary, view.messages[2]]
        await store.commit_compaction(
            "old", CompactionEntry.of(view, kept, summary, engine="compressor"), new_id="old-2"
        )
        await store.append("old", [user("谢谢")])
        await store.index_waiting()


if __name__ == "__main__":
    asyncio.run(main())
