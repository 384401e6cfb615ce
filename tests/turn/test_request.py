"""Model targets: their windows, what a call costs, and a provider's model that writes summaries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clew.errors import SummaryFailed
from clew.providers import Reply
from clew.store import open_store
from clew.testing.scripted import ScriptedProvider, breaks_off, refuses, says
from clew.tokens import LearntLimits, Window
from clew.turn import ModelTarget, summary_model_of
from clew.turn.request import ServingModel, call_of, window_for
from clew.usage import CanonicalUsage
from tests.support.flow import flow_with


async def test_limits_of_earlier_runs_are_read_from_one_place_and_give_way_to_the_config(tmp_path: Path) -> None:
    learnt = LearntLimits(tmp_path / "limits.json")
    learnt.remember("m", None, 30_000)
    async with open_store(":memory:") as store:
        await store.learn_window("m", "", 20_000)
        target = ModelTarget(ScriptedProvider(), "m")
        assert (await window_for(target, store, learnt)).tokens == 30_000
        assert (await window_for(target, store, None)).tokens == 20_000
        configured = replace(target, context_length=100_000)
        for place in (learnt, None):
            window = await window_for(configured, store, place)
            assert (window.tokens, window.source) == (100_000, "config")
            assert window.notice is not None
        assert (await window_for(configured, store, learnt, 25_000)).tokens == 25_000
        assert (await window_for(replace(target, context_length=8_000), store, learnt)).notice is None


def test_a_reply_that_was_asked_for_is_kept_free_whole_and_what_a_model_could_write_within_reason() -> None:
    window = Window(128_000, "table", 64_000)
    asks, silent = (ModelTarget(ScriptedProvider(), "m", max_tokens=cap) for cap in (65_536, None))
    assert ServingModel(asks, window).max_output == 65_536
    assert ServingModel(silent, window).max_output == 32_000
    assert ServingModel(silent, replace(window, max_output=None)).max_output is None


async def test_a_prompt_at_the_threshold_and_the_reply_that_is_asked_for_fit_the_window(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path, window=128_000, max_tokens=65_536) as flow:
        engine = (await flow.conversation()).engine
        assert 60_000 < engine.get_status().threshold_tokens < 128_000 - 65_536


def test_a_price_that_is_not_known_stays_unknown() -> None:
    usage = CanonicalUsage(input_tokens=1_000_000, output_tokens=1_000)
    known = call_of(usage, ModelTarget(ScriptedProvider(name="openai"), "gpt-4o"), "library")
    assert known.cost_micros is not None
    assert known.cost_micros > 0
    assert call_of(usage, ModelTarget(ScriptedProvider(), "nobody-knows-it"), "library").cost_micros is None


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


def test_a_call_says_what_the_callers_own_request_would_have_cost() -> None:
    target = ModelTarget(ScriptedProvider(name="anthropic"), "claude-sonnet-4-5")
    made = call_of(CanonicalUsage(1, 0, 1), target, "gateway", direct=CanonicalUsage(1_000, 0, 1))
    assert (made.cost_micros, made.cost_direct_micros) == (4, 3_000)
    assert call_of(CanonicalUsage(1), target, "gateway").cost_direct_micros is None
    unpriced = ModelTarget(ScriptedProvider(), "nobodys")
    call = call_of(CanonicalUsage(1), unpriced, "gateway", direct=CanonicalUsage(9))
    assert (call.cost_micros, call.cost_direct_micros) == (None, None)
