"""Observers of a gateway: the log, metrics for Prometheus, spans for OpenTelemetry, the feed of events.

An observer gets figures and names, and never a message, a header or a query. Its failure is logged, and affects no
request. Labels of metrics have a few known values: no text of a client becomes one, so that clients cannot create
series, and none names an owner, a session, a key or a model. Several workers on one port count in the files of
`PROMETHEUS_MULTIPROC_DIR`, so that each page has the figures of all of them. The names of spans follow the conventions
for generative AI; they are written here because the packages rename them. Each caller follows the events of its own
conversations in this process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from clew.errors import InvalidArgument, UnknownSession
from clew.events import CompactionFinished, CompactionStarted, Event, Events, Overflowed, SummaryReplied
from clew.gateway.admission import where_it_failed
from clew.gateway.clients import CLIENTS, OwnCompaction
from clew.install import install_command
from clew.redact import redact_text
from clew.store import Store
from clew.usage import CanonicalUsage

LOG_FORMATS = ("text", "json", "none")
# A client chooses the name of its model: anything longer could be a text.
_MODEL = re.compile(r"[A-Za-z0-9_.:/@+\-]{1,100}")
_MAX_WORDS = 300

_log = logging.getLogger("clew.gateway")


@dataclass(frozen=True, slots=True)
class ExchangeRecord:
    """One request as figures and names for metrics and logs, without text."""

    wire: str
    action: str
    client: str
    mode: str
    model: str
    status: int
    seconds: float
    request_bytes: int
    session: str | None = None
    is_folded: bool = False
    """Whether the history that was sent is shorter than the one that was received."""
    is_fallback: bool = False
    """Whether something failed here, so that the client's bytes were sent unchanged."""
    recovered: int = 0
    """Overflows that the client has not seen."""
    usage: CanonicalUsage | None = None
    cost_micros: int | None = None
    fold_waits_for: str | None = None
    own_compaction: OwnCompaction | None = None
    """What the client states about compacting by itself."""


class GatewayObserver:
    """Is called for requests and events of a gateway. Each method does nothing unless it is overridden."""

    def began(self) -> None:
        """A request for a model begins: calls in its task, and in tasks started there, belong to it."""

    def exchange(self, record: ExchangeRecord) -> None:
        """A request for a model has ended."""

    def refused(self, status: int, wire: str) -> None:
        """A request was refused by the gateway itself."""

    def sent(self, response_bytes: int) -> None:
        """A response was sent."""

    def event(self, event: Event) -> None:
        """An event of a conversation."""


class Observers(GatewayObserver):
    """Several observers as one."""

    def __init__(self, observers: Iterable[GatewayObserver] = ()) -> None:
        self._observers = tuple(observers)

    def began(self) -> None:
        self._tell("began")

    def exchange(self, record: ExchangeRecord) -> None:
        self._tell("exchange", record)

    def refused(self, status: int, wire: str) -> None:
        self._tell("refused", status, wire)

    def sent(self, response_bytes: int) -> None:
        self._tell("sent", response_bytes)

    def event(self, event: Event) -> None:
        self._tell("event", event)

    def _tell(self, what: str, *details: Any) -> None:
        for observer in self._observers:
            try:
                getattr(observer, what)(*details)
            except Exception as problem:
                # An observer is a listener: its failure must not stop a request.
                _log.error("%s failed: %s", type(observer).__name__, where_it_failed(problem))


class ExchangeListener(GatewayObserver):
    """Calls a function with the record of each exchange."""

    def __init__(self, on_exchange: Callable[[ExchangeRecord], None]) -> None:
        self._on_exchange = on_exchange

    def exchange(self, record: ExchangeRecord) -> None:
        self._on_exchange(record)


def model_label(model: str) -> str:
    """The model that a client named, where that looks like a name; else `other`."""
    return model if _MODEL.fullmatch(model) else "other" if model else ""


# -- the log -----------------------------------------------------------------------------------------------------------


