"""`clew serve --upstream URL`: the gateway, until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import TYPE_CHECKING

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.store_access import open_location, store_location
from clew.config import LoadedConfig, load_config
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.gateway import GatewayServer

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
  clew serve --upstream http://127.0.0.1:8080/v1 --set model.name=qwen --set model.context_length=32768
"""
MODES = ("observe", "spill", "compact")
LIMITS = {
    "--per-minute": ("gateway.requests_per_minute", "requests of one caller in a minute (default: 6000)"),
    "--at-once": ("gateway.concurrent_requests", "requests of one caller at the same time (default: 256)"),
    "--total-per-minute": ("gateway.total_requests_per_minute", "requests of all callers in a minute (default: any)"),
    "--total-at-once": ("gateway.total_concurrent_requests", "requests of all at the same time (default: 1024)"),
}
"""Flags, and the settings that they stand for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--upstream", metavar="URL", help="the provider's address (default: model.base_url)")
    parser.add_argument("--host", metavar="H", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", metavar="P", type=int, default=DEFAULT_PORT, help="port; 0 is any (default: %(default)s)"
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
    parser.add_argument("--json", action="store_true", help="print where it listens as JSON")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    given = ((setting, getattr(arguments, flag[2:].replace("-", "_"))) for flag, (setting, _) in LIMITS.items())
    limits = [f"{setting}={value}" for setting, value in given if value is not None]
    config = load_config(console.environ, [*arguments.flags, *limits])
    console.notes(config.notices)
    upstream = arguments.upstream or config.settings.model.base_url
    if upstream is None:
        raise InvalidArgument(
            "there is no upstream; name the provider: clew serve --upstream https://api.openai.com/v1"
        )
    asyncio.run(_serve(arguments, config, upstream, console))
    return 0


async def _serve(arguments: argparse.Namespace, config: LoadedConfig, upstream: str, console: Console) -> None:
    from clew.app import GatewayAppOptions, gateway_options, open_gateway
    from clew.gateway import is_loopback

    location = store_location(config.settings, console.environ)
    listen = gateway_options(config.settings, arguments.host, arguments.port, arguments.name)
    options = GatewayAppOptions(upstream, arguments.mode, listen)
    async with open_location(location) as store:
        if not is_loopback(arguments.host) and not await store.list_keys():
            raise InvalidArgument(
                f"{arguments.host} can be reached by others, and there are no keys; make one first: "
                "clew keys create NAME"
            )
        async with open_gateway(config, console.environ, store, options) as gateway:
            await _until_stopped(gateway, upstream, arguments, location.label, console)


async def _until_stopped(
    gateway: GatewayServer, upstream: str, arguments: argparse.Namespace, store: str, console: Console
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    told = {"address": gateway.address, "upstream": upstream, "mode": arguments.mode, "store": store}
    if arguments.json:
        console.print_json(told)
    else:
        console.print(f"Listening at {gateway.address} ({arguments.mode}), upstream {upstream}.")
        console.print(f"Conversations are kept in {store}. Ctrl-C stops.")
    console.out.flush()
    await stopped.wait()
