"""Messages that are shown at once and written beside something else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clew.errors import UnknownSession
from clew.messages import text_of
from clew.store import open_store
from clew.testing import assistant, user
from clew.testing.scripted import ScriptedProvider
from clew.turn import receive
from tests.support.flow import SESSION, flow_with


async def test_what_is_shown_at_once_is_in_the_store_when_it_is_settled(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await receive(flow.runtime, SESSION, [user("one"), assistant("two")])
        conversation = await flow.runtime.conversation(SESSION)
        writing = conversation.append_beside([user("three")])
        assert text_of(conversation.messages[-1]) == "three"
        assert conversation.view.next_seq == 3
        assert not writing.done()
        await conversation.settled()
        assert tuple(conversation.messages) == tuple(await flow.view())


async def test_an_append_that_follows_stands_behind_it(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await receive(flow.runtime, SESSION, [user("one"), assistant("two")])
        conversation = await flow.runtime.conversation(SESSION)
        conversation.append_beside([user("three")])
        await conversation.append([assistant("four")], after=3)
        assert [text_of(message) for message in await flow.view()] == ["one", "two", "three", "four"]


async def test_a_compaction_waits_for_it_and_keeps_it_word_for_word(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        said = [message for n in range(15) for message in (user(f"Part {n}. " + "of it " * 300), assistant(f"{n}."))]
        await receive(flow.runtime, SESSION, said)
        conversation = await flow.runtime.conversation(SESSION)
        conversation.append_beside([user("the newest")])
        done = await conversation.compact_now()
        assert done is not None and done.changed
        assert text_of((await flow.view())[-1]) == "the newest"


async def test_where_another_process_has_written_the_view_is_read_again(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow, open_store(tmp_path / "state.db") as other:
        await receive(flow.runtime, SESSION, [user("one"), assistant("two")])
        conversation = await flow.runtime.conversation(SESSION)
        await other.append(SESSION, [user("three")], after=2)
        await conversation.append_beside([user("three")])  # the same one: a client that tried again
        assert [text_of(message) for message in conversation.messages] == ["one", "two", "three"]
        assert tuple(conversation.messages) == tuple(await flow.view())


async def test_what_cannot_be_kept_is_taken_back(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await receive(flow.runtime, SESSION, [user("one"), assistant("two")])
        conversation = await flow.runtime.conversation(SESSION)
        before = conversation.size.tokens
        await flow.store.delete(SESSION)
        with pytest.raises(UnknownSession):
            await conversation.append_beside([user("three")])
        await conversation.settled()
        assert [text_of(message) for message in conversation.messages] == ["one", "two"]
        assert (conversation.view.next_seq, conversation.size.tokens) == (2, before)


async def test_whoever_waits_twice_does_not_forget_a_write_that_began_meanwhile(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await receive(flow.runtime, SESSION, [user("one"), assistant("two")])
        conversation = await flow.runtime.conversation(SESSION)
        conversation.append_beside([user("three")])
        second: list[asyncio.Task[None]] = []

        async def wait_and_append() -> None:
            await conversation.settled()
            second.append(conversation.append_beside([assistant("four")]))

        await asyncio.gather(wait_and_append(), conversation.settled())
        assert conversation.writing is second[0]
        await conversation.settled()
        assert tuple(conversation.messages) == tuple(await flow.view())
