"""`clew help [COMMAND ...]`: the help of a command; `--man` prints the manual page of all of them."""

from __future__ import annotations

import argparse

from clew.cli.console import Console
from clew.errors import InvalidArgument

EXAMPLES = """\
examples:
  clew help
  clew help compress
  clew help sessions show
  clew help --man | man -l -            the manual page of every command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("commands", metavar="COMMAND", nargs="*", help="a command, or one below it: sessions show")
    parser.add_argument("--man", action="store_true", help="print the manual page (roff), to keep as clew.1")


def run(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.entry import explain, full_parser

    if not arguments.man:
        explain(arguments.commands, console)
        return 0
    if arguments.commands:
        raise InvalidArgument("help: --man prints one page of all commands; leave the command out")
    from clew.cli.man_page import man_page

    console.out.write(man_page(full_parser()))
    return 0
