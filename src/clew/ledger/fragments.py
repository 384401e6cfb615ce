"""Which short stretches of the original text to quote, so that within a given room the most is kept.

A fragment is an atom with enough words of its line around it to say what it is. The choice is a greedy cover: each
step takes the stretch that adds the most worth per char. Knows the index and the texts, nothing of headings.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from clew.ledger.atoms import spans_in, words_in
from clew.ledger.index import AtomIndex, parts_of
from clew.messages import Message
from clew.redact import redact_text

ReadMessage = Callable[[int], Message]
# Which line of the result tells of this part of this message, and what that line costs when nothing is quoted on it.
LineOf = Callable[[int, int], tuple[Hashable, int]]

_WORDS_AROUND = 4
_REACH_CHARS = 110
_JOIN_GAP_CHARS = 8
_OCCURRENCES = 4
_FEWEST_WORDS = 2
# What a topic that a person named may take of the room before anything else is quoted.
_FOCUS_SHARE = 0.65
_FOCUS_WORTH = 0.5
_FOCUS_REACH_CHARS = 150
_SEPARATOR_CHARS = 2
_CHARS_PER_ATOM = 12
_ATOMS_WEIGHED = 6_000
# Under 1, since a long path that will surely be needed beats two short names that may be.
_LENGTH_POWER = 0.5
_WORD = re.compile(r"_*[A-Za-z]\w{2,}|\d{2,}|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")
_LITTLE_WORDS = frozenset(
    "the and for with that this from not are was you all has have but its can will into been were they then than "
    "when what which there their your out use used using one two may any our also just like more some such only".split()
)


class Fragment(NamedTuple):
    """A stretch of one part of one message."""

    number: int
    part: int
    start: int
    end: int


@dataclass(slots=True)
class _Choice:
    """What was chosen so far, and what it costs."""

    room: int
    shown: set[Hashable]
    covered: set[str]
    spent: int = 0
    stretches: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)


class FragmentChooser:
    """Chooses among the messages from `first` on that `may_quote` allows; what speaks of `focus` comes first."""

    def __init__(
        self,
        index: AtomIndex,
        read: ReadMessage,
        first: int,
        may_quote: Callable[[int], bool],
        line_of: LineOf,
        focus: str = "",
    ) -> None:
        self._index = index
        self._focus = words_in(focus)
        self._may_quote = may_quote
        self._line_of = line_of
        self._read = read
        self._first = first
        self._parts: dict[int, list[str]] = {}
        self._found: list[Fragment] = []
        self._lines: dict[tuple[int, int], tuple[Hashable, int]] = {}
        self._worth: dict[str, float] = {}
        self._clean: dict[tuple[int, int], str | None] = {}
        self._atoms_at: dict[Fragment, tuple[str, ...]] = {}
        self._best = sorted(index.newest(_ATOMS_WEIGHED), key=lambda atom: (-self.worth_of(atom), atom))

    def choose(self, room: int, *, covered: set[str], shown: set[Hashable]) -> tuple[dict[Hashable, list[str]], int]:
        """By line of the result, the quotes that fit into `room` chars; and how many chars they take.

        `covered` are atoms that stand in the result anyway; `shown` are lines that are there already.
        """
        choice = _Choice(room, set(shown), set(covered))
        windows = self._windows(room)
        if self._focus:
            choice.room = int(room * _FOCUS_SHARE)
            self._cover([window for window in windows if self._speaks_of_focus(window)], choice)
            choice.room = room
        self._cover(windows, choice)
        # With room left, what was quoted once is quoted from a second place: another line says another thing of it.
        choice.covered = set()
        self._cover([window for window in windows if not _stands_in(window, choice)], choice)
        return self._quotes(choice), choice.spent

    def _cover(self, windows: list[Fragment], choice: _Choice) -> None:
        """Takes windows, the densest first; what a window adds is weighed again whenever it comes up."""
        heap = [(-self._density(window, choice), order, window) for order, window in enumerate(windows)]
        heapq.heapify(heap)
        while heap:
            _, order, window = heapq.heappop(heap)
            density = -self._density(window, choice)
            if density == 0:
                continue
            if heap and density > heap[0][0]:
                heapq.heappush(heap, (density, order, window))
            else:
                self._take(window, choice)

    def _windows(self, room: int) -> list[Fragment]:
        """The stretches worth weighing for so much room; found once, since a second look needs hardly other ones."""
        if not self._found:
            most = max(50, room // _CHARS_PER_ATOM)
            windows: dict[Fragment, None] = {}
            for atom in self._best[:most]:
                for number in self._index.seen[atom].places:
                    if self._may_quote(number):
                        windows.update(dict.fromkeys(self._windows_in(atom, number)))
            self._found = list(windows)
        return self._found

    def _windows_in(self, atom: str, number: int) -> list[Fragment]:
        """The stretches that tell something of the atom; where it stands alone on a line, that line tells nothing."""
        found = []
        for part, text in enumerate(self._parts_of(number)):
            at = text.find(atom)
            for _ in range(_OCCURRENCES):
                if at < 0:
                    break
                # The arguments of a call are one line, as they were written: \n and \t in them are no line ends.
                line = (0, len(text)) if part else _line_around(text, at)
                window = _window(text, at, at + len(atom), line)
                if window:
                    found.append(Fragment(number, part, *window))
                at = text.find(atom, line[1])
        return found

    def _density(self, window: Fragment, choice: _Choice) -> float:
        worth = sum(self.worth_of(atom) for atom in self._atoms_of(window) if atom not in choice.covered)
        if not worth:
            return 0.0
        chars = window.end - window.start + self._overhead(window, choice)
        return worth / math.pow(chars, _LENGTH_POWER)

    def _speaks_of_focus(self, window: Fragment) -> bool:
        text = self._parts_of(window.number)[window.part]
        around = text[max(0, window.start - _FOCUS_REACH_CHARS) : window.end + _FOCUS_REACH_CHARS]
        return not self._focus.isdisjoint(words_in(around))

    def _overhead(self, window: Fragment, choice: _Choice) -> int:
        line, chars = self._line(window.number, window.part)
        return _SEPARATOR_CHARS if line in choice.shown else _SEPARATOR_CHARS + chars

    def _take(self, window: Fragment, choice: _Choice) -> None:
        key = (window.number, window.part)
        before = choice.stretches.get(key, [])
        after = _joined([*before, (window.start, window.end)])
        added = _length(after) - _length(before) + self._overhead(window, choice) - _SEPARATOR_CHARS
        if choice.spent + added > choice.room:
            return
        choice.stretches[key] = after
        choice.spent += added
        choice.shown.add(self._line(*key)[0])
        for start, end in after:
            choice.covered.update(self._atoms_of(Fragment(*key, start, end)))

    def _quotes(self, choice: _Choice) -> dict[Hashable, list[str]]:
        quotes: dict[Hashable, list[str]] = {}
        for (number, part), stretches in sorted(choice.stretches.items()):
            text = self._parts_of(number)[part]
            line, _ = self._line(number, part)
            told = (_readable(text, start, end, is_call=part > 0) for start, end in stretches)
            quotes.setdefault(line, []).extend(quote for quote in told if self._is_clean(number, part, quote))
        return {line: told for line, told in quotes.items() if told}

    def _is_clean(self, number: int, part: int, quote: str) -> bool:
        """Whether no secret is cut through: what is left of one would not be known for what it is."""
        key = (number, part)
        if key not in self._clean:
            text = self._parts_of(number)[part]
            clean = redact_text(text)
            self._clean[key] = None if clean == text else _readable(clean, 0, len(clean), is_call=part > 0)
        clean_text = self._clean[key]
        return clean_text is None or quote in clean_text

    def _line(self, number: int, part: int) -> tuple[Hashable, int]:
        key = (number, part)
        if key not in self._lines:
            self._lines[key] = self._line_of(number, part)
        return self._lines[key]

    def _parts_of(self, number: int) -> list[str]:
        if number not in self._parts:
            self._parts[number] = parts_of(self._read(number))
        return self._parts[number]

    def _atoms_of(self, window: Fragment) -> tuple[str, ...]:
        if window not in self._atoms_at:
            text = self._parts_of(window.number)[window.part][window.start : window.end]
            known = self._index.seen
            self._atoms_at[window] = tuple({atom: None for _, _, atom in spans_in(text) if atom in known})
        return self._atoms_at[window]

    def worth_of(self, atom: str) -> float:
        """What it is worth to show the atom; nothing where the index does not know it."""
        worth = self._worth.get(atom)
        if worth is None:
            worth = self._index.worth(atom, self._first) if atom in self._index.seen else 0.0
            if self._focus and not self._focus.isdisjoint(words_in(atom)):
                worth = max(worth, _FOCUS_WORTH)
            self._worth[atom] = worth
        return worth


def _line_around(text: str, at: int) -> tuple[int, int]:
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, end if end >= 0 else len(text)


def _window(text: str, start: int, end: int, line: tuple[int, int]) -> tuple[int, int] | None:
    """The stretch around an atom that takes in its nearest words, within its line; None where there are too few."""
    low, high = max(line[0], start - _REACH_CHARS), min(line[1], end + _REACH_CHARS)
    words = [(found.start(), found.end(), found.group().lower()) for found in _WORD.finditer(text, low, high)]
    left = [word for word in words if word[1] <= start and word[2] not in _LITTLE_WORDS]
    right = [word for word in reversed(words) if word[0] >= end and word[2] not in _LITTLE_WORDS]
    different = len({word for _, _, word in (*left, *right)})
    if different < _FEWEST_WORDS:
        return None
    # Half the words of a short line tell which line it was; of a long one, the nearest few.
    enough = max(_FEWEST_WORDS, min(_WORDS_AROUND, different // 2))
    near: set[str] = set()
    while len(near) < enough:
        if not right or (left and start - left[-1][0] <= right[-1][1] - end):
            start, _, word = left.pop()
        else:
            _, end, word = right.pop()
        near.add(word)
    return start, end


def _readable(text: str, start: int, end: int, *, is_call: bool) -> str:
    """The stretch on one line; in the arguments of a call, which are JSON, no escape is cut in two."""
    if is_call:
        start -= _backslashes_before(text, start) % 2
        end -= _backslashes_before(text, end) % 2
    return " ".join(text[start:end].split())


def _backslashes_before(text: str, at: int) -> int:
    return at - len(text[:at].rstrip("\\"))


def _joined(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if joined and start <= joined[-1][1] + _JOIN_GAP_CHARS:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _length(stretches: list[tuple[int, int]]) -> int:
    return sum(end - start + _SEPARATOR_CHARS for start, end in stretches)


def _stands_in(window: Fragment, choice: _Choice) -> bool:
    stretches = choice.stretches.get((window.number, window.part), [])
    return any(start <= window.start and window.end <= end for start, end in stretches)
