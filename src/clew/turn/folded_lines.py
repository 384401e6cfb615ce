"""The lines of folded messages that say something about a name, where the view does not.

`FoldedLines` reads rows once and chooses excerpts: a line with a name, and the lines beside it. The lines are the
candidates of a handoff, and the selection is the same. Stores, requests and budgets of models are not known here.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TypeAlias

from clew.facts import CUT, Record, Terms
from clew.facts.text import TermKind
from clew.handoff import Candidate, Choice, Frame, Worth, read_material, select
from clew.redact import redact_messages
from clew.store import StoredMessage

LineKey: TypeAlias = int
"""A checksum of a line: a line of a file that was read again has the same one."""

_LINES_PER_NAME = 30
"""The newest ones. A name that is in more lines says little about the older ones."""
_LEAST_OF_BEST = 0.1
"""An excerpt that adds less per char than this share of the best one is left out, however much room there is."""
_EXCERPT_CHARS = 20
"""Counted for each excerpt: otherwise short lines would come first, whatever they say."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What the reader of an excerpt does not see."""

    is_news: Callable[[str], bool]
    """Whether a name is nowhere in view."""
    is_hidden: Callable[[int], bool]
    """Whether a message, by its number, is not in view."""
    was_shown: Callable[[LineKey], bool]
    """Whether a line was shown before."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line with a name and the lines beside it, as indexes of candidates."""

    lines: tuple[int, ...]
    chars: int


class FoldedLines:
    """The lines of some rows, by the names in them."""

    def __init__(self, rows: Sequence[StoredMessage] = (), *, is_whole: bool = False) -> None:
        """`is_whole`: these are all rows, from the first."""
        self.is_whole = is_whole
        numbers = [row.seq for row in rows]
        # Before they are read: a piece of a secret would not be recognised alone.
        messages = dict(zip(numbers, redact_messages([row.message for row in rows]), strict=True))
        self._roles = {number: message["role"] for number, message in messages.items()}
        record = Record.of([*messages.values()], numbers)
        self._material = read_material(record, messages.__getitem__, numbers, lambda _: True, with_statements=True)
        self._lines = sorted(self._material.candidates, key=_place)
        self._worth = Worth(self._material, record.next_number)
        self._names = [{term for term in line.terms if is_name(term, self._material.terms)} for line in self._lines]
        """Of each line. Plain words alone make no line worth recalling."""
        self._by_name: dict[str, list[int]] = {}
        for at, names in enumerate(self._names):
            for name in names:
                self._by_name.setdefault(name, []).append(at)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def select(self, named: Mapping[str, float], unknown: Unknown) -> Iterator[Excerpt]:
        """Excerpts that say something new about the names, the best first.

        `named` has a weight for each name. The worth of an excerpt is that of its new names, as in a handoff, times the
        weights of the given names and how rare they are.
        """
        found: dict[LineKey, tuple[tuple[int, ...], float]] = {}
        for at, relevance in self._relevant(named, unknown):
            near = [other for other in (at - 1, at, at + 1) if other == at or self._is_beside(other, at, unknown)]
            found[line_key(self._lines[at].text)] = tuple(near), relevance
        best = max((relevance for _, relevance in found.values()), default=1.0)
        choices: list[Choice] = []
        frames: dict[Hashable, Frame] = {}
        excerpts: list[Excerpt] = []
        for lines, relevance in found.values():
            line = self._lines[lines[0]]
            group = (line.numbers, line.group)
            terms = {term for at in lines for term in self._names[at] if unknown.is_news(term)}
            excerpts.append(Excerpt(lines, sum(len(self._lines[at].text) + 1 for at in lines) + len(CUT)))
            choices.append(Choice(terms, excerpts[-1].chars + _EXCERPT_CHARS, relevance / best, group=group))
            frames[group] = Frame(frozenset(), len(self._heading(line)))
        return (excerpts[at] for at in select(choices, self._worth.of_term, frames, least=_LEAST_OF_BEST))

    def _relevant(self, named: Mapping[str, float], unknown: Unknown) -> list[tuple[int, float]]:
        """The hidden lines that hold a name, each with the weights of its names, in their order."""
        relevance: dict[int, float] = {}
        for name in sorted(self._by_name.keys() & named.keys()):
            weight = named[name] * math.log(1 + len(self._roles) / self._material.uses[name].messages)
            lines = (at for at in reversed(self._by_name[name]) if self._may_show(at, unknown))
            for at in islice(lines, _LINES_PER_NAME):
                relevance[at] = relevance.get(at, 0.0) + weight
        return sorted(relevance.items())

    def _may_show(self, at: int, unknown: Unknown) -> bool:
        line = self._lines[at]
        return unknown.is_hidden(line.numbers[0]) and not unknown.was_shown(line_key(line.text))

    def _is_beside(self, other: int, at: int, unknown: Unknown) -> bool:
        """Whether a line follows another one or is followed by it, and says something new."""
        if not 0 <= other < len(self._lines):
            return False
        line, near = self._lines[at], self._lines[other]
        return (
            _place(near)[:-1] == _place(line)[:-1]
            and abs(near.at - line.at) == 1
            and self._may_show(other, unknown)
            and any(map(unknown.is_news, self._names[other]))
        )

    # -- showing -------------------------------------------------------------------------------------------------------

    def messages_of(self, excerpts: Sequence[Excerpt]) -> list[int]:
        """The numbers of the messages that the excerpts are from."""
        return sorted({self._lines[at].numbers[0] for excerpt in excerpts for at in excerpt.lines})

    def keys_of(self, excerpts: Sequence[Excerpt]) -> list[LineKey]:
        return [line_key(self._lines[at].text) for excerpt in excerpts for at in excerpt.lines]

    def render(self, excerpts: Sequence[Excerpt]) -> list[str]:
        """The lines of each message and call below a heading, with a mark where lines between them are left out."""
        chosen = [self._lines[at] for at in sorted({at for excerpt in excerpts for at in excerpt.lines})]
        shown = []
        for _, lines in groupby(chosen, key=lambda line: (line.numbers, line.group)):
            text: list[str] = []
            before = -1
            for line in lines:
                text.append(self._heading(line) if not text else CUT if line.at > before + 1 else "")
                text.append(line.text)
                before = line.at
            shown.append("\n".join(filter(None, text)))
        return shown

    def _heading(self, line: Candidate) -> str:
        frame = self._material.frames.get(line.group) if line.group else None
        who = self._roles[line.numbers[0]]
        return f"m{line.numbers[0]} ({who}, {frame}):" if frame else f"m{line.numbers[0]} ({who}):"


def is_name(term: str, terms: Terms) -> bool:
    """Whether a term is a path, an identifier, a number or a hash, and no plain word."""
    return terms.kinds[term] is TermKind.EXACT or any(map(str.isdigit, term))


def line_key(line: str) -> LineKey:
    return zlib.crc32(line.encode("utf-8", "surrogatepass"))


def _place(line: Candidate) -> tuple[int, int, int]:
    assert line.group is not None  # every piece of a message has one
    return line.numbers[0], line.group.call, line.at
