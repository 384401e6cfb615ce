"""The store contract: appending, sending again, branching, and messages that come back as they were."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from clew.errors import InvalidMessage
from clew.messages import Message, read_conversation
from clew.store import Chain, InUse, NewMessage, NewSession, StaleHistory, Store, open_store
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.synthetic import synthetic_history

STRANGE: tuple[Message, ...] = (
    user(""),
    {"role": "assistant", "content": None},
    user("half a pair \ud83d and a NUL \x00, then \u2028"),
    user([{"type": "text", "text": "数据库"}, {"type": "odd", "n": 12345678901234567890123, "f": 1e-320, "z": None}]),
    {"content": "keys the other way round", "role": "user"},
    assistant("calls", [call("a\x00b", '{"broken": ', id="x"), call("read_file", {"path": "é"}, id="x")]),
    tool("nobody", "a result for a call that never was", is_error=True),
    system("a second system message"),
)


def as_bytes(messages: Any) -> str:
    """Messages down to the order of their keys and the digits of their numbers."""
    return json.dumps(list(messages))


async def history_of(store: Store, session: str) -> list[Message]:
    return [stored.message for stored in await store.messages(session)]


class HistoryContract:
    async def test_messages_come_back_exactly_as_they_were(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            appended = await store.append("s", STRANGE)
            assert (appended.first_seq, appended.next_seq, appended.added) == (0, len(STRANGE), len(STRANGE))
            assert as_bytes(await history_of(store, "s")) == as_bytes(STRANGE)
            assert as_bytes((await store.view("s")).messages) == as_bytes(STRANGE)

    async def test_what_is_not_json_is_refused_with_its_index(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            deep: Any = []
            for _ in range(100_000):
                deep = [deep]
            for broken in ({"role": "user", "content": [{"b": b"bytes"}]}, {"role": "user", "content": deep}):
                with pytest.raises(InvalidMessage, match="message 1"):
                    await store.append("s", [user("fine"), broken])  # type: ignore[list-item]
            assert await store.messages("s") == []

    async def test_results_know_their_tool(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [assistant(None, [call("terminal", id="1"), call("patch", id="2")])])
            await store.append("s", [tool("2", "patched")])
        async with open_store(store_url) as store:
            await store.append("s", [tool("1", "ran")])
            assert [it.tool for it in await store.messages("s")] == [None, "patch", "terminal"]

    async def test_a_result_knows_the_newest_call_of_its_id_before_it(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [assistant(None, [call("terminal", id="1")])])
            turns = [[tool("1", "done"), assistant(None, [call(name, id="1")])] for name in ("patch", "search")]
            await store.append("s", [*turns[0], *turns[1], tool("1", "done")])
            assert [it.tool for it in await store.messages("s") if it.tool] == ["terminal", "patch", "search"]

    async def test_tokens_and_times_are_kept_and_order_is_that_of_arrival(self, store_url: str) -> None:
        seconds = iter([1_000.0, 500.0, 400.0, 300.0, 200.0])
        async with open_store(store_url, clock=lambda: next(seconds)) as store:
            await store.start_session(NewSession(id="s"))
            for number in range(3):
                await store.append("s", [NewMessage(user(str(number)), tokens=number)])
            stored = await store.messages("s")
            assert [it.message["content"] for it in stored] == ["0", "1", "2"]
            assert [it.tokens for it in stored] == [0, 1, 2]
            assert stored[0].at > stored[1].at > stored[2].at

    async def test_an_append_that_was_acknowledged_to_nobody_can_be_tried_again(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("a")], after=0)
            again = await store.append("s", [user("a")], after=0)
            assert (again.added, again.next_seq) == (0, 1)
            with pytest.raises(StaleHistory):
                await store.append("s", [user("other")], after=0)
            with pytest.raises(StaleHistory):
                await store.append("s", [user("b")], after=7)
            assert len(await store.messages("s")) == 1

    async def test_the_same_words_twice_are_two_messages(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("yes")])
            await store.append("s", [user("yes")])
            assert len(await store.messages("s")) == 2

    async def test_the_same_history_sent_again_adds_nothing(self, store_url: str) -> None:
        history = synthetic_history(40)
        async with open_store(store_url) as store:
            first = await store.sync(history)
            assert first.is_new and first.added == 40
        async with open_store(store_url) as store:
            again = await store.sync(history)
            assert (again.session, again.added, again.known) == (first.session, 0, 40)
            more = await store.sync([*history, user("next")], session=first.session)
            assert (more.session, more.added, more.is_branch) == (first.session, 1, False)
            assert len(await store.messages(first.session)) == 41

    async def test_moved_cache_markers_and_missing_thinking_make_no_difference(self, store_url: str) -> None:
        marked: list[Message] = [
            user([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]),
            {"role": "assistant", "content": "ho", "tool_calls": []},
        ]
        async with open_store(store_url) as store:
            thinking: Message = {"role": "assistant", "content": "ho", "reasoning": [{"type": "thinking", "t": "m"}]}
            first = await store.sync([user("hi"), thinking])
            again = await store.sync(marked)
            assert (again.session, again.added) == (first.session, 0)

    async def test_an_edited_earlier_message_becomes_a_branch(self, store_url: str) -> None:
        history = synthetic_history(30)
        edited = [*history[:10], user("edited"), *history[11:]]
        async with open_store(store_url) as store:
            first = await store.sync(history)
            branch = await store.sync(edited, session=first.session)
            assert branch.is_branch and branch.session != first.session
            assert (branch.known, branch.added) == (10, 20)
            assert as_bytes(await history_of(store, first.session)) == as_bytes(history)
            assert as_bytes(await history_of(store, branch.session)) == as_bytes(edited)
            made = await store.session(branch.session)
            assert (made.kind, made.parent_session_id) == ("branch", first.session)
            again = await store.sync([*edited, user("on")], session=first.session)
            assert (again.session, again.added, again.is_branch) == (branch.session, 1, False)
            assert await store.check() == []

    async def test_a_history_with_another_beginning_is_a_branch_of_the_session_it_was_sent_for(
        self, store_url: str
    ) -> None:
        async with open_store(store_url) as store:
            first = await store.sync([user("a"), assistant("b")])
            other = await store.sync([user("z")], session=first.session)
            assert other.is_branch and await history_of(store, other.session) == [user("z")]

    async def test_a_shorter_history_adds_nothing(self, store_url: str) -> None:
        history = synthetic_history(9)
        async with open_store(store_url) as store:
            first = await store.sync(history)
            shorter = await store.sync(history[:5])
            assert (shorter.session, shorter.added, shorter.next_seq) == (first.session, 0, 5)

    async def test_owners_never_share_a_conversation(self, store_url: str) -> None:
        history = synthetic_history(6)
        async with open_store(store_url) as store:
            first = await store.sync(history, new=NewSession(owner="a"))
            second = await store.sync(history, new=NewSession(owner="b"))
            assert second.is_new and second.session != first.session

    async def test_recognising_a_history_takes_few_statements_however_long_it_is(self, store_url: str) -> None:
        seen: list[str] = []
        history = synthetic_history(1_500)
        chain = Chain()
        async with open_store(store_url, on_statement=seen.append) as store:
            synced = await store.sync(history, chain=chain)
            await store.index_waiting()
            seen.clear()
            again = await store.sync([*history, user("new")], session=synced.session, chain=chain)
            assert again.added == 1
            near = len(seen)
            seen.clear()
            await store.sync([*history[:700], user("edited")], session=synced.session)
            assert near < 20 and len(seen) < 50

    async def test_a_branch_shares_its_past_and_goes_its_own_way(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("0"), assistant("1"), user("2")])
            branch = await store.branch("s", 2)
            await store.append(branch.id, [user("2b")])
            await store.append("s", [user("3")])
            second = await store.branch(branch.id, 1)
            await store.append(second.id, [user("1c")])
            assert [it["content"] for it in await history_of(store, branch.id)] == ["0", "1", "2b"]
            assert [it["content"] for it in await history_of(store, second.id)] == ["0", "1c"]
            assert [it["content"] for it in (await store.view(second.id)).messages] == ["0", "1c"]
            assert [it["content"] for it in await history_of(store, "s")] == ["0", "1", "2", "3"]

    async def test_a_branch_remembers_what_was_remembered_and_then_goes_its_own_way(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("0"), assistant("1")])
            await store.set_state("s", {"pins": ["never on a Friday"], "strikes": 1})
            branch = await store.branch("s", 1)
            await store.set_state(branch.id, {"strikes": 2})
            assert await store.state(branch.id) == {"pins": ["never on a Friday"], "strikes": 2}
            assert await store.state("s") == {"pins": ["never on a Friday"], "strikes": 1}

    async def test_messages_of_one_wire_item_are_stored_once_and_come_back(self, store_url: str) -> None:
        item = {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "one", "unknown": {"z": 1, "a": 2}},
                {"type": "tool_result", "tool_use_id": "2", "content": "two"},
                {"type": "text", "text": "go on"},
            ],
        }
        conversation = read_conversation([item], dialect="anthropic")
        news = []
        for message in conversation.messages:
            origin = conversation.origin_of(message)
            assert origin is not None
            news.append(NewMessage(message, dialect="anthropic", items=origin.items, part=origin.part))
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("before"), *news])
            stored = await store.messages("s", 1)
            assert [it.message for it in stored] == list(conversation.messages)
            assert [json.dumps(it.items) for it in stored] == [json.dumps([item])] * len(news)
            assert [it.part for it in stored] == list(range(len(news)))
            assert await store.check() == []

    async def test_two_writers_of_one_session_both_get_through(self, store_url: str) -> None:
        async with open_store(store_url) as one, open_store(store_url) as two:
            await one.start_session(NewSession(id="s"))

            async def write(store: Store, name: str) -> None:
                for number in range(15):
                    await store.append("s", [user(f"{name}{number}")])

            await asyncio.gather(write(one, "a"), write(two, "b"))
            said = [str(it["content"]) for it in await history_of(one, "s")]
            assert [it for it in said if it[0] == "a"] == [f"a{n}" for n in range(15)]
            assert [it for it in said if it[0] == "b"] == [f"b{n}" for n in range(15)]
            assert await one.check() == []

    async def test_deleting_takes_everything_but_the_bill(self, store_url: str) -> None:
        from clew.store import CompactionEntry, ModelCall, NewOutput
        from clew.usage import CanonicalUsage

        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s", system="you are a zebra"))
            await store.start_session(NewSession(id="other", system="you are a zebra"))
            await store.append("other", [user("a giraffe")])
            await store.append("s", [user("a zebra")], call=ModelCall(CanonicalUsage(1, 1), "m"))
            await store.keep_output(NewOutput("s", "zebra output"))
            view = await store.view("s")
            summary = user("about a zebra")
            await store.commit_compaction("s", CompactionEntry.of(view, [summary], summary))
            branch = await store.branch("s")
            with pytest.raises(InUse, match=branch.id):
                await store.delete("s")
            await store.delete(branch.id)
            assert await store.delete("s") == 1
            assert (await store.search("zebra")).hits == ()
            assert len((await store.search("giraffe")).hits) == 1
            assert [it.id for it in await store.list_sessions()] == ["other"]
            (total,) = await store.usage()
            assert total.calls == 1
            assert await store.check() == []
            await store.append("other", [user("a zebra again")])
            assert len((await store.search("zebra")).hits) == 1
