"""`clew serve --upstream URL`: the gateway, until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.store_access import open_location, store_location
from clew.config import LoadedConfig, Settings, load_config
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.gateway import GatewayObserver
    from clew.store import Store

DEFAULT_PORT = 8787
EXAMPLES = """\
Point an agent at the address that is printed, and go on working: its conversations
are kept, searched with `clew search`, and folded when they fill 85% of the model's
window. Nothing else changes: every byte that there is no reason to change passes.

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
MODES = ("observe", "spill", "compact")
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
SETTINGS = {
    **{flag: setting for flag, (setting, _) in LIMITS.items()},
    "--handoffs": "gateway.handoffs",
    "--log": "gateway.log",
    "--otel": "gateway.otel",
}
"""Flags, and the settings that they stand for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--upstream",
        metavar="URL",
        action="append",
        default=[],
        help="the provider's address (default: gateway.upstreams, or model.base_url); may be repeated, and written as "
        "WIRES=URL or MODELS=URL: the first that a request fits is asked, a later one where it cannot answer",
    )
    parser.add_argument("--host", metavar="H", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", metavar="P", type=int, default=DEFAULT_PORT, help="port; 0 is any (default: %(default)s)"
    )
    parser.add_argument(
        "--workers", metavar="N", type=int, default=1, help="processes that answer on the port (default: %(default)s)"
    )
    parser.add_argument("--mode", choices=MODES, default="compact", help="what is done (default: %(default)s)")
    parser.add_argument(
        "--name",
        metavar="NAME",
        action="append",
        default=[],
        help="a name beside localhost under which clients call it, as NAME or NAME:PORT; may be repeated",
    )
    for flag, (_, text) in LIMITS.items():
        parser.add_argument(flag, metavar="N", help=text)
    parser.add_argument(
        "--handoffs", choices=tuple(HANDOFFS), help="who writes them: the caller's own model, or Clew (default: model)"
    )
    parser.add_argument(
        "--log", "--log-format", choices=LOG_FORMATS, help="a line for each request on stderr (default: text)"
    )
    parser.add_argument("--otel", action="store_true", default=None, help="send spans by OpenTelemetry")
    parser.add_argument(
        "--show", metavar="NAME", help="print what points a program here (codex, claude, ...; all), and start nothing"
    )
    parser.add_argument(
        "--add-breakpoints", action="store_true", help="mark what Anthropic shall cache, for clients that mark nothing"
    )
    parser.add_argument("--json", action="store_true", help="print where it listens as JSON")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    given = ((setting, getattr(arguments, flag[2:].replace("-", "_"))) for flag, setting in SETTINGS.items())
    arguments.flags += [f"{setting}={str(value).lower()}" for setting, value in given if value is not None]
    config = load_config(console.environ, arguments.flags)
    console.notes(config.notices)
    if arguments.show:
        _show(arguments, config, console)
        return 0
    from clew.app import gateway_upstreams

    upstreams = gateway_upstreams(config, console.environ, arguments.upstream)
    addresses = [server.written for server in upstreams.servers]
    serve = _serve if arguments.workers == 1 else _serve_by_workers
    asyncio.run(serve(arguments, config, addresses, console))
    return 0


def _show(arguments: argparse.Namespace, config: LoadedConfig, console: Console) -> None:
    from clew.cli.views.client_setups import chosen_setups, print_setups, setup_json
    from clew.gateway import served_model

    setups, model = chosen_setups(arguments.show), served_model(config.settings.model)
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    address = f"http://{host}:{arguments.port or DEFAULT_PORT}"
    if arguments.json:
        console.print_json({"clients": [setup_json(setup, address, model) for setup in setups]})
    else:
        print_setups(setups, address, model, console)


async def _serve(
    arguments: argparse.Namespace, config: LoadedConfig, upstreams: Sequence[str], console: Console
) -> None:
    from clew.app import GatewayAppOptions, gateway_options, gateway_token, open_gateway

    observers, stop = gateway_observers(config.settings, console.err)
    location = store_location(config.settings, console.environ)
    token = gateway_token(console.environ)
    listen = gateway_options(config.settings, arguments.host, arguments.port, arguments.name, token)
    options = GatewayAppOptions(
        tuple(arguments.upstream),
        arguments.mode,
        listen,
        observers=observers,
        adds_breakpoints=arguments.add_breakpoints,
    )
    try:
        async with open_location(location) as store:
            await _check_keys(store, arguments.host)
            async with open_gateway(config, console.environ, store, options) as gateway:
                stopped = asyncio.Event()
                loop = asyncio.get_running_loop()
                for number in (signal.SIGINT, signal.SIGTERM):
                    loop.add_signal_handler(number, stopped.set)
                _tell(arguments, config, gateway.address, upstreams, console)
                await stopped.wait()
    finally:
        stop()


async def _serve_by_workers(
    arguments: argparse.Namespace, config: LoadedConfig, upstreams: Sequence[str], console: Console
) -> None:
    """Listen here, and answer in processes of their own."""
    from clew.app import gateway_token
    from clew.cli.gateway_workers import MAX_WORKERS, GatewayWorkers, WorkerTask, listening_socket

    if not 1 <= arguments.workers <= MAX_WORKERS or os.name != "posix":
        raise InvalidArgument(f"--workers takes 1 to {MAX_WORKERS}, on Linux or macOS, not {arguments.workers}")
    location = store_location(config.settings, console.environ)
    gateway_token(console.environ)  # made once, before every worker reads it
    # Opened here first: a database that lacks migrations gets them once, and what is wrong with it is said once.
    async with open_location(location) as store:
        await _check_keys(store, arguments.host)
    try:
        listening = listening_socket(arguments.host, arguments.port)
    except OSError as error:
        raise InvalidArgument(f"{arguments.host}:{arguments.port} cannot be listened on ({error})") from error
    with listening:
        names, settings = tuple(arguments.name), tuple(arguments.flags)
        task = WorkerTask(
            arguments.upstream,
            arguments.host,
            arguments.mode,
            names,
            settings,
            listening.fileno(),
            adds_breakpoints=arguments.add_breakpoints,
        )
        workers = GatewayWorkers(arguments.workers, task, console.environ, console.note)
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        address = f"http://{host}:{listening.getsockname()[1]}"
        await workers.run(lambda: _tell(arguments, config, address, upstreams, console))


async def _check_keys(store: Store, host: str) -> None:
    from clew.gateway import is_loopback

    if not is_loopback(host) and not await store.list_keys():
        raise InvalidArgument(
            f"{host} can be reached by others, and there are no keys; make one first: clew keys create NAME"
        )


def _tell(
    arguments: argparse.Namespace, config: LoadedConfig, address: str, upstreams: Sequence[str], console: Console
) -> None:
    """Print where the gateway is, and what to paste for the clients that fit its upstreams."""
    from clew.cli.views.client_setups import print_setups
    from clew.gateway import served_model, setups_for

    store = store_location(config.settings, console.environ).label
    many = {"workers": arguments.workers} if arguments.workers > 1 else {}
    if arguments.json:
        told: dict[str, object] = {"address": address, "upstream": upstreams[0], "mode": arguments.mode, "store": store}
        told |= {"upstreams": upstreams, "handoffs": config.settings.gateway.handoffs}
        console.print_json({**told, **many})
    else:
        print_setups(setups_for(upstreams), address, served_model(config.settings.model), console)
        console.print("\nOthers: clew serve --show all. Or nothing to paste: clew wrap -- COMMAND\n")
        by = f" by {arguments.workers} workers" if many else ""
        console.print(f"Listening at {address} ({arguments.mode}){by}, upstream {', '.join(upstreams)}.")
        if arguments.mode == "compact":
            console.print("A conversation is folded when it fills 85% of its model's window.")
            console.print(HANDOFFS[config.settings.gateway.handoffs])
        console.print(f"Conversations are kept in {store}. Ctrl-C stops.")
    console.out.flush()


def gateway_observers(settings: Settings, err: TextIO) -> tuple[tuple[GatewayObserver, ...], Callable[[], None]]:
    """Who watches the gateway, as the settings say, and what ends it."""
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
