"""The gateway as the config describes it: its upstream, its models and its engine, over one store."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from clew.app.dashboard_app import HYGIENE_SHARE, gateway_dashboard
from clew.app.engines import EngineChoice
from clew.app.models import auxiliary_target
from clew.config import LoadedConfig, ModelSettings, Settings, UpstreamEntry, clew_home, learnt_limits_path
from clew.engines import ContextEngine, EngineSetup
from clew.errors import InvalidArgument
from clew.events import Events, Notice
from clew.gateway import (
    HANDOFF_WRITERS,
    HOLD_SECONDS,
    KINDS,
    PING_SECONDS,
    CallerProvider,
    Callers,
    CallLimits,
    EventFeed,
    ExchangeListener,
    ExchangeOptions,
    ExchangeRecord,
    Exchanges,
    GatewayMetrics,
    GatewayObserver,
    GatewayOptions,
    GatewayServer,
    HostedConversations,
    HostingRoutes,
    Mode,
    Observers,
    Upstreams,
    UpstreamServer,
    asks_with_own_credential,
    aws_credential,
)
from clew.providers import RetryPolicy, http_provider, preset_for
from clew.store import Store
from clew.tokens import LearntLimits
from clew.turn import ModelTarget, Runtime, RuntimeOptions, spill_folder

_GEMINI_HOST = "generativelanguage.googleapis.com"
# The client decides whether a request that the upstream refused is repeated.
_NO_RETRIES = RetryPolicy(retries=0)
LEASE_SECONDS = 15.0
"""Of a compaction, and renewed while it runs: so long other processes wait for one that was killed in the middle."""


@dataclass(frozen=True, slots=True)
class GatewayAppOptions:
    """What the person who starts a gateway decides."""

    upstreams: tuple[str, ...] = ()
    """Addresses, each with the wires or the models that it is for in front (`messages=https://...`), or without: as
    `gateway_upstreams` takes them."""
    mode: Mode = "compact"
    listen: GatewayOptions = field(default_factory=GatewayOptions)
    on_exchange: Callable[[ExchangeRecord], None] | None = None
    observers: tuple[GatewayObserver, ...] = ()
    """Beside the metrics."""
    clock: Callable[[], float] = time.monotonic
    """Seconds, to measure how long a conversation was idle."""
    adds_breakpoints: bool = False
    """For clients of Anthropic's wire that set none."""
    ping_seconds: float = PING_SECONDS
    """Between two signs of life on a stream that waits for a compaction."""
    hold_seconds: float = HOLD_SECONDS
    """How long the end of a reply waits at most until the reply is stored."""
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
    upstreams = gateway_upstreams(config, environ, options.upstreams)
    main = settings.model
    engines = EngineChoice(config, environ)
    auxiliary = auxiliary_target(settings, environ)

    def target(model: str, wire: str = "") -> ModelTarget:
        window, upstream = main.window_of(model), upstreams.of_model(model, wire)
        return ModelTarget(None, model, upstream.address, window, reserves_unasked=False, host_name=upstream.host)

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
        clock=options.clock,
    )
    # Hosted turns wait for their summaries. A caller's credential is there for its questions alone.
    hosting_turn = replace(
        turn,
        models_ahead_only=False,
        offers_engine_tools=True,
        summarizes=auxiliary is not None or any(server.key for server in upstreams.servers),
        main_summarizes=asks_with_own_credential,
    )
    metrics = GatewayMetrics()
    listeners = () if options.on_exchange is None else (ExchangeListener(options.on_exchange),)
    observers = Observers((metrics, *options.observers, *listeners))
    events = events or Events()
    events.listen(observers.event)

    async with AsyncExitStack() as last:
        runtime = Runtime(store, target(main.name or "any-model"), turn, events)
        last.push_async_callback(runtime.close)
        if auxiliary is not None:
            last.push_async_callback(auxiliary.sender.close)
        aws = next((server.aws for server in upstreams.servers if server.aws), None)
        callers = Callers(store, is_private=options.is_private, aws=aws)
        served = ExchangeOptions(
            options.mode,
            next(writer for writer in HANDOFF_WRITERS if writer == settings.gateway.handoffs),
            "on" if settings.gateway.recall else "off",
            options.adds_breakpoints,
            options.ping_seconds,
            options.hold_seconds,
            options.clock,
        )
        exchanges = Exchanges(runtime, upstreams, callers, target, served, observers)
        hosted = await last.enter_async_context(
            open_hosting(config.settings, hosting_turn, store, callers, upstreams, runtime.events)
        )
        feed = EventFeed(store, runtime.events)
        hosting = HostingRoutes(hosted, callers, feed)
        # A gateway for one program of this person needs no sign-in.
        pages = None if options.is_private else gateway_dashboard(config.settings, environ, hosted, callers, feed)
        yield await last.enter_async_context(
            GatewayServer(exchanges, callers, upstreams, options.listen, metrics, observers, hosting, pages)
        )


