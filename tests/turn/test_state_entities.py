"""The state of a conversation in the store: of all its rows, and of a branch as far as it goes."""

from __future__ import annotations

from clew.messages import Message
from clew.store import Store, open_store
from clew.testing import assistant, call, tool, user
from clew.turn import read_conversation_state


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


async def test_it_follows_what_is_appended() -> None:
    async with open_store(":memory:") as store:
        session = await begin(store, 10)
        first = await read_conversation_state(store, session)
        assert first.next_number == 40
        await store.append(session, edits(10, 11))
        later = await read_conversation_state(store, session)
        assert later.next_number == 44 and later.facts[: len(first.facts)] == first.facts
        (found,) = later.entities(kind="setting", words="conf/1")
        assert (found.value, found.before and found.before.value) == ("11", "8")


async def test_a_branch_has_the_state_of_what_it_shares() -> None:
    async with open_store(":memory:") as store:
        session = await begin(store, 300)
        whole = await read_conversation_state(store, session)
        branch = await store.branch(session, 600)
        state = await read_conversation_state(store, branch.id)
        assert state.next_number == 600
        assert state.facts == tuple(fact for fact in whole.facts if fact.number < 600)
        await store.append(branch.id, edits(5_000, 5_001))
        assert (await read_conversation_state(store, session)).facts == whole.facts


async def test_it_is_as_it_was_behind_any_message() -> None:
    async with open_store(":memory:") as store:
        state = await read_conversation_state(store, await begin(store, 9))
        (before,) = state.entities(at=13, kind="setting", words="0.toml")
        (behind,) = state.entities(at=14, kind="setting", words="0.toml")
        assert (before.value, behind.value) == ("1", "4")
