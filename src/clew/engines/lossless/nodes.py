"""Nodes and the map: ids of nodes, how the nodes of a view are written in one message, and how they are read back."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence

from clew.engines.compaction import Node

HOW_TO_READ = (
    "This is the map of what is folded. Each part covers the messages that its heading names; nothing is lost."
)
HOW_TO_OPEN = "lcm_grep finds anything in them, lcm_expand opens a part or a message by its id, word for word."
_HEADING = re.compile(r"^# (n\d+-\d+[a-z]*) · m(\d+) to m(\d+)(?: · .*)?$", re.MULTILINE)
_LOOKS_LIKE_HEADING = re.compile(r"^# (?=n\d)", re.MULTILINE)
_ID = re.compile(r"n(\d+)-(\d+)[a-z]*")
_UNKNOWN = "unknown"


def node_id(first: int, last: int, taken: Collection[str]) -> str:
    """`n120-164` for the messages m120 to m164; with a letter where there is such a node already."""
    name = f"n{first}-{last - 1}"
    number, free = 0, name
    while free in taken:
        number += 1
        free = name + _letters(number)
    return free


def _letters(number: int) -> str:
    """b, c, ... z, bb, bc, ...: an `a` would look like the first of several."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 25)
        letters = chr(ord("b") + rest) + letters
    return letters


def stretch_of_id(text: str) -> tuple[int, int] | None:
    """The messages that an id of a node names, from and to (not included)."""
    found = _ID.fullmatch(text)
    return (int(found[1]), int(found[2]) + 1) if found else None


# -- the map as text ---------------------------------------------------------------------------------------------------


def map_opening(*, can_be_opened: bool) -> str:
    """How the map is read and opened. Nothing in the map changes between two folds."""
    return f"{HOW_TO_READ} {HOW_TO_OPEN}" if can_be_opened else HOW_TO_READ


def node_heading(node: Node) -> str:
    """The line that opens the part of the map which a node is."""
    parts = f" · {len(node.children)} parts" if node.children else ""
    return f"# {node.id} · m{node.first} to m{node.last - 1} · {node.covered_tokens:,} tokens{parts}"


def without_headings(text: str) -> str:
    """The text with lines that look like a heading of the map indented, since one would open another part."""
    return _LOOKS_LIKE_HEADING.sub(" # ", text)


def ids_in_map(text: str) -> list[str]:
    """The ids of the nodes that a map shows, in order; empty where the text is no map."""
    return [found[1] for found in _HEADING.finditer(text)]


def before_parts(text: str) -> str:
    """What a map says before its first part: what held when it was written."""
    found = _HEADING.search(text)
    _, _, rest = text[: found.start() if found else 0].partition("\n\n")
    return rest.strip()


def nodes_in_map(text: str, sizes: Iterable[int] = ()) -> list[Node]:
    """The nodes that can be read from a map alone: their texts, but neither their children nor who wrote them."""
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    bodies = [text[heading.end() : end].strip() for heading, end in zip(headings, ends, strict=True)]
    counted = [*sizes, *[0] * len(headings)]
    return [
        Node(
            heading[1],
            0,
            int(heading[2]),
            int(heading[3]) + 1,
            body,
            counted[at],
            _covered_tokens(heading[0]),
            written_by=_UNKNOWN,
            # Whoever wrote it did so from messages that are not here.
            is_final=True,
        )
        for at, (heading, body) in enumerate(zip(headings, bodies, strict=True))
    ]


def _covered_tokens(heading: str) -> int:
    found = re.search(r" · ([\d,]+) tokens", heading)
    return int(found[1].replace(",", "")) if found else 0


def is_contiguous(nodes: Sequence[Node]) -> bool:
    """Whether nodes follow each other without a gap."""
    return all(before.last == after.first for before, after in itertools.pairwise(nodes))