def gateway_upstreams(config: LoadedConfig, environ: Mapping[str, str], given: Sequence[str] = ()) -> Upstreams:
    """The upstreams that are given, else those of the config, else `model.base_url`; raises `InvalidArgument`.

    Given ones are addresses, with wires or patterns of models before a `=` where they are for those alone. The
    credential for callers with a key of Clew is the model's own where there is one upstream only; where there are
    several, each has that of the variable that it names, or that is usual for its provider.
    """
    main = config.settings.model
    entries = [_given(text) for text in given] or list(config.upstreams)
    if not entries and main.base_url:
        entries = [UpstreamEntry("model", main.base_url)]
    if not entries:
        raise InvalidArgument(
            "there is no upstream", remedy="name the provider: clew serve --upstream https://api.openai.com/v1"
        )
    aws = aws_credential(environ)
    servers = []
    for entry in entries:
        server = UpstreamServer(entry.url, wires=entry.wires, models=entry.models)
        usual = entry.api_key_env or preset_for(None, entry.url, None).key_env
        own = main.api_key or (environ.get(main.api_key_env) if main.api_key_env else None)
        if server.is_bedrock:
            server.key, server.aws = environ.get(entry.api_key_env or "AWS_BEARER_TOKEN_BEDROCK"), aws
        else:
            server.key = environ.get(usual) if entry.api_key_env or len(entries) > 1 else own
        servers.append(server)
    return Upstreams(servers)


def _given(text: str) -> UpstreamEntry:
    """An upstream as it is given on a command line."""
    before, equals, url = text.partition("=") if "://" in text.partition("=")[2] else ("", "", text)
    names = tuple(name.strip() for name in before.split(",") if name.strip())
    if equals and not names:
        raise InvalidArgument(f"the upstream {text!r} names nothing before the =", remedy="write wires or models there")
    wires = tuple(name for name in names if name in KINDS)
    return UpstreamEntry("", url.strip(), wires, tuple(name for name in names if name not in KINDS))


def gateway_token(environ: Mapping[str, str]) -> str:
    """The token of this person's gateways, in a file that only this person reads; made where there is none."""
    path = clew_home(environ) / "gateway.token"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError), os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(24))
    return path.read_text(encoding="ascii").strip()


def gateway_options(
    settings: Settings, host: str, port: int, names: Iterable[str] = (), token: str = ""
) -> GatewayOptions:
    """How a gateway listens, with the limits and names of the settings; `names` are further ones."""
    chosen = settings.gateway
    limits = CallLimits(
        chosen.requests_per_minute,
        chosen.concurrent_requests,
        chosen.total_requests_per_minute,
        chosen.total_concurrent_requests,
    )
    listed = (name.strip() for name in (chosen.names or "").split(","))
    named = frozenset(name for name in (*listed, *names) if name)
    return GatewayOptions(host, port, named, limits, token=token)


# -- hosted conversations ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_hosting(
    settings: Settings,
    options: RuntimeOptions,
    store: Store,
    callers: Callers,
    upstreams: Upstreams,
    events: Events,
) -> AsyncIterator[HostedConversations]:
    """Hosted conversations; their turns have ended when the block is left.

    `options` are those of the gateway's own runtime. Only Clew folds a hosted conversation, so that this happens
    where the config says, as for an agent, and not as late as for clients that fold by themselves.
    """
    targets = UpstreamTargets(settings, upstreams)
    main = settings.model.name
    async with AsyncExitStack() as last:
        last.push_async_callback(targets.close)
        runtime = Runtime(store, targets.of(main or "any-model"), replace(options, settings=settings), events)
        last.push_async_callback(runtime.close)
        hosted = HostedConversations(runtime, callers, targets.of, main)
        last.push_async_callback(hosted.close)
        yield hosted


class UpstreamTargets:
    """The models behind the upstreams, each on the wire that is spoken there."""

    def __init__(self, settings: Settings, upstreams: Upstreams) -> None:
        self._settings = settings
        self._upstreams = upstreams
        self._providers: dict[tuple[str, str], CallerProvider] = {}
        """By address and wire."""

    def of(self, model: str) -> ModelTarget:
        main = self._settings.model
        upstream = self._upstreams.of_model(model)
        provider = self._provider(main, model, upstream)
        window, asked = main.window_of(model), self._settings.agent.max_tokens
        return ModelTarget(provider, model, upstream.address, window, asked)

    def _provider(self, main: ModelSettings, model: str, upstream: UpstreamServer) -> CallerProvider:
        base = f"{upstream.address}/v1beta/openai" if upstream.host == _GEMINI_HOST else upstream.base_url
        preset = preset_for(main.provider, base, model)
        known = (base, preset.wire)
        if known not in self._providers:
            self._providers[known] = CallerProvider(http_provider(preset, retry_policy=_NO_RETRIES), upstream.key)
        return self._providers[known]

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()
