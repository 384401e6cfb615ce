"""Turns that grow until they have to be compacted: when, how, and what is left of the conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clew.events import CompactionFinished, CompactionPhase, CompactionStarted, Notice
from clew.handoff import PREFIX, SYSTEM_NOTE
from clew.messages import Message, text_of
from clew.providers import OnDelta, Provider, Reply, Request
from clew.store import CallFilter, StoredMessage
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import ScriptedProvider, calls, refuses, says
from clew.turn import ModelTarget, receive
from clew.usage import CanonicalUsage
from tests.support.flow import SESSION, Flow, answers, flow_with, request_tokens
from tests.support.groups import calls_have_results
from tests.support.summaries import handoff_text

WORDS = "the invoice job reads a batch and writes each row to the ledger before the next one starts "


def long_text(name: str, tokens: int = 400) -> str:
    return f"Step {name}: " + WORDS * (tokens // 18)


async def grow(flow: Flow, turns: int, *, first: int = 0, tokens: int = 400) -> None:
    provider = flow.checker.provider
    assert isinstance(provider, ScriptedProvider)
    for number in range(first, first + turns):
        provider.then(answers(f"Done with step {number}."))
        await flow.turn(user(long_text(str(number), tokens)))


async def rows(flow: Flow) -> list[StoredMessage]:
    return await flow.store.messages(SESSION)


class Gated(Provider):
    """A summary model that waits until it is let go."""

    name = "gated"

    def __init__(self, text: str) -> None:
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.text = text
        self.requests: list[Request] = []

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        del on_delta
        self.requests.append(request)
        self.asked.set()
        await self.gate.wait()
        message: Message = {"role": "assistant", "content": self.text}
        return Reply(message, CanonicalUsage(input_tokens=900, output_tokens=100), "stop", request.model)


async def test_short_turns_reach_the_model_as_they_are_and_nothing_is_compacted(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("hello", prompt_tokens=30), says("bye", prompt_tokens=40))
    async with flow_with(provider, tmp_path) as flow:
        await flow.turn(user("hi"))
        reply = await flow.turn(user("and now?"))
        assert text_of(reply.message) == "bye"
        assert [text_of(message) for message in provider.requests[1].messages] == [
            "You are a careful assistant.",
            "hi",
            "hello",
            "and now?",
        ]
        assert not flow.events_of(CompactionStarted)
        assert flow.checker.checked == 1


async def test_a_request_over_the_threshold_is_compacted_before_it_is_sent(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("Read it all."))
    async with flow_with(provider, tmp_path) as flow:
        past = [message for n in range(30) for message in (user(long_text(str(n))), assistant(f"Did {n}."))]
        await receive(flow.runtime, SESSION, past)
        await flow.turn(user("What is left to do?"))
        sent = provider.requests[0]
        assert flow.events_of(CompactionStarted)[0].reason == "preflight"
        assert request_tokens(sent) < 10_000
        assert any(text_of(message).startswith(PREFIX) for message in sent.messages)
        assert text_of(sent.messages[-1]) == "What is left to do?"
        assert SYSTEM_NOTE in text_of(sent.messages[0])
        # Rows, not copies: every message is in the history once.
        assert [text_of(row.message) for row in await rows(flow)][:2] == [long_text("0"), "Did 0."]
        assert len(await rows(flow)) == len(past) + 2


async def test_tools_alone_can_make_a_request_too_large_to_leave_as_it_is(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("Yes."), answers("Yes again."))
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": WORDS} for n in range(230)}}
    tools = [{"type": "function", "function": {"name": "big", "description": WORDS, "parameters": schema}}]
    async with flow_with(provider, tmp_path) as flow:
        past = [message for n in range(10) for message in (user(long_text(str(n))), assistant(f"Did {n}."))]
        await receive(flow.runtime, SESSION, past)
        await flow.turn(user("Go on."), tools=tools)
        assert flow.events_of(CompactionFinished)[0].continued_as is not None
        assert provider.requests[0].tools == tools


async def test_the_real_size_compacts_after_the_reply_where_our_count_saw_no_need(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path) as flow:
        await grow(flow, 10)
        assert not flow.events_of(CompactionStarted)
        provider.then(answers("That was more than you think.", grows=7_000))
        await flow.turn(user("Next."))
        assert [event.reason for event in flow.events_of(CompactionStarted)] == ["usage"]
        view = await flow.view()
        assert text_of(view[-1]) == "That was more than you think."
        provider.then(answers("On it."))
        await flow.turn(user("And?"))
        assert len(provider.requests[-1].messages) < 20


async def test_calls_get_their_results_before_anything_is_compacted(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path) as flow:
        await grow(flow, 12)
        provider.then(calls(call("read_file", {"path": "a"}, id="c1"), prompt_tokens=11_000), answers("It says so."))
        await flow.turn(user("Look at a."))
        assert not flow.events_of(CompactionStarted)
        await flow.turn(tool("c1", "the text of a"))
        assert [event.reason for event in flow.events_of(CompactionStarted)] == ["usage"]
        assert calls_have_results(provider.requests[-1].messages)
        assert text_of(provider.requests[-1].messages[-1]) == "the text of a"


async def test_a_switch_to_a_smaller_window_is_met_by_a_compaction(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, window=100_000) as flow:
        await grow(flow, 15)
        assert not flow.events_of(CompactionStarted)
        small = ModelTarget(flow.checker, "small-model", context_length=8_000)
        await (await flow.runtime.conversation(SESSION)).use_model(small)
        provider.then(answers("Still here."))
        await flow.turn(user("Are you there?"))
        assert flow.events_of(CompactionStarted)[0].reason == "preflight"
        assert provider.requests[-1].model == "small-model"
        assert request_tokens(provider.requests[-1]) < 8_000


async def test_a_manual_compaction_has_a_focus_and_can_be_undone_byte_for_byte(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path) as flow:
        await grow(flow, 16)
        before = await flow.view()
        done = await flow.compact("ledger rows")
        assert done is not None
        assert done.changed
        compactions = await flow.store.compactions(SESSION)
        assert compactions[0].entry.focus_topic == "ledger rows"
        assert len(await flow.view()) < len(before)
        assert await flow.undo()
        assert await flow.view() == before
        assert not await flow.undo()


async def test_what_must_be_kept_is_in_every_view_however_often_it_was_compacted(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path) as flow:
        provider.then(answers("Understood: port 8431."))
        await flow.turn(user("Never touch migrations/. The service listens on port 8431. Please keep that in mind."))
        await grow(flow, 70)
        assert len(flow.events_of(CompactionFinished)) >= 2
        last = provider.requests[-1]
        told = "\n".join(text_of(message) for message in last.messages)
        assert "Never touch migrations/." in told
        assert told.count(PREFIX[:40]) == 1
        assert text_of(last.messages[0]).count(SYSTEM_NOTE) == 1
        assert text_of(last.messages[-1]) == long_text("69")
        assert any("accuracy" in w or "accurate" in w for w in flow.events_of(CompactionFinished)[-1].warnings)
        numbers = [row.seq for row in await rows(flow)]
        assert numbers == list(range(2 * 71))


async def test_a_conversation_goes_on_in_another_process_where_it_was(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path) as flow:
        await grow(flow, 30)
        tip = await flow.store.get_compression_tip(SESSION)
        assert tip != SESSION
        last = provider.requests[-1]
        strikes = (await flow.store.state(SESSION))["engine.compressor"]
    again = ScriptedProvider(answers("I am back."))
    async with flow_with(again, tmp_path) as flow:
        # The checker takes the last request of the other process as what was sent before.
        flow.checker._last = last
        await flow.turn(user("Where were we?"))
        assert flow.checker.checked == 1
        conversation = await flow.runtime.conversation(SESSION)
        assert conversation.session == tip
        assert conversation.engine.state["compactions"] == strikes["compactions"] >= 1


async def test_a_summary_model_that_fails_leaves_the_writing_to_the_built_in_and_says_so(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    summaries = ScriptedProvider(refuses("auth", "no such key"), name="aux")
    async with flow_with(provider, tmp_path, auxiliary=summaries) as flow:
        await grow(flow, 16)
        provider.then(refuses("auth", "no such key"))
        done = await flow.compact()
        assert done is not None
        assert done.written_by == "built-in"
        assert any("summary-model" in warning for warning in done.warnings)
        assert "cooldowns" in (await flow.store.state(SESSION))["engine.compressor"]


async def test_what_a_summary_cost_is_kept_apart_and_with_its_compaction(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    text = handoff_text(goal="Move the invoice job.", completed_actions="1. Read the batch.")
    summaries = ScriptedProvider(says(text, prompt_tokens=5_000), name="aux")
    async with flow_with(provider, tmp_path, auxiliary=summaries) as flow:
        await grow(flow, 16)
        done = await flow.compact()
        assert done is not None
        assert done.written_by == "summary-model"
        extra = await flow.store.usage(which=CallFilter(auxiliary=True))
        main = await flow.store.usage(which=CallFilter(auxiliary=False))
        assert (extra[0].calls, extra[0].usage.prompt_tokens) == (1, 5_000)
        assert main[0].calls == 16


async def test_a_message_that_arrives_during_a_compaction_is_durable_at_once_and_stays_at_the_end(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider()
    slow = Gated(handoff_text(goal="Move the invoice job."))
    async with flow_with(provider, tmp_path, auxiliary=slow) as flow:
        await grow(flow, 16)
        compaction = asyncio.create_task(flow.compact())
        await slow.asked.wait()
        provider.then(answers("Heard you."))
        turn = asyncio.create_task(flow.turn(user("One more thing.")))
        while len(await rows(flow)) < 33:  # noqa: ASYNC110 (nobody tells of a message that is only kept)
            await asyncio.sleep(0)
        assert len(provider.requests) == 16
        slow.gate.set()
        done = await compaction
        await turn
        assert done is not None
        assert done.changed
        assert text_of(provider.requests[-1].messages[-1]) == "One more thing."
        assert len(provider.requests[-1].messages) < 33
        assert [text_of(message) for message in (await flow.view())[-2:]] == ["One more thing.", "Heard you."]


async def test_a_summary_is_prepared_ahead_and_swapped_in_without_waiting(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    text = handoff_text(goal="Move the invoice job.", completed_actions="1. Read the batch.")
    ahead = ScriptedProvider(says(text, prompt_tokens=5_000), name="aux")
    async with flow_with(provider, tmp_path, auxiliary=ahead) as flow:
        await grow(flow, 21)
        conversation = await flow.runtime.conversation(SESSION)
        assert conversation.preparer.task is not None
        await conversation.preparer.task
        assert not flow.events_of(CompactionFinished)
        covered = len(conversation.messages)
        await grow(flow, 4, first=21)
        finished = flow.events_of(CompactionFinished)
        assert len(finished) == 1
        assert finished[0].written_by == "summary-model"
        assert [event.phase for event in flow.events_of(CompactionPhase)] == ["prepare", "prepared", "swap", "commit"]
        assert len(ahead.requests) == 1
        entry = (await flow.store.compactions(SESSION))[0].entry
        assert entry.until <= covered
        assert finished[0].tokens_after < 10_000


async def test_what_was_prepared_for_a_view_that_is_gone_is_dropped(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path) as flow:
        await grow(flow, 21)
        conversation = await flow.runtime.conversation(SESSION)
        assert conversation.preparer.task is not None
        await conversation.preparer.task
        done = await flow.compact()
        assert done is not None
        assert "dropped" in [event.phase for event in flow.events_of(CompactionPhase)]
        assert conversation.engine.get_status().compactions == 1
        assert len(await flow.store.compactions(SESSION)) == 1


async def test_no_notice_of_a_filling_window_is_ever_in_a_request(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path) as flow:
        await grow(flow, 40)
        notices = [event.text for event in flow.events_of(Notice)]
        sent = "\n".join(text_of(message) for request in provider.requests for message in request.messages)
        assert not any(notice in sent for notice in notices)
