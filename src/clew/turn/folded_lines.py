"""The lines of folded messages, by the names in them: what the history says of a name, where the view only names it.

`FoldedLines` is told of rows and answers with excerpts: lines that hold a name, and the lines beside them, which say
something that the view does not hold. It knows no store, no request and no budget of a model.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from clew.ledger import AtomIndex, atoms_by_word, candidate_words, is_routine, quotable_texts
from clew.messages import arguments_of_call, calls_of, name_of_call
from clew.store import StoredMessage

LineKey: TypeAlias = int
"""What a line says, as a number: the same line of a file that was read again has the same one."""

MOST_CHARS = 600_000
"""So much of the newest folded text is kept; a search finds what is older."""
_NAMES_LOOKED_UP = 64
_LINES_OF_A_NAME = 30
"""The newest ones. A name that stands in more lines says little about the older ones."""
_LINE_CHARS = 240
_ARGUMENT_CHARS, _CALL_CHARS = 60, 100
_SHARE_OF_MESSAGE = 0.4
"""Of the room: no message takes more of it, since one long file would take it all."""
_LEAST_OF_BEST = 0.1
"""An excerpt that promises less than this share of the best one is left out, however much room there is."""
_STILL_NEW = 0.5
"""An excerpt has at least this share of its worth left, when what was chosen before it is known."""
_SAID_WORTH = 1.5
"""What people and the agent said, against what a tool gave back or was given."""
_NEW_WORTH = 0.5
"""By how much more the newest line is worth than an equal one of the oldest message."""
_GAP = 2
"""Lines that are further apart are not beside each other; lines without an atom are not kept, and may lie between."""
_CHARS_PER_TOKEN = 3.3
_LINE_TOKENS, _HEADING_TOKENS = 2, 20
_CHARS_BESIDE = 20
"""Counted for each excerpt: short lines would come first otherwise, whatever they say."""


@dataclass(slots=True)
class FoldedLine:
    """A line that holds an atom. Not frozen, since many are made and that would take three times as long."""

    seq: int
    number: int
    text: str
    atoms: tuple[str, ...]
    is_said: bool
    key: LineKey

    @property
    def tokens(self) -> float:
        """About what it takes when it is shown."""
        return min(len(self.text), _LINE_CHARS) / _CHARS_PER_TOKEN + _LINE_TOKENS


@dataclass(frozen=True, slots=True)
class FoldedExcerpt:
    """Lines of one message, in their order."""

    seq: int
    heading: str
    """Whose they are, and what the tool was called with where they are of a result."""
    lines: tuple[tuple[FoldedLine, str], ...]
    """Each with its text as it is shown: of a long one the part with what is new."""

    def render(self) -> str:
        """The lines below their heading; dots where lines between them are left out."""
        shown = [f"m{self.seq} ({self.heading}):"]
        before: FoldedLine | None = None
        for line, text in self.lines:
            if before is not None and line.number > before.number + 1:
                shown.append("…")
            shown.append(text)
            before = line
        return "\n".join(shown)


@dataclass(frozen=True, slots=True)
class Unknown:
    """What the reader of an excerpt does not have before them."""

    is_news: Callable[[str], bool]
    """Whether an atom stands nowhere in view."""
    is_hidden: Callable[[int], bool]
    """Whether a message, by its number, is not in view as it was."""
    was_shown: Callable[[LineKey], bool]
    """Whether a line was shown before."""


@dataclass(slots=True)
class _Found:
    """A line that holds a name, with the lines beside it."""

    lines: list[int]
    factor: float
    """What each new atom of it is worth more or less, by its names, its age and who said it."""
    promise: float = 0.0


@dataclass(slots=True)
class _Choice:
    """What was chosen so far."""

    room: float
    left: float
    covered: set[str] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    keys: set[LineKey] = field(default_factory=set)
    by_message: Counter[int] = field(default_factory=Counter)


class FoldedLines:
    """The lines of the rows it was told of. Adding a row costs what that row costs."""

    def __init__(self, *, is_whole: bool = False) -> None:
        """`is_whole`: all rows are told of, from the first."""
        self.is_whole = is_whole
        self.chars = 0
        self._headings: dict[int, str] = {}
        self._calls: dict[str, str] = {}
        self._index = AtomIndex()
        self._lines: list[FoldedLine] = []
        self._by_name: dict[str, list[int]] = {}
        self._held_by: Counter[str] = Counter()
        """In how many rows a name stands."""
        self._first = self._last = 0

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def add(self, row: StoredMessage) -> None:
        """Take in the next row; rows come in the order of their numbers."""
        message = row.message
        self._first, self._last = (self._first if self._headings else row.seq), row.seq
        self._index.add(message, row.seq)
        self._headings[row.seq] = self._heading(row)
        for call in calls_of(message):
            self._calls[call["id"]] = _call_line(name_of_call(call), arguments_of_call(call))
        names: set[str] = set()
        by_name = self._by_name
        number = -2 * _GAP
        for part, text in enumerate(quotable_texts(message)):
            self.chars += len(text)
            first = number + 2 * _GAP  # so that no line of one text is beside one of the next
            is_said = part == 0 and message["role"] != "tool"
            for after, line, atoms in self._lines_in(text):
                number = first + after
                at = len(self._lines)
                self._lines.append(FoldedLine(row.seq, number, line, atoms, is_said, _key_of(line)))
                for atom in atoms:
                    for name in forms_of(atom) if "/" in atom else (atom,):
                        if (lines := by_name.get(name)) is None:
                            lines = by_name[name] = []
                        if not lines or lines[-1] != at:
                            lines.append(at)
                        names.add(name)
        self._held_by.update(names)

    def _lines_in(self, text: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Each line that holds atoms, with how many lines stand before it."""
        known = self._index.atoms
        by_word = atoms_by_word(candidate_words(text))
        words = by_word.keys()
        for number, line in enumerate(text.split("\n")):
            if not words.isdisjoint(of_line := line.split()):
                held = dict.fromkeys(atom for word in of_line for atom in by_word.get(word, ()) if atom in known)
                if held:
                    yield number, line.rstrip(), tuple(held)

    # -- excerpts ------------------------------------------------------------------------------------------------------

    def excerpts(
        self,
        named: Mapping[str, float],
        unknown: Unknown,
        room: float,
    ) -> list[FoldedExcerpt]:
        """What says most about the names, within about `room` tokens, in the order of the messages.

        `named` has for each name how much it counts. Worth is what is new: how likely each atom that is unknown is
        needed again, times how rare the names beside it are, by what it takes to show.
        """
        found = self._found(self._weights(named), unknown)
        best = found[0].promise if found else 0.0
        choice = _Choice(room, room)
        for one in found:
            if one.promise < _LEAST_OF_BEST * best or choice.left <= 0:
                break
            self._choose(one, unknown, choice)
        by_message: dict[int, list[int]] = {}
        for at in sorted(choice.taken):
            by_message.setdefault(self._lines[at].seq, []).append(at)
        return [self._excerpt(seq, lines, unknown) for seq, lines in by_message.items()]

    def _weights(self, named: Mapping[str, float]) -> dict[str, float]:
        """The names that stand anywhere here, each by how rare it is; the heaviest ones."""
        rows = len(self._headings)
        weights = {
            name: factor * math.log(1 + rows / held) for name, factor in named.items() if (held := self._held_by[name])
        }
        return dict(sorted(weights.items(), key=lambda it: (-it[1], it[0]))[:_NAMES_LOOKED_UP])

    def _found(self, weights: Mapping[str, float], unknown: Unknown) -> list[_Found]:
        relevance: dict[int, float] = {}
        for name, weight in weights.items():
            hidden = (at for at in reversed(self._by_name.get(name, ())) if unknown.is_hidden(self._lines[at].seq))
            for at in islice(hidden, _LINES_OF_A_NAME):
                relevance[at] = relevance.get(at, 0.0) + weight
        span = max(1, self._last - self._first)
        found = []
        for at, weight in relevance.items():
            line = self._lines[at]
            if unknown.was_shown(line.key) or is_routine(line.text):
                continue
            around = [near for near in self._beside(at) if near == at or self._says_more(near, unknown)]
            factor = weight * (1 + _NEW_WORTH * (line.seq - self._first) / span) * (_SAID_WORTH if line.is_said else 1)
            one = _Found(around, factor)
            one.promise = self._promise(one, around, unknown, ())
            if one.promise:
                found.append(one)
        return sorted(found, key=lambda it: (-it.promise, it.lines))

    def _beside(self, at: int) -> list[int]:
        line = self._lines[at]
        return [
            near
            for near in (at - 1, at, at + 1)
            if 0 <= near < len(self._lines)
            and self._lines[near].seq == line.seq
            and abs(self._lines[near].number - line.number) <= _GAP
        ]

    def _says_more(self, at: int, unknown: Unknown) -> bool:
        line = self._lines[at]
        is_new = not unknown.was_shown(line.key) and any(map(unknown.is_news, line.atoms))
        return is_new and not is_routine(line.text)

    def _promise(self, one: _Found, lines: list[int], unknown: Unknown, covered: Collection[str]) -> float:
        """What it says that is new, by what it takes."""
        new = {atom for at in lines for atom in self._lines[at].atoms if unknown.is_news(atom) and atom not in covered}
        worth = sum(self._index.worth(atom, self._first) for atom in sorted(new))
        taken = sum(self._lines[at].tokens for at in lines) + _CHARS_BESIDE / _CHARS_PER_TOKEN
        return one.factor * worth / taken

    def _choose(self, one: _Found, unknown: Unknown, choice: _Choice) -> None:
        lines = [at for at in one.lines if self._lines[at].key not in choice.keys]
        if not lines or self._promise(one, lines, unknown, choice.covered) < _STILL_NEW * one.promise:
            return
        seq = self._lines[lines[0]].seq
        tokens = sum(self._lines[at].tokens for at in lines)
        needed = tokens + (0 if choice.by_message[seq] else _HEADING_TOKENS)
        if needed > choice.left or choice.by_message[seq] + tokens > _SHARE_OF_MESSAGE * choice.room:
            return
        choice.left -= needed
        choice.by_message[seq] += math.ceil(tokens)
        choice.taken.update(lines)
        choice.keys.update(self._lines[at].key for at in lines)
        choice.covered.update(atom for at in lines for atom in self._lines[at].atoms)

    def _excerpt(self, seq: int, lines: list[int], unknown: Unknown) -> FoldedExcerpt:
        chosen = [self._lines[at] for at in lines]
        return FoldedExcerpt(
            seq, self._headings[seq], tuple((line, _clipped(line, unknown.is_news)) for line in chosen)
        )

    def _heading(self, row: StoredMessage) -> str:
        call = self._calls.get(row.message.get("tool_call_id") or "", row.tool or "")
        return f"{row.message['role']}, {call}" if call else row.message["role"]


