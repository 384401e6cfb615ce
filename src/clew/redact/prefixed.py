"""Finds the secrets of the catalog: those that announce themselves by their first characters.

Two passes, both linear. The first maps every character to "can be inside a secret" or not and jumps from one long
run to the next; ordinary text has few. The second runs one expression, built from the catalog as a tree of
literals, over those runs only. Does not know names, headers or URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from clew.redact.catalog import CATALOG
from clew.redact.findings import Finding
from clew.redact.shape import Kind, starts_freely

RUN = 20
"""Every secret of the catalog has a run of this many letters, digits, `_`, `-` or `~`."""

# A literal such as `SG.` or 14 characters and `.atlasv1.` stands before the run.
_LOOK_BACK = 32

_INSIDE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-~"
_CLASSES = bytes(ord("a") if byte in _INSIDE else ord(" ") for byte in range(256))
_LONG_RUN = b"a" * RUN
_REST_OF_CANDIDATE = re.compile(rb"[A-Za-z0-9_~.%:$+/=-]*+").match


def prefixed_secrets(text: bytes) -> Iterator[Finding]:
    """The secrets of the catalog in a text of one byte per character, in order."""
    for start, end in _candidates(text):
        finder, kinds = _finder()
        for match in finder.finditer(text, start, end):
            kind = kinds[match.lastindex or 0]
            begin = match.start() - (kind.reach.low if kind.reach else 0)
            if (kind.behind or starts_freely(text, begin)) and kind.check(text[begin : match.end()]):
                yield Finding(begin, match.end(), kind.name)


def _candidates(text: bytes) -> Iterator[tuple[int, int]]:
    """Stretches that hold a long run, widened to what a secret may also contain; they never overlap."""
    classes = text.translate(_CLASSES)
    done = 0
    while (run := classes.find(_LONG_RUN, done)) >= 0:
        run_end = classes.find(b" ", run + RUN)
        rest = _REST_OF_CANDIDATE(text, run_end if run_end >= 0 else len(text))
        end = rest.end() if rest else run_end
        yield max(done, run - _LOOK_BACK), end
        done = end


@cache
def _finder() -> tuple[re.Pattern[bytes], dict[int, Kind]]:
    """The expression for the whole catalog, and which of its groups stands for which kind.

    Built at the first candidate, not at import: compiling it takes longer than importing the package.
    """
    kinds: dict[int, Kind] = {}
    tree = _tree((start, kind) for kind in CATALOG for start in kind.starts)
    return re.compile(_expression(tree, "", kinds).encode("ascii")), kinds


class _Node:
    __slots__ = ("children", "kinds")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.kinds: list[Kind] = []


def _tree(starts: Iterable[tuple[str, Kind]]) -> _Node:
    root = _Node()
    for start, kind in starts:
        node = root
        for char in start:
            node = node.children.setdefault(char, _Node())
        node.kinds.append(kind)
    return root


def _expression(node: _Node, literal: str, kinds: dict[int, Kind]) -> str:
    """The alternatives below a node: longer literals first, so that `sk-ant-` is tried before `sk-`."""
    branches = [re.escape(char) + _expression(child, literal + char, kinds) for char, child in node.children.items()]
    for kind in node.kinds:
        kinds[len(kinds) + 1] = kind
        branches.append(f"({kind.pattern_after(literal)})")
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
