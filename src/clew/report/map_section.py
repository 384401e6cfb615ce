"""The map on the page: a row of nodes for each depth, and every node to open, with its text and what it was made from.

Nodes have numbers on the page, since their ids come from an engine and are no names of elements.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clew.engines import Node
from clew.handoff import COMPLETED, Handoff
from clew.report.compaction_report import CompactionReport
from clew.report.handoff import handoff_html

MAX_MAP_CHARS: Final = 600_000
"""Of all nodes together, so that the map of 20,000 messages stays small."""
MIN_NODE_CHARS: Final = 400
_ABOUT_CHARS: Final = 160


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node as the page shows it."""

    number: int
    node: Node
    is_shown: bool
    """Whether it stands in the request; otherwise another one stands for it."""
    about: str
    """The first thing that it tells."""
    html: str
    left_out: int
    children: tuple[DrawnNode, ...]


@dataclass(frozen=True, slots=True)
class DepthCell:
    """A place in the row of a depth: a node, or messages that no node of this depth stands for."""

    name: str
    messages: int
    drawn: DrawnNode | None


@dataclass(frozen=True, slots=True)
class MapSection:
    """The map of a report, drawn."""

    parts: tuple[DrawnNode, ...]
    """Those that stand in the request, oldest first."""
    depths: tuple[tuple[int, tuple[DepthCell, ...]], ...]
    """The rows, the deepest first."""

    @property
    def count(self) -> int:
        return sum(1 for _ in _walk(self.parts))

    @property
    def tokens(self) -> int:
        return sum(drawn.node.tokens for drawn in self.parts)

    @property
    def covered_tokens(self) -> int:
        return sum(drawn.node.covered_tokens for drawn in self.parts)

    @property
    def writers(self) -> str:
        return ", ".join(dict.fromkeys(drawn.node.written_by for drawn in _walk(self.parts)))

    @property
    def provisional(self) -> int:
        return sum(not drawn.node.is_final for drawn in _walk(self.parts))

    @property
    def style(self) -> str:
        """The widths, as rules: the policy of the page allows no styles of elements."""
        cells = (cell for _, row in self.depths for cell in row)
        return "".join(f"#{cell.name}{{flex-grow:{cell.messages}}}" for cell in cells)


def map_section(report: CompactionReport) -> MapSection | None:
    """The map of a report; None where there is none."""
    if not report.has_map:
        return None
    known = {outcome.number for outcome in report.outcomes if outcome.number is not None}
    parts = tuple(_Drawing(report.nodes, known).draw(report.shown_nodes, is_shown=True))
    return MapSection(parts, tuple(_depths(parts)))


class _Drawing:
    """Draws nodes with those below them, each with a number of its own."""

    def __init__(self, nodes: Mapping[str, Node], known: Container[int]) -> None:
        self._nodes = nodes
        self._known = known
        self._drawn = 0
        is_small = sum(len(node.text) for node in nodes.values()) <= MAX_MAP_CHARS
        self._most = MAX_MAP_CHARS if is_small else max(MIN_NODE_CHARS, MAX_MAP_CHARS // len(nodes))

    def draw(self, nodes: Sequence[Node], *, is_shown: bool) -> Iterator[DrawnNode]:
        for node in nodes:
            number, self._drawn = self._drawn, self._drawn + 1
            text = node.text[: self._most]
            below = [self._nodes[id] for id in node.children if id in self._nodes]
            yield DrawnNode(
                number,
                node,
                is_shown,
                _about(handoff := Handoff.of_text(text)),
                handoff_html(handoff, self._known),
                len(node.text) - len(text),
                tuple(self.draw(below, is_shown=False)),
            )


def _about(handoff: Handoff) -> str:
    # Requests differ from node to node more than rules do.
    first = next(iter((*handoff.entries(COMPLETED), *handoff.all_entries())), None)
    return "" if first is None else first.render()[:_ABOUT_CHARS]


def _walk(parts: Sequence[DrawnNode]) -> Iterator[DrawnNode]:
    for drawn in parts:
        yield drawn
        yield from _walk(drawn.children)


def _depths(parts: Sequence[DrawnNode]) -> Iterator[tuple[int, tuple[DepthCell, ...]]]:
    first, last = parts[0].node.first, parts[-1].node.last
    every = list(_walk(parts))
    for depth in sorted({drawn.node.depth for drawn in every}, reverse=True):
        row: list[DepthCell] = []
        reached = first
        for drawn in sorted((each for each in every if each.node.depth == depth), key=lambda each: each.node.first):
            if drawn.node.first > reached:
                row.append(DepthCell(f"gap-{depth}-{reached}", drawn.node.first - reached, None))
            row.append(DepthCell(f"at-{drawn.number}", drawn.node.last - drawn.node.first, drawn))
            reached = drawn.node.last
        if reached < last:
            row.append(DepthCell(f"gap-{depth}-{reached}", last - reached, None))
        yield depth, tuple(row)
