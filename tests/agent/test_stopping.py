"""A stop at every single await of an exchange: nothing lost, nothing twice, nothing left running or locked."""

from __future__ import annotations

import asyncio
import types
from collections import Counter
from collections.abc import Awaitable, Generator
from pathlib import Path
from typing import Any

import pytest

from clew.agent import Agent, AgentTool, Approvals, CallContext, Toolbox, ToolResult
from clew.agent.tools import Arguments, function_schema
from clew.messages import calls_of, text_of
from clew.testing import call, user
from clew.testing.scripted import ScriptedProvider, calls
from clew.turn import uninterruptible
from tests.support.flow import SESSION, Flow, answers, flow_with
from tests.support.groups import calls_have_results

LONG = "a long way to go before the importer is done, and much to say about every step of it " * 20
QUESTION = "Say all of it."
ANSWER = "All of it is said."


@types.coroutine
def stopped_at(step: int, work: Awaitable[Any]) -> Generator[Any, Any, bool]:
    """Run the work in the present task and cancel that at the given await; whether it came so far."""
    running, problem, count = work.__await__(), None, 0
    while True:
        try:
            waits_for = running.send(None) if problem is None else running.throw(problem)
        except StopIteration:
            return False
        except asyncio.CancelledError:
            return True
        problem, count = None, count + 1
        if count == step:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        try:
            yield waits_for
        except BaseException as raised:  # handed on to the work, whatever it is
            problem = raised


class Say(AgentTool):
    """Says what it is told, after a while."""

    def __init__(self, name: str, *, quiet: bool = False, pinned: str | None = None) -> None:
        self.name, self.is_read_only, self.pinned = name, quiet, pinned
        self.schema = function_schema(name, "Says what it is told.", {"text": {"type": "string"}}, "text")
        self.said: list[str] = []

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        await asyncio.sleep(0)
        self.said.append(arguments["text"])
        return ToolResult(f"said {arguments['text']}", pinned_as=self.pinned)


class StoppedExchange:
    """An exchange with calls side by side, a skill, a compaction before a request, and one after the reply."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.tools = (Say("look", quiet=True), Say("act"), Say("skill", pinned="skill review"))
        self.agent = Agent(flow.runtime, Toolbox(self.tools), Approvals("allow"))

    @property
    def said(self) -> list[str]:
        return [text for tool in self.tools for text in tool.said]


def script() -> ScriptedProvider:
    parts = [
        *(call("look", {"text": f"look{n}"}, id=f"l{n}") for n in range(2)),
        call("act", {"text": "act"}, id="a1"),
        call("skill", {"text": "skill"}, id="s1"),
    ]
    # The last reply tells of far more than we count, so that a compaction follows it.
    return ScriptedProvider(calls(*parts), calls(call("act", {"text": "more"}, id="a2")), answers(ANSWER, grows=9_000))


async def test_a_stop_anywhere_loses_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    step, is_stopped = 0, True
    while is_stopped:
        step += 1
        folder = tmp_path / str(step)
        folder.mkdir()
        async with flow_with(script(), folder, window=12_000) as flow:
            exchange = StoppedExchange(flow)
            for turn in range(3):
                flow.checker.provider = ScriptedProvider(answers(f"{turn} {LONG}"))
                await exchange.agent.ask(SESSION, user(f"{turn} {LONG}"))
            flow.checker.provider = script()
            is_stopped = await stopped_at(step, exchange.agent.ask(SESSION, user(QUESTION)))
            await holds_together(exchange, step)
    assert step > 10


async def holds_together(exchange: StoppedExchange, step: int) -> None:
    flow, store = exchange.flow, exchange.flow.store
    live = await flow.runtime.conversation(SESSION)
    assert not (live.locks.turn.locked() or live.locks.compaction.locked() or live.locks.write.locked()), step
    others = asyncio.all_tasks() - {asyncio.current_task(), *([live.preparer.task] if live.preparer.task else [])}
    assert not others, (step, others)
    lease = await store.take_lease(live.session, "somebody else", 1.0)
    assert lease is not None, step
    await store.release_lease(lease)
    flow.checker.provider = ScriptedProvider(answers("Gone on."))
    await exchange.agent.ask(SESSION, user("And now?"))
    tip = await store.get_compression_tip(SESSION)
    history = [row.message for row in await store.messages(tip, 0, 10_000)]
    texts = Counter(text_of(message) for message in history)
    assert texts[QUESTION] == 1, step
    assert texts["And now?"] == 1, step
    assert sum(count for text, count in texts.items() if text.startswith(ANSWER)) <= 1, step
    assert calls_have_results(history), step
    asked = [one["id"] for message in history for one in calls_of(message)]
    answered = Counter(message.get("tool_call_id") for message in history if message["role"] == "tool")
    assert answered == Counter(asked), step
    for said in exchange.said:
        assert texts[f"said {said}"] == 1, (step, said)
    assert len((await flow.conversation()).pins) == texts["said skill"], step
    assert calls_have_results(flow.checker.provider.requests[-1].messages), step


async def test_short_work_is_done_however_often_its_caller_is_stopped() -> None:
    done = []

    async def work() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        done.append("done")

    task = asyncio.create_task(uninterruptible(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["done"]


async def test_half_a_character_in_a_result_stops_no_turn(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(call("act", '{"text": "\\ud800"}', id="c1")), answers("Done."))
    async with flow_with(provider, tmp_path) as flow:
        await Agent(flow.runtime, Toolbox([Say("act")]), Approvals()).ask(SESSION, user("Go."))
        assert text_of(provider.requests[1].messages[-1]) == "said \\ud800"


async def test_a_manual_compaction_that_is_stopped_anywhere_can_be_done_again(tmp_path: Path) -> None:
    step, is_stopped = 0, True
    while is_stopped:
        step += 1
        folder = tmp_path / str(step)
        folder.mkdir()
        async with flow_with(ScriptedProvider(), folder, window=12_000) as flow:
            for turn in range(3):
                flow.checker.provider = ScriptedProvider(answers(f"{turn} {LONG}"))
                await flow.turn(user(f"{turn} {LONG}"))
            is_stopped = await stopped_at(step, flow.compact())
            flow.checker.provider = ScriptedProvider(answers("Gone on."))
            await flow.turn(user("And now?"))
            live = await flow.runtime.conversation(SESSION)
            assert [text_of(message) for message in live.messages] == [text_of(it) for it in await flow.view()], step
            assert calls_have_results(live.messages)
            await flow.compact()
            assert live.is_compacted, step
