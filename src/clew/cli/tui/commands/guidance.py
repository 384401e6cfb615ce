"""`/help` and `/quit`: what there is, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.cli.output import Console, clipped
from clew.cli.tui.commands import COMMANDS, find_command, unknown_command
from clew.cli.tui.commands.page import MARGIN, hint, show, wrapped
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState

WIDEST_USAGE = 36
EXAMPLES = {
    "compress": (
        "/compress                       fold now",
        "/compress database schema       the same, with that told in full detail",
        "/compress --preview             see what would be done, then decide",
        "/compress --preview --full      the same with the whole handoff",
        "/compress --apply               apply the preview that was left open",
        "/compress --undo                bring the former view back, word for word",
    ),
    "search": (
        "/search retry backoff           everywhere",
        "/search --here retry backoff    in this conversation alone",
    ),
    "resume": (
        "/resume                         a numbered list",
        "/resume 2                       the second of the list",
        "/resume Rota for the bakery     by title; an id or its beginning will do too",
    ),
    "memory": (
        "/memory                         what is remembered",
        "/memory add Tests run with -n 0",
        "/memory user Prefers short answers",
        "/memory remove short answers    the entry that says this",
    ),
    "pin": (
        "/pin last                       the newest reply",
        "/pin m12                        message 12, as /search and /tree number them",
        "/pin Never touch the schema     a text of your own",
        "/pin remove 1                   the first of the list that /pin shows",
    ),
}


async def run(state: ChatState, words: str) -> None:
    if not words:
        show(state, _everything)
        return
    command = find_command(words.split()[0])
    if command is None:
        raise InvalidArgument(unknown_command(words.split()[0]))

    def draw(console: Console) -> None:
        console.say(MARGIN + console.paint(f"/{command.name} {command.usage}".rstrip(), "bold"))
        for line in wrapped([f"{command.about[0].upper()}{command.about[1:]}."], console.width - 4):
            console.say(MARGIN + line)
        for line in EXAMPLES.get(command.name, ()):
            console.say((MARGIN * 2 + console.paint(line[: console.width - 6], "dim")).rstrip())

    show(state, draw)


async def leave(state: ChatState, words: str) -> None:
    del words
    state.is_leaving = True


def _everything(console: Console) -> None:
    left = min(WIDEST_USAGE, (console.width - 6) // 2)
    for command in COMMANDS:
        name, usage = f"/{command.name}", clipped(command.usage, left - len(command.name) - 2)
        first, *more = wrapped([command.about], console.width - left - 6)
        typed = f"{console.paint(name, 'cyan')} {usage}" + " " * (left - len(f"{name} {usage}"))
        console.say(f"{MARGIN}{typed}  {first}")
        for line in more:
            console.say(f"{MARGIN}{'':{left}}  {line}")
    console.say()
    console.say(hint("A beginning is enough: /comp. /help COMMAND says more about one.", console))
