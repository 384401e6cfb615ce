"""`/tree`: the chain of this conversation, with its compactions, what branched off, and where we are.

Reads the tree as `clew sessions tree` does, and tells more of each compaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.cli.amounts import counted
from clew.cli.moments import shown
from clew.cli.output import Console, clipped, printable
from clew.cli.session_lookup import short_ids
from clew.cli.session_tree import Chain, Link, read_forest
from clew.cli.sessions_view import folded, sizes
from clew.cli.tui.commands.here import conversation_of
from clew.cli.tui.commands.page import MARGIN, show

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState

INDENT = 3


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What every line of a tree is drawn with."""

    ids: Mapping[str, str]
    here: str
    console: Console

    @property
    def marks(self) -> tuple[str, str, str, str]:
        return ("●", "▼", "│", "├─ ") if self.console.unicode else ("o", "v", "|", "+- ")


async def run(state: ChatState, words: str) -> None:
    del words
    here = (await conversation_of(state)).session
    forest = await read_forest(state.desk.store, here, 1)
    tree = forest.trees[0]
    ids = short_ids(_ids_in(tree), forest.every)

    def draw(console: Console) -> None:
        for line in _title(tree, console):
            console.say(MARGIN + line)
        for line in _lines(tree, _Drawing(ids, here, console), console.width - 2 * len(MARGIN)):
            console.say((MARGIN + line).rstrip())

    show(state, draw)


def _ids_in(chain: Chain) -> Iterator[str]:
    for link in chain.links:
        yield link.session.id
        for child in link.children:
            yield from _ids_in(child)


def _title(chain: Chain, console: Console) -> Iterator[str]:
    title = next((link.session.title for link in reversed(chain.links) if link.session.title), None)
    yield console.paint(clipped(printable(title or chain.opening), console.width - 4), "bold")


def _lines(chain: Chain, drawing: _Drawing, room: int) -> Iterator[str]:
    """A chain runs straight down; what went off from a session stands below it, before the chain goes on."""
    dot, down, bar, fork = drawing.marks
    last = chain.links[-1]
    for number, link in enumerate(chain.links):
        if number:
            for first, words in enumerate(_compaction(link, drawing.console)):
                line = f"{down if not first else bar} {words}"
                yield drawing.console.paint(clipped(line, room), "magenta")
        yield f"{dot} {_session(link, drawing, room - 2)}"
        for child in link.children:
            origin = child.links[0].session
            at = f" at m{origin.first_seq}" if origin.kind == "branch" else ""
            called = f": {origin.title}" if origin.title else ""
            yield fork + drawing.console.paint(clipped(printable(f"{origin.kind}{at}{called}"), room - INDENT), "bold")
            yield from (f"{bar}  {line}" for line in _lines(child, drawing, room - INDENT))
        if link.children and link is not last:
            yield bar


def _compaction(link: Link, console: Console) -> Iterator[str]:
    """What lies between a session and its continuation."""
    each = link.compaction
    if each is None:
        yield "continued"
        return
    undone = "" if each.is_in_effect else "UNDONE: "
    yield f"{undone}{folded(each)} folded, {sizes(each, console)}"
    who = "the built-in summariser" if each.entry.written_by == "built-in" else each.entry.written_by
    told = [f"written by {printable(who)}" if who else "shortened, without a summary", shown(each.at)]
    if each.entry.focus_topic:
        told.append(f"focus {printable(each.entry.focus_topic)}")
    yield ", ".join(told)


def _session(link: Link, drawing: _Drawing, room: int) -> str:
    session, stretch = link.session, link.stretch
    numbers = f"m{stretch.first}-m{stretch.stop - 1}" if stretch.count else "nothing yet"
    is_here = session.id == drawing.here
    told = [numbers, counted(stretch.count, "message")] if stretch.count else [numbers]
    told.append(shown(stretch.newest.at if stretch.newest else session.created))
    if session.model:
        told.append(printable(session.model))
    mark = ("  ◀ here" if drawing.console.unicode else "  <- here") if is_here else ""
    name = printable(drawing.ids[session.id])
    line = clipped(f"  {', '.join(told)}", room - len(name) - len(mark))
    return drawing.console.paint(name, "cyan") + line + drawing.console.paint(mark, "bold", "green")
