"""The part of the store's contract that whoever shows a store relies on: overviews, sizes, calls, what has changed."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from clew.errors import UnknownSession
from clew.store import (
    CLIENT_STATE,
    WINDOW_STATE,
    CompactionEntry,
    ConversationOverview,
    ModelCall,
    NewMessage,
    NewSession,
    Rows,
    Session,
    Store,
    StoredWindow,
    WrittenMessage,
    open_store,
)
from clew.testing.messages import assistant, user
from clew.usage import CanonicalUsage

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
REPLY = ModelCall(CanonicalUsage(7, 5, 90, 3), "m", "p", "terminal", 11, at=BEGAN, cost_direct_micros=20)
SUMMARY = ModelCall(CanonicalUsage(50, 9), "small", "p", "auxiliary", 4)


async def talked(store: Store, owner: str = "") -> Session:
    """A session of four messages and one call."""
    new = NewSession(source="terminal", model="m", title="Tea", system="Be kind.", owner=owner, created=BEGAN)
    session = await store.start_session(new)
    asked = [NewMessage(user("hello"), BEGAN, 3), NewMessage(assistant("yes?"), BEGAN, 4)]
    await store.append(session.id, asked, call=REPLY)
    await store.append(session.id, [user("a question"), assistant("an answer " * 50)])
    return session


async def folded(store: Store, session: str) -> Session:
    """The continuation after a compaction that keeps the last message and shortens the first."""
    view = await store.view(session)
    summary = user("in short")
    items = (WrittenMessage(user("he…"), 0), WrittenMessage(summary), Rows(3, 4))
    entry = CompactionEntry(
        items, summary, view.base, view.next_seq, 100, 40, "e", "1", "small", "tea", ("w",), {"replaced": [1, 3]}
    )
    return await store.commit_compaction(session, entry, calls=[SUMMARY])


async def only(store: Store) -> ConversationOverview:
    (found,) = await store.conversations(10)
    return found


class OverviewContract:
    """Whoever shows a store reads it in short, and hears of every change."""

    async def test_an_overview_has_the_ends_of_a_conversation(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            session = await talked(store, "anna")
            continuation = await folded(store, session.id)
            await store.append(continuation.id, [user("go on")])
            found = await only(store)
            assert (found.id, found.newest, found.owner) == (session.id, continuation.id, "anna")
            assert (found.title, found.model, found.source, found.kind) == ("Tea", "m", "terminal", "root")
            assert (found.next_seq, found.compactions, found.shared, found.parent) == (5, 1, 0, None)
            assert found.created == BEGAN and found.system_chars >= len("Be kind.")
            await store.undo(session.id)
            assert (await only(store)).compactions == 0
            assert (await only(store)).last_entry > found.last_entry

    async def test_a_branch_is_an_overview_of_its_own_with_what_it_shares(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            session = await talked(store)
            made = await store.branch(session.id, 2)
            newest, first = await store.conversations(10)
            assert (newest.id, newest.kind, newest.shared, newest.next_seq) == (made.id, "branch", 2, 2)
            assert newest.parent == first.conversation
            assert [size.seq for size in await store.message_sizes(made.id)] == [0, 1]
            assert await store.conversations(1) == [newest]

    async def test_sizes_say_of_what_each_message_is(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            session = await talked(store)
            sizes = await store.message_sizes(session.id)
            assert [(size.seq, size.role, size.tokens) for size in sizes] == [
                (0, "user", 3),
                (1, "assistant", 4),
                (2, "user", None),
                (3, "assistant", None),
            ]
            assert sizes[3].bytes > 500 > sizes[2].bytes > 10
            assert await store.message_sizes(session.id, 3) == sizes[3:]
            number = (await only(store)).conversation
            uncounted = sizes[2].bytes + sizes[3].bytes
            assert await store.counted_messages([number, 99]) == {number: (7, uncounted)}

    async def test_openings_and_newest_words_are_those_of_people_and_models(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            session = await talked(store)
            await store.append(session.id, [{"role": "tool", "tool_call_id": "c", "content": "x"}])
            conversation = (await only(store)).conversation
            assert (await store.openings([conversation, 99]))[conversation]["content"] == "hello"
            (digest,) = await store.digests([session.id])
            assert digest.newest is not None and digest.newest["role"] == "assistant"
            assert digest.last_call is not None and digest.last_call.usage == REPLY.usage

    async def test_calls_and_accounts_tell_what_was_paid_for_what(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            session = await talked(store)
            continuation = await folded(store, session.id)
            reply, summary = await store.calls(continuation.id)
            assert (reply.seq, reply.at, reply.usage, reply.cost_micros) == (1, BEGAN, REPLY.usage, 11)
            assert (reply.cost_direct_micros, reply.is_auxiliary, summary.is_auxiliary) == (20, False, True)
            (account,) = await store.compaction_accounts(session.id)
            assert (account.first, account.stop, account.is_in_effect) == (1, 3, True)
            assert (account.tokens_before, account.tokens_after, account.warnings) == (100, 40, ("w",))
            made = await store.compaction(session.id, account.id)
            assert made is not None and made.entry.summary == user("in short")
            outline = await store.view_outline(continuation.id)
            assert outline.base is not None and outline.base.id == account.id and outline.next_seq == 4
            await store.undo(session.id)
            assert not (await store.compaction_accounts(session.id))[0].is_in_effect
            assert (await store.view_outline(continuation.id)).items == (Rows(0, 4),)

    async def test_the_messages_of_a_handoff_are_worked_out_where_its_engine_does_not_say(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            session = await talked(store)
            view = await store.view(session.id)
            summary = user("in short")
            await store.commit_compaction(session.id, CompactionEntry.of(view, [view.messages[0], summary], summary))
            (account,) = await store.compaction_accounts(session.id)
            assert (account.first, account.stop) == (1, 4)

    async def test_calls_and_compactions_are_told_by_the_program_they_are_of(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            named, plain = await talked(store), await talked(store)
            used = StoredWindow(8_000, None, "config")
            await store.set_state(named.id, {CLIENT_STATE: "Claude Code", WINDOW_STATE: asdict(used)})
            await folded(store, named.id)
            assert [each.client for each in await store.conversations(10)] == ["terminal", "Claude Code"]
            assert [each.window for each in await store.conversations(10)] == [None, used]
            totals = await store.usage(("client",))
            assert {each.group["client"]: each.calls for each in totals} == {"Claude Code": 2, "terminal": 1}
            (made,) = await store.compaction_stats(BEGAN)
            assert made.client == "Claude Code"
            await store.delete(plain.id)
            assert {each.group["client"] for each in await store.usage(("client",))} == {"", "Claude Code"}

    async def test_compactions_of_a_period_are_those_in_effect_of_an_owner(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            hers, his = await talked(store, "anna"), await talked(store, "ben")
            await folded(store, hers.id)
            await folded(store, his.id)
            since = datetime.now(UTC) - timedelta(days=1)
            (made,) = await store.compaction_stats(since, owner="anna")
            assert (made.model, made.source, made.before, made.after) == ("m", "terminal", 100, 40)
            assert len(await store.compaction_stats(since)) == 2
            assert await store.compaction_stats(since, since + timedelta(hours=1)) == []
            await store.undo(his.id)
            assert len(await store.compaction_stats(since)) == 1

    async def test_another_owner_reads_nothing_of_it(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            session = await talked(store, "anna")
            await folded(store, session.id)
            (account,) = await store.compaction_accounts(session.id, owner="anna")
            for read in (
                lambda: store.message_sizes(session.id, owner="ben"),
                lambda: store.calls(session.id, owner="ben"),
                lambda: store.compaction_accounts(session.id, owner="ben"),
                lambda: store.compaction(session.id, account.id, owner="ben"),
                lambda: store.view_outline(session.id, owner="ben"),
            ):
                with pytest.raises(UnknownSession):
                    await read()
            other = await talked(store, "ben")
            assert await store.compaction(other.id, account.id, owner="ben") is None

    async def test_a_mark_changes_with_every_write_and_stays_otherwise(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            session = await talked(store)
            mark = await store.change_mark()
            await store.view(session.id)
            assert await store.change_mark() == mark
            await store.rename(session.id, "Coffee")
            renamed = await store.change_mark()
            assert renamed != mark
            await store.delete(session.id)
            assert await store.change_mark() != renamed
