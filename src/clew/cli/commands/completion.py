"""`clew completion SHELL`: prints the script by which a shell completes the commands, options and sessions of Clew."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.store_access import StoreLocation, run_with_store, store_location
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.store import Store

SHELLS = ("bash", "zsh", "fish")
MAX_SESSIONS = 200
EXAMPLES = """\
where the script goes:
  bash   eval "$(clew completion bash)"                     in ~/.bashrc
  zsh    source <(clew completion zsh)                      in ~/.zshrc, behind compinit
  fish   clew completion fish > ~/.config/fish/completions/clew.fish

It completes commands, options, settings, files, and the sessions that are kept.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help=", ".join(SHELLS))
    parser.add_argument("--sessions", action="store_true", help=argparse.SUPPRESS)
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.sessions:
        _print_sessions(arguments, console)
        return 0
    if arguments.shell is None:
        raise InvalidArgument("completion: SHELL is missing; it is one of bash, zsh, fish: clew completion bash")
    from clew.cli.command_tree import command_tree
    from clew.cli.completion_scripts import SCRIPTS
    from clew.cli.entry import full_parser

    console.out.write(SCRIPTS[arguments.shell](command_tree(full_parser())))
    return 0


def _print_sessions(arguments: argparse.Namespace, console: Console) -> None:
    """Sessions for a shell: the newest, each with its short id, a tab, and what it is about."""
    from clew.cli.views.text import clip, printable
    from clew.config import read_config

    location: StoreLocation = store_location(read_config(console.environ, arguments.flags).settings, console.environ)
    if not location.exists:
        return
    for name, title in run_with_store(location, _read_sessions, named="sessions"):
        console.print(f"{name}\t{clip(printable(title), 60)}")


async def _read_sessions(store: Store) -> list[tuple[str, str]]:
    from clew.cli.store_access import all_session_ids, short_ids

    newest = await store.list_sessions(limit=MAX_SESSIONS, only_tips=True)
    shown = short_ids((each.id for each in newest), await all_session_ids(store))
    # An id that is shown by its end alone begins with an ellipsis, which nobody types.
    return [(each.id if not shown[each.id].isascii() else shown[each.id], each.title or "") for each in newest]
