"""Spans of a gateway for OpenTelemetry: one for each request for a model, one for each compaction.

The names are those of the conventions for generative AI, written down here because they change from version to
version of the packages. No span has the text of a message. Nothing is imported and nothing is sent unless asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from clew.errors import InvalidArgument
from clew.events import CompactionFinished, CompactionStarted, Event
from clew.gateway.observers import GatewayObserver, model_label
from clew.gateway.records import ExchangeRecord
from clew.install import install_command

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
CONVERSATION = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""With those that were cached."""
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
STATUS = "http.response.status_code"
ERROR = "error.type"
PROVIDERS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gcp.gemini"}
"""By the wire that is spoken: who stands behind an address is not known."""
OPERATIONS = {"gemini": "generate_content"}
_MAX_STARTED = 1_000
_NANOSECONDS = 1_000_000_000


class GatewayTelemetry(GatewayObserver):
    """Turns what it is told into spans of a provider of tracers."""

    def __init__(self, provider: TracerProvider, clock: Callable[[], int] = time.time_ns) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._tracer = provider.get_tracer("clew.gateway")
        self._kind = SpanKind.CLIENT
        self._failed = Status(StatusCode.ERROR)
        self._clock = clock
        self._started: dict[str, tuple[int, CompactionStarted]] = {}
        """Compactions under way, by their session."""
        self._under_way: ContextVar[Span | None] = ContextVar("exchange", default=None)
        """The span of the exchange that is served in this task, or in the one that began it."""

    def began(self) -> None:
        self._under_way.set(self._begin("exchange", None, None))

    def exchange(self, record: ExchangeRecord) -> None:
        model = model_label(record.model)
        operation = "count_tokens" if record.action == "count" else OPERATIONS.get(record.wire, "chat")
        attributes: dict[str, Any] = {
            OPERATION: operation,
            PROVIDER: PROVIDERS.get(record.wire, record.wire),
            REQUEST_MODEL: model,
            COMPACTED: record.is_folded,
            STATUS: record.status,
            "clew.mode": record.mode,
            "clew.client": record.client or "other",
            "clew.fallback": record.is_fallback,
            "clew.recovered_overflows": record.recovered,
        }
        if record.session is not None:
            attributes[CONVERSATION] = record.session
        if record.cost_micros is not None:
            attributes["clew.cost_micros"] = record.cost_micros
        usage = record.usage
        if usage is not None:
            attributes |= {
                INPUT_TOKENS: usage.prompt_tokens,
                OUTPUT_TOKENS: usage.output_tokens,
                CACHE_READ_TOKENS: usage.cache_read_tokens,
                CACHE_WRITE_TOKENS: usage.cache_write_tokens,
                REASONING_TOKENS: usage.reasoning_tokens,
            }
        is_failed = record.status >= 400 or record.status == 0
        if is_failed:
            attributes[ERROR] = str(record.status) if record.status else "no_response"
        end, name = self._clock(), f"{operation} {model}".strip()
        span = self._under_way.get() or self._begin(name, None, end - int(record.seconds * _NANOSECONDS))
        span.update_name(name)
        self._end(span, end, attributes, is_failed=is_failed)

    def event(self, event: Event) -> None:
        match event:
            case CompactionStarted():
                if len(self._started) >= _MAX_STARTED:
                    self._started.clear()
                self._started[event.session] = (self._clock(), event)
            case CompactionFinished():
                self._compacted(event)
            case _:
                pass

    def _compacted(self, event: CompactionFinished) -> None:
        end = self._clock()
        start, started = self._started.pop(event.session, (end, None))
        attributes: dict[str, Any] = {
            CONVERSATION: event.session,
            "clew.compaction.reason": started.reason if started else "unknown",
            "clew.compaction.changed": event.continued_as is not None,
            "clew.compaction.tokens_before": event.tokens_before,
            "clew.compaction.tokens_after": event.tokens_after,
            "clew.compaction.tokens_freed": max(0, event.tokens_before - event.tokens_after),
            "clew.compaction.written_by": event.written_by or "none",
            "clew.compaction.warnings": len(event.warnings),
        }
        if event.continued_as is not None:
            attributes["clew.compaction.continued_as"] = event.continued_as
        self._end(self._begin("clew.compaction", self._under_way.get(), start), end, attributes, is_failed=False)

    def _begin(self, name: str, parent: Span | None, start: int | None) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        # A context of its own: no span of the client is continued, since its headers are for the provider.
        context = Context() if parent is None else set_span_in_context(parent, Context())
        return self._tracer.start_span(
            name, context, kind=self._kind, start_time=self._clock() if start is None else start
        )

    def _end(self, span: Span, end: int, attributes: dict[str, Any], *, is_failed: bool) -> None:
        span.set_attributes(attributes)
        if is_failed:
            span.set_status(self._failed)
        span.end(end)


def exporting_provider() -> Any:
    """What sends spans where the variables of OpenTelemetry say (`OTEL_EXPORTER_OTLP_ENDPOINT` and the others)."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise InvalidArgument(f"OpenTelemetry needs the extra `otel`; {install_command('otel')}") from error
    named = Resource({"service.name": os.environ.get("OTEL_SERVICE_NAME", "clew")})
    provider = TracerProvider(resource=Resource.create().merge(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
