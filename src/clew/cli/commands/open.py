"""`clew open SESSION m12`: messages word for word by their numbers, or the part of a long one around some words."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from clew.cli.arguments import add_store_flags, one_or_more
from clew.cli.console import Console
from clew.cli.store_access import configured_store, run_with_store

if TYPE_CHECKING:
    from clew.store import Store
    from clew.turn import OpenedPage

EXAMPLES = """\
A handoff and a search name messages by their numbers; this shows what they say.

  m12        one message; 12 is the same
  m12-m20    several; m12- to the end, m12,m40 two of them
  m12@3000   one message from that character on
  --last 20  the newest twenty

A message of at most 1,500 characters is shown whole. Of a longer one its beginning is
shown, or with --around the parts around some words, with their position. Arguments of
calls are decoded. A call names its result, and a result its call.

examples:
  clew open 4f1c m121
  clew open 4f1c m121 --around "connection refused"
  clew open 4f1c m121 --chars 20000
  clew open 4f1c m120-m130 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("session", metavar="SESSION", help="an id, the beginning of one, or a title")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("messages", metavar="MESSAGES", nargs="?", help="m12, m12-m20, m12,m40 or m12@3000")
    which.add_argument("--last", metavar="N", type=one_or_more, help="the newest N messages")
    parser.add_argument("--around", metavar="WORDS", default="", help="show long messages around these words")
    parser.add_argument("--chars", metavar="N", type=one_or_more, help="at most so much of each (default 1500)")
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    location = configured_store(arguments, console)
    page = run_with_store(location, lambda store: _open(store, arguments), named=f"session {arguments.session!r}")
    from clew.cli.views.search import opened_json, print_opened

    if arguments.json:
        console.print_json(opened_json(page))
    else:
        print_opened(page, console)
    return 0


async def _open(store: Store, arguments: argparse.Namespace) -> OpenedPage:
    from clew.cli.store_access import find_session
    from clew.turn import SHORT_CHARS, open_messages

    session = await find_session(store, arguments.session)
    wanted = f"-{arguments.last}" if arguments.last else arguments.messages
    chars = arguments.chars or SHORT_CHARS
    return await open_messages(store, session.id, wanted, words=arguments.around, chars=chars)
