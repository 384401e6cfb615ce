"""The gateway as the config describes it: its upstream, its models and its engine, over one store."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from clew.app.dashboard_app import HYGIENE_SHARE, gateway_dashboard
from clew.app.engines import EngineChoice
from clew.app.hosting_app import open_hosting
from clew.app.models import auxiliary_target
from clew.config import LoadedConfig, Settings, clew_home, learnt_limits_path
from clew.engines import ContextEngine, EngineSetup
from clew.events import Events, Notice
from clew.gateway import (
    HANDOFF_WRITERS,
    PING_SECONDS,
    Callers,
    CallLimits,
    EventFeed,
    ExchangeRecord,
    Exchanges,
    GatewayMetrics,
    GatewayObserver,
    GatewayOptions,
    GatewayServer,
    HostingRoutes,
    Mode,
    Observers,
    UpstreamServer,
    asks_with_own_credential,
)
from clew.store import Store
from clew.tokens import LearntLimits
from clew.turn import ModelTarget, Runtime, RuntimeOptions, spill_folder

LEASE_SECONDS = 15.0
"""Of a compaction, and renewed while it runs: so long other processes wait for one that was killed in the middle."""


@dataclass(frozen=True, slots=True)
class GatewayAppOptions:
    """What the person who starts a gateway decides."""

    upstream: str
    mode: Mode = "compact"
    listen: GatewayOptions = field(default_factory=GatewayOptions)
    on_exchange: Callable[[ExchangeRecord], None] | None = None
    observers: tuple[GatewayObserver, ...] = ()
    """Beside the metrics."""
    clock: Callable[[], float] = time.monotonic
    """Seconds: tells how long a conversation has rested."""
    adds_breakpoints: bool = False
    """For clients of Anthropic's wire that set none."""
    ping_seconds: float = PING_SECONDS
    """Between two signs of life on a stream that waits for a compaction."""
    is_private: bool = False
    """For one program of this person: its own credential passes even where there are keys for others."""


@asynccontextmanager
async def open_gateway(
    config: LoadedConfig,
    environ: Mapping[str, str],
    store: Store,
    options: GatewayAppOptions,
    events: Events | None = None,
) -> AsyncIterator[GatewayServer]:
    """A gateway that listens, and is closed at the end of the block."""
    settings = config.settings
    compression = replace(settings.compression, threshold=HYGIENE_SHARE)
    settings = replace(settings, compression=compression)
    upstream = UpstreamServer(options.upstream)
    main = settings.model
    engines = EngineChoice(config, environ)
    auxiliary, own_key = auxiliary_target(settings, environ), upstream_key(config, environ)

    def target(model: str) -> ModelTarget:
        configured = main.context_length if model == main.name else None
        return ModelTarget(None, model, upstream.address, configured, reserves_unasked=False, host_name=upstream.host)

    def engine(setup: EngineSetup) -> ContextEngine:
        loaded = engines.load(setup)
        for notice in loaded.notices:
            runtime.tell(Notice(notice))
        return loaded.engine

    turn = RuntimeOptions(
        new_engine=engine,
        spill=spill_folder(clew_home(environ), settings),
        settings=settings,
        source="gateway",
        auxiliary=auxiliary,
        models_ahead_only=True,
        offers_engine_tools=False,
        learnt=LearntLimits(learnt_limits_path(environ)),
        lease_seconds=LEASE_SECONDS,
    )
    # Hosted turns wait for their summaries. A caller's credential is there for its questions alone.
    hosting_turn = replace(
        turn,
        models_ahead_only=False,
        offers_engine_tools=True,
        summarizes=auxiliary is not None or own_key is not None,
        main_summarizes=asks_with_own_credential,
    )
    metrics = GatewayMetrics()
    observers = Observers((metrics, *options.observers))
    events = events or Events()
    events.listen(observers.event)

    def on_exchange(record: ExchangeRecord) -> None:
        observers.exchange(record)
        if options.on_exchange is not None:
            options.on_exchange(record)

    async with AsyncExitStack() as last:
        runtime = Runtime(store, target(main.name or "any-model"), turn, events)
        last.push_async_callback(runtime.close)
        if auxiliary is not None:
            last.push_async_callback(auxiliary.sender.close)
        callers = Callers(store, own_key, is_private=options.is_private)
        exchanges = Exchanges(
            runtime,
            upstream,
            callers,
            mode=options.mode,
            handoffs=next(writer for writer in HANDOFF_WRITERS if writer == settings.gateway.handoffs),
            target=target,
            on_begin=observers.began,
            on_exchange=on_exchange,
            clock=options.clock,
            adds_breakpoints=options.adds_breakpoints,
            ping_seconds=options.ping_seconds,
        )
        hosted = await last.enter_async_context(
            open_hosting(config.settings, hosting_turn, store, callers, upstream, runtime.events)
        )
        feed = EventFeed(store, runtime.events)
        hosting = HostingRoutes(hosted, callers, feed)
        # A gateway for one program of this person has nobody who could sign in.
        pages = None if options.is_private else gateway_dashboard(config.settings, environ, hosted, callers, feed)
        yield await last.enter_async_context(
            GatewayServer(exchanges, callers, upstream, options.listen, metrics, observers, hosting, pages)
        )


def upstream_key(config: LoadedConfig, environ: Mapping[str, str]) -> str | None:
    """The upstream's own credential, for callers with a key of Clew."""
    model = config.settings.model
    return model.api_key or (environ.get(model.api_key_env) if model.api_key_env else None)


def gateway_options(settings: Settings, host: str, port: int, names: Iterable[str] = ()) -> GatewayOptions:
    """How a gateway listens, with the limits and names of the settings; `names` are further ones."""
    chosen = settings.gateway
    limits = CallLimits(
        chosen.requests_per_minute,
        chosen.concurrent_requests,
        chosen.total_requests_per_minute,
        chosen.total_concurrent_requests,
    )
    listed = (name.strip() for name in (chosen.names or "").split(","))
    return GatewayOptions(host, port, frozenset(name for name in (*listed, *names) if name), limits)