class ExchangeLog(GatewayObserver):
    """Writes one line for each request: JSON, or for people."""

    def __init__(self, out: TextIO, *, is_json: bool) -> None:
        self._out = out
        self._is_json = is_json

    def exchange(self, record: ExchangeRecord) -> None:
        figures = exchange_figures(record)
        self._write("exchange", figures, _exchange_words(figures))

    def refused(self, status: int, wire: str) -> None:
        self._write("refused", {"status": status, "wire": wire}, f"{status} {wire} refused")

    def event(self, event: Event) -> None:
        if not isinstance(event, CompactionFinished) or event.continued_as is None:
            return
        figures = {
            "session": event.session,
            "continued_as": event.continued_as,
            "tokens_before": event.tokens_before,
            "tokens_after": event.tokens_after,
            "written_by": event.written_by,
        }
        words = f"folded {event.tokens_before:,} -> {event.tokens_after:,} tokens, session {event.session}"
        self._write("fold", figures, words)

    def _write(self, event: str, figures: dict[str, Any], words: str) -> None:
        now = datetime.now(UTC)
        if self._is_json:
            line = json.dumps({"time": now.isoformat(timespec="milliseconds"), "event": event, **figures})
        else:
            line = f"{now.astimezone():%H:%M:%S} {words}"
        self._out.write(line + "\n")
        self._out.flush()


