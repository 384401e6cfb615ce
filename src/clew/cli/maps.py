"""The map of a conversation, drawn: `/map` in a chat, `clew sessions tree --nodes`, `clew compress --engine lcm`.

Each part replaces a range of messages; below it are the parts that it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clew.cli.console import Console
from clew.cli.pages import json_fields, plural, short_count
from clew.cli.text import clip, display_width, printable_line, whole_facts
from clew.engines import Node
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.store import Store

MOST_PARTS = 12
INDENT = 3
MORE_IN_CHAT = "/map n0-40 shows what a part says; /engine lcm lets the lossless engine fold"


@dataclass(frozen=True, slots=True)
class MapPage:
    """The nodes of a conversation."""

    session: str
    shown: tuple[Node, ...]
    """Nodes in the view, oldest first."""
    every: Mapping[str, Node]
    messages: int
    opened: Node | None = None
    """The requested node."""
    written: Mapping[str, datetime] = field(default_factory=dict)
    """When each node was written."""

    @property
    def reached(self) -> int:
        """The first message that is not folded."""
        return self.shown[-1].last if self.shown else 0


async def read_map(store: Store, session: str, messages: int, name: str = "") -> MapPage:
    """Read the map of a conversation, or one part of it."""
    # Late: the map of a file needs no store.
    from clew.turn.engine_host import node_of

    stored = await store.nodes(session)
    every = {node.name: node_of(node) for node in stored}
    if name and name not in every:
        raise InvalidArgument(
            f"the map has no part {name!r}", remedy=f"it has {', '.join(list(every)[:8]) or 'none yet'}"
        )
    shown = tuple(node_of(node) for node in await store.shown_nodes(session))
    return MapPage(session, shown, every, messages, every.get(name), {node.name: node.at for node in stored})


def map_json(page: MapPage) -> dict[str, Any]:
    return {"session": page.session, "messages": page.messages, **nodes_json(page.shown, page.every.values())}


def nodes_json(shown: Sequence[Node], every: Iterable[Node]) -> dict[str, Any]:
    return {
        "shown": [node.id for node in shown],
        "nodes": [
            {
                **json_fields(node, "id", "depth"),
                "first": f"m{node.first}",
                "last": f"m{node.last - 1}",
                "tokens": node.tokens,
                "stands_for_tokens": node.covered_tokens,
                "written_by": node.written_by,
                "final": node.is_final,
                "parts": list(node.children),
                "replaces": node.replaces,
            }
            for node in every
        ],
    }


def print_map(page: MapPage, console: Console, more: str) -> None:
    """Print the map as a tree, or the text and the parts of the requested node."""
    if page.opened is not None:
        node = page.opened
        line = node_line(node, console.page_width, console, page.written.get(node.id))
        blocks = [iter([line]), _text_lines(node, console)]
        parts = _children(node, page.every)
        if parts:
            blocks.append(tree_lines(parts, page.every, console.page_width, console, levels=1, written=page.written))
        console.print_blocks(blocks)
        return
    if not page.shown:
        text = "Nothing is folded into a map: every message is in view, or another engine wrote a handoff."
        console.print_blocks([console.styled_lines(text)])
        return
    blocks = [
        console.styled_lines(_summary(page), "bold"),
        tree_lines(page.shown, page.every, console.page_width, console, levels=2, written=page.written),
        console.hint_lines(more),
    ]
    console.print_blocks(blocks)


def _summary(page: MapPage) -> str:
    covered, own = sum(node.covered_tokens for node in page.shown), sum(node.tokens for node in page.shown)
    folded = f"m{page.shown[0].first} to m{page.reached - 1} are {plural(len(page.shown), 'part')}"
    behind = page.messages - page.reached
    rest = f"; {plural(behind, 'message')} behind them" if behind > 0 else ""
    return f"{folded}, {short_count(covered)} tokens as {short_count(own)}{rest}"


def _children(node: Node, every: Mapping[str, Node]) -> list[Node]:
    return [every[id] for id in node.children if id in every]


def tree_lines(
    nodes: Sequence[Node],
    every: Mapping[str, Node],
    room: int,
    console: Console,
    levels: int,
    written: Mapping[str, datetime] | None = None,
) -> Iterator[str]:
    """Nodes with their first line, and their parts below them."""
    dot, bar, fork = ("●", "│", "├─ ") if console.unicode else ("o", "|", "+- ")
    for node in nodes[:MOST_PARTS]:
        yield f"{dot} {node_line(node, room - 2, console, (written or {}).get(node.id))}"
        about = _about(node)
        if about:
            yield console.style(f"{bar} {clip(about, room - 2)}", "dim")
        children = _children(node, every)
        if levels > 1:
            for line in tree_lines(children, every, room - INDENT, console, levels - 1, written):
                is_node = line.startswith(dot)
                yield (fork if is_node else f"{bar}  ") + line
        elif children:
            yield console.style(f"{bar} {plural(len(children), 'part')} below it", "dim")
    if len(nodes) > MOST_PARTS:
        yield console.style(f"{bar} and {len(nodes) - MOST_PARTS} more", "dim")


def node_line(node: Node, room: int, console: Console, written: datetime | None = None) -> str:
    """A node on one line: id, replaced messages, size, writer."""
    facts = [
        plural(node.last - node.first, "message"),
        f"{short_count(node.covered_tokens)} {console.sign('→', '->')} {short_count(node.tokens)} tokens",
        *([plural(len(node.children), "part")] if node.children else []),
        printable_line(node.written_by) + ("" if node.is_final else ", provisional"),
        *([f"{written:%Y-%m-%d}"] if written else []),
    ]
    name = printable_line(node.id)
    line = whole_facts(facts, room - display_width(name) - 2)
    return console.style(name, "cyan") + (f"  {line}" if line else "")


def _about(node: Node) -> str:
    """The first line of a node."""
    lines = [line for each in node.text.splitlines() if (line := printable_line(each)) and not line.startswith("#")]
    # Requests and actions are numbered, and identify a node better than its rules.
    return next((line for line in lines if line[0].isdigit()), lines[0] if lines else "")


def _text_lines(node: Node, console: Console) -> Iterator[str]:
    for line in node.text.splitlines():
        if line.startswith("#"):
            yield console.style(printable_line(line.lstrip("# ")), "bold")
        else:
            yield from console.styled_lines(printable_line(line)) or [""]


async def run_map(state: ChatState, words: str) -> None:
    conversation = await state.conversation()
    page = await read_map(state.app.store, conversation.session, conversation.view.next_seq, words.strip())
    state.show_page(lambda console: print_map(page, console, MORE_IN_CHAT))
