"""A gateway for tests: the real one on loopback, in front of a mock upstream, with a store in a folder."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clew.app import GatewayAppOptions, open_gateway
from clew.config import read_config
from clew.events import Event, Events
from clew.gateway import (
    HOLD_SECONDS,
    PING_SECONDS,
    ExchangeRecord,
    GatewayObserver,
    GatewayOptions,
    GatewayServer,
    HandoffWriter,
    Mode,
)
from clew.store import Store, open_store
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream


@dataclass(slots=True)
class GatewayFlow:
    """A running gateway, and what happened in it."""

    server: GatewayServer
    upstream: Upstream
    store: Store
    exchanges: list[ExchangeRecord] = field(default_factory=list)
    """In the order in which they ended: shortly after the client has its reply."""
    events: list[Event] = field(default_factory=list)

    async def wait_for_recordings(self) -> None:
        """Wait until every reply is stored: a client has it a moment earlier."""
        await self.server.exchanges.close()

    async def wait_for_handoffs(self) -> None:
        """Wait until every reply is kept, and no model writes a handoff any more."""
        await self.wait_for_recordings()
        await self.server.exchanges.handoffs.settled()

    @property
    def root(self) -> str:
        """The base URL for clients that add `/v1` by themselves."""
        return self.server.address

    @property
    def base_url(self) -> str:
        return f"{self.server.address}/v1"


@asynccontextmanager
async def gateway_with(
    upstream: Upstream,
    folder: Path,
    *,
    window: int = 8_000,
    mode: Mode = "compact",
    listen: GatewayOptions | None = None,
    environ: Mapping[str, str] | None = None,
    store_url: str | None = None,
    adds_breakpoints: bool = False,
    observers: tuple[GatewayObserver, ...] = (),
    clock: Callable[[], float] = time.monotonic,
    store_clock: Callable[[], float] = time.time,
    ping_seconds: float = PING_SECONDS,
    hold_seconds: float = HOLD_SECONDS,
    handoffs: HandoffWriter = "built-in",
    upstreams: tuple[str, ...] | None = None,
) -> AsyncIterator[GatewayFlow]:
    """The gateway in front of an upstream that is entered and left with it; `window` is that of `GATEWAY_MODEL`.

    `handoffs` are built-in by default: a model that writes them takes steps of the upstream's script. `upstreams` are
    given in place of the address of the upstream, as to `clew serve`; with none, those of the config are used.
    """
    settings = {"CLEW_MODEL_NAME": GATEWAY_MODEL, "CLEW_MODEL_CONTEXT_LENGTH": str(window)}
    settings["CLEW_GATEWAY_HANDOFFS"] = handoffs
    variables = {"CLEW_HOME": str(folder), **settings, **(environ or {})}
    records: list[ExchangeRecord] = []
    events: list[Event] = []
    async with AsyncExitStack() as last:
        if not upstream.base_url:
            await last.enter_async_context(upstream)
        store = await last.enter_async_context(open_store(store_url or folder / "state.db", clock=store_clock))
        options = GatewayAppOptions(
            (upstream.base_url,) if upstreams is None else upstreams,
            mode,
            listen or GatewayOptions(),
            records.append,
            observers,
            clock,
            adds_breakpoints=adds_breakpoints,
            ping_seconds=ping_seconds,
            hold_seconds=hold_seconds,
        )
        opened = open_gateway(read_config(variables), variables, store, options, Events(events.append))
        server = await last.enter_async_context(opened)
        yield GatewayFlow(server, upstream, store, records, events)
