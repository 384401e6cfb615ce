"""`clew serve --upstream URL`: the gateway, until it is stopped."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from clew.cli.console import Console, stop_signals
from clew.cli.options import Callback, OneOf, command, mode_option, option, set_option, shown_setups
from clew.cli.pages import json_fields
from clew.cli.store_access import load_settings, store_location
from clew.cli.workers import MAX_WORKERS, ServeOptions, run_workers, shared_port
from clew.config import LoadedConfig, Settings
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.gateway import ClientSetup, GatewayObserver, ServedModel
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
"""Flags, and the settings that they represent."""


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
    settings = {setting: given.pop(flag[2:].replace("-", "_")) for flag, setting in SETTINGS.items()}
    own = [f"{setting}={str(value).lower()}" for setting, value in settings.items() if value is not None]
    console = replace(console, flags=(*console.flags, *own))
    options = ServeOptions(**given, flags=console.flags)
    config = load_settings(console)
    if show:
        return _show(show, options, config, console)
    from clew.app import gateway_upstreams

    upstreams = gateway_upstreams(config, console.environ, options.upstream)
    addresses = [server.written for server in upstreams.servers]
    serve = _serve if options.workers == 1 else _serve_by_workers
    await serve(options, config, addresses, console)
    return 0


def _show(name: str, options: ServeOptions, config: LoadedConfig, console: Console) -> int:
    from clew.gateway import CLIENT_SETUPS, served_model, setup_named

    setups, model = shown_setups("serve", name, CLIENT_SETUPS, setup_named), served_model(config.settings.model)
    address = f"http://{options.bracketed_host}:{options.port or DEFAULT_PORT}"
    fields = {"clients": [setup_json(setup, address, model) for setup in setups]}
    return console.show(fields, lambda: print_setups(setups, address, model, console))


async def _serve(options: ServeOptions, config: LoadedConfig, upstreams: Sequence[str], console: Console) -> None:
    from clew.app import GatewayAppOptions, gateway_options, gateway_token, open_gateway

    observers, stop = gateway_observers(config.settings, console.err)
    location = store_location(config.settings, console.environ)
    token = gateway_token(console.environ)
    listen = gateway_options(config.settings, options.host, options.port, options.name, token)
    app = GatewayAppOptions(
        tuple(options.upstream), options.mode, listen, observers=observers, adds_breakpoints=options.add_breakpoints
    )
    try:
        async with location.open() as store:
            await _check_keys(store, options.host)
            async with open_gateway(config, console.environ, store, app) as gateway:
                stopped = stop_signals()
                _tell(options, config, gateway.address, upstreams, console)
                await stopped.wait()
    finally:
        stop()


async def _serve_by_workers(
    options: ServeOptions, config: LoadedConfig, upstreams: Sequence[str], console: Console
) -> None:
    """Answer in several processes on one port."""
    from clew.app import gateway_token

    if not 1 <= options.workers <= MAX_WORKERS or not hasattr(socket, "SO_REUSEPORT"):
        raise InvalidArgument(f"--workers takes 1 to {MAX_WORKERS}, on Linux or macOS, not {options.workers}")
    location = store_location(config.settings, console.environ)
    gateway_token(console.environ)  # made once, before every worker reads it
    # Opened here first: a database that lacks migrations gets them once, and its problems are reported once.
    async with location.open() as store:
        await _check_keys(store, options.host)
    try:
        held = shared_port(options.host, options.port)
    except OSError as error:
        raise InvalidArgument(f"{options.host}:{options.port} cannot be listened on ({error})") from error
    with held:
        port = held.getsockname()[1]
        tell = partial(_tell, options, config, f"http://{options.bracketed_host}:{port}", upstreams, console)
        await run_workers(replace(options, port=port), console.environ, console.note, tell)


async def _check_keys(store: Store, host: str) -> None:
    from clew.gateway import is_loopback

    if not is_loopback(host) and not await store.list_keys():
        raise InvalidArgument(
            f"{host} can be reached by others, and there are no keys", remedy="make one first: clew keys create NAME"
        )


def _tell(
    options: ServeOptions, config: LoadedConfig, address: str, upstreams: Sequence[str], console: Console
) -> None:
    """Print where the gateway is and who writes handoffs, then what to paste for the clients that fit its upstreams."""
    from clew.gateway import served_model, setups_for

    store = store_location(config.settings, console.environ).label
    many = {"workers": options.workers} if options.workers > 1 else {}
    if console.as_json:
        named = {"address": address, "upstream": upstreams[0], "mode": options.mode, "store": store}
        chosen = json_fields(config.settings.gateway, "handoffs", "recall")
        console.print_json({**named, "upstreams": upstreams, **chosen, **many})
    else:
        by = f" by {options.workers} workers" if many else ""
        console.print(f"Listening at {address} ({options.mode}){by}, upstream {', '.join(upstreams)}.")
        if options.mode == "compact":
            console.print(HANDOFFS[config.settings.gateway.handoffs])
            console.print("A conversation is folded when it fills 85% of its model's window.")
            console.print(RECALL[config.settings.gateway.recall])
        console.print(f"Conversations are kept in {store}. Ctrl-C stops.")
        print_setups(setups_for(upstreams), address, served_model(config.settings.model), console)
        console.print("\nOthers: clew serve --show all. Or nothing to paste: clew wrap -- COMMAND")
    console.out.flush()


def gateway_observers(settings: Settings, err: TextIO) -> tuple[tuple[GatewayObserver, ...], Callable[[], None]]:
    """The observers that the settings ask for, and the function that stops them."""
    from clew.gateway import ExchangeLog, GatewayLogFormatter, GatewayTelemetry, exporting_provider

    observers: list[GatewayObserver] = []
    handler = logging.StreamHandler(err)
    is_json = settings.gateway.log == "json"
    handler.setFormatter(GatewayLogFormatter(is_json=is_json))
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    if settings.gateway.log != "none":
        observers.append(ExchangeLog(err, is_json=is_json))
    provider = exporting_provider() if settings.gateway.otel else None
    if provider is not None:
        observers.append(GatewayTelemetry(provider))

    def stop() -> None:
        logging.getLogger().removeHandler(handler)
        if provider is not None:
            provider.shutdown()

    return tuple(observers), stop


def print_setups(setups: Iterable[ClientSetup], address: str, model: ServedModel, console: Console) -> None:
    """For people: which file, the lines, and the setting of the window."""
    from clew.gateway import fill_in

    for setup in setups:
        console.print()
        console.print(console.style(f"{setup.title} ({setup.where}):", "bold"))
        for line in fill_in(setup.lines, address, model).splitlines():
            console.print(f"  {line}".rstrip())
        if setup.window:
            console.print(console.style(f"  # window: {setup.window}", "dim"))


def setup_json(setup: ClientSetup, address: str, model: ServedModel) -> dict[str, Any]:
    """For programs."""
    from clew.gateway import fill_in

    lines = fill_in(setup.lines, address, model)
    return {"name": setup.name, "title": setup.title, "where": setup.where, "lines": lines, "window": setup.window}
