"""The store contract: compactions as entries, views as folds over them, undo."""

from __future__ import annotations

import pytest

from clew.errors import InvalidArgument
from clew.messages import Message
from clew.store import CompactionEntry, NewSession, Rows, StaleView, Store, Written, open_store
from clew.testing.messages import assistant, tool, user
from clew.testing.store_contract_history import as_bytes
from clew.testing.synthetic import synthetic_history

SUMMARY = user("the summary of what came before")


async def started(store: Store, count: int = 60) -> list[Message]:
    """A session named s with a history; the history."""
    history = synthetic_history(count)
    await store.start_session(NewSession(id="s"))
    await store.append("s", history)
    return history


class ViewContract:
    async def test_a_compaction_shows_head_summary_and_tail(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            history = await started(store)
            view = await store.view("s")
            wanted = [*view.messages[:3], SUMMARY, *view.messages[50:]]
            entry = CompactionEntry.of(view, wanted, SUMMARY, tokens_before=900, tokens_after=90, engine="compressor")
            assert entry.view == (Rows(0, 3), Written(SUMMARY), Rows(50, 60))
            assert entry.replaced == (Rows(3, 50),)
            tip = await store.commit_compaction("s", entry, new_id="s2")
            assert (tip.id, tip.kind, tip.parent_session_id) == ("s2", "continuation", "s")
        async with open_store(store_url) as store:
            shown = await store.view("s2")
            assert as_bytes(shown.messages) == as_bytes([*history[:3], SUMMARY, *history[50:]])
            assert shown.places == (0, 1, 2, None, *range(50, 60))
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

    async def test_undo_peels_one_compaction_after_the_other(self, store_url: str) -> None:
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
            items = (Rows(0, 1), Written(short, 1), Rows(2, 3))
            tip = (await store.commit_compaction("s", CompactionEntry(items, None, view.base, view.next_seq))).id
            view = await store.view(tip)
            assert view.messages == (user("a"), short, assistant("b")) and view.places == (0, 1, 2)
            again = CompactionEntry.of(view, view.messages[1:])
            assert again.view == (Written(short, 1), Rows(2, 3))
            tip = (await store.commit_compaction(tip, again)).id
            assert (await store.view(tip)).messages == (short, assistant("b"))
            assert (await store.messages(tip))[1].message["content"] == "long " * 500
            assert await store.check() == []

    async def test_a_compaction_of_a_view_that_moved_is_refused(self, store_url: str) -> None:
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
