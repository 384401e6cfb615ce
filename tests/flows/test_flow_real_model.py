"""Whole conversations with a real model in a real, small window: nothing of the provider is made up here.

SmolLM2 in a file, run by llama.cpp, with a real SQLite store. CLEW_TEST_GGUF names the file, else these are skipped.
What the model says is not asserted, only that it answers; its usage, its cache and its refusals are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from clew.config import CompressionSettings, Settings
from clew.events import CompactionFinished, CompactionStarted, Overflowed, Replied, SummaryReplied, WindowLearnt
from clew.messages import Message, text_of
from clew.providers import LocalProvider, OnDelta, Provider, ProviderRefused, Reply, Request
from clew.store import CallFilter
from clew.testing import assistant, refuses, user
from clew.tokens import LearntLimits
from clew.turn import receive
from tests.support.flow import SESSION, Flow, flow_with

MODEL = os.environ.get("CLEW_TEST_GGUF", "")
WINDOW = 2_048
ROOMY = 3_072
BELIEVED = 8_192
"""What the config says, wrongly: so the server has to be asked, and refuses."""
GALLERY = "The keeper walked along the gallery and listened to every clock in turn, and wrote down what he heard. "

pytestmark = [
    pytest.mark.skipif(not MODEL, reason="no model: name a SmolLM2 GGUF in CLEW_TEST_GGUF"),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None, reason="xllamacpp is not installed: pip install 'clew-context[local]'"
    ),
]


class Overheard(Provider):
    """The local model, and what it refused."""

    def __init__(self, provider: LocalProvider) -> None:
        self.name = provider.name
        self.provider = provider
        self.refused: list[ProviderRefused] = []

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        try:
            return await self.provider.send(request, on_delta)
        except ProviderRefused as refused:
            self.refused.append(refused)
            raise


@pytest.fixture(scope="module")
def local() -> Iterator[LocalProvider]:
    """One server for all. One thread: two that wait for each other on a busy machine are slower than one."""
    provider = LocalProvider(MODEL, context_length=WINDOW, threads=1)
    yield provider
    asyncio.run(provider.close())


def notes(first: int, last: int) -> list[Message]:
    """An exchange for each hall, of about 180 tokens."""
    return [message for hall in range(first, last + 1) for message in (note(hall), assistant(f"I noted hall {hall}."))]


def note(hall: int) -> Message:
    late = f"the clock in hall {hall} runs {hall * 7} seconds late, its log is /var/log/hall{hall}.log"
    return user(f"Note {hall}: {late}, and its bearing was oiled on day {hall}. " + GALLERY * 6)


async def overflowed(flow: Flow) -> Reply:
    """Two turns that fit, and one that does not fit into the real window."""
    first = await flow.turn(user("Please keep notes about the clocks of this house."))
    second = await flow.turn(note(1))
    assert first.usage is not None and second.usage is not None
    # The second request begins with the first: the server has read that much already.
    assert first.usage.prompt_tokens - 5 <= second.usage.cache_read_tokens < second.usage.prompt_tokens
    assert not flow.events_of(Overflowed)
    await receive(flow.runtime, SESSION, notes(2, 13))
    return await flow.turn(user("Which hall is late?"))


async def test_a_conversation_overflows_for_real_is_compacted_goes_on_and_survives_a_restart(
    local: LocalProvider, tmp_path: Path
) -> None:
    heard = Overheard(local)
    async with flow_with(heard, tmp_path, window=BELIEVED, model=local.model, max_tokens=12) as flow:
        reply = await overflowed(flow)
        assert text_of(reply.message)
        check_refusal(heard)
        check_compaction(flow)
        await check_usage(flow, reply)
        assert LearntLimits(tmp_path / "limits.json").limit(local.model) == WINDOW
        # What was folded is out of the window and still in the store.
        assert "hall7.log" not in "".join(map(text_of, (await flow.view())[:3]))
        assert (await flow.store.search("hall7.log")).hits
        after = await flow.turn(user("And when was it oiled?"))
        assert after.usage is not None and reply.usage is not None
        assert after.usage.cache_read_tokens >= reply.usage.prompt_tokens - 5
    async with flow_with(heard, tmp_path, window=None, model=local.model, max_tokens=12) as flow:
        again = await flow.turn(user("Thank you. Is that all?"))
        conversation = await flow.runtime.conversation(SESSION)
        assert (conversation.window.tokens, conversation.window.source) == (WINDOW, "stated")
        # The same bytes as before the restart, so the server's cache still serves.
        assert again.usage is not None and again.usage.cache_read_tokens >= after.usage.prompt_tokens - 5
    assert len(heard.refused) == 1


def check_refusal(heard: Overheard) -> None:
    """The server's own words, and what we make of them."""
    [refused] = heard.refused
    assert "exceed_context_size_error" in refused.body
    assert (refused.fault.kind, refused.fault.limit) == ("prompt_too_long", WINDOW)
    assert refused.fault.input_tokens is not None and WINDOW < refused.fault.input_tokens < BELIEVED


