"""Finds the secrets of the catalog: those that announce themselves by their first characters.

Three steps, each linear. Every character is mapped to "inside a secret", "between its parts" or neither, and long
runs are found by jumping from one to the next: ordinary text has few. What is around those runs is put together
into one short text. One expression, built from the catalog as a tree of literals, searches that. Does not know
names, headers or URLs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from clew.redact.catalog import CATALOG
from clew.redact.findings import Finding
from clew.redact.shape import Kind

RUN = 20
"""Every secret of the catalog has a run of this many letters, digits, `_`, `-`, `~` or `+`."""

# How far before its first long run a secret may start: a literal such as `SG.`, or base64 with many `+` and `/`.
_LOOK_BACK = 128

_INSIDE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-~+"
_BETWEEN = b".%:$/="
_CLASSES = bytes(ord("a" if byte in _INSIDE else "b" if byte in _BETWEEN else " ") for byte in range(256))
_LONG_RUN = b"a" * RUN


def prefixed_secrets(text: bytes) -> list[Finding]:
    """The secrets of the catalog in a text of one byte per character."""
    candidates = _candidates(text)
    if not candidates:
        return []
    starts = [1]
    for start, end in candidates:
        starts.append(starts[-1] + end - start + 1)
    searched = _without_escapes(b" " + b" ".join([text[start:end] for start, end in candidates]))
    found = []
    for begin, end, kind in _matches(searched):
        if kind.check(searched[begin:end]):
            piece = bisect_right(starts, begin) - 1
            shift = candidates[piece][0] - starts[piece]
            found.append(Finding(begin + shift, end + shift, kind.name))
    return found


def _matches(searched: bytes) -> Iterator[tuple[int, int, Kind]]:
    finders = _finders()
    for match in finders.by_start.finditer(searched):
        # The first character is the one before the secret.
        yield match.start() + 1, match.end(), finders.kinds[match.lastindex or 0]
    for pattern, kind in finders.by_middle:
        for match in pattern.finditer(searched):
            yield match.start() - (kind.reach.low if kind.reach else 0), match.end(), kind


def _candidates(text: bytes) -> list[tuple[int, int]]:
    """Stretches that hold a long run, widened to what a secret may also contain; they never overlap.

    Each starts one character early, to show whether a word begins there.
    """
    classes = text.translate(_CLASSES)
    found = []
    end = 0
    while (run := classes.find(_LONG_RUN, end)) >= 0:
        earliest = max(end, run - _LOOK_BACK)
        start = max(classes.rfind(b" ", earliest, run), earliest)
        end = classes.find(b" ", run + RUN)
        if end < 0:
            end = len(text)
        found.append((start, end))
    return found


# Each begins with a literal, which makes it as fast as a search for that literal.
_ESCAPES = (
    re.compile(rb"\\[nrt]"),
    re.compile(rb"\\u00[0-9A-Fa-f]{2}"),
    re.compile(rb"%(?:0[9AaDd]|2[0267Cc]|3[A-Fa-f])"),
    re.compile(rb"\[[0-9]{1,3}m"),
    re.compile(rb";[0-9]{1,3}m"),
)


def _without_escapes(text: bytes) -> bytes:
    """The text with spaces for escaped characters and colours: after those a word begins, as in `\\nghp_...`."""
    for escape in _ESCAPES:
        text = escape.sub(_blank, text)
    return text


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


@dataclass(frozen=True, slots=True)
class _Finders:
    """The catalog as expressions: one for all kinds known by their start, one each for those known by their middle."""

    by_start: re.Pattern[bytes]
    kinds: dict[int, Kind]
    by_middle: tuple[tuple[re.Pattern[bytes], Kind], ...]


@cache
def _finders() -> _Finders:
    """Built at the first candidate, not at import: compiling takes longer than importing the package."""
    kinds: dict[int, Kind] = {}
    tree = _tree((start, kind) for kind in CATALOG if not kind.reach for start in kind.starts)
    # A consumed character is tested faster than one looked back at.
    by_start = re.compile(f"[^A-Za-z0-9]{_expression(tree, kinds)}".encode("ascii"))
    by_middle = ((start, kind) for kind in CATALOG if kind.reach for start in kind.starts)
    return _Finders(by_start, kinds, tuple((_around(start, kind), kind) for start, kind in by_middle))


def _around(start: str, kind: Kind) -> re.Pattern[bytes]:
    assert kind.reach is not None
    literal, reach = re.escape(start), f"[{kind.reach.chars}]{{{kind.reach.low}}}"
    before = f"(?<=(?<![A-Za-z0-9{kind.reach.chars}]){reach}{literal})"
    return re.compile(f"{literal}{before}{kind.pattern_after('')}".encode("ascii"))


@dataclass(slots=True)
class _Node:
    """A place in the tree of literals: what has been read so far, what may follow, which kinds start here."""

    literal: str = ""
    children: dict[str, _Node] = field(default_factory=dict)
    kinds: list[Kind] = field(default_factory=list)


def _tree(starts: Iterable[tuple[str, Kind]]) -> _Node:
    root = _Node()
    for start, kind in starts:
        node = root
        for char in start:
            node = node.children.setdefault(char, _Node(node.literal + char))
        node.kinds.append(kind)
    return root


def _expression(node: _Node, kinds: dict[int, Kind]) -> str:
    """The alternatives below a node: longer literals first, so that `sk-ant-` is tried before `sk-`."""
    branches = [re.escape(char) + _expression(child, kinds) for char, child in node.children.items()]
    for kind in node.kinds:
        kinds[len(kinds) + 1] = kind
        branches.append(f"({kind.pattern_after(node.literal)})")
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
