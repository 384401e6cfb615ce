"""`/output`: the whole output of tools and commands."""

from __future__ import annotations

from collections.abc import Iterator

from clew.cli.console import Console
from clew.cli.pages import plural
from clew.cli.text import TAB_COLUMNS, clip, line_rows, printable, sanitize
from clew.cli.tui.state import ChatState, ShownOutput
from clew.errors import InvalidArgument

MAX_LISTED = 15
MAX_LINES = 200
"""Lines that are printed at once; `/output N LINE` shows more."""


async def run_output(state: ChatState, words: str) -> None:
    outputs = state.outputs
    if not outputs:
        raise InvalidArgument("no tool and no !command has printed anything in this chat yet")
    if not words:
        state.show_lines(lambda console: _list_lines(outputs, console))
        return
    number, first = _numbers(words)
    if not 1 <= number <= len(outputs):
        raise InvalidArgument(f"there is no output {number}", remedy=f"there are 1 to {len(outputs)}")
    output = outputs[number - 1]
    lines = sanitize(output.text).rstrip("\n").split("\n")
    if first > len(lines):
        raise InvalidArgument(f"output {number} has {plural(len(lines), 'line')}", remedy=f"there is no line {first}")
    state.show_lines(lambda console: _output_lines(output, number, lines, first, console))


def _numbers(words: str) -> tuple[int, int]:
    """The number of the output and the first line to show."""
    parts = [part.removeprefix("#") for part in words.split()]
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        raise InvalidArgument(
            f"/output {words} is not known", remedy="/output 3 opens the third, /output 3 201 from line 201 on"
        )
    number, first = (int(part) for part in [*parts, "1"][:2])
    return number, max(1, first)


def _list_lines(outputs: list[ShownOutput], console: Console) -> Iterator[str]:
    room = console.page_width
    for number in range(max(1, len(outputs) - MAX_LISTED + 1), len(outputs) + 1):
        output = outputs[number - 1]
        size = f"{plural(output.text.rstrip().count(chr(10)) + 1, 'line')} of output"
        headline = clip(printable(output.headline), room - len(size) - 7)
        yield f"{console.style(f'{number:>3}', 'cyan')}  {headline}: {size}"
    yield from console.hint_lines("/output NUMBER opens one; Ctrl-O the newest")


def _output_lines(output: ShownOutput, number: int, lines: list[str], first: int, console: Console) -> Iterator[str]:
    room = console.page_width
    last = min(len(lines), first + MAX_LINES - 1)
    yield console.style(clip(f"{number}  {printable(output.headline)}", room), "bold")
    for line in lines[first - 1 : last]:
        yield from line_rows(line.expandtabs(TAB_COLUMNS), room)
    if last < len(lines):
        more = f"lines {first:,} to {last:,} of {len(lines):,}; /output {number} {last + 1} shows more"
        yield from console.hint_lines(more)
