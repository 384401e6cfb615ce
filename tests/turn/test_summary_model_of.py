"""A provider's model that writes summaries."""

from __future__ import annotations

import pytest

from clew.errors import SummaryFailed
from clew.providers import Reply
from clew.testing.scripted import ScriptedProvider, breaks_off, refuses, says
from clew.turn import summary_model_of


async def test_it_asks_the_provider_and_tells_what_it_cost() -> None:
    provider = ScriptedProvider(says("a handoff", prompt_tokens=40))
    replies: list[Reply] = []
    model = summary_model_of(provider, "small", 8_000, max_output=900, on_reply=replies.append)
    assert (model.name, model.context_length, model.max_output) == ("small", 8_000, 900)
    assert await model.complete("sum this up", 500) == "a handoff"
    sent = provider.requests[0]
    assert (sent.model, sent.max_tokens, sent.tools) == ("small", 500, ())
    assert list(sent.messages) == [{"role": "user", "content": "sum this up"}]
    assert replies[0].usage is not None and replies[0].usage.prompt_tokens == 40


async def test_a_refusal_becomes_a_failure_of_the_same_kind() -> None:
    refusal = refuses("prompt_too_long", "too long", limit=4_096, retry_after=3.0)
    model = summary_model_of(ScriptedProvider(refusal, breaks_off("half")), "small", 8_000)
    with pytest.raises(SummaryFailed) as failed:
        await model.complete("x", 10)
    assert (failed.value.kind, failed.value.limit, failed.value.retry_after) == ("prompt_too_long", 4_096, 3.0)
    with pytest.raises(SummaryFailed) as failed:
        await model.complete("x", 10)
    assert (failed.value.kind, failed.value.partial) == ("network", "half")


async def test_a_reply_that_was_cut_off_is_a_failure_with_what_there_is() -> None:
    model = summary_model_of(ScriptedProvider(says("only half", finish="length")), "small", 8_000)
    with pytest.raises(SummaryFailed) as failed:
        await model.complete("x", 10)
    assert (failed.value.kind, failed.value.partial) == ("cut", "only half")