def check_compaction(flow: Flow) -> None:
    assert [event.limit for event in flow.events_of(Overflowed)] == [WINDOW]
    assert [(event.tokens, event.is_stated) for event in flow.events_of(WindowLearnt)] == [(WINDOW, True)]
    assert [event.reason for event in flow.events_of(CompactionStarted)] == ["overflow"]
    [done] = flow.events_of(CompactionFinished)
    assert done.continued_as is not None and done.written_by == "built-in"
    assert done.tokens_after < WINDOW < done.tokens_before


async def check_usage(flow: Flow, reply: Reply) -> None:
    """What the server counted is what was told and what is stored."""
    assert reply.usage is not None
    assert 0 < reply.usage.prompt_tokens < WINDOW
    assert flow.events_of(Replied)[-1].prompt_tokens == reply.usage.prompt_tokens
    [total] = await flow.store.usage()
    replies = flow.events_of(Replied)
    assert total.calls == len(replies) == 3
    assert total.usage.prompt_tokens == sum(each.prompt_tokens for each in replies)
    assert total.usage.cache_read_tokens == sum(each.cache_read_tokens for each in replies) > 0


async def test_the_model_itself_is_asked_for_the_summary_and_whoever_wrote_it_is_named(
    local: LocalProvider, tmp_path: Path
) -> None:
    early = Settings(compression=CompressionSettings(threshold=0.25, protect_first_n=1))
    async with flow_with(
        local, tmp_path, window=WINDOW, model=local.model, max_tokens=12, summarizes=True, settings=early
    ) as flow:
        await receive(flow.runtime, SESSION, [user("Please keep notes about the clocks."), *notes(1, 3)])
        reply = await flow.turn(user("Which hall is late?"))
        assert text_of(reply.message)
        assert [event.reason for event in flow.events_of(CompactionStarted)] == ["preflight"]
        [done] = flow.events_of(CompactionFinished)
        assert done.continued_as is not None and done.tokens_after < done.tokens_before
        # So small a model seldom writes a handoff that holds: then the built-in summariser does, and says why.
        assert done.written_by == local.model or any("built-in" in warning for warning in done.warnings)
        # It was asked all the same, and what that took is on the account, apart.
        [asked] = await flow.store.usage(which=CallFilter(auxiliary=True))
        assert asked.calls >= 1 and asked.usage.prompt_tokens > 0 and asked.usage.output_tokens > 0
        after = await flow.turn(user("Thank you."))
        assert after.usage is not None and after.usage.cache_read_tokens > 0


class InConversationOnly(Overheard):
    """The local model, which is not asked with a text: to read and write one more takes a small machine minutes."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        if len(request.messages) == 1:
            raise refuses("quota", "no further request")
        return await super().send(request, on_delta)


async def test_a_summary_that_extends_the_conversation_is_read_from_the_servers_cache(tmp_path: Path) -> None:
    # A window with room for the conversation, the instruction and a summary.
    provider = LocalProvider(MODEL, context_length=ROOMY, threads=1)
    heard, model = InConversationOnly(provider), provider.model
    try:
        async with flow_with(heard, tmp_path, window=ROOMY, model=model, max_tokens=12, summarizes=True) as flow:
            await receive(flow.runtime, SESSION, [user("Please keep notes about the clocks."), *notes(1, 3)])
            turn = await flow.turn(user("Which hall is late?"))
            assert turn.usage is not None and not flow.events_of(CompactionStarted)
            await flow.compact()
            [asked] = flow.events_of(SummaryReplied)
            # The server had read all of the turn: what it reads anew is the reply and the instruction.
            assert asked.extends and asked.cache_read_tokens >= turn.usage.prompt_tokens - 5
            assert asked.prompt_tokens > asked.cache_read_tokens
            [kept] = await flow.store.usage(which=CallFilter(auxiliary=True))
            assert kept.usage.cache_read_tokens == asked.cache_read_tokens
    finally:
        await provider.close()
