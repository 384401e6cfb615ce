"""What a command shows: lines drawn for the width of the screen they land on, by the views that plain commands use.

A page is drawn when the screen asks for it, so that it fits. All in it is known before: drawing waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from textwrap import wrap
from typing import TYPE_CHECKING, TypeAlias

from rich.text import Text

from clew.cli.output import WIDEST, Console, clipped, columns, printable

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderResult

    from clew.cli.tui.state import ChatState

MARGIN = "  "
PAGE_NARROWEST = 40
Draw: TypeAlias = Callable[[Console], None]


class Page:
    """Lines for a screen; `draw` says them to a console of that screen's width."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        width = max(PAGE_NARROWEST, min(WIDEST, options.max_width))
        colors = console.color_system is not None and not console.no_color
        drawn = StringIO()
        place = Console(drawn, drawn, {}, width, colors, not options.ascii_only, live=False)
        self._draw(place)
        for line in drawn.getvalue().removesuffix("\n").split("\n"):
            yield Text.from_ansi(line)


def show(state: ChatState, draw: Draw) -> None:
    """Put a page on the screen."""
    state.say(Page(draw))


def tell(state: ChatState, *sentences: str) -> None:
    """Put sentences on the screen, each on lines of its own, wrapped at words."""

    def draw(console: Console) -> None:
        for line in wrapped(sentences, console.width - 2 * len(MARGIN)):
            console.say(MARGIN + line)

    show(state, draw)


def wrapped(sentences: Iterable[str], room: int) -> list[str]:
    """Sentences as lines of at most `room` columns, whatever script they are in."""
    return [line for sentence in sentences for line in _wrapped(printable(sentence), room)]


def _wrapped(sentence: str, room: int) -> Iterator[str]:
    # Python's own counts characters, of which some take two columns.
    if sentence.isascii():
        yield from wrap(sentence, room)
        return
    rest = sentence.strip()
    while columns(rest) > room:
        stop = used = 0
        while used + columns(rest[stop]) <= room:
            used += columns(rest[stop])
            stop += 1
        space = rest.rfind(" ", 0, stop + 1)
        cut = space if space > stop // 2 else max(stop, 1)
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip()
    if rest:
        yield rest


def hint(words: str, console: Console) -> str:
    """A line in the margin of attention: what could be typed next."""
    return MARGIN + console.paint(clipped(words, console.width - 2 * len(MARGIN)), "dim")


def facts(pairs: Iterable[tuple[str, str]], console: Console, names: int = 10) -> list[str]:
    """Facts with their names before them; what is long goes on below its beginning."""
    lines = []
    for name, fact in pairs:
        first, *more = wrapped([fact], console.width - 2 * len(MARGIN) - names - 2) or [""]
        lines.append(f"{console.paint(name.ljust(names), 'dim')}  {first}")
        lines += [f"{'':{names}}  {line}" for line in more]
    return lines
