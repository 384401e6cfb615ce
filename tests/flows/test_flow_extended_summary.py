"""The main model writes the summary at the end of the conversation itself, over the three real wires.

The request begins with the bytes of the turn before it, so that the upstream's cache serves it; where that way is not
open, or fails, the conversation is sent as text in a request of its own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew.config import CompressionSettings, PromptCachingSettings, Settings
from clew.events import CompactionFinished, CompactionPhase, SummaryReplied
from clew.handoff import is_instruction
from clew.messages import Message, Tool, text_of, without_cache_markers
from clew.providers import AnthropicProvider, OpenAIChatProvider, Provider, ResponsesProvider, RetryPolicy
from clew.store import CallFilter
from clew.testing import ScriptedProvider, call, calls, overflow, refuses, says, tool, user
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.turn import ModelTarget, receive
from clew.usage import CanonicalUsage
from tests.support.flow import SESSION, Flow, answers, flow_with
from tests.support.summaries import RecordedSleep, handoff_text

KEY = "not-" + "a-real-" + "key-0123456789"
LONG = "The importer reads one file after the other and writes what it found. " * 30
HANDOFF = handoff_text(
    active_task="None.",
    goal="The importer is understood.",
    completed_actions="1. Answered questions about the importer.",
    critical_context="Nothing else.",
)
TOOLS: list[Tool] = [
    {
        "type": "function",
        "function": {
            "name": "terminal",
            "description": "Runs a command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    }
]
# Claude through a provider of Anthropic's name gets markers; the others cache by themselves.
WIRES: list[tuple[Callable[..., Provider], str, str]] = [
    (OpenAIChatProvider, "openai", "gpt-5.1"),
    (ResponsesProvider, "openai", "gpt-5.1"),
    (AnthropicProvider, "anthropic", "claude-sonnet-4-5"),
]


@pytest.fixture(params=WIRES, ids=lambda wire: wire[0].__name__)
def wire(request: pytest.FixtureRequest) -> tuple[Callable[..., Provider], str, str]:
    return request.param  # type: ignore[no-any-return]


@asynccontextmanager
async def talking(
    wire: tuple[Callable[..., Provider], str, str], folder: Path, **options: Any
) -> AsyncIterator[tuple[Flow, Upstream]]:
    provider_of, name, model = wire
    async with Upstream(caches=True) as upstream:
        provider = provider_of(
            upstream.base_url, api_key=KEY, name=name, retry_policy=RetryPolicy(sleep=RecordedSleep())
        )
        try:
            given: dict[str, Any] = {"window": 40_000, "summarizes": True, "model": model, **options}
            async with flow_with(provider, folder, **given) as flow:
                yield flow, upstream
        finally:
            await provider.close()


async def talk(flow: Flow, upstream: Upstream, turns: int) -> None:
    for number in range(turns):
        upstream.then(UpstreamAnswer(f"Answer {number}. {LONG}"))
        await flow.turn(user(f"Question {number}. {LONG}"), tools=TOOLS)


def prompt_of(body: dict[str, Any]) -> dict[str, Any]:
    """Everything of a body that the model reads, markers aside: they are no part of what is matched."""
    names = ("system", "instructions", "tools", "tool_choice", "thinking", "reasoning")
    read = {name: body[name] for name in names if name in body}
    messages = [without_cache_markers(message) for message in body.get("messages") or body["input"]]
    system = read.get("system")
    if isinstance(system, list):
        read["system"] = [{name: part[name] for name in part if name != "cache_control"} for part in system]
    return {**read, "messages": [as_blocks(message) for message in messages]}


def as_blocks(message: Any) -> Any:
    """A text is the same as one block of it: a marker needs a block."""
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


def assert_extends(earlier: dict[str, Any], later: dict[str, Any]) -> list[Any]:
    """The messages that a later request has behind those of an earlier one, which it has byte for byte."""
    before, after = prompt_of(earlier), prompt_of(later)
    old, new = before.pop("messages"), after.pop("messages")
    assert json.dumps(before) == json.dumps(after)
    assert json.dumps(new[: len(old)]) == json.dumps(old)
    return new[len(old) :]  # type: ignore[no-any-return]


async def test_the_summary_is_read_from_the_cache_of_the_turn_before_it(wire: Any, tmp_path: Path) -> None:
    async with talking(wire, tmp_path) as (flow, upstream):
        await talk(flow, upstream, 6)
        upstream.then(UpstreamAnswer(HANDOFF))
        done = await flow.compact()
        assert done is not None and done.changed
        assert (done.written_by, done.template, done.warnings) == (wire[2], "extend/2", ())
        turn, summary = upstream.received[-2:]
        reply, instruction = assert_extends(turn.body, summary.body)
        assert reply["role"] == "assistant"
        assert "Clew asks for a handoff" in json.dumps(instruction)
        assert "tool_choice" not in summary.body and summary.body["tools"] == turn.body["tools"]
        # What stands in the turn's request was read, and nothing but the reply and the instruction is new.
        (told,) = flow.events_of(SummaryReplied)
        assert told.extends and told.model == wire[2]
        assert told.cache_read_tokens > 0.75 * told.prompt_tokens
        (kept,) = await flow.store.usage(which=CallFilter(auxiliary=True))
        assert (kept.calls, kept.usage.cache_read_tokens) == (1, told.cache_read_tokens)
        assert kept.cost_micros == told.cost_micros and told.cost_micros


async def test_on_wires_without_markers_the_very_bytes_are_the_same(tmp_path: Path) -> None:
    for provider_of, name, model in WIRES[:2]:
        folder = tmp_path / provider_of.__name__
        async with talking((provider_of, name, model), folder) as (flow, upstream):
            await talk(flow, upstream, 4)
            upstream.then(UpstreamAnswer(HANDOFF))
            await flow.compact()
            turn, summary = upstream.received[-2:]
            end = turn.raw.rindex(LONG[-60:].encode()) + 60
            assert summary.raw.startswith(turn.raw[:end])
            assert end > 0.9 * len(turn.raw)


async def test_breakpoints_are_those_of_a_turn_and_the_instruction_has_none(tmp_path: Path) -> None:
    async with talking(WIRES[2], tmp_path) as (flow, upstream):
        await talk(flow, upstream, 4)
        upstream.then(UpstreamAnswer(HANDOFF))
        await flow.compact()
        summary = upstream.received[-1].body
        assert json.dumps(summary).count("cache_control") == 4
        assert "cache_control" not in json.dumps(summary["messages"][-1])


async def test_a_compaction_that_is_due_before_a_turn_extends_too(wire: Any, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=12_000) as (flow, upstream):
        await talk(flow, upstream, 5)
        assert not flow.events_of(CompactionFinished)
        await (await flow.conversation()).drop_prepared()
        upstream.then(UpstreamAnswer(HANDOFF), UpstreamAnswer("Done."))
        await flow.turn(user(f"One more. {LONG * 3}"), tools=TOOLS)
        (done,) = flow.events_of(CompactionFinished)
        assert done.written_by == wire[2]
        turn, summary, after = upstream.received[-3:]
        reply, *behind = assert_extends(turn.body, summary.body)
        assert reply["role"] == "assistant" and "One more." in json.dumps(behind)
        assert "[Clew handoff]" in json.dumps(after.body)


async def test_what_is_prepared_ahead_extends_and_leaves_the_cache_as_it_was(wire: Any, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=14_000) as (flow, upstream):
        conversation = await flow.conversation()
        # What grows are the replies, so that the preparation begins behind one, and before the next request.
        while conversation.preparer.task is None:
            upstream.then(UpstreamAnswer(f"Answer. {LONG * 2}"))
            await flow.turn(user("Go on."), tools=TOOLS)
        upstream.then(UpstreamAnswer(HANDOFF))
        prepared = await conversation.preparer.task
        assert prepared.compaction.template == "extend/2"
        turn, summary = upstream.received[-2:]
        assert_extends(turn.body, summary.body)
        upstream.then(UpstreamAnswer("Short."))
        reply = await flow.turn(user("Still there?"), tools=TOOLS)
        assert not flow.events_of(CompactionFinished)
        assert_extends(turn.body, upstream.received[-1].body)
        assert reply.usage is not None
        assert reply.usage.cache_read_tokens > 0.75 * reply.usage.prompt_tokens
        upstream.then(UpstreamAnswer("Swapped."))
        await flow.turn(user(f"Large. {LONG * 4}"), tools=TOOLS)
        assert [event.phase for event in flow.events_of(CompactionPhase)] == ["prepare", "prepared", "swap", "commit"]
        assert len(flow.events_of(SummaryReplied)) == 1


async def test_calls_that_wait_for_results_are_left_out(tmp_path: Path) -> None:
    async with talking(WIRES[2], tmp_path) as (flow, upstream):
        await talk(flow, upstream, 5)
        asked = call("terminal", {"command": "make"}, id="c1")
        upstream.then(UpstreamAnswer(calls=(asked,)), UpstreamAnswer(HANDOFF))
        await flow.turn(user("Build it."), tools=TOOLS)
        await flow.compact()
        turn, summary = upstream.received[-2:]
        (instruction,) = assert_extends_blocks(turn.body, summary.body)
        assert "Clew asks for a handoff" in instruction["text"]


def assert_extends_blocks(earlier: dict[str, Any], later: dict[str, Any]) -> list[Any]:
    """As `assert_extends`, where both end in one user message: its further blocks."""
    old, new = prompt_of(earlier)["messages"], prompt_of(later)["messages"]
    assert new[: len(old) - 1] == old[:-1]
    assert len(new) == len(old)
    assert new[-1]["content"][: len(old[-1]["content"])] == old[-1]["content"]
    return new[-1]["content"][len(old[-1]["content"]) :]  # type: ignore[no-any-return]


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


async def grow(flow: Flow, provider: ScriptedProvider, turns: int) -> None:
    for number in range(turns):
        provider.then(answers(f"Answer {number}. {LONG}"))
        await flow.turn(user(f"Question {number}. {LONG}"), tools=TOOLS)


def ways(flow: Flow) -> list[tuple[str, bool]]:
    return [(event.model, event.extends) for event in flow.events_of(SummaryReplied)]


async def test_a_reply_that_calls_a_tool_is_paid_for_and_the_conversation_is_sent_as_text(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        await grow(flow, provider, 6)
        reached = call("terminal", {"command": "make"}, id="c1")
        provider.then(calls(reached, prompt_tokens=9_000), says(HANDOFF, prompt_tokens=8_000))
        done = await flow.compact()
        assert done is not None and done.written_by == "scripted-model" and done.template == "first/3"
        assert any("called a tool instead of writing (terminal)" in warning for warning in done.warnings)
        extended, text = provider.requests[-2:]
        assert is_instruction(extended.messages[-1]) and len(text.messages) == 1 and not text.tools
        assert ways(flow) == [("scripted-model", True), ("scripted-model", False)]
        (kept,) = await flow.store.usage(which=CallFilter(auxiliary=True))
        assert (kept.calls, kept.usage.prompt_tokens) == (2, 17_000)


@pytest.mark.parametrize("reply", ["Sure, I go on with the importer.", "", "<think>hm</think>"])
async def test_a_reply_that_is_no_handoff_is_asked_for_again_as_text_and_not_in_the_same_way(
    reply: str, tmp_path: Path
) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        await grow(flow, provider, 6)
        provider.then(says(reply, prompt_tokens=9_000), says(HANDOFF, prompt_tokens=8_000))
        done = await flow.compact()
        assert done is not None and done.written_by == "scripted-model"
        assert ways(flow) == [("scripted-model", True), ("scripted-model", False)]


async def test_a_key_that_is_refused_is_not_tried_in_another_way(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        await grow(flow, provider, 6)
        provider.then(refuses("auth", "no such key"))
        done = await flow.compact()
        assert done is not None and done.written_by == "built-in"
        assert provider.steps_left == 0


async def test_a_provider_that_finds_it_too_long_gets_the_text(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        await grow(flow, provider, 6)
        provider.then(refuses("prompt_too_long", "too long"), says(HANDOFF, prompt_tokens=8_000))
        done = await flow.compact()
        assert done is not None and done.template == "first/3"


async def test_a_conversation_that_leaves_no_room_for_the_summary_is_sent_as_text(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    late = Settings(compression=CompressionSettings(threshold=0.95))
    async with flow_with(provider, tmp_path, summarizes=True, settings=late, window=8_000, max_tokens=500) as flow:
        await receive(flow.runtime, SESSION, history(9))
        provider.then(says(HANDOFF, prompt_tokens=6_000), answers("ok"))
        await flow.turn(user("go on"), tools=TOOLS)
        assert ways(flow) == [("scripted-model", False)]


def history(exchanges: int) -> list[Message]:
    return [
        message
        for number in range(exchanges)
        for message in (user(f"Question {number}. {LONG}"), says(f"Answer {number}. {LONG}").message)
    ]


async def test_after_an_overflow_the_conversation_is_not_sent_again(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        await grow(flow, provider, 6)
        provider.then(overflow(18_000), says(HANDOFF, prompt_tokens=5_000), answers("ok"))
        await flow.turn(user("go on"), tools=TOOLS)
        assert ways(flow) == [("scripted-model", False)]


async def test_with_a_cheaper_model_configured_that_one_writes_once_the_cache_is_cold(tmp_path: Path) -> None:
    clock, provider, cheap = Clock(), ScriptedProvider(name="openai"), ScriptedProvider(name="openai")
    given: dict[str, Any] = {"model": "gpt-5.1", "auxiliary": cheap, "auxiliary_model": "gpt-5-nano", "clock": clock}
    async with flow_with(provider, tmp_path, **given) as flow:
        await grow(flow, provider, 6)
        clock.seconds += 301
        cheap.then(refuses("auth", "no such key"))
        provider.then(says(HANDOFF, prompt_tokens=8_000))
        done = await flow.compact()
        # It was asked first, and the main one that took its place did not read the conversation as a whole either.
        assert len(cheap.requests) == 1
        assert done is not None and (done.written_by, done.template) == ("gpt-5.1", "first/3")
        assert ways(flow) == [("gpt-5.1", False)]


async def test_without_another_model_a_cold_conversation_is_extended_all_the_same(tmp_path: Path) -> None:
    clock, provider = Clock(), ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True, clock=clock) as flow:
        await grow(flow, provider, 6)
        clock.seconds += 4_000
        provider.then(says(HANDOFF, prompt_tokens=8_000))
        await flow.compact()
        assert ways(flow) == [("scripted-model", True)]


@pytest.mark.parametrize(
    ("configured", "writes"),
    [("gpt-5-nano", ("gpt-5-nano", False)), ("gpt-5-pro", ("gpt-5.1", True)), ("unheard-of", ("unheard-of", False))],
)
async def test_while_the_cache_is_warm_the_cheaper_of_both_writes_where_prices_are_known(
    configured: str, writes: tuple[str, bool], tmp_path: Path
) -> None:
    provider, other = ScriptedProvider(name="openai"), ScriptedProvider(name="openai")
    async with flow_with(provider, tmp_path, model="gpt-5.1", auxiliary=other, auxiliary_model=configured) as flow:
        await grow(flow, provider, 6)
        provider.then(says(HANDOFF, prompt_tokens=8_000))
        other.then(says(HANDOFF, prompt_tokens=8_000))
        await flow.compact()
        assert ways(flow) == [writes]


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    off = Settings(prompt_caching=PromptCachingSettings(extend_for_summaries=False))
    async with flow_with(provider, tmp_path, summarizes=True, settings=off) as flow:
        await grow(flow, provider, 6)
        provider.then(says(HANDOFF, prompt_tokens=8_000))
        await flow.compact()
        assert ways(flow) == [("scripted-model", False)]


async def test_before_a_turn_has_brought_the_tools_there_is_no_conversation_to_extend(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        await receive(flow.runtime, SESSION, history(6))
        provider.then(says(HANDOFF, prompt_tokens=8_000))
        await flow.compact()
        assert ways(flow) == [("scripted-model", False)]


async def test_the_instruction_lists_what_people_asked_and_the_next_one_knows_the_handoff(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True, window=30_000) as flow:
        await grow(flow, provider, 6)
        provider.then(says(HANDOFF, prompt_tokens=8_000))
        await flow.compact("the importer")
        instruction = text_of(provider.requests[-1].messages[-1])
        assert 'm0 "Question 0. The importer reads' in instruction and "(closing words: m1)" in instruction
        assert "the importer. Give it 60 to 70%" in instruction
        assert "earlier handoff" not in instruction
        await grow(flow, provider, 6)
        provider.then(says(HANDOFF, prompt_tokens=8_000))
        await flow.compact()
        assert "begins with an earlier handoff" in text_of(provider.requests[-1].messages[-1])
        assert ways(flow) == [("scripted-model", True), ("scripted-model", True)]


async def test_the_conversation_goes_as_it_was_sent_and_no_secret_comes_out_of_it(tmp_path: Path) -> None:
    secret = "ghp_" + "aB3" * 12
    provider = ScriptedProvider(answers("I keep it in mind."))
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        await flow.turn(user(f"Log in with {secret} whenever you need to."), tools=TOOLS)
        await grow(flow, provider, 6)
        leaky = handoff_text(goal=f"Log in with {secret}.", completed_actions="1. Asked.", critical_context="None.")
        provider.then(says(leaky, prompt_tokens=8_000), answers("ok"))
        done = await flow.compact()
        sent = provider.requests[-1].messages
        assert secret in str(sent[:-1]) and secret not in text_of(sent[-1])
        assert done is not None and done.written_by == "scripted-model"
        assert done.summary and secret not in done.summary


async def test_what_the_system_prompt_says_counts_as_shown(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    prompt = "You work in /srv/houses/importer-17 and nowhere else."
    async with flow_with(provider, tmp_path, summarizes=True, system=prompt) as flow:
        await grow(flow, provider, 6)
        told = handoff_text(goal="Go on.", active_state="Directory /srv/houses/importer-17.", blocked="None.")
        provider.then(says(told, prompt_tokens=8_000))
        done = await flow.compact()
        assert done is not None and done.written_by == "scripted-model" and done.unverified == ()


async def test_thinking_and_the_output_cap_stay_within_what_the_wire_allows(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True, max_tokens=9_000) as flow:
        conversation = await flow.conversation()
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 8_000}}
        target: ModelTarget = replace(conversation.target, extra=thinking)
        await conversation.use_model(target)
        await grow(flow, provider, 6)
        provider.then(says(HANDOFF, usage=CanonicalUsage(input_tokens=8_000)))
        await flow.compact()
        turn, summary = provider.requests[-2:]
        assert summary.extra == turn.extra and (summary.max_tokens or 0) > 8_000


async def test_results_of_tools_stand_in_the_extended_request_as_they_were(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        for number in range(5):
            provider.then(calls(call("terminal", {"command": f"make {number}"}, id=f"c{number}")), answers("Built."))
            await flow.turn(user(f"Build part {number}."), tools=TOOLS)
            await flow.turn(tool(f"c{number}", f"part {number} took {number}7 s\n{LONG}"), tools=TOOLS)
        provider.then(says(HANDOFF, prompt_tokens=8_000))
        await flow.compact()
        turn, summary = provider.requests[-2:]
        assert list(summary.messages[: len(turn.messages)]) == list(turn.messages)
        assert ways(flow) == [("scripted-model", True)]
