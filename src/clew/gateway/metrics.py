"""Figures of a gateway for Prometheus.

Every label has a few known values: nothing that a client writes becomes one, so that no client can fill a memory with
series. No series tells an owner, a session, a key or a model. Where several workers answer on one port, each page has
the figures of all of them: they count in files of a folder that `PROMETHEUS_MULTIPROC_DIR` names.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from clew.events import CompactionFinished, Event, Overflowed, SummaryReplied
from clew.gateway.clients import CLIENTS
from clew.gateway.observers import GatewayObserver
from clew.gateway.records import ExchangeRecord

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Read by the library when it is first imported."""
METRICS_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_STATUSES = frozenset(
    [200, 201, 400, 401, 402, 403, 404, 408, 413, 415, 422, 424, 429, 499, 500, 502, 503, 504, 520, 524, 529]
)
_CLIENTS = frozenset(client.name for client in CLIENTS)
_MICROS = 1_000_000


class GatewayMetrics(GatewayObserver):
    """Counts what it is told, in a registry of its own."""

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
        self._tokens = counter("tokens", "Tokens as providers told them; the parts of a prompt do not overlap", "kind")
        self._cost = counter("cost_dollars", "Cost of the requests whose prices are known")
        self._folds = counter("folds", "Conversations that were compacted", "written_by")
        self._freed = counter("tokens_freed", "Tokens by which compactions made prompts shorter")
        self._overflows = counter("overflows", "Refusals of providers because a prompt was too long")
        self._recovered = counter("recovered_overflows", "Of those, the ones that the client has not seen")
        self._fallbacks = counter("fallbacks", "Requests that passed as they came because something failed here")
        self._upstream_errors = counter(
            "upstream_errors", "Requests that ended with an error of the upstream", "status"
        )
        self._refusals = counter("refusals", "Requests that the gateway itself refused", "status")
        self._summaries = counter("summaries", "Summaries that a model wrote")
        self._summary_cost = counter("summary_cost_dollars", "Their cost, as far as prices are known")

    def watch(self, name: str, about: str, value: Callable[[], int]) -> None:
        """A figure that is asked for when somebody reads."""
        gauge = Gauge(f"clew_gateway_{name}", about, registry=self.registry, multiprocess_mode="livesum")
        self._watched.append((gauge, value))

    def page(self) -> bytes:
        """All figures, as `METRICS_TYPE`."""
        self._ask()
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self.registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)

    def _ask(self) -> None:
        for gauge, value in self._watched:
            gauge.set(value())

    # -- what is told --------------------------------------------------------------------------------------------------

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

    def refused(self, status: int, wire: str) -> None:  # noqa: ARG002 (its label would say nothing)
        self._refusals.labels(status_label(status)).inc()

    def sent(self, response_bytes: int) -> None:
        self._sent_bytes.inc(response_bytes)
        if SHARED_FOLDER in os.environ:
            self._ask()  # another worker's page has it, too

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
    """A status as a label: those that occur, and their hundreds for all others; `none` where there was no answer."""
    if status in _STATUSES:
        return str(status)
    return f"{status // 100}xx" if 100 <= status < 600 else "none"
