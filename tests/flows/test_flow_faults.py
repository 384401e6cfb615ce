"""Stores and providers that fail at the worst moment: the conversation is what it was, and goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew.errors import StoreError
from clew.events import CompactionFinished, CompactionStarted, Notice
from clew.messages import text_of
from clew.providers import OnDelta, Provider, ProviderRefused, Reply, Request
from clew.store import DatabaseFull, open_store
from clew.testing import assistant, user
from clew.testing.scripted import ScriptedProvider, breaks_off, says
from clew.turn import receive
from clew.usage import CanonicalUsage
from tests.support.flow import SESSION, Flow, answers, flow_with

WORDS = "each worker takes a page from the queue and puts what it found into the index at once "


class Faulty:
    """Sees each statement of a store, and fails those that it is told to."""

    def __init__(self) -> None:
        self.fails_on = ""

    def __call__(self, statement: str, *_: object) -> None:
        if self.fails_on and self.fails_on in statement:
            raise DatabaseFull(f"no room for {self.fails_on}; make some")


class Silent(Provider):
    """Never answers."""

    name = "silent"

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        del request, on_delta
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for this")


@pytest.mark.parametrize("figure", [1e30, 2**62, 2**63, -5, "12", "many", float("nan")], ids=repr)
async def test_no_usage_figure_loses_a_reply(tmp_path: Path, figure: Any) -> None:
    absurd = CanonicalUsage(figure, figure, figure, figure, figure)
    script = [says("first", usage=absurd), says("second", usage=absurd)]
    async with flow_with(ScriptedProvider(*script), tmp_path) as flow:
        assert text_of((await flow.turn(user("go"))).message) == "first"
        assert text_of((await flow.turn(user("on"))).message) == "second"
        assert [text_of(row.message) for row in await flow.store.messages(SESSION)] == ["go", "first", "on", "second"]


async def past(flow: Flow, turns: int = 30) -> None:
    said = [m for n in range(turns) for m in (user(f"Page {n}. " + WORDS * 20), assistant(f"Page {n} is in."))]
    await receive(flow.runtime, SESSION, said)


async def test_a_store_that_cannot_commit_a_compaction_leaves_the_view_and_the_turn_goes_on(tmp_path: Path) -> None:
    fault = Faulty()
    provider = ScriptedProvider(answers("Sent whole."))
    async with (
        open_store(tmp_path / "state.db", on_statement=fault) as store,
        flow_with(provider, tmp_path, store=store) as flow,
    ):
        await past(flow)
        before = await flow.view()
        fault.fails_on = "INSERT INTO entries"
        await flow.turn(user("go"))
        assert flow.events_of(CompactionStarted)
        assert {done.continued_as for done in flow.events_of(CompactionFinished)} == {None}
        assert any("not compacted" in notice.text for notice in flow.events_of(Notice))
        assert list(provider.requests[0].messages[1:]) == [*before, user("go")]
        fault.fails_on = ""
        assert list(await flow.view()) == [*before, user("go"), assistant("Sent whole.")]
        done = await flow.compact()
        assert done is not None
        assert done.changed


async def test_a_store_that_cannot_append_stops_the_turn_before_anything_is_sent(tmp_path: Path) -> None:
    fault = Faulty()
    provider = ScriptedProvider(answers("hello"), answers("again"))
    async with (
        open_store(tmp_path / "state.db", on_statement=fault) as store,
        flow_with(provider, tmp_path, store=store) as flow,
    ):
        await flow.turn(user("hi"))
        fault.fails_on = "INSERT INTO messages"
        with pytest.raises(StoreError):
            await flow.turn(user("lost?"))
        assert len(provider.requests) == 1
        fault.fails_on = ""
        await flow.turn(user("said again"))
        assert [text_of(message) for message in await flow.view()] == ["hi", "hello", "said again", "again"]
        assert flow.checker.checked == 1


async def test_a_reply_and_what_it_took_are_kept_together_or_not_at_all(tmp_path: Path) -> None:
    fault = Faulty()
    provider = ScriptedProvider(answers("hello"), answers("hello again"))
    async with (
        open_store(tmp_path / "state.db", on_statement=fault) as store,
        flow_with(provider, tmp_path, store=store) as flow,
    ):
        fault.fails_on = "INSERT INTO calls"
        with pytest.raises(StoreError):
            await flow.turn(user("hi"))
        fault.fails_on = ""
        assert [text_of(message) for message in await flow.view()] == ["hi"]
        await flow.turn()
        assert [text_of(message) for message in await flow.view()] == ["hi", "hello again"]
        assert (await flow.store.usage())[0].calls == 1


async def test_a_provider_that_breaks_off_leaves_the_message_and_the_partial_reply_to_the_caller(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(breaks_off("I was about to"), answers("Here it is."))
    pieces: list[str] = []
    async with flow_with(provider, tmp_path) as flow:
        with pytest.raises(ProviderRefused) as broken:
            await flow.turn(user("go"), on_delta=lambda delta: pieces.append(delta.text))
        assert broken.value.partial == assistant("I was about to")
        assert "".join(pieces) == "I was about to"
        assert list(await flow.view()) == [user("go")]
        await flow.turn()
        assert text_of((await flow.view())[-1]) == "Here it is."


async def test_a_turn_that_is_stopped_keeps_its_message_and_lets_the_next_one_in(tmp_path: Path) -> None:
    silent = Silent()
    async with flow_with(silent, tmp_path) as flow:
        stopped = asyncio.create_task(flow.turn(user("never mind")))
        await silent.asked.wait()
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
        flow.checker.provider = ScriptedProvider(answers("Fine."))
        await flow.turn(user("better: this"))
        assert [text_of(message) for message in await flow.view()] == ["never mind", "better: this", "Fine."]


async def test_a_compaction_that_is_stopped_has_not_happened_and_holds_no_lease(tmp_path: Path) -> None:
    silent = Silent()
    async with flow_with(ScriptedProvider(answers("ok")), tmp_path, auxiliary=silent) as flow:
        await past(flow, turns=15)
        before = await flow.view()
        stopped = asyncio.create_task(flow.compact())
        await silent.asked.wait()
        stopped.cancel()
        await asyncio.gather(stopped, return_exceptions=True)
        assert await flow.view() == before
        assert await flow.store.lease_holder(SESSION) is None
        await flow.turn(user("go on"))


async def test_turns_of_one_conversation_wait_for_each_other(tmp_path: Path) -> None:
    provider = ScriptedProvider(*[answers(f"answer {n}") for n in range(5)])
    async with flow_with(provider, tmp_path) as flow:
        await asyncio.gather(*(flow.turn(user(f"question {n}")) for n in range(5)))
        said = [text_of(message) for message in await flow.view()]
        assert said == [text for n in range(5) for text in (f"question {n}", f"answer {n}")]
        assert flow.checker.checked == 4


async def test_what_another_process_wrote_meanwhile_is_seen_and_nothing_is_lost(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("one"), answers("two"))
    async with flow_with(provider, tmp_path) as flow:
        await flow.turn(user("first"))
        await flow.store.append(SESSION, [user("from elsewhere"), assistant("answered elsewhere")])
        await flow.turn(user("second"))
        told = [text_of(message) for message in provider.requests[1].messages[1:]]
        assert told == ["first", "one", "from elsewhere", "answered elsewhere", "second"]


async def test_two_processes_do_not_compact_the_same_conversation_twice(tmp_path: Path) -> None:
    first, second = ScriptedProvider(answers("a")), ScriptedProvider(answers("b"))
    async with flow_with(first, tmp_path) as one, flow_with(second, tmp_path) as two:
        await past(one, turns=15)
        await two.runtime.conversation(SESSION)
        done = await one.compact()
        assert done is not None
        await two.turn(user("and you?"))
        assert len(await two.store.compactions(SESSION)) == 1
        conversation = await two.runtime.conversation(SESSION)
        assert conversation.is_compacted
        assert list(second.requests[0].messages[1:]) == list(await one.view())[:-1]
