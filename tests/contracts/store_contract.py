"""The contract suite of stores: subclass `StoreContract` in a test module and give it a `store_url` fixture.

Each test starts on an empty database. Here are also the tests of sessions, leases, usage, states and engine records.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from clew.errors import InvalidArgument
from clew.store import (
    CallFilter,
    CompactionEntry,
    EngineRecord,
    LeaseLost,
    ModelCall,
    NewMessage,
    NewSession,
    StaleView,
    Store,
    UnknownSession,
    open_store,
)
from clew.testing.messages import assistant, user
from clew.usage import CanonicalUsage
from tests.contracts.store_contract_history import HistoryContract, ViewContract
from tests.contracts.store_contract_nodes import NodeContract
from tests.contracts.store_contract_overview import OverviewContract
from tests.contracts.store_contract_owners import KeyContract, OwnerContract, SavingContract
from tests.contracts.store_contract_search import QuestionContract, SearchContract
from tests.contracts.store_contract_vectors import VectorContract


async def compacted(store: Store, session: str) -> str:
    """Compact everything but the last message; the continuation."""
    view = await store.view(session)
    summary = user("what came before")
    entry = CompactionEntry.of(view, [summary, *view.messages[-1:]], summary)
    return (await store.commit_compaction(session, entry)).id


class SessionContract:
    async def test_a_session_is_found_by_its_id(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            made = await store.start_session(NewSession(id="s1", source="terminal", model="m", title="t"))
            assert await store.session("s1") == made
            assert (made.kind, made.source, made.model, made.title) == ("root", "terminal", "m", "t")
            assert made.parent_session_id is None and made.ended is None

    async def test_starting_the_same_id_again_gives_the_same_session(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            made = await store.start_session(NewSession(id="s1", title="first"))
            assert await store.start_session(NewSession(id="s1", title="second")) == made

    async def test_a_session_that_began_elsewhere_keeps_its_time(self, store_url: str) -> None:
        began = datetime(2026, 3, 1, 10, 0, 0, 500_000, tzinfo=UTC)
        async with open_store(store_url, clock=lambda: 1_800_000_000.0) as store:
            await store.start_session(NewSession(id="here"))
            made = await store.start_session(NewSession(id="elsewhere", created=began))
            assert made.created == began
            assert (await store.start_session(NewSession(id="elsewhere"))).created == began
            synced = await store.sync([user("hi")], new=NewSession(created=began))
            assert (await store.session(synced.session)).created == began
            # Order is that of arrival, whatever the times say.
            assert [it.id for it in await store.list_sessions()] == [synced.session, "elsewhere", "here"]

    async def test_an_unknown_session_is_refused_by_name(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            with pytest.raises(UnknownSession, match="nobody"):
                await store.append("nobody", [user("hi")])

    async def test_an_owner_does_not_see_what_another_has(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="mine", owner="a"))
            for refused in (store.session("mine", owner="b"), store.view("mine", owner="b")):
                with pytest.raises(UnknownSession):
                    await refused
            with pytest.raises(UnknownSession):
                await store.append("mine", [user("x")], owner="b")
            with pytest.raises(InvalidArgument):
                await store.start_session(NewSession(id="mine", owner="b"))
            assert [it.id for it in await store.list_sessions(owner="a")] == ["mine"]
            assert await store.list_sessions(owner="b") == []

    async def test_sessions_are_listed_newest_first_and_in_pages(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            for name in ("a", "b", "c"):
                await store.start_session(NewSession(id=name))
            assert [it.id for it in await store.list_sessions(limit=2)] == ["c", "b"]
            assert [it.id for it in await store.list_sessions(before="b")] == ["a"]

    async def test_an_ended_session_is_resumed_open(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            ended = await store.end_session("s", "quit")
            assert ended.end_reason == "quit" and ended.ended is not None
            assert (await store.end_session("s", "again")).end_reason == "quit"
            assert (await store.resume("s")).ended is None

    async def test_the_tip_follows_continuations_only(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("a"), assistant("b"), user("c")])
            branch = await store.branch("s")
            subagent = await store.start_session(NewSession(parent="s"))
            assert (branch.kind, subagent.kind) == ("branch", "subagent")
            assert await store.get_compression_tip("s") == "s"
            second = await compacted(store, "s")
            third = await compacted(store, second)
            assert await store.get_compression_tip("s") == third
            assert (await store.resume("s")).id == third
            first = await store.session("s")
            assert first.end_reason == "compression"
            assert (await store.session(third)).parent_session_id == second
            assert {it.id for it in await store.children_of("s")} == {branch.id, subagent.id, second}
            assert [it.id for it in await store.list_sessions(only_tips=True)] == [third, subagent.id, branch.id]

    async def test_a_session_is_renamed(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            assert (await store.rename("s", "数据库")).title == "数据库"
            assert (await store.rename("s", None)).title is None

    async def test_a_system_prompt_is_kept_beside_the_history(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s", system="be\x00 brief"))
            assert await store.system_prompt("s") == "be\x00 brief"
            await store.append("s", [user("hi")])
            tip = await compacted(store, "s")
            assert await store.system_prompt(tip) == "be\x00 brief"
            assert len(await store.messages("s")) == 1

    async def test_one_holder_at_a_time_has_the_lease(self, store_url: str) -> None:
        async with open_store(store_url) as store, open_store(store_url) as other:
            await store.start_session(NewSession(id="s"))
            lease = await store.take_lease("s", "one")
            assert lease is not None
            assert await other.take_lease("s", "two") is None
            assert await other.lease_holder("s") == "one"
            assert await store.renew_lease(lease)
            assert await store.release_lease(lease)
            taken = await other.take_lease("s", "two")
            assert taken is not None and taken.token > lease.token
            assert not await store.renew_lease(lease)
            assert not await store.release_lease(lease)

    async def test_a_lease_covers_the_conversation_and_is_used_up_by_the_commit(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("a")])
            lease = await store.take_lease("s", "one")
            view = await store.view("s")
            entry = CompactionEntry.of(view, view.messages)
            continuation = await store.commit_compaction("s", entry, lease=lease)
            assert await store.lease_holder(continuation.id) is None
            with pytest.raises(LeaseLost):
                view = await store.view(continuation.id)
                await store.commit_compaction("s", CompactionEntry.of(view, view.messages), lease=lease)

    async def test_a_call_is_counted_with_its_reply_and_once(self, store_url: str) -> None:
        call = ModelCall(CanonicalUsage(10, 5, 3, 2, 1), "m", "p", "gateway", 250, id="req-1")
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [assistant("hi")], call=call)
            await store.record_call("s", call)
            (total,) = await store.usage()
            assert (total.calls, total.usage, total.cost_micros) == (1, call.usage, 250)

    async def test_several_calls_are_written_with_the_replies_they_brought(self, store_url: str) -> None:
        calls = {index: ModelCall(CanonicalUsage(index, 1), "m", id=f"req-{index}") for index in (1, 3)}
        said = [user("a"), assistant("b"), user("c"), assistant("d")]
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            for _ in range(2):
                await store.append("s", said, after=0, calls=calls)
            await store.append("s", [assistant("e"), assistant("f")], calls={0: calls[1]}, call=calls[3])
            (total,) = await store.usage()
            assert (total.calls, total.usage) == (2, CanonicalUsage(4, 2))
            last = ModelCall(CanonicalUsage(10, 1), "m")
            await store.append("s", [assistant("g"), assistant("h")], calls={0: last}, call=last)
            assert (await store.usage())[0].calls == 4

    async def test_a_reply_with_impossible_usage_figures_is_kept_with_bounded_ones(self, store_url: str) -> None:
        huge = 2**63
        call = ModelCall(CanonicalUsage(huge, huge, huge, huge, huge), "m", cost_micros=huge)
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            for number in range(3):
                await store.append("s", [assistant(f"reply {number}")], call=call)
            assert len(await store.messages("s")) == 3
            (total,) = await store.usage()
            assert (total.calls, total.usage.input_tokens, total.cost_micros) == (3, 3 * 10**12, 3 * 10**12)

    @pytest.mark.parametrize("index", [-1, 1])
    async def test_a_call_that_brought_none_of_the_messages_is_refused(self, store_url: str, index: int) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            with pytest.raises(InvalidArgument, match=f"message {index} of 1"):
                await store.append("s", [assistant("a")], calls={index: ModelCall(CanonicalUsage(1, 1), "m")})
            assert await store.messages("s") == []

    async def test_usage_is_added_up_by_session_and_model_with_auxiliary_calls_apart(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("a")])
            await store.append("s", [assistant("b")], call=ModelCall(CanonicalUsage(100, 10), "big", cost_micros=7))
            view = await store.view("s")
            entry = CompactionEntry.of(view, view.messages)
            calls = [ModelCall(CanonicalUsage(50, 5), "small", source="auxiliary")]
            tip = (await store.commit_compaction("s", entry, calls=calls)).id
            by_model = await store.usage(["model"])
            assert [(it.group["model"], it.usage.input_tokens) for it in by_model] == [("big", 100), ("small", 50)]
            assert by_model[1].calls_of_unknown_cost == 1 and by_model[1].cost_micros == 0
            by_session = {it.group["session"]: it.usage.input_tokens for it in await store.usage(["session"])}
            assert by_session == {"s": 100, tip: 50}
            (auxiliary,) = await store.usage([], CallFilter(auxiliary=True))
            (others,) = await store.usage([], CallFilter(auxiliary=False))
            assert (auxiliary.usage.input_tokens, others.usage.input_tokens) == (50, 100)

    async def test_usage_is_filtered_by_time_and_added_up_by_day(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            for day in (1, 1, 2):
                at = datetime(2024, 5, day, 12, tzinfo=UTC)
                await store.record_call("s", ModelCall(CanonicalUsage(1, 1), "m", at=at))
            assert [it.calls for it in await store.usage(["day"])] == [2, 1]
            since = CallFilter(since=datetime(2024, 5, 2, tzinfo=UTC))
            assert [it.calls for it in await store.usage([], since)] == [1]
            with pytest.raises(InvalidArgument, match="colour"):
                await store.usage(["colour"])  # type: ignore[list-item]

    async def test_states_survive_a_restart_and_a_continuation(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("a")])
            await store.set_state("s", {"strikes": 2, "cooldown": {"until": 17.5}})
            tip = await compacted(store, "s")
        async with open_store(store_url) as store:
            assert await store.state(tip) == {"strikes": 2, "cooldown": {"until": 17.5}}
            await store.set_state(tip, {"strikes": None})
            assert await store.state("s") == {"cooldown": {"until": 17.5}}

    async def test_a_value_tells_how_long_ago_it_was_set_in_any_conversation_of_an_owner(self, store_url: str) -> None:
        now = 1_000.0
        async with open_store(store_url, clock=lambda: now) as store:
            for name, owner in (("s", "ann"), ("t", "ann"), ("u", "bob")):
                await store.start_session(NewSession(id=name, owner=owner))
            assert await store.seconds_since_state("refused") is None
            await store.set_state("s", {"refused": True, "other": 1})
            now += 10.0
            await store.set_state("t", {"refused": True})
            now += 5.0
            assert await store.seconds_since_state("refused", owner="ann") == 5.0
            assert await store.seconds_since_state("refused") == 5.0
            assert await store.seconds_since_state("refused", owner="bob") is None

    async def test_returns_are_messages_of_a_person_behind_a_long_pause(self, store_url: str) -> None:
        began = datetime(2026, 3, 1, 12, tzinfo=UTC)
        messages = [user("a"), assistant("b"), user("c"), assistant("d"), user("e"), assistant("f")]
        minutes = [0, 1, 7, 20, 24, 25]
        rows = [NewMessage(it, began + timedelta(minutes=at)) for it, at in zip(messages, minutes, strict=True)]
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", rows)
            assert await store.next_seq("s") == 6
            assert [await store.count_returns("s", seconds) for seconds in (240.0, 300.0, 600.0)] == [2, 1, 0]
            branch = await store.branch("s", 4)
            assert await store.next_seq(branch.id) == 4
            assert await store.count_returns(branch.id, 240.0) == 1

    async def test_engine_records_are_read_in_order_replaced_by_id_and_kept_over_a_restart(
        self, store_url: str
    ) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("a"), user("b")])
            nodes = [EngineRecord(f"n{number}", {"text": "数据库 \ud83d", "rows": [0, number]}) for number in (3, 1, 2)]
            await store.put_engine_records("s", "tree", nodes)
            await store.put_engine_records("s", "other", [EngineRecord("n1", None)])
            tip = await compacted(store, "s")
        async with open_store(store_url) as store:
            assert await store.engine_records(tip, "tree") == nodes
            await store.put_engine_records(tip, "tree", [EngineRecord("n3", "replaced"), EngineRecord("n4", [1.5])])
            assert [it.id for it in await store.engine_records("s", "tree")] == ["n3", "n1", "n2", "n4"]
            assert [it.id for it in await store.engine_records("s", "tree", limit=2)] == ["n3", "n1"]
            assert [it.id for it in await store.engine_records("s", "tree", after="n1", limit=2)] == ["n2", "n4"]
            assert await store.engine_records("s", "tree", ["n3", "missing"]) == [EngineRecord("n3", "replaced")]
            assert await store.engine_records("s", "other") == [EngineRecord("n1", None)]
            assert await store.engine_records("s", "none") == []

    async def test_many_engine_records_are_read_by_their_ids(self, store_url: str) -> None:
        nodes = [EngineRecord(f"n{number}", number) for number in range(1_200)]
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.put_engine_records("s", "tree", nodes)
            wanted = [it.id for it in reversed(nodes)]
            assert [it.id for it in await store.engine_records("s", "tree", wanted)] == wanted

    async def test_a_branch_gets_the_engine_records_of_the_messages_it_shares(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("0"), user("1"), user("2")])
            nodes = [EngineRecord("all", 0), EngineRecord("two", 2, until=2), EngineRecord("three", 3, until=3)]
            await store.put_engine_records("s", "tree", nodes)
            branch = await store.branch("s", 2)
            await store.put_engine_records(branch.id, "tree", [EngineRecord("two", "changed", until=2)])
            assert [it.id for it in await store.engine_records(branch.id, "tree")] == ["all", "two"]
            assert await store.engine_records("s", "tree") == nodes
            edited = await store.sync([user("0"), user("edited")], session="s")
            assert [it.id for it in await store.engine_records(edited.session, "tree")] == ["all"]

    async def test_the_engine_records_of_a_compaction_are_stored_with_it_or_not_at_all(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("0"), user("1"), user("2")])
            view = await store.view("s")
            entry = CompactionEntry.of(view, view.messages[2:], engine="tree")
            await store.commit_compaction("s", entry, records=[EngineRecord("n1", 1, until=3)])
            with pytest.raises(StaleView):
                await store.commit_compaction("s", entry, records=[EngineRecord("n2", 2, until=3)])
            assert await store.engine_records("s", "tree") == [EngineRecord("n1", 1, until=3)]

    async def test_engine_records_that_cannot_be_stored_or_found_are_refused(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            for broken in (EngineRecord("n", b"bytes"), EngineRecord("half \ud83d", 1), EngineRecord("NUL \x00", 1)):
                with pytest.raises(InvalidArgument):
                    await store.put_engine_records("s", "tree", [EngineRecord("fine", 1), broken])
            assert await store.engine_records("s", "tree") == []
            with pytest.raises(InvalidArgument, match="no record 'n9'"):
                await store.engine_records("s", "tree", after="n9")
            with pytest.raises(UnknownSession):
                await store.engine_records("nobody", "tree")

    async def test_engine_records_are_deleted_with_their_conversation(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            for name in ("s", "other"):
                await store.start_session(NewSession(id=name))
                await store.put_engine_records(name, "tree", [EngineRecord("n", name)])
            await store.delete("s")
            assert await store.engine_records("other", "tree") == [EngineRecord("n", "other")]
            await store.start_session(NewSession(id="s"))
            assert await store.engine_records("s", "tree") == []
            assert await store.check() == []

    async def test_a_stated_window_is_remembered_per_model_and_address(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.learn_window("m", "http://a", 8_192)
            await store.learn_window("m", "http://a", 4_096)
            await store.learn_window("m", "http://b", 9_000)
        async with open_store(store_url) as store:
            learnt = await store.learnt_window("m", "http://a")
            assert learnt is not None and learnt.tokens == 4_096
            await store.forget_window("m", "http://b")
            assert [it.base_url for it in await store.learnt_windows()] == ["http://a"]
            with pytest.raises(InvalidArgument):
                await store.learn_window("m", "", 0)


class StoreContract(
    SessionContract,
    HistoryContract,
    ViewContract,
    NodeContract,
    SearchContract,
    QuestionContract,
    VectorContract,
    OwnerContract,
    KeyContract,
    SavingContract,
    OverviewContract,
):
    """All tests of the contract."""
