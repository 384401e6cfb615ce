"""The store contract: appending, syncing and branching; compactions, views and undo."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from clew.errors import InvalidArgument, InvalidMessage
from clew.messages import Message, read_conversation
from clew.store import (
    CompactionEntry,
    InUse,
    ModelCall,
    NewMessage,
    NewOutput,
    NewSession,
    Rows,
    StaleHistory,
    StaleView,
    Store,
    WrittenMessage,
    open_store,
)
from clew.testing.messages import assistant, call, system, tool, user
from clew.usage import CanonicalUsage
from tests.support.history import synthetic_history

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
SUMMARY = user("the summary of what came before")


def as_bytes(messages: Any) -> str:
    """Messages down to the order of their keys and the digits of their numbers."""
    return json.dumps(list(messages))


async def history_of(store: Store, session: str) -> list[Message]:
    return [stored.message for stored in await store.messages(session)]


async def started(store: Store, count: int = 60) -> list[Message]:
    """A session named s with a history; the history."""
    history = synthetic_history(count)
    await store.start_session(NewSession(id="s"))
    await store.append("s", history)
    return history


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
                    await store.append("s", [user("fine"), broken])
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

    async def test_an_append_whose_acknowledgement_was_lost_can_be_tried_again(self, store_url: str) -> None:
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

    async def test_histories_of_two_lineages_are_never_one_however_alike(self, store_url: str) -> None:
        same = [user("hi"), assistant("hello")]
        async with open_store(store_url) as store:
            one = await store.sync(same, new=NewSession(lineage="one"))
            other = await store.sync(same, new=NewSession(lineage="other"))
            assert other.is_new and other.session != one.session
            more = await store.sync([*same, user("on")], new=NewSession(lineage="one"))
            assert (more.session, more.known) == (one.session, 2)
            branch = await store.sync([same[0], user("else")], new=NewSession(lineage="one"))
            again = await store.sync([same[0], user("else"), user("on")], new=NewSession(lineage="one"))
            assert branch.is_branch and again.session == branch.session
            assert not await store.check()

    async def test_a_session_that_is_given_is_looked_for_in_its_own_lineage(self, store_url: str) -> None:
        history = [user("a"), assistant("b")]
        async with open_store(store_url) as store:
            first = await store.sync(history, new=NewSession(lineage="my chat"))
            more = await store.sync([*history, user("c")], session=first.session)
            assert (more.session, more.known, more.is_branch) == (first.session, 2, False)
            edited = await store.sync([history[0], user("else")], session=first.session)
            assert (edited.is_branch, edited.known) == (True, 1)

    async def test_one_history_that_two_writers_begin_at_once_is_one_conversation(self, store_url: str) -> None:
        history = synthetic_history(6)
        async with open_store(store_url) as one, open_store(store_url) as other:
            for lineage in map(str, range(10)):
                new = NewSession(lineage=lineage)
                both = await asyncio.gather(one.sync(history, new=new), other.sync(history, new=new))
                assert both[0].session == both[1].session
                assert sorted(it.is_new for it in both) == [False, True]
            assert await one.check() == []

    async def test_a_beginning_sent_again_is_a_branch_where_it_must_be_exact(self, store_url: str) -> None:
        history = [user("a"), assistant("b"), user("c"), assistant("d")]
        async with open_store(store_url) as store:
            whole = await store.sync(history)
            known = await store.sync(history[:3])
            assert (known.session, known.is_branch) == (whole.session, False)
            exact = await store.sync(history[:3], is_exact=True)
            assert exact.is_branch and await history_of(store, exact.session) == history[:3]
            same = await store.sync(history, is_exact=True)
            assert (same.session, same.is_branch) == (whole.session, False)

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
        async with open_store(store_url, on_statement=seen.append) as store:
            synced = await store.sync(history)
            await store.index_waiting()
            seen.clear()
            again = await store.sync([*history, user("new")], session=synced.session)
            assert again.added == 1
            near = len(seen)
            seen.clear()
            await store.sync([*history[:700], user("edited")], session=synced.session)
            assert near < 20 and len(seen) < 50

    async def test_a_branch_shares_earlier_messages_and_has_its_own_later_ones(self, store_url: str) -> None:
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

    async def test_a_branch_gets_a_copy_of_the_states(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("0"), assistant("1")])
            await store.set_state("s", {"pins": ["never on a Friday"], "strikes": 1})
            branch = await store.branch("s", 1)
            await store.set_state(branch.id, {"strikes": 2})
            assert await store.state(branch.id) == {"pins": ["never on a Friday"], "strikes": 2}
            assert await store.state("s") == {"pins": ["never on a Friday"], "strikes": 1}
            edited = await store.sync([user("0"), user("else")], session="s")
            assert edited.is_branch and await store.state(edited.session) == await store.state("s")

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
        news = [NewMessage(it.message, dialect="anthropic", items=it.raw, part=it.part) for it in conversation.items]
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("before"), *news])
            stored = await store.messages("s", 1)
            assert [it.message for it in stored] == list(conversation.messages)
            assert [json.dumps(it.items) for it in stored] == [json.dumps([item])] * len(news)
            assert [it.part for it in stored] == list(range(len(news)))
            assert await store.check() == []

    async def test_messages_that_their_wire_item_alone_does_not_give_again_are_stored_themselves(
        self, store_url: str
    ) -> None:
        call = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}]}
        response = {"functionResponse": {"name": "f", "response": {"output": "one"}}}
        items = [call, {"role": "user", "parts": [response, {"text": "go on"}]}]
        conversation = read_conversation(items, dialect="gemini")
        news = [NewMessage(it.message, dialect="gemini", items=it.raw, part=it.part) for it in conversation.items]
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", news)
            assert [it.message for it in await store.messages("s")] == list(conversation.messages)
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

    async def test_deleting_removes_everything_but_the_usage(self, store_url: str) -> None:
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

    async def test_an_output_of_a_tool_with_an_odd_name_is_kept_and_nothing_else_is_disturbed(
        self, store_url: str
    ) -> None:
        async with open_store(store_url) as store:
            await started(store)
            names = ("a\x00b", "\ud83d", "x" * 10_000)
            kept = [store.keep_output(NewOutput("s", f"zebra {it!r}", tool=it, path=it)) for it in names]
            appended = [store.append("s", [user(f"walrus {at}")]) for at in range(8)]
            await asyncio.gather(*kept, *appended)
            assert len((await store.search("walrus", limit=50)).hits) == len(appended)
            assert len((await store.search("zebra", limit=50)).hits) == len(names)


class ViewContract:
    async def test_a_compaction_shows_head_summary_and_tail(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            history = await started(store)
            view = await store.view("s")
            wanted = [*view.messages[:3], SUMMARY, *view.messages[50:]]
            entry = CompactionEntry.of(view, wanted, SUMMARY, tokens_before=900, tokens_after=90, engine="compressor")
            assert entry.view == (Rows(0, 3), WrittenMessage(SUMMARY), Rows(50, 60))
            assert entry.replaced == (Rows(3, 50),)
            tip = await store.commit_compaction("s", entry, new_id="s2")
            assert (tip.id, tip.kind, tip.parent_session_id) == ("s2", "continuation", "s")
        async with open_store(store_url) as store:
            shown = await store.view("s2")
            assert as_bytes(shown.messages) == as_bytes([*history[:3], SUMMARY, *history[50:]])
            assert shown.seqs == (0, 1, 2, None, *range(50, 60))
            assert as_bytes((await store.view("s")).messages) == as_bytes(history)
            (made,) = await store.compactions("s")
            assert made.entry == entry and made.is_in_effect and made.session == "s2"

    async def test_what_arrives_during_a_compaction_stays_in_the_tail_in_order(self, store_url: str) -> None:
        async with open_store(store_url) as store, open_store(store_url) as other:
            history = await started(store, 20)
            view = await store.view("s")
            await other.append("s", [user("meanwhile 1")])
            await other.append("s", [user("meanwhile 2")])
            tip = await store.commit_compaction("s", CompactionEntry.of(view, [SUMMARY, *view.messages[15:]], SUMMARY))
            late = await other.append("s", [user("late")])
            assert late.session == tip.id
            said = [user("meanwhile 1"), user("meanwhile 2"), user("late")]
            assert as_bytes((await store.view(tip.id)).messages) == as_bytes([SUMMARY, *history[15:], *said])

    async def test_undo_gives_the_former_view_back_while_later_turns_stay(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            history = await started(store)
            view = await store.view("s")
            tip = await store.commit_compaction("s", CompactionEntry.of(view, [SUMMARY], SUMMARY))
            later = [user("later"), assistant("yes")]
            await store.append(tip.id, later)
            undone = await store.undo(tip.id)
            assert undone is not None and undone.entry.summary == SUMMARY
        async with open_store(store_url) as store:
            assert as_bytes((await store.view(tip.id)).messages) == as_bytes([*history, *later])
            assert await store.undo("s") is None
            assert [it.is_in_effect for it in await store.compactions("s")] == [False]
            assert await store.get_compression_tip("s") == tip.id

    async def test_a_view_tells_the_size_before_a_compaction_that_was_undone(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("0"), assistant("1")])
            entry = CompactionEntry((WrittenMessage(user("short")),), None, None, 2, tokens_before=900)
            made = await store.commit_compaction("s", entry)
            assert (await store.view(made.id)).undone_tokens == 0
            assert await store.base(made.id) is not None
            await store.undo(made.id)
            view = await store.view(made.id)
            assert (view.undone_tokens, view.base, await store.base(made.id)) == (900, None, None)
            await store.commit_compaction(made.id, entry)
            assert (await store.view(made.id)).undone_tokens == 0

    async def test_checking_locks_out_writers_for_a_few_statements_only(self, store_url: str) -> None:
        seen: list[str] = []
        async with open_store(store_url, on_statement=seen.append) as store:
            await store.sync(synthetic_history(200))
            await store.index_waiting()
            seen.clear()
            assert await store.check() == []
            locked, is_locked = 0, False
            for statement in seen:
                is_locked = statement in ("BEGIN", "BEGIN IMMEDIATE") or (is_locked and statement != "COMMIT")
                locked += is_locked
            assert 0 < locked < 20

    async def test_undo_takes_back_one_compaction_after_the_other(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await started(store)
            shown = [(await store.view("s")).messages]
            tip = "s"
            for number in range(3):
                view = await store.view(tip)
                summary = user(f"summary {number}")
                entry = CompactionEntry.of(view, [summary, *view.messages[len(view.messages) // 2 :]], summary)
                tip = (await store.commit_compaction(tip, entry)).id
                shown.append((await store.view(tip)).messages)
            for former in reversed(shown[:-1]):
                await store.undo(tip)
                assert as_bytes((await store.view(tip)).messages) == as_bytes(former)
            view = await store.view(tip)
            tip = (await store.commit_compaction(tip, CompactionEntry.of(view, [SUMMARY], SUMMARY))).id
            assert (await store.view(tip)).messages == (SUMMARY,)
            await store.undo(tip)
            assert as_bytes((await store.view(tip)).messages) == as_bytes(shown[0])

    async def test_a_shortened_result_stands_for_its_row_and_survives_the_next_compaction(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("a"), tool("1", "long " * 500), assistant("b")])
            view = await store.view("s")
            short = tool("1", "[terminal] ran, 500 words")
            items = (Rows(0, 1), WrittenMessage(short, 1), Rows(2, 3))
            tip = (await store.commit_compaction("s", CompactionEntry(items, None, view.base, view.next_seq))).id
            view = await store.view(tip)
            assert view.messages == (user("a"), short, assistant("b")) and view.seqs == (0, 1, 2)
            again = CompactionEntry.of(view, view.messages[1:])
            assert again.view == (WrittenMessage(short, 1), Rows(2, 3))
            tip = (await store.commit_compaction(tip, again)).id
            assert (await store.view(tip)).messages == (short, assistant("b"))
            assert (await store.messages(tip))[1].message["content"] == "long " * 500
            assert await store.check() == []

    async def test_a_compaction_of_a_view_that_has_changed_is_refused(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await started(store)
            view = await store.view("s")
            entry = CompactionEntry.of(view, [SUMMARY], SUMMARY)
            tip = await store.commit_compaction("s", entry)
            with pytest.raises(StaleView):
                await store.commit_compaction("s", entry)
            assert await store.get_compression_tip("s") == tip.id

    async def test_a_compaction_that_refers_to_nothing_is_refused(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await started(store, 9)
            for items, until in (((Rows(0, 10),), 9), ((Rows(0, 5), Rows(4, 9)), 9), ((Rows(3, 3),), 9), ((), 10)):
                with pytest.raises(InvalidArgument):
                    await store.commit_compaction("s", CompactionEntry(items, None, None, until))
            assert (await store.session("s")).ended is None

    async def test_a_branch_sees_the_compaction_that_lies_before_it(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            history = await started(store, 30)
            view = await store.view("s")
            tip = await store.commit_compaction("s", CompactionEntry.of(view, [SUMMARY, *view.messages[25:]], SUMMARY))
            await store.append(tip.id, [user("30"), user("31")])
            after = await store.branch(tip.id, 31)
            before = await store.branch(tip.id, 12)
            await store.append(after.id, [user("another way")])
            assert as_bytes((await store.view(after.id)).messages) == as_bytes(
                [SUMMARY, *history[25:], user("30"), user("another way")]
            )
            assert as_bytes((await store.view(before.id)).messages) == as_bytes(history[:12])
            undone = await store.undo(after.id)
            assert undone is not None
            assert len((await store.view(after.id)).messages) == 32
            assert len((await store.view(tip.id)).messages) == 8
            assert await store.check() == []

    async def test_committing_and_viewing_take_as_many_statements_at_any_length(self, store_url: str) -> None:
        counts: list[int] = []
        for number, count in enumerate((30, 900)):
            seen: list[str] = []
            async with open_store(store_url, on_statement=seen.append) as store:
                name = f"n{number}"
                await store.start_session(NewSession(id=name))
                await store.append(name, synthetic_history(count, seed=number))
                view = await store.view(name)
                summary = user(f"what {name} was about")
                entry = CompactionEntry.of(view, [summary, *view.messages[-5:]], summary)
                await store.index_waiting()
                seen.clear()
                tip = await store.commit_compaction(name, entry)
                counts.append(len(seen))
                assert len((await store.view(tip.id)).messages) == 6
        assert counts[0] == counts[1]
