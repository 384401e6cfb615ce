"""Whole turns over the three real wires: a provider's own words for usage, overflow, output caps and too many bytes.

Each story runs once per wire against the mock upstream on loopback; on the way every request is held against the one
before (`PrefixWitness`), and here the bytes that really went out are too.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clew.events import CompactionFinished, OutputCapLowered, OutputSpilled, Overflowed, WindowLearnt
from clew.messages import text_of
from clew.providers import AnthropicProvider, OpenAIChatProvider, Provider, ResponsesProvider, RetryPolicy
from clew.testing import call, tool, user
from clew.testing.upstream import Upstream, UpstreamAnswer, UpstreamFault
from clew.usage import CanonicalUsage
from tests.support.flow import SESSION, Flow, flow_with
from tests.support.summaries import RecordedSleep

KEY = "not-" + "a-real-" + "key-0123456789"
LONG = "The importer reads one file after the other and writes what it found. " * 30
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"


@dataclass(frozen=True, slots=True)
class Wire:
    """A wire, and how its servers word what goes wrong."""

    provider: Callable[..., Provider]
    too_long: Callable[[int], UpstreamFault]
    too_much_output: UpstreamFault

    def __str__(self) -> str:
        return self.provider.__name__


def openai_overflow(limit: int) -> UpstreamFault:
    told = f"This model's maximum context length is {limit} tokens. However, your messages resulted in 99999 tokens."
    return UpstreamFault(
        400, {"error": {"message": told, "type": "invalid_request_error", "code": "context_length_exceeded"}}
    )


def responses_overflow(limit: int) -> UpstreamFault:
    told = f"Your input exceeds the context window of this model. Its maximum context length is {limit} tokens."
    return UpstreamFault(
        400, {"error": {"message": told, "type": "invalid_request_error", "code": "context_length_exceeded"}}
    )


def anthropic_overflow(limit: int) -> UpstreamFault:
    told = f"prompt is too long: 99999 tokens > {limit} maximum"
    return UpstreamFault(400, {"type": "error", "error": {"type": "invalid_request_error", "message": told}})


OPENAI_CAP = UpstreamFault(
    400,
    {
        "error": {
            "message": "max_tokens is too large: 50000. This model supports at most 16384 completion tokens, "
            "whereas you provided 50000.",
            "type": "invalid_request_error",
            "param": "max_tokens",
        }
    },
)
ANTHROPIC_CAP = UpstreamFault(
    400,
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "max_tokens: 50000 > 16384, which is the maximum allowed number of output tokens",
        },
    },
)
WIRES = (
    Wire(OpenAIChatProvider, openai_overflow, OPENAI_CAP),
    Wire(ResponsesProvider, responses_overflow, OPENAI_CAP),
    Wire(AnthropicProvider, anthropic_overflow, ANTHROPIC_CAP),
)


@pytest.fixture(params=WIRES, ids=str)
def wire(request: pytest.FixtureRequest) -> Wire:
    return request.param  # type: ignore[no-any-return]


@asynccontextmanager
async def talking(wire: Wire, folder: Path, **options: Any) -> AsyncIterator[tuple[Flow, Upstream]]:
    async with Upstream() as upstream:
        provider = wire.provider(
            upstream.base_url, api_key=KEY, name="mock", retry_policy=RetryPolicy(sleep=RecordedSleep())
        )
        try:
            async with flow_with(provider, folder, **options) as flow:
                yield flow, upstream
        finally:
            await provider.close()


def answer(text: str, tokens: int = 500, **more: Any) -> UpstreamAnswer:
    return UpstreamAnswer(
        text, usage=CanonicalUsage(input_tokens=tokens, output_tokens=9, cache_read_tokens=400), **more
    )


def messages_sent(upstream: Upstream, number: int) -> list[Any]:
    body = upstream.received[number].body
    return list(body.get("messages") or body["input"])


def size_sent(upstream: Upstream, number: int) -> int:
    return len(json.dumps(upstream.received[number].body))


async def talk(flow: Flow, upstream: Upstream, turns: int) -> None:
    for number in range(turns):
        upstream.then(answer(f"Answer {number}. {LONG}"))
        await flow.turn(user(f"Question {number}. {LONG}"))


async def test_each_request_begins_with_the_bytes_of_the_one_before(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=60_000) as (flow, upstream):
        await talk(flow, upstream, 4)
        for number in range(3):
            earlier, later = messages_sent(upstream, number), messages_sent(upstream, number + 1)
            assert later[: len(earlier)] == earlier
            assert len(later) == len(earlier) + 2
        assert flow.checker.checked == 3


async def test_preflight_compacts_before_a_request_is_too_large(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=8_000) as (flow, upstream):
        await talk(flow, upstream, 8)
        assert flow.events_of(CompactionFinished)
        assert not flow.events_of(Overflowed)
        assert max(size_sent(upstream, n) for n in range(8)) < 8_000 * 4


async def test_the_real_usage_of_the_wire_compacts_where_our_count_saw_no_need(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=20_000) as (flow, upstream):
        await talk(flow, upstream, 6)
        assert not flow.events_of(CompactionFinished)
        upstream.then(answer("Large.", tokens=14_000))
        await flow.turn(user("How large is it?"))
        (done,) = flow.events_of(CompactionFinished)
        assert done.tokens_before > done.tokens_after
        (total,) = await flow.store.usage()
        assert total.usage.cache_read_tokens == 7 * 400


async def test_an_overflow_is_compacted_and_the_limit_remembered(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=60_000) as (flow, upstream):
        await talk(flow, upstream, 8)
        upstream.then(wire.too_long(9_000), answer("It fits now."))
        reply = await flow.turn(user("Go on."))
        assert text_of(reply.message) == "It fits now."
        assert size_sent(upstream, 9) < size_sent(upstream, 8) / 2
        assert [(it.tokens, it.is_stated) for it in flow.events_of(WindowLearnt)] == [(9_000, True)]
    async with talking(wire, tmp_path, window=None) as (flow, _):
        assert (await flow.runtime.conversation(SESSION)).window.tokens == 9_000


async def test_an_output_cap_is_lowered_and_nothing_is_compacted(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=200_000, max_tokens=50_000) as (flow, upstream):
        upstream.then(wire.too_much_output, answer("Shorter."))
        await flow.turn(user("Write a book."))
        sent = [received.body for received in upstream.received]
        caps = [
            body.get("max_tokens") or body.get("max_completion_tokens") or body["max_output_tokens"] for body in sent
        ]
        assert caps[0] == 50_000
        assert caps[1] <= 25_000
        assert flow.events_of(OutputCapLowered)
        assert not flow.events_of(CompactionFinished)
        assert (await flow.runtime.conversation(SESSION)).window.tokens == 200_000


async def test_too_many_bytes_drop_pictures_first(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=60_000) as (flow, upstream):
        upstream.then(answer("A dot."))
        await flow.turn(
            user([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": PIXEL}}])
        )
        upstream.then(UpstreamFault(413, "Request Entity Too Large"), answer("No picture any more."))
        await flow.turn(user("And now?"))
        assert "iVBORw0KGgo" in json.dumps(upstream.received[1].body)
        assert "iVBORw0KGgo" not in json.dumps(upstream.received[2].body)


async def test_a_manual_compaction_with_a_focus_goes_on_in_a_continuation(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=20_000) as (flow, upstream):
        await talk(flow, upstream, 8)
        done = await flow.compact("the importer")
        assert done is not None
        assert done.changed
        upstream.then(answer("Still here."))
        await flow.turn(user("Are you there?"))
        assert "[Clew handoff]" in json.dumps(upstream.received[-1].body)
        assert await flow.store.get_compression_tip(SESSION) != SESSION


async def test_calls_results_and_a_spilled_one_go_over_the_wire_as_whole_groups(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=60_000) as (flow, upstream):
        asked = (call("terminal", {"command": "make"}, id="c1"), call("terminal", {"command": "ls"}, id="c2"))
        upstream.then(answer("", calls=asked), answer("It failed."))
        await flow.turn(user("Build it."))
        await flow.turn(tool("c1", "compiling a file\n" * 8_000), tool("c2", "a.c"))
        assert [told.tool for told in flow.events_of(OutputSpilled)] == ["terminal"]
        sent = json.dumps(upstream.received[1].body)
        assert sent.count('"c1"') == 2
        assert sent.count('"c2"') == 2
        assert len(sent) < 20_000


async def test_a_summary_that_fails_over_the_wire_is_written_by_the_built_in(wire: Wire, tmp_path: Path) -> None:
    async with talking(wire, tmp_path, window=20_000, summarizes=True) as (flow, upstream):
        await talk(flow, upstream, 8)
        upstream.then(
            UpstreamFault(401, {"error": {"message": "the key is not valid", "type": "authentication_error"}})
        )
        done = await flow.compact()
        assert done is not None
        assert done.changed
        assert any("built-in" in warning for warning in done.warnings)
