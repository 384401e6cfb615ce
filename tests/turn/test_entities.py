"""The state of a conversation in the store: read once, kept, and known to branches as far as they share it."""

from __future__ import annotations

from clew.messages import Message
from clew.store import Store, open_store
from clew.testing import assistant, call, tool, user
from clew.turn import read_conversation_state
from clew.turn.entities import STATE_RECORDS


def edits(first: int, last: int) -> list[Message]:
    said: list[Message] = []
    for n in range(first, last):
        made = call(
            "edit",
            {"path": f"conf/{n % 3}.toml", "old_string": f"limit = {n}", "new_string": f"limit = {n + 1}"},
            id=f"c{n}",
        )
        said += [user(f"Raise the limit for the {n}th time, please."), assistant(None, [made]), tool(f"c{n}", "Done.")]
        said.append(assistant(f"Raised to {n + 1}."))
    return said


async def begin(store: Store, count: int) -> str:
    session = await store.start_session()
    await store.append(session.id, edits(0, count))
    return session.id


async def test_what_was_read_once_is_not_read_again() -> None:
    async with open_store(":memory:") as store:
        session = await begin(store, 10)
        first = await read_conversation_state(store, session)
        assert (first.read, first.next_number) == (40, 40)
        again = await read_conversation_state(store, session)
        assert (again.read, again.changes) == (0, first.changes)
        await store.append(session, edits(10, 11))
        later = await read_conversation_state(store, session)
        assert later.read == 4
        (found,) = later.entities(kind="setting", words="conf/1")
        assert (found.value, found.before and found.before.value) == ("11", "8")


async def test_a_long_conversation_is_kept_in_several_records_and_reads_the_same() -> None:
    async with open_store(":memory:") as store:
        session = await begin(store, 1_100)
        state = await read_conversation_state(store, session)
        assert [int(record.id) for record in await store.engine_records(session, STATE_RECORDS)] == [0, 2_000, 4_000]
        await store.append(session, edits(1_100, 1_101))
        later = await read_conversation_state(store, session)
        assert later.read == 4 and later.changes[: len(state.changes)] == state.changes
        assert (await read_conversation_state(store, session)).changes == later.changes


async def test_a_branch_goes_on_from_what_it_shares() -> None:
    async with open_store(":memory:") as store:
        session = await begin(store, 1_100)
        whole = await read_conversation_state(store, session)
        branch = await store.branch(session, 2_400)
        state = await read_conversation_state(store, branch.id)
        assert state.read == 400 and state.next_number == 2_400
        assert state.changes == tuple(change for change in whole.changes if change.number < 2_400)
        await store.append(branch.id, edits(5_000, 5_001))
        assert (await read_conversation_state(store, session)).changes == whole.changes


async def test_it_is_as_it_was_behind_any_message() -> None:
    async with open_store(":memory:") as store:
        state = await read_conversation_state(store, await begin(store, 9))
        (before,) = state.entities(at=13, kind="setting", words="0.toml")
        (behind,) = state.entities(at=14, kind="setting", words="0.toml")
        assert (before.value, behind.value) == ("1", "4")
