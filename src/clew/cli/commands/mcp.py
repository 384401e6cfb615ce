"""`clew mcp`: the MCP server, started by a client; `--show NAME` prints what to paste into the client's config."""

from __future__ import annotations

import argparse
import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.parser import did_you_mean
from clew.cli.store_access import store_location
from clew.config import load_config
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.app.mcp_app import McpAppOptions

EXAMPLES = """\
A client (Claude Code, Codex, Gemini CLI, opencode, ...) starts this by itself, once it is
in its config. Its model can then recall every old session on this machine, of any of
these programs:

  clew_search    find what was said, run or decided
  clew_open      messages word for word, or the part around some words
  clew_list      which sessions there are
  clew_state     of one: size, requests, and how its files, tests, tasks and rules stand
  clew_handoff   a whole session as a handoff of a few thousand tokens

and a person finds the prompts `recall TOPIC` and `take_over SESSION`, and resources
clew://session/ID with /handoff, /view and /messages/NUMBER.

Sessions that these programs have kept in their usual folders are imported in the
background, and followed as long as it runs (see `clew import --help`). Nothing is ever
changed in their files, and no tool changes anything in the store. Secrets in what is told
are replaced, as [REDACTED:github-token]; --unredacted tells them.

examples:
  clew mcp --show claude
  clew mcp --show all
  clew mcp --no-import                   only what is in the store already
  clew mcp --import ~/work/sessions      import this instead of the usual folders
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--show", metavar="NAME", help="print what a client's config needs (claude, codex, ...; all), and start nothing"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--import",
        metavar="DIR",
        dest="folders",
        action="append",
        default=[],
        help="import this folder or database, not the usual ones; may be repeated",
    )
    which.add_argument("--no-import", action="store_true", help="import nothing")
    parser.add_argument("--unredacted", action="store_true", help="do not redact passwords, keys and tokens")
    parser.add_argument("--json", action="store_true", help="with --show: print JSON")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.show:
        _show(arguments, console)
        return 0
    from clew.app.mcp_app import McpAppOptions

    config = load_config(console.environ, arguments.flags)
    console.notes(config.notices)
    location = store_location(config.settings, console.environ)
    places = [Path(name).expanduser() for name in arguments.folders]
    for place in places:
        if not place.exists():
            raise InvalidArgument(f"{place}: --import takes folders and files that are there; name another")
    if console.is_typed_at:
        console.note("an MCP client starts this, and talks to it; `clew mcp --show all` prints how. Ctrl-C ends it")
    chosen = [] if arguments.no_import else places or None
    options = McpAppOptions(
        location.url, location.label, chosen, redacts=not arguments.unredacted, with_vectors=location.with_vectors
    )
    log = logging.StreamHandler(console.err)
    log.setLevel(logging.WARNING)
    logging.getLogger().addHandler(log)
    try:
        asyncio.run(_serve(options, console))
    finally:
        logging.getLogger().removeHandler(log)
    return 0


async def _serve(options: McpAppOptions, console: Console) -> None:
    from clew.app.mcp_app import open_recall_server

    async with open_recall_server(console.environ, options) as server:
        await server.run()


def _show(arguments: argparse.Namespace, console: Console) -> None:
    from clew.integrations.mcp_setups import MCP_SETUPS, filled_in, mcp_setup_named, server_command

    chosen = MCP_SETUPS if arguments.show == "all" else [mcp_setup_named(arguments.show)]
    setups = [setup for setup in chosen if setup is not None]
    if not setups:
        names = [setup.name for setup in MCP_SETUPS]
        near = did_you_mean(arguments.show, names)
        takes = f"{'It' if near else 'it'} takes {', '.join(names)}, all"
        raise InvalidArgument(f"mcp: --show: {arguments.show!r} is not known; {near}{takes}")
    command = server_command(console.environ)
    if arguments.json:
        shown = [
            {"name": it.name, "title": it.title, "where": it.where, "lines": filled_in(it, command)} for it in setups
        ]
        console.print_json({"clients": shown})
        return
    for setup in setups:
        console.print()
        console.print(console.style(f"{setup.title} ({setup.where}):", "bold"))
        for line in filled_in(setup, command).splitlines():
            console.print(f"  {line}")
