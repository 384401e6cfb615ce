"""The part of the store's contract that hosts of several people rely on: owners kept apart, their keys, their money."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest

from clew.errors import InvalidArgument
from clew.store import (
    CallFilter,
    CompactionEntry,
    DocKind,
    EngineRecord,
    ModelCall,
    NewKey,
    NewOutput,
    NewSession,
    SearchScope,
    StaleView,
    Store,
    UnknownKey,
    UnknownSession,
    open_store,
)
from clew.testing.messages import assistant, user
from clew.usage import CanonicalUsage

SPENDER = """
import asyncio, sys
from clew.store import open_store

async def main():
    async with open_store(sys.argv[1]) as store:
        for _ in range(int(sys.argv[3])):
            await store.add_spending(sys.argv[2], 7)

asyncio.run(main())
"""
SPENDERS, TIMES = 2, 25
KINDS: tuple[DocKind, ...] = ("message", "summary", "output", "system")


def hashed(key: str) -> bytes:
    return sha256(key.encode()).digest()


async def fill(store: Store, owner: str) -> str:
    """A conversation of an owner with something of every kind in it; its tip."""
    first = f"{owner}-1"
    await store.start_session(NewSession(id=first, owner=owner, source="gateway", title="Tea", system="Walrus rules."))
    reply = ModelCall(CanonicalUsage(10, 1), "m", source="gateway", cost_micros=5)
    await store.append(first, [user("a walrus"), assistant("in the pool")], call=reply, owner=owner)
    await store.keep_output(NewOutput(first, "walrus log " * 9, owner=owner))
    await store.set_state(first, {"pins": [owner]}, owner=owner)
    await store.put_engine_records(first, "tree", [EngineRecord("n", owner)], owner=owner)
    view = await store.view(first, owner=owner)
    summary = user("walrus, in short")
    entry = CompactionEntry.of(view, [summary, *view.messages[-1:]], summary)
    return (await store.commit_compaction(first, entry, owner=owner, new_id=f"{owner}-2")).id


async def everything(store: Store, session: str) -> list[Any]:
    """All that an owner could notice of a change to a conversation."""
    return [
        await store.list_sessions(),
        await store.view(session),
        await store.messages(session),
        await store.compactions(session),
        await store.state(session),
        await store.engine_records(session, "tree"),
        await store.lease_holder(session),
        await store.system_prompt(session),
        await store.usage(["session", "model"]),
    ]


def doors(store: Store, name: str, owner: str) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    """Every operation on a session that is named by its id, within an owner."""
    call = ModelCall(CanonicalUsage(1, 1), "m")
    return {
        "session": lambda: store.session(name, owner=owner),
        "list_sessions": lambda: store.list_sessions(owner=owner, before=name),
        "children_of": lambda: store.children_of(name, owner=owner),
        "end_session": lambda: store.end_session(name, owner=owner),
        "get_compression_tip": lambda: store.get_compression_tip(name, owner=owner),
        "resume": lambda: store.resume(name, owner=owner),
        "rename": lambda: store.rename(name, "mine", owner=owner),
        "set_model": lambda: store.set_model(name, "m", owner=owner),
        "system_prompt": lambda: store.system_prompt(name, owner=owner),
        "branch": lambda: store.branch(name, owner=owner),
        "append": lambda: store.append(name, [user("x")], owner=owner),
        "sync": lambda: store.sync([user("a walrus")], session=name, new=NewSession(owner=owner)),
        "start_session": lambda: store.start_session(NewSession(parent=name, owner=owner)),
        "view": lambda: store.view(name, owner=owner),
        "messages": lambda: store.messages(name, owner=owner),
        "next_seq": lambda: store.next_seq(name, owner=owner),
        "count_returns": lambda: store.count_returns(name, 300.0, owner=owner),
        "commit_compaction": lambda: store.commit_compaction(name, CompactionEntry((), None, None, 0), owner=owner),
        "undo": lambda: store.undo(name, owner=owner),
        "compactions": lambda: store.compactions(name, owner=owner),
        "take_lease": lambda: store.take_lease(name, "me", owner=owner),
        "lease_holder": lambda: store.lease_holder(name, owner=owner),
        "record_call": lambda: store.record_call(name, call, owner=owner),
        "state": lambda: store.state(name, owner=owner),
        "set_state": lambda: store.set_state(name, {"pins": None}, owner=owner),
        "put_engine_records": lambda: store.put_engine_records(name, "tree", [EngineRecord("n", 0)], owner=owner),
        "engine_records": lambda: store.engine_records(name, "tree", owner=owner),
        "engine_records by id": lambda: store.engine_records(name, "tree", ["n"], owner=owner),
        "keep_output": lambda: store.keep_output(NewOutput(name, "x", owner=owner)),
        "search of a session": lambda: store.search("walrus", SearchScope(session=name, owner=owner)),
        "search of a conversation": lambda: store.search("walrus", SearchScope(conversation_of=name, owner=owner)),
        "delete": lambda: store.delete(name, owner=owner),
    }


class OwnerContract:
    async def test_no_operation_shows_or_changes_what_another_owner_has(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            tip = await fill(store, "a")
            before = await everything(store, tip)
            for name in ("a-1", tip, "a", "a-", "A-1", "a-1\0", "\ud83d", "../a-1", "a-1' OR '1'='1", "%", "_-_"):
                for door in doors(store, name, "b").values():
                    with pytest.raises(UnknownSession):
                        await door()
            conversation = (await store.session(tip)).conversation
            assert await store.sessions_of(conversation, owner="b") == []
            assert await store.list_sessions(owner="b") == []
            assert await everything(store, tip) == before

    async def test_every_operation_is_open_to_the_owner(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            for door in doors(store, "", ""):
                owner = door.replace(" ", "-")
                tip = await fill(store, owner)
                with suppress(StaleView):
                    await doors(store, tip, owner)[door]()
                await store.sessions_of((await store.session("session-1")).conversation, owner="session")
            assert await store.check() == []

    async def test_search_and_outputs_are_an_owners_own(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await fill(store, "a")
            found = await store.search("walrus", SearchScope(owner="b", kinds=KINDS))
            assert found.hits == () and found.searched is not None
            assert str(found.searched) == "0 messages, 0 summaries, 0 outputs"
            mine = await store.search("walrus", SearchScope(owner="a", kinds=KINDS))
            assert {hit.kind for hit in mine.hits} == set(KINDS)
            (output,) = [hit.ref for hit in mine.hits if hit.kind == "output"]
            assert await store.output(output, owner="b") is None
            assert await store.output(output + "\0", owner="a") is None
            kept = await store.output(output, owner="a")
            assert kept is not None and kept.text.startswith("walrus log")
            await fill(store, "b")
            others = await store.search("walrus", SearchScope(owner="b", kinds=KINDS))
            assert {hit.session for hit in others.hits} - {None} == {"b-1", "b-2"}

    async def test_a_history_that_another_owner_sent_before_is_new(self, store_url: str) -> None:
        history = [user("a walrus"), assistant("in the pool"), user("which one?")]
        async with open_store(store_url) as store:
            first = await store.sync(history, new=NewSession(owner="a"))
            second = await store.sync(history, new=NewSession(owner="b"))
            assert (second.is_new, second.known, second.added) == (True, 0, 3)
            again = await store.sync([*history, assistant("the third")], new=NewSession(owner="a"))
            assert (again.session, again.known) == (first.session, 3)
            assert len(await store.messages(second.session, owner="b")) == 3

    async def test_usage_is_added_up_for_an_owner(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await fill(store, "a")
            for which in (CallFilter(owner="b"), CallFilter(owner="b", session="a-1")):
                assert (await store.usage([], which))[0].calls == 0
                assert await store.usage(["session"], which) == []
            assert [it.group["session"] for it in await store.usage(["session"], CallFilter(owner="a"))] == ["a-1"]
            await store.delete("a-1", owner="a")
            assert (await store.usage([], CallFilter(owner="a")))[0].cost_micros == 5


class KeyContract:
    async def test_a_key_is_found_by_its_hash_and_by_nothing_else(self, store_url: str) -> None:
        expires = datetime(2030, 5, 1, tzinfo=UTC)
        async with open_store(store_url, clock=lambda: 1_700_000_000.0) as store:
            made = await store.create_key(NewKey("ann", hashed("k1"), "observe", 2_500_000, expires))
            plain = await store.create_key(NewKey("bob", hashed("k2")))
            assert (made.owner, made.mode, made.budget_micros, made.expires) == ("ann", "observe", 2_500_000, expires)
            assert made.created == datetime.fromtimestamp(1_700_000_000, UTC)
            assert (plain.mode, plain.budget_micros, plain.expires, plain.revoked, plain.used) == (None,) * 5
            assert plain.spent_micros == 0 and plain.id != made.id
        async with open_store(store_url) as store:
            assert await store.find_key(hashed("k1")) == made
            assert await store.find_key(hashed("k2")) == plain
            for wrong in (hashed("K1"), hashed("k1")[:31], b"", b"k1"):
                assert await store.find_key(wrong) is None
            assert await store.list_keys() == [made, plain]
            assert await store.list_keys(owner="bob") == [plain]

    async def test_a_key_that_cannot_be_is_refused(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.create_key(NewKey("ann", hashed("k1")))
            for wrong in (
                NewKey("ann", hashed("k1")),
                NewKey(" ", hashed("k2")),
                NewKey("an\0n", hashed("k2")),
                NewKey("ann", b"k2"),
                NewKey("ann", hashed("k2"), "watch"),  # type: ignore[arg-type]
                NewKey("ann", hashed("k2"), budget_micros=0),
                NewKey("ann", hashed("k2"), budget_micros=2**63),
            ):
                with pytest.raises(InvalidArgument):
                    await store.create_key(wrong)
            assert len(await store.list_keys()) == 1

    async def test_a_revoked_key_stays_revoked_from_the_first_time_on(self, store_url: str) -> None:
        now = 1_700_000_000.0
        async with open_store(store_url, clock=lambda: now) as store:
            made = await store.create_key(NewKey("ann", hashed("k1")))
            for name, owner in ((made.id, "bob"), ("k_no", None), ("k_\0", None), (made.id[:-1], None)):
                with pytest.raises(UnknownKey):
                    await store.revoke_key(name, owner=owner)
            first = await store.revoke_key(made.id, owner="ann")
            now += 60
            assert await store.revoke_key(made.id) == first == await store.find_key(hashed("k1"))
            assert first.revoked == made.created

    async def test_what_is_spent_is_added_up_and_says_that_the_key_was_used(self, store_url: str) -> None:
        async with open_store(store_url, clock=lambda: 1_700_000_000.0) as store:
            made = await store.create_key(NewKey("ann", hashed("k1"), budget_micros=10))
            other = await store.create_key(NewKey("ann", hashed("k2")))
            assert (await store.add_spending(made.id, 0)).used == made.created
            await store.add_spending(made.id, 4)
            assert (await store.add_spending(made.id, 8)).spent_micros == 12
            assert (await store.list_keys())[1] == other
            for wrong in (-1, -(2**63)):
                with pytest.raises(InvalidArgument):
                    await store.add_spending(made.id, wrong)
            with pytest.raises(UnknownKey):
                await store.add_spending("k_no", 1)
            await store.add_spending(made.id, 2**63)
            found = await store.find_key(hashed("k1"))
            assert found is not None and found.spent_micros == 12 + 10**15

    async def test_processes_that_spend_at_once_lose_nothing(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            made = await store.create_key(NewKey("ann", hashed("k1")))
            spenders = [
                await asyncio.create_subprocess_exec(sys.executable, "-c", SPENDER, store_url, made.id, str(TIMES))
                for _ in range(SPENDERS)
            ]
            mine = [store.add_spending(made.id, 7) for _ in range(TIMES)]
            await asyncio.gather(*mine, *(it.wait() for it in spenders))
            assert [it.returncode for it in spenders] == [0] * SPENDERS
            found = await store.find_key(hashed("k1"))
            assert found is not None and found.spent_micros == 7 * TIMES * (SPENDERS + 1)

    async def test_a_budget_is_reserved_once_until_it_is_spent_released_or_too_old(self, store_url: str) -> None:
        now = 1_700_000_000.0
        async with (
            open_store(store_url, clock=lambda: now) as store,
            open_store(store_url, clock=lambda: now) as second,
        ):
            made = await store.create_key(NewKey("ann", hashed("k1"), budget_micros=100))
            await store.create_key(NewKey("bob", hashed("k2"), budget_micros=100))
            asked = [(store, second)[at % 2].reserve_spending(made.id, 30, 60.0) for at in range(20)]
            taken = [it.id for it in await asyncio.gather(*asked) if it.id is not None]
            assert len(taken) == 4  # of 100 the fourth finds 10 left
            assert (await store.add_spending(made.id, 20, taken[0])).spent_micros == 20
            await second.release_spending(taken[1])
            await second.release_spending(taken[1])
            (again,) = [it for _ in range(3) if (it := await second.reserve_spending(made.id, 30, 90.0)).id is not None]
            assert again.key.spent_micros == 20
            now += 60
            assert (await store.reserve_spending(made.id, 10, 60.0)).id is not None
            await store.add_spending(made.id, 80)
            spent = await store.reserve_spending(made.id, 1, 60.0)
            assert (spent.id, spent.key.spent_micros) == (None, 100)
            with pytest.raises(UnknownKey):
                await store.reserve_spending("k_no", 1, 60.0)
            free = await store.create_key(NewKey("cy", hashed("k3")))
            assert (await store.reserve_spending(free.id, 10**15, 60.0)).id is not None


class SavingContract:
    async def test_what_was_saved_counts_the_summariser_and_only_what_is_known(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            for name, source in (("proxied", "gateway"), ("own", "terminal")):
                await store.start_session(NewSession(id=name, source=source))
                await store.append(name, [user("a")])
                view = await store.view(name)
                summariser = ModelCall(CanonicalUsage(50, 5), "small", source="auxiliary", cost_micros=30)
                entry = CompactionEntry.of(view, view.messages)
                await store.commit_compaction(name, entry, calls=[summariser], new_id=f"{name}-2")
            calls = [
                ModelCall(CanonicalUsage(1, 1, 9), "big", "p", "gateway", 100, cost_direct_micros=400),
                ModelCall(CanonicalUsage(1, 1), "big", "p", "gateway", 70),
                ModelCall(CanonicalUsage(1, 1, 0, 5), "big", "p", "gateway", None, cost_direct_micros=9_000),
            ]
            for call in calls:
                await store.append("proxied", [assistant("b")], call=call)
            conversation = (await store.session("proxied")).conversation
            (total,) = await store.usage([], CallFilter(conversation=conversation))
            assert (total.calls, total.cache_hits, total.compared_calls) == (4, 1, 1)
            assert (total.cost_direct_micros, total.cost_compared_micros, total.saved_micros) == (400, 130, 270)
            assert (total.calls_of_unknown_saving, total.calls_of_unknown_cost) == (1, 1)
            (everyone,) = await store.usage()
            assert everyone.saved_micros == 270
            (own,) = await store.usage([], CallFilter(session="own-2"))
            assert (own.compared_calls, own.saved_micros) == (0, 0)
            await store.delete("proxied")
            (kept,) = await store.usage()
            assert (kept.compared_calls, kept.saved_micros) == (1, 270)