def exchange_figures(record: ExchangeRecord) -> dict[str, Any]:
    """The figures of a request as plain values, without unknown ones."""
    usage = record.usage
    figures = {
        "wire": record.wire,
        "action": record.action,
        "client": record.client or "other",
        "mode": record.mode,
        "model": model_label(record.model),
        "status": record.status,
        "ms": round(record.seconds * 1_000, 1),
        "request_bytes": record.request_bytes,
        "session": record.session,
        "folded": record.is_folded,
        "fallback": record.is_fallback,
        "recovered": record.recovered,
        "fold_waits_for": record.fold_waits_for,
        "own_compaction": record.own_compaction,
        "input_tokens": usage.prompt_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cache_read_tokens": usage.cache_read_tokens if usage else None,
        "cache_write_tokens": usage.cache_write_tokens if usage else None,
        "cost_micros": record.cost_micros,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _exchange_words(figures: dict[str, Any]) -> str:
    client = "unknown client" if figures["client"] == "other" else figures["client"]
    words = [f"{figures['status']} {figures['wire']} {figures['action']}", client, figures["model"] or "no model"]
    words.append(f"{figures['ms'] / 1_000:.2f} s")
    if "input_tokens" in figures:
        words.append(f"{figures['input_tokens']:,} in ({figures['cache_read_tokens']:,} cached)")
        words.append(f"{figures['output_tokens']:,} out")
    words += [name for name in ("folded", "fallback", "recovered") if figures[name]]
    if "fold_waits_for" in figures:
        words.append(f"fold waits for {figures['fold_waits_for']}")
    if "own_compaction" in figures:
        words.append(f"own compaction {figures['own_compaction']}")
    return ", ".join(words)


class GatewayLogFormatter(logging.Formatter):
    """Formats records of Python's logging for the same stream: with the place of a failure, never its text."""

    def __init__(self, *, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        # The first line only: asyncio and aiohttp quote values in the next ones.
        words = redact_text(record.getMessage().partition("\n")[0][:_MAX_WORDS])
        problem = record.exc_info[1] if record.exc_info else None
        if problem is not None:
            words += f" ({where_it_failed(problem)})"
        now = datetime.fromtimestamp(record.created, UTC)
        if not self._is_json:
            return f"{now.astimezone():%H:%M:%S} {record.levelname.lower()}: {words}"
        line = {"time": now.isoformat(timespec="milliseconds"), "event": "log", "level": record.levelname.lower()}
        return json.dumps({**line, "logger": record.name, "message": words})


SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Read by prometheus_client when it is first imported."""
METRICS_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_STATUSES = frozenset(
    [200, 201, 400, 401, 402, 403, 404, 408, 413, 415, 422, 424, 429, 499, 500, 502, 503, 504, 520, 524, 529]
)
_CLIENTS = frozenset(client.name for client in CLIENTS)
_MICROS = 1_000_000


class GatewayMetrics(GatewayObserver):
    """Counts events and calls, in a separate registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._watched: list[tuple[Gauge, Callable[[], int]]] = []

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"clew_gateway_{name}", about, labels, registry=self.registry)

        by_request = ("wire", "action", "mode", "client", "status")
        self._requests = counter("requests", "Requests for a model", *by_request)
        self._seconds = Histogram(
            "clew_gateway_request_seconds",
            "From a request to the end of its response",
            ("wire",),
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._received_bytes = counter("request_bytes", "Bodies of requests for a model", "wire")
        self._sent_bytes = counter("response_bytes", "Bodies of all responses")
        self._tokens = counter(
            "tokens", "Tokens as reported by providers; the parts of a prompt do not overlap", "kind"
        )
        self._cost = counter("cost_dollars", "Cost of the requests whose prices are known")
        self._folds = counter("folds", "Conversations that were compacted", "written_by")
        self._freed = counter("tokens_freed", "Tokens by which compactions made prompts shorter")
        self._overflows = counter("overflows", "Refusals of providers because a prompt was too long")
        self._recovered = counter("recovered_overflows", "Of those, the ones that the client has not seen")
        self._fallbacks = counter("fallbacks", "Requests that passed unchanged because something failed here")
        self._upstream_errors = counter(
            "upstream_errors", "Requests that ended with an error of the upstream", "status"
        )
        self._refusals = counter("refusals", "Requests that the gateway itself refused", "status")
        self._summaries = counter("summaries", "Summaries that a model wrote")
        self._summary_cost = counter("summary_cost_dollars", "Their cost, as far as prices are known")

    def watch(self, name: str, about: str, value: Callable[[], int]) -> None:
        """Add a gauge whose value is read with each page."""
        gauge = Gauge(f"clew_gateway_{name}", about, registry=self.registry, multiprocess_mode="livesum")
        self._watched.append((gauge, value))

    def page(self) -> bytes:
        """All figures, as `METRICS_TYPE`."""
        self._read_gauges()
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self.registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)

    def _read_gauges(self) -> None:
        for gauge, value in self._watched:
            gauge.set(value())

    # -- counting ------------------------------------------------------------------------------------------------------

    def exchange(self, record: ExchangeRecord) -> None:
        client = record.client if record.client in _CLIENTS else "other"
        status = status_label(record.status)
        self._requests.labels(record.wire, record.action, record.mode, client, status).inc()
        self._seconds.labels(record.wire).observe(record.seconds)
        self._received_bytes.labels(record.wire).inc(record.request_bytes)
        self._recovered.inc(record.recovered)
        self._fallbacks.inc(record.is_fallback)
        if record.status >= 400:
            self._upstream_errors.labels(status).inc()
        self._cost.inc((record.cost_micros or 0) / _MICROS)
        usage = record.usage
        if usage is not None:
            self._tokens.labels("input").inc(usage.input_tokens)
            self._tokens.labels("cache_read").inc(usage.cache_read_tokens)
            self._tokens.labels("cache_write").inc(usage.cache_write_tokens)
            self._tokens.labels("output").inc(usage.output_tokens)

    def refused(self, status: int, wire: str) -> None:  # noqa: ARG002 (as a label it would say nothing)
        self._refusals.labels(status_label(status)).inc()

    def sent(self, response_bytes: int) -> None:
        self._sent_bytes.inc(response_bytes)
        if SHARED_FOLDER in os.environ:
            self._read_gauges()  # for the pages of other workers

    def event(self, event: Event) -> None:
        match event:
            case CompactionFinished(continued_as=str()):
                self._folds.labels("clew" if event.written_by in (None, "built-in") else "model").inc()
                self._freed.inc(max(0, event.tokens_before - event.tokens_after))
            case Overflowed():
                self._overflows.inc()
            case SummaryReplied():
                self._summaries.inc()
                self._summary_cost.inc((event.cost_micros or 0) / _MICROS)
            case _:
                pass


def status_label(status: int) -> str:
    """A status as a label: itself where it is common, else its hundred; `none` without an answer."""
    if status in _STATUSES:
        return str(status)
    return f"{status // 100}xx" if 100 <= status < 600 else "none"


if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
CONVERSATION = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""With the cached ones."""
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
STATUS = "http.response.status_code"
ERROR = "error.type"
PROVIDERS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gcp.gemini"}
"""By the wire: the provider behind an address is not known."""
OPERATIONS = {"gemini": "generate_content"}
_MAX_STARTED = 1_000
_NANOSECONDS = 1_000_000_000


class GatewayTelemetry(GatewayObserver):
    """Turns exchanges and compactions into spans of a tracer provider."""

    def __init__(self, provider: TracerProvider, clock: Callable[[], int] = time.time_ns) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._tracer = provider.get_tracer("clew.gateway")
        self._kind = SpanKind.CLIENT
        self._failed = Status(StatusCode.ERROR)
        self._clock = clock
        self._started: dict[str, tuple[int, CompactionStarted]] = {}
        """Compactions under way, by their session."""
        self._under_way: ContextVar[Span | None] = ContextVar("exchange", default=None)
        """The span of the exchange that is served in this task, or in the one that started it."""

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

        # A new context: no span of the client is continued, since its headers are for the provider.
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
    """A tracer provider that exports as the variables of OpenTelemetry say (`OTEL_EXPORTER_OTLP_ENDPOINT` etc.)."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise InvalidArgument("OpenTelemetry needs the extra `otel`", remedy=install_command("otel")) from error
    named = Resource({"service.name": os.environ.get("OTEL_SERVICE_NAME", "clew")})
    provider = TracerProvider(resource=Resource.create().merge(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


MAX_WAITING = 1_000
"""Events that may wait for a slow follower; then the oldest are dropped, and their number is sent."""
_MAX_KNOWN = 4_096
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """An event for a follower."""

    name: str
    fields: dict[str, Any]


@dataclass(slots=True)
class EventFollower:
    """A caller that follows events."""

    waiting: deque[Event] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    has_more: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: int = 0

    def add(self, event: Event) -> None:
        self.dropped += len(self.waiting) == MAX_WAITING
        self.waiting.append(event)
        self.has_more.set()


class EventFeed:
    """Gives events to those who follow them."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._followers: list[EventFollower] = []
        self._known: dict[str, tuple[str, str]] = {}
        """The owner and the conversation of each session that was looked up."""
        events.listen(self._take)

    def _take(self, event: Event) -> None:
        for follower in self._followers:
            follower.add(event)

    @contextmanager
    def follower(self) -> Iterator[EventFollower]:
        """Follow events during the block."""
        made = EventFollower()
        self._followers.append(made)
        try:
            yield made
        finally:
            self._followers.remove(made)

    async def events_for(self, owner: str | None, follower: EventFollower) -> AsyncIterator[ToldEvent]:
        """The waiting events of an owner; None: of all owners."""
        follower.has_more.clear()
        if follower.dropped:
            dropped, follower.dropped = follower.dropped, 0
            yield ToldEvent("dropped", {"count": dropped})
        while follower.waiting:
            event = follower.waiting.popleft()
            fields = asdict(event)
            # An event without a session belongs to no owner, and is not sent.
            belongs = await self._belongs(fields["session"]) if "session" in fields else None
            if belongs is not None and owner in (None, belongs[0]):
                name = _WORD.sub("_", type(event).__name__).lower()
                yield ToldEvent(name, {"conversation": belongs[1], **fields})

    async def _belongs(self, session: str) -> tuple[str, str] | None:
        known = self._known.get(session)
        if known is None:
            try:
                found = await self._store.session(session)
            except UnknownSession:
                return None
            first = (await self._store.sessions_of(found.conversation))[0]
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[session] = known = (found.owner, first.id)
        return known
