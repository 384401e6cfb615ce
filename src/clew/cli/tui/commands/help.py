"""`/help` and `/quit`."""

from __future__ import annotations

from collections.abc import Iterator

from clew.cli.console import Console
from clew.cli.pages import MARGIN
from clew.cli.text import clip, wrap
from clew.cli.tui.commands import ALIASES, COMMANDS, custom_commands, find_command, unknown_command
from clew.cli.tui.state import ChatState
from clew.errors import InvalidArgument

MAX_USAGE_WIDTH = 36
MIN_WIDTH_FOR_COLUMNS = 60
HELP_EXAMPLES = {
    "compress": (
        "/compress                       fold now",
        "/compress database schema       the same, with more detail on that topic",
        "/compress --preview             see what would be done, then decide",
        "/compress --preview --full      the same with the whole handoff",
        "/compress --apply               apply the preview that was left open",
        "/compress --undo                bring the former view back, word for word",
    ),
    "undo": (
        "/undo                           without the last question, its answer and its edits of files",
        "/undo --keep-files              the same, but files stay as they are now",
        "/undo                           once more: without the one before it, too",
    ),
    "edit": (
        "/edit                           the last question is in the input again",
        "/edit Which ovens are off?      this is asked in its place",
    ),
    "output": (
        "/output                         a numbered list",
        "/output 3                       the third, whole; Ctrl-O opens the newest",
        "/output 3 201                   from line 201 on",
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


INPUT_HELP = (
    "In a question, @path attaches a file, the names in a folder, or a picture. !command runs a command here; "
    "!!command also shows the model what it printed, with your next question."
)


async def run_help(state: ChatState, words: str) -> None:
    if not words:
        state.show_lines(_all_commands)
        if own := custom_commands(state.app):
            state.show_text(f"Of your own: {', '.join(f'/{name}' for name in own)}.")
        return
    command = find_command(words.split()[0])
    if command is None:
        raise InvalidArgument(unknown_command(words.split()[0]))

    def lines(console: Console) -> Iterator[str]:
        yield from console.styled_lines(f"/{command.name} {command.usage}".rstrip(), "bold")
        yield from console.styled_lines(f"{command.about[0].upper()}{command.about[1:]}.")
        for line in HELP_EXAMPLES.get(command.name, ()):
            for row in _example_rows(line, console.page_width - len(MARGIN)):
                yield MARGIN + console.style(row, "dim")

    state.show_lines(lines)


async def run_quit(state: ChatState, words: str) -> None:
    del words
    state.is_leaving = True


def _example_rows(line: str, room: int) -> list[str]:
    """An example and its description, below each other if they do not fit on a line."""
    if len(line) <= room:
        return [line]
    typed, _, about = (part.strip() for part in line.partition("  "))
    return [*wrap(typed, room), *(f"{MARGIN}{row}" for row in wrap(about, room - len(MARGIN)))]


def _all_commands(console: Console) -> Iterator[str]:
    left = min(MAX_USAGE_WIDTH, (console.width - 6) // 2)
    is_narrow = console.width < MIN_WIDTH_FOR_COLUMNS
    for command in COMMANDS:
        if is_narrow:
            name, *more = wrap(f"/{command.name} {command.usage}".rstrip(), console.page_width)
            yield from (console.style(line, "cyan") for line in (name, *more))
            yield from (f"{MARGIN}{line}" for line in wrap(command.about, console.page_width - len(MARGIN)))
            continue
        name, usage = f"/{command.name}", clip(command.usage, left - len(command.name) - 2)
        first, *more = wrap(command.about, console.page_width - left - 2)
        yield f"{console.style(name, 'cyan')} {usage}{' ' * (left - len(f'{name} {usage}'))}  {first}"
        yield from (f"{'':{left}}  {line}" for line in more)
    yield ""
    yield from console.styled_lines(INPUT_HELP)
    yield ""
    others = ", ".join(
        f"/{alias} is /{name}" for alias, name in ALIASES.items() if alias in ("clear", "compact", "cost", "exit")
    )
    yield from console.hint_lines(f"Names of other programs work too: {others}.")
    yield from console.hint_lines("A beginning is enough: /comp. /help COMMAND says more about one.")
