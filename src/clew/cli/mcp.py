"""`clew mcp`: the MCP server, started by a client; `--show NAME` prints the lines for the client's config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from clew.cli.console import Console, logged_warnings
from clew.cli.options import FILE, command, option, set_option, shown_setups
from clew.cli.pages import json_fields
from clew.cli.store_access import configured_store
from clew.errors import InvalidArgument

EXAMPLES = """\
A client (Claude Code, Codex, Gemini CLI, opencode, ...) starts this by itself, once it is
in its config. Its model can then recall every old session on this machine, of any of
these programs:

  clew_search    find what was said, run or decided
  clew_open      messages word for word, or the part around some words
  clew_list      which sessions there are
  clew_state     of one: size, requests, and the state of its files, tests, tasks and rules
  clew_handoff   a whole session as a handoff of a few thousand tokens

People can use the prompts `recall TOPIC` and `take_over SESSION`, and resources
clew://session/ID with /handoff, /view and /messages/NUMBER.

Sessions that these programs have kept in their usual folders are imported in the
background, and followed as long as it runs (see `clew import --help`). Nothing is ever
changed in their files, and no tool changes anything in the store. Secrets in results are
replaced, as [REDACTED:github-token]; --unredacted shows them.

examples:
  clew mcp --show claude
  clew mcp --show all
  clew mcp --no-import                   only what is in the store already
  clew mcp --import ~/work/sessions      import this instead of the usual folders
"""


@command(EXAMPLES, exclusive=("folders", "no_import"))
@option("--show", "NAME", "print what a client's config needs (claude, codex, ...; all), and start nothing")
@option(
    "--import folders",
    "DIR",
    "import this folder or database, not the usual ones; may be repeated",
    type=FILE,
    multiple=True,
)
@click.option("--no-import", is_flag=True, help="import nothing")
@click.option("--unredacted", is_flag=True, help="do not redact passwords, keys and tokens")
@click.option("--json", "as_json", is_flag=True, help="with --show: print JSON")
@set_option
async def mcp_command(
    console: Console, show: str | None, folders: Sequence[str], no_import: bool, unredacted: bool
) -> int:
    if show:
        return _show(show, console)
    from clew.app.mcp_app import McpAppOptions, open_recall_server

    location = configured_store(console)
    places = [_place(name) for name in folders]
    if console.is_typed_at:
        console.note("an MCP client starts this, and talks to it; `clew mcp --show all` prints how. Ctrl-C ends it")
    options = McpAppOptions(
        location.url,
        location.label,
        [] if no_import else places or None,
        redacts=not unredacted,
        with_vectors=location.with_vectors,
    )
    with logged_warnings(console.err):
        async with open_recall_server(console.environ, options) as server:
            await server.run()
    return 0


def _place(name: str) -> Path:
    place = Path(name).expanduser()
    if not place.exists():
        raise InvalidArgument(f"{place}: --import takes folders and files that are there", remedy="name another")
    return place


def _show(name: str, console: Console) -> int:
    from clew.integrations.mcp_setups import MCP_SETUPS, filled_in, mcp_setup_named, server_command

    setups = shown_setups("mcp", name, MCP_SETUPS, mcp_setup_named)
    command = server_command(console.environ)
    clients = [{**json_fields(it, "name", "title", "where"), "lines": filled_in(it, command)} for it in setups]
    return console.show({"clients": clients}, lambda: console.print_setups(clients))
