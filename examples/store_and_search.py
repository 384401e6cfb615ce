"""Store: keep every message for ever, and find it again.

`pip install clew-context`; PostgreSQL with `clew-context[postgres]`
"""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import clew
from clew.store import NewSession

SESSION = json.loads(Path(__file__).with_name("session.json").read_text(encoding="utf-8"))


async def main(folder: Path) -> None:
    async with clew.open_store(folder / "state.db") as store:  # or postgresql://...
        session = await store.start_session(NewSession(title="An example", model=SESSION["model"]))
        added = await store.append(session.id, SESSION["messages"][1:])
        print(f"kept {added.added} messages in {session.id[:2]}...")
        found = await store.search("radio outage", limit=1)
        for hit in found.hits:
            print(f"m{hit.seq} {hit.role}: {hit.snippet.text.strip().splitlines()[0][:70]}")
        fork = await store.branch(session.id, 10)  # shares the first ten messages, and copies none
        print(f"a branch with {len(await store.messages(fork.id))} messages")


with TemporaryDirectory() as temporary:
    asyncio.run(main(Path(temporary)))
