"""`clew dashboard`: a page that shows what is kept, live, until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from typing import TYPE_CHECKING

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.store_access import StoreLocation, open_location, store_location
from clew.config import LoadedConfig, load_config
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.app import LocalDashboard

DEFAULT_PORT = 8788
MAX_PORT = 65_535
EXAMPLES = """\
Open the link that is printed: sessions as they grow, one session request by request
with its compactions, what fills windows, and what all of it cost. The link signs in
one browser, once; the next one is printed then. Nobody else on this machine can look.

On a gateway the same page is at /dashboard, for everybody with a key.

examples:
  clew dashboard
  clew dashboard --open
  clew dashboard --store ~/backup/state.db --port 0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--host", metavar="H", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", metavar="P", type=int, default=DEFAULT_PORT, help="port; 0 is any (default: %(default)s)"
    )
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.add_argument("--store", metavar="FILE", help="another store than the one of the config (file or URL)")
    parser.add_argument("--json", action="store_true", help="print where it listens as JSON")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.store is not None:
        arguments.flags.append(f"store.url={_absolute(arguments.store)}")
    config = load_config(console.environ, arguments.flags)
    console.notes(config.notices)
    _check_host(arguments.host)
    if not 0 <= arguments.port <= MAX_PORT:
        raise InvalidArgument(f"--port takes 0 to {MAX_PORT:,}, not {arguments.port}; 0 is any that is free")
    location = store_location(config.settings, console.environ)
    if not location.exists:
        # Looking makes no database.
        if arguments.store is not None:
            raise location.missing_error(f"--store {arguments.store}")
        if arguments.json:
            console.print_json({"address": None, "link": None, "store": location.label})
        else:
            console.print(location.empty_message)
        return 0
    asyncio.run(_serve(arguments, config, location, console))
    return 0


def _absolute(store: str) -> str:
    """A path on the command line counts from the folder one is in, one in the config from the folder of Clew."""
    from pathlib import Path

    return store if "://" in store else str(Path(store).expanduser().absolute())


def _check_host(host: str) -> None:
    from clew.gateway import is_loopback

    if not is_loopback(host):
        raise InvalidArgument(
            f"{host} can be reached by others; the dashboard of a local store listens on this machine only. "
            "For others `clew serve` has it at /dashboard, behind its keys"
        )


async def _serve(
    arguments: argparse.Namespace, config: LoadedConfig, location: StoreLocation, console: Console
) -> None:
    from clew.app import DashboardAppOptions, open_dashboard

    def tell_link(link: str) -> None:
        if not arguments.json:
            console.print(f"A browser has signed in. For another one: {link}")
            console.out.flush()

    options = DashboardAppOptions(arguments.host, arguments.port, location.label, tell_link)
    handler = logging.StreamHandler(console.err)
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        async with open_location(location) as store, open_dashboard(config, console.environ, store, options) as running:
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stopped.set)
            _tell(arguments, running, location, console)
            if store.unwritable is not None:
                console.note(f"{store.unwritable}: one can look, and change nothing")
            if arguments.open:
                await _open_browser(running.link, console)
            await stopped.wait()
    except OSError as error:
        remedy = "--port 0 takes any that is free"
        message = f"{arguments.host}:{arguments.port} cannot be listened on ({error.strerror}); {remedy}"
        raise InvalidArgument(message) from error
    finally:
        logging.getLogger().removeHandler(handler)


def _tell(arguments: argparse.Namespace, running: LocalDashboard, location: StoreLocation, console: Console) -> None:
    if arguments.json:
        console.print_json({"address": running.address, "link": running.link, "store": location.label})
    else:
        console.print(f"Dashboard of {location.label}")
        console.print(f"\n  {running.link}\n")
        console.print("The link is good for one browser. Ctrl-C stops.")
    console.out.flush()


async def _open_browser(link: str, console: Console) -> None:
    import webbrowser

    if not await asyncio.to_thread(webbrowser.open, link):
        console.note("no browser could be opened; open the link above")
