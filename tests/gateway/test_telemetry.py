"""Spans of the gateway, read from the SDK's exporter in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.events import CompactionFinished, CompactionStarted
from clew.gateway import ExchangeRecord
from clew.gateway.observe import GatewayTelemetry
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.usage import CanonicalUsage
from tests.gateway.raw_http import PROVIDER_KEY, ask_raw
from tests.support.gateway import gateway_with
from tests.support.gateway_clients import CLIENTS

sdk: Any = pytest.importorskip("opentelemetry.sdk.trace")
export: Any = pytest.importorskip("opentelemetry.sdk.trace.export")
in_memory: Any = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

USAGE = CanonicalUsage(input_tokens=100, output_tokens=7, cache_read_tokens=50, cache_write_tokens=20)


def recorded() -> tuple[Any, Any]:
    """A provider of tracers, and what keeps its spans."""
    spans = in_memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(spans))
    return provider, spans


async def test_each_exchange_is_a_span_with_its_figures(tmp_path: Path) -> None:
    provider, spans = recorded()
    upstream = Upstream(UpstreamAnswer("private words", usage=USAGE))
    async with gateway_with(upstream, tmp_path, observers=(GatewayTelemetry(provider),)) as flow:
        reply = await ask_raw(
            flow, "/v1/messages", ("x-api-key", PROVIDER_KEY), ("traceparent", f"00-{'1' * 32}-{'2' * 16}-01")
        )
        await flow.wait_for_recordings()
        assert flow.upstream.received[0].headers["traceparent"].startswith("00-1111")
    (span,) = spans.get_finished_spans()
    assert span.name == f"chat {GATEWAY_MODEL}" and span.parent is None
    assert span.end_time > span.start_time
    seen = dict(span.attributes)
    assert seen["gen_ai.operation.name"] == "chat" and seen["gen_ai.provider.name"] == "anthropic"
    assert seen["gen_ai.conversation.id"] == reply.headers["x-clew-session"]
    assert seen["gen_ai.conversation.compacted"] is False
    assert seen["gen_ai.usage.input_tokens"] == 170 and seen["gen_ai.usage.output_tokens"] == 7
    assert seen["gen_ai.usage.cache_read.input_tokens"] == 50
    assert seen["gen_ai.usage.cache_creation.input_tokens"] == 20
    assert seen["http.response.status_code"] == 200 and span.status.is_unset
    assert "private" not in span.to_json() and PROVIDER_KEY not in span.to_json()


def test_a_failure_is_told_by_its_status() -> None:
    provider, spans = recorded()
    told = GatewayTelemetry(provider)
    told.exchange(ExchangeRecord("gemini", "generateContent", "", "observe", "not a name: words", 429, 0.5, 10))
    told.exchange(ExchangeRecord("messages", "count", "", "observe", "m", 0, 0.5, 10))
    first, second = spans.get_finished_spans()
    assert first.name == "generate_content other" and first.attributes["error.type"] == "429"
    assert not first.status.is_ok and not first.status.is_unset
    assert second.name == "count_tokens m" and second.attributes["error.type"] == "no_response"


def test_a_compaction_is_a_span_of_its_own() -> None:
    provider, spans = recorded()
    times = iter([1_000, 5_000])
    told = GatewayTelemetry(provider, clock=lambda: next(times))
    told.event(CompactionStarted("s1", 9_000, "preflight"))
    told.event(CompactionFinished("s1", "s2", 9_000, 2_000, "built-in", ("one",)))
    (span,) = spans.get_finished_spans()
    assert (span.name, span.start_time, span.end_time) == ("clew.compaction", 1_000, 5_000)
    assert dict(span.attributes) == {
        "gen_ai.conversation.id": "s1",
        "clew.compaction.reason": "preflight",
        "clew.compaction.changed": True,
        "clew.compaction.tokens_before": 9_000,
        "clew.compaction.tokens_after": 2_000,
        "clew.compaction.tokens_freed": 7_000,
        "clew.compaction.written_by": "built-in",
        "clew.compaction.warnings": 1,
        "clew.compaction.continued_as": "s2",
    }


async def test_a_compaction_is_a_child_of_the_exchange_that_it_was_made_for(tmp_path: Path) -> None:
    provider, spans = recorded()
    upstream = Upstream(UpstreamAnswer("first"), UpstreamAnswer("second"), UpstreamAnswer("third"))
    async with (
        gateway_with(upstream, tmp_path, observers=(GatewayTelemetry(provider),)) as flow,
        CLIENTS["messages"](GATEWAY_MODEL, stream=True) as client,
    ):
        await client.turn(flow.root)
        client.pretend(20)
        client.history += await client.ask(flow.root)
        await client.turn(flow.root)
        await flow.wait_for_recordings()
    before, compaction, folded, after = spans.get_finished_spans()
    assert compaction.name == "clew.compaction" and compaction.attributes["clew.compaction.changed"] is True
    assert compaction.parent.span_id == folded.context.span_id
    assert compaction.context.trace_id == folded.context.trace_id
    assert folded.start_time <= compaction.start_time <= compaction.end_time <= folded.end_time
    assert [span.parent for span in (before, folded, after)] == [None, None, None]
    assert len({span.context.trace_id for span in (before, folded, after)}) == 3


def test_compactions_that_never_end_are_forgotten() -> None:
    told = GatewayTelemetry(recorded()[0])
    for number in range(5_000):
        told.event(CompactionStarted(f"s{number}", 9_000, "preflight"))
    assert len(told._started) <= 1_000
