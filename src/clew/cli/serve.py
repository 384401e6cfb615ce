"""`clew serve --upstream URL`: run the gateway until stopped."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from clew.cli.console import Console, logged_warnings, stop_signals
from clew.cli.options import Callback, OneOf, command, mode_option, option, set_option, shown_setups
from clew.cli.pages import json_fields
from clew.cli.store_access import load_settings, store_location
from clew.config import LoadedConfig, Settings
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.gateway import ClientSetup, GatewayObserver
    from clew.gateway import Mode as GatewayMode
    from clew.store import Store

DEFAULT_PORT = 8787
EXAMPLES = """\
Point an agent at the printed address: its conversations are stored, can be searched with
`clew search`, and are folded when they fill 85% of the model's window. All other bytes
pass unchanged.

modes:
  compact   fold a conversation that fills its window (default)
  spill     only shorten tool results that are too large
  observe   change nothing; record and search

examples:
  clew serve --upstream https://api.anthropic.com
  clew serve --upstream https://api.openai.com/v1 --port 9000 --mode observe
  clew serve --upstream https://api.openai.com/v1 --workers 4
  clew serve --upstream https://api.anthropic.com --upstream https://api.openai.com/v1
  clew serve --upstream 'qwen*=http://127.0.0.1:8080/v1' --upstream chat,responses=https://api.openai.com/v1
  clew serve --upstream http://127.0.0.1:8080/v1 --set model.name=qwen --set model.context_length=32768
  clew serve --show codex                lines to paste, without starting anything
"""
LOG_FORMATS = ("text", "json", "none")
LIMITS = {
    "--per-minute": ("gateway.requests_per_minute", "requests of one caller in a minute (default: 6000)"),
    "--at-once": ("gateway.concurrent_requests", "requests of one caller at the same time (default: 256)"),
    "--total-per-minute": ("gateway.total_requests_per_minute", "requests of all callers in a minute (default: any)"),
    "--total-at-once": ("gateway.total_concurrent_requests", "requests of all at the same time (default: 1024)"),
}
HANDOFFS = {
    "model": "Handoffs are written by each caller's own model, with its own credential and at its own cost "
    "(--handoffs built-in: without a model).",
    "built-in": "Handoffs are written without a model (--handoffs model: by each caller's own, at its own cost).",
}
RECALL = {
    True: "After a fold its model can search and open what was folded, unseen by clients (--recall off disables it).",
    False: "The models of folded conversations cannot open what was folded (--recall on enables it).",
}
SETTINGS = {
    **{flag: setting for flag, (setting, _) in LIMITS.items()},
    "--handoffs": "gateway.handoffs",
    "--recall": "gateway.recall",
    "--log": "gateway.log",
    "--otel": "gateway.otel",
}
"""Settings that flags set."""


def _limit_options(callback: Callback) -> Callback:
    for flag, (_, text) in reversed(LIMITS.items()):
        callback = click.option(flag, metavar="N", help=text)(callback)
    return callback


@command(EXAMPLES)
@option(
    "--upstream",
    "URL",
    "the provider's address (default: gateway.upstreams, or model.base_url); may be repeated, and written as "
    "WIRES=URL or MODELS=URL: the first that a request fits is asked, a later one where it cannot answer",
    multiple=True,
)
@option("--host", "H", "address to listen on (default: 127.0.0.1)", default="127.0.0.1")
@option("--port", "P", "port; 0 is any (default: 8787)", type=int, default=DEFAULT_PORT)
@option("--workers", "N", "processes that answer on the port (default: 1)", type=int, default=1)
@mode_option
@option(
    "--name",
    "NAME",
    "a name beside localhost under which clients call it, as NAME or NAME:PORT; may be repeated",
    multiple=True,
)
@_limit_options
@option(
    "--handoffs",
    "WRITER",
    "who writes them: the caller's own model, or Clew (model, built-in; default: model)",
    type=OneOf(tuple(HANDOFFS)),
)
@option("--recall", "on|off", "offer models two tools for what was folded (default: on)", type=OneOf(("on", "off")))
@option(
    "--log --log-format",
    "FORMAT",
    "a line for each request on stderr: text (default), json or none",
    type=OneOf(LOG_FORMATS),
)
@click.option("--otel", is_flag=True, default=None, help="send spans by OpenTelemetry")
@option("--show", "NAME", "print what points a program here (codex, claude, ...; all), and start nothing")
@click.option("--add-breakpoints", is_flag=True, help="add cache breakpoints for Anthropic, for clients that set none")
@click.option("--json", "as_json", is_flag=True, help="print where it listens as JSON")
@set_option
async def serve_command(console: Console, show: str | None, **given: Any) -> int:
    from clew.app import gateway_upstreams

    settings = {setting: given.pop(flag[2:].replace("-", "_")) for flag, setting in SETTINGS.items()}
    own = [f"{setting}={str(value).lower()}" for setting, value in settings.items() if value is not None]
    console = replace(console, flags=(*console.flags, *own))
    options = ServeOptions(**given, flags=console.flags)
    config = load_settings(console)
    if show:
        return _show(show, options, config, console)
    upstreams = [server.written for server in gateway_upstreams(config, console.environ, options.upstream).servers]
    # Migrates the database once, before every worker opens it.
    async with store_location(config.settings, console.environ).open() as store:
        await _check_keys(store, options.host)
    if options.workers != 1:
        await _serve_by_workers(options, config, upstreams, console)
        return 0
    async with serving(options, config, console.environ, console.err) as address:
        stopped = stop_signals()
        _print_start(options, config, address, upstreams, console)
        await stopped.wait()
    return 0


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of the command line, as JSON values: workers get them as JSON."""

    upstream: Sequence[str]
    host: str
    port: int
    workers: int
    mode: GatewayMode
    name: Sequence[str]
    add_breakpoints: bool
    flags: Sequence[str]
    """Settings for this run."""

    def address(self, port: int) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{port}"