def forms_of(name: str) -> tuple[str, ...]:
    """A name, and the file that a path ends with: `cli.ts` may be all that is said of one."""
    file = name.rstrip("/").rpartition("/")[2]
    return (name, file) if file and file != name else (name,)


def _key_of(line: str) -> LineKey:
    return zlib.crc32(line.strip().encode("utf-8", "surrogatepass"))


def _call_line(name: str, arguments: Mapping[str, object]) -> str:
    """A call in a few words: a passage of a file does not say which file it is of. A path is told by its end."""
    given = [" ".join(value.split()) for value in arguments.values() if isinstance(value, str)]
    ends = (value if len(value) <= _ARGUMENT_CHARS else f"…{value[-_ARGUMENT_CHARS:]}" for value in given)
    return " ".join((name, *ends))[:_CALL_CHARS].strip()


def _clipped(line: FoldedLine, is_news: Callable[[str], bool]) -> str:
    if len(line.text) <= _LINE_CHARS:
        return line.text
    first = min((line.text.find(atom) for atom in line.atoms if is_news(atom) and atom in line.text), default=0)
    start = max(0, min(first - _LINE_CHARS // 3, len(line.text) - _LINE_CHARS))
    end = start + _LINE_CHARS
    return f"{'… ' if start else ''}{line.text[start:end]}{' …' if end < len(line.text) else ''}"
