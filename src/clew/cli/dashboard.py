"""`clew dashboard`: serve a live page about the store until stopped."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import click

from clew.cli.console import Console, logged_warnings, stop_signals
from clew.cli.options import FILE, command, option, set_option
from clew.cli.store_access import StoreLocation, load_settings, store_location
from clew.config import LoadedConfig
from clew.errors import InvalidArgument

DEFAULT_PORT = 8788
MAX_PORT = 65_535
EXAMPLES = """\
Open the link that is printed: sessions as they grow, one session request by request
with its compactions, what fills windows, and the cost. The link signs in one browser,
once; then the next link is printed. Other users of this machine have no access.

A gateway serves the same page at /dashboard, to everybody with a key.

examples:
  clew dashboard
  clew dashboard --open
  clew dashboard --store ~/backup/state.db --port 0
"""


@command(EXAMPLES)
@option("--host", "H", "address to listen on (default: 127.0.0.1)", default="127.0.0.1")
@option("--port", "P", "port; 0 is any (default: 8788)", type=int, default=DEFAULT_PORT)
@click.option("--open", "opens", is_flag=True, help="open it in the browser")
@option("--store", "FILE", "another store than the one of the config (file or URL)", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="print where it listens as JSON")
@set_option
async def dashboard_command(console: Console, host: str, port: int, opens: bool, store: str | None) -> int:
    named = [] if store is None else [f"store.url={_absolute(store)}"]
    config = load_settings(replace(console, flags=[*console.flags, *named]))
    _check_host(host)
    if not 0 <= port <= MAX_PORT:
        raise InvalidArgument(f"--port takes 0 to {MAX_PORT:,}, not {port}", remedy="0 is any that is free")
    location = store_location(config.settings, console.environ)
    if store is not None:
        location.require(f"--store {store}")
    if not location.exists:  # reading creates no database
        empty = {"address": None, "link": None, "store": location.label}
        return console.show(empty, lambda: console.print(location.empty_message))
    with logged_warnings(console.err):
        await _serve(host, port, config, location, console, opens=opens)
    return 0


def _absolute(store: str) -> str:
    """The path from the working directory; in the config, paths are relative to the folder of Clew."""
    from pathlib import Path

    return store if "://" in store else str(Path(store).expanduser().absolute())


def _check_host(host: str) -> None:
    from clew.gateway import is_loopback

    if not is_loopback(host):
        raise InvalidArgument(
            f"{host} can be reached by others",
            remedy=(
                "the dashboard of a local store listens on this machine only. "
                "For others `clew serve` has it at /dashboard, behind its keys"
            ),
        )


async def _serve(
    host: str,
    port: int,
    config: LoadedConfig,
    location: StoreLocation,
    console: Console,
    *,
    opens: bool,
) -> None:
    from clew.app import DashboardAppOptions, open_dashboard

    def tell_link(link: str) -> None:
        if not console.as_json:
            console.print(f"A browser has signed in. For another one: {link}")
            console.out.flush()

    options = DashboardAppOptions(host, port, location.label, tell_link)
    try:
        async with (
            location.open() as store,
            open_dashboard(config, console.environ, store, options) as running,
        ):
            stopped = stop_signals()
            shown = {"address": running.address, "link": running.link, "store": location.label}
            page = (
                f"Dashboard of {location.label}\n\n  {running.link}\n\nThe link is good for one browser. Ctrl-C stops."
            )
            console.show(shown, lambda: console.print(page))
            console.out.flush()
            if store.unwritable is not None:
                console.note(f"{store.unwritable}: the dashboard is read-only")
            if opens:
                await _open_browser(running.link, console)
            await stopped.wait()
    except OSError as error:
        problem = f"{host}:{port} cannot be listened on ({error.strerror})"
        raise InvalidArgument(problem, remedy="--port 0 takes any that is free") from error


async def _open_browser(link: str, console: Console) -> None:
    import webbrowser

    if not await asyncio.to_thread(webbrowser.open, link):
        console.note("no browser could be opened; open the link above")