def _show(name: str, options: ServeOptions, config: LoadedConfig, console: Console) -> int:
    from clew.gateway import CLIENT_SETUPS, setup_named

    address = options.address(options.port or DEFAULT_PORT)
    setups = shown_setups("serve", name, CLIENT_SETUPS, setup_named)
    clients = _clients_json(setups, address, config)
    return console.show({"clients": clients}, lambda: console.print_setups(clients))


def _clients_json(setups: Iterable[ClientSetup], address: str, config: LoadedConfig) -> list[dict[str, Any]]:
    """The settings that make these programs call a gateway."""
    from clew.gateway import fill_in, served_model

    model = served_model(config.settings.model)
    return [
        {**json_fields(it, "name", "title", "where"), "lines": fill_in(it.lines, address, model), "window": it.window}
        for it in setups
    ]


@asynccontextmanager
async def serving(
    options: ServeOptions,
    config: LoadedConfig,
    environ: Mapping[str, str],
    err: TextIO,
    *,
    is_port_shared: bool = False,
) -> AsyncIterator[str]:
    """Run the gateway over the configured store; yields its address."""
    from clew.app import GatewayAppOptions, gateway_options, gateway_token, open_gateway

    listen = gateway_options(config.settings, options.host, options.port, options.name, gateway_token(environ))
    with gateway_observers(config.settings, err) as observers:
        app = GatewayAppOptions(
            tuple(options.upstream),
            options.mode,
            replace(listen, is_port_shared=is_port_shared),
            observers=observers,
            adds_breakpoints=options.add_breakpoints,
        )
        async with (
            store_location(config.settings, environ).open() as store,
            open_gateway(config, environ, store, app) as gateway,
        ):
            yield gateway.address


async def _serve_by_workers(
    options: ServeOptions, config: LoadedConfig, upstreams: Sequence[str], console: Console
) -> None:
    """Answer in several processes on one port."""
    from clew.app import gateway_token
    from clew.cli.workers import MAX_WORKERS, run_workers, shared_port

    if not 1 <= options.workers <= MAX_WORKERS or not hasattr(socket, "SO_REUSEPORT"):
        raise InvalidArgument(f"--workers takes 1 to {MAX_WORKERS}, on Linux or macOS, not {options.workers}")
    gateway_token(console.environ)  # made once, before every worker reads it
    try:
        held = shared_port(options.host, options.port)
    except OSError as error:
        raise InvalidArgument(f"{options.host}:{options.port} cannot be listened on ({error})") from error
    with held:
        port = held.getsockname()[1]
        on_ready = partial(_print_start, options, config, options.address(port), upstreams, console)
        await run_workers(replace(options, port=port), console.environ, console.note, on_ready)


async def _check_keys(store: Store, host: str) -> None:
    from clew.gateway import is_loopback

    if not is_loopback(host) and not await store.list_keys():
        raise InvalidArgument(
            f"{host} can be reached by others, and there are no keys", remedy="make one first: clew keys create NAME"
        )


def _print_start(
    options: ServeOptions, config: LoadedConfig, address: str, upstreams: Sequence[str], console: Console
) -> None:
    """Print the address and the settings, then the lines to paste for clients that fit the upstreams."""
    from clew.gateway import setups_for

    store, gateway = store_location(config.settings, console.environ).label, config.settings.gateway
    many = {"workers": options.workers} if options.workers > 1 else {}

    def draw() -> None:
        by = f" by {options.workers} workers" if many else ""
        console.print(f"Listening at {address} ({options.mode}){by}, upstream {', '.join(upstreams)}.")
        if options.mode == "compact":
            console.print(HANDOFFS[gateway.handoffs])
            console.print("A conversation is folded when it fills 85% of its model's window.")
            console.print(RECALL[gateway.recall])
        console.print(f"Conversations are kept in {store}. Ctrl-C stops.")
        console.print_setups(_clients_json(setups_for(upstreams), address, config))
        console.print("\nOthers: clew serve --show all. Or nothing to paste: clew wrap -- COMMAND")

    named = {"address": address, "upstream": upstreams[0], "mode": options.mode, "store": store}
    console.show({**named, "upstreams": upstreams, **json_fields(gateway, "handoffs", "recall"), **many}, draw)
    console.out.flush()


@contextmanager
def gateway_observers(settings: Settings, err: TextIO) -> Iterator[tuple[GatewayObserver, ...]]:
    """The configured observers; warnings are logged in the configured format."""
    from clew.gateway import ExchangeLog, GatewayLogFormatter, GatewayTelemetry, exporting_provider

    is_json = settings.gateway.log == "json"
    provider = exporting_provider() if settings.gateway.otel else None
    observers: list[GatewayObserver] = []
    if settings.gateway.log != "none":
        observers.append(ExchangeLog(err, is_json=is_json))
    if provider is not None:
        observers.append(GatewayTelemetry(provider))
    try:
        with logged_warnings(err, GatewayLogFormatter(is_json=is_json)):
            yield tuple(observers)
    finally:
        if provider is not None:
            provider.shutdown()
