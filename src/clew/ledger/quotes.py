"""Ranks the atoms of a conversation by how likely they are needed again, and selects quotes that keep the most.

A quote is an atom with enough words of its line around it to say what it is. The selection is a greedy cover: each
step takes the span that adds the most worth for its length.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from clew.ledger.extract import (
    STOP_WORDS,
    atom_spans,
    atoms_by_word,
    candidate_words,
    is_name,
    is_path,
    plain_words_in,
)
from clew.ledger.tools import arguments_text
from clew.messages import Message, calls_of, name_of_call, text_of
from clew.redact import redact_text

_REQUEST_CHARS = 6_000
_NEVER = -1


def quotable_texts(message: Message) -> list[str]:
    """The texts of a message that can be quoted: its content, then each call with its arguments as written."""
    calls = [f"{name_of_call(call)} {arguments_text(call)}" for call in calls_of(message)]
    return [text_of(message), *calls]


def text_with_calls(message: Message) -> str:
    """The text of a message and of its tool calls."""
    return "\n".join(quotable_texts(message))


class AtomStats:
    """In how many messages of users, assistants and tools an atom occurs, and in which last."""

    __slots__ = ("assistant", "last", "last_assistant", "last_but_one", "tool", "user")

    def __init__(self) -> None:
        self.user = 0
        self.assistant = 0
        self.tool = 0
        self.last = _NEVER
        self.last_but_one = _NEVER
        self.last_assistant = _NEVER

    @property
    def messages(self) -> int:
        return self.user + self.assistant + self.tool

    @property
    def newest_numbers(self) -> tuple[int, ...]:
        """The one or two newest messages with the atom, the newest first."""
        return (self.last, self.last_but_one) if self.last_but_one != _NEVER else (self.last,)


class AtomIndex:
    """The atoms of the messages so far. Adding a message costs what that message costs, not what came before it."""

    def __init__(self) -> None:
        self.atoms: dict[str, AtomStats] = {}
        self.last = 0
        self._by_word: dict[str, tuple[AtomStats, ...]] = {}
        self._request_words: set[str] = set()
        """Words of what people asked for: an atom made of them is likely part of the task."""

    def add(self, message: Message, number: int) -> None:
        self.last = number
        role = message["role"]
        text = text_with_calls(message)
        new = []
        known = self._by_word
        words = candidate_words(text)
        if unknown := words.difference(known):
            self._learn(unknown)
        for word in words:
            # Words are looked up, not atoms: most words come again and need not be searched for atoms then.
            for stats in known.get(word, ()):
                if stats.last != number:
                    stats.last_but_one = stats.last
                    stats.last = number
                    new.append(stats)
        if role == "tool":
            for stats in new:
                stats.tool += 1
        elif role == "assistant":
            for stats in new:
                stats.assistant += 1
                stats.last_assistant = number
        else:
            self._request_words |= plain_words_in(text[:_REQUEST_CHARS])
            for stats in new:
                stats.user += 1

    def newest(self, most: int) -> list[str]:
        """The `most` atoms that were seen last."""
        if len(self.atoms) <= most:
            return sorted(self.atoms)
        oldest = heapq.nlargest(most, (stats.last for stats in self.atoms.values()))[-1]
        newer = sorted(atom for atom, stats in self.atoms.items() if stats.last > oldest)
        # Sorted, since sets have no order: the same history must give the same choice among equally old ones.
        as_old = sorted(atom for atom, stats in self.atoms.items() if stats.last == oldest)
        return [*newer, *as_old[: most - len(newer)]]

    def worth(self, atom: str, first: int) -> float:
        """How likely the atom is needed again, from 0 to 1, where the messages from `first` on are summarised.

        The weights were fitted by hand on what agents used again. What the agent wrote or a user named counts most,
        then how late and how often it came; what many tool results show is seldom needed.
        """
        stats = self.atoms[atom]
        span = max(1, self.last - first)
        score = -3.0 + 0.9 * math.log1p(stats.messages) - 0.6 * math.log1p(stats.tool)
        score += 1.2 * max(0.0, (stats.last - first) / span)
        if stats.assistant:
            score += 0.8 + max(0.0, (stats.last_assistant - first) / span)
        if stats.user:
            score += 0.8
        if is_path(atom):
            score += 0.9 if "." in atom else 0.3
        elif is_name(atom):
            score += 0.8
        if not self._request_words.isdisjoint(plain_words_in(atom)):
            score += 1.0
        return 1 / (1 + math.exp(-score))

    def _learn(self, words: set[str]) -> None:
        for word, atoms in atoms_by_word(words).items():
            for atom in atoms:
                if atom not in self.atoms:
                    self.atoms[atom] = AtomStats()
            self._by_word[word] = tuple(self.atoms[atom] for atom in atoms)


# -- selecting quotes --------------------------------------------------------------------------------------------------

ReadMessage = Callable[[int], Message]
# For a part of a message, the key of the handoff line that its quotes go to, and the chars of that line without quotes.
LineOf = Callable[[int, int], tuple[Hashable, int]]

_WORDS_AROUND = 4
_REACH_CHARS = 110
_JOIN_GAP_CHARS = 8
_OCCURRENCES = 4
_FEWEST_WORDS = 2
# The share of the room that quotes about the focus topic may take before anything else is quoted.
_FOCUS_SHARE = 0.65
_FOCUS_WORTH = 0.5
_FOCUS_REACH_CHARS = 150
_SEPARATOR_CHARS = 2
_CHARS_PER_ATOM = 12
_ATOMS_WEIGHED = 6_000
# Under 1, so that one long path that is likely needed beats two short names that are less so.
_LENGTH_POWER = 0.5
_WORD = re.compile(r"_*[A-Za-z]\w{2,}|\d{2,}|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")


class QuoteSpan(NamedTuple):
    """A span of chars of one part of one message."""

    number: int
    part: int
    start: int
    end: int


@dataclass(slots=True)
class _QuoteSelection:
    """What was selected so far, and how many chars it takes."""

    room: int
    covered: set[str]
    spent: int = 0
    lines: set[Hashable] = field(default_factory=set)
    spans: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)


class QuoteSelector:
    """Selects quotes of the messages from `first` on that `may_quote` allows; those about `focus` come first."""

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
        self._focus = plain_words_in(focus)
        self._may_quote = may_quote
        self._line_of = line_of
        self._read = read
        self._first = first
        self._texts: dict[int, list[str]] = {}
        self._found: list[QuoteSpan] = []
        self._lines: dict[tuple[int, int], tuple[Hashable, int]] = {}
        self._worth: dict[str, float] = {}
        self._clean: dict[tuple[int, int], str | None] = {}
        self._atoms_at: dict[QuoteSpan, tuple[str, ...]] = {}
        self._best = sorted(index.newest(_ATOMS_WEIGHED), key=lambda atom: (-self.worth_of(atom), atom))

    def select(self, room: int, covered: set[str]) -> tuple[dict[Hashable, list[str]], int]:
        """The quotes that fit into `room` chars, by the key of their line, and how many chars they take.

        `covered` are the atoms that the result has anyway.
        """
        selection = _QuoteSelection(room, set(covered))
        windows = self._windows(room)
        if self._focus:
            selection.room = int(room * _FOCUS_SHARE)
            self._cover([window for window in windows if self._is_about_focus(window)], selection)
            selection.room = room
        self._cover(windows, selection)
        # With room left, atoms are quoted a second time from another line, which says something else about them.
        selection.covered = set()
        self._cover([window for window in windows if not _is_selected(window, selection)], selection)
        return self._quotes(selection), selection.spent

    def _cover(self, windows: list[QuoteSpan], selection: _QuoteSelection) -> None:
        """Take windows, the densest first; what a window adds is computed again when its turn comes."""
        heap = [(-self._density(window, selection), order, window) for order, window in enumerate(windows)]
        heapq.heapify(heap)
        while heap:
            _, order, window = heapq.heappop(heap)
            density = -self._density(window, selection)
            if density == 0:
                continue
            if heap and density > heap[0][0]:
                heapq.heappush(heap, (density, order, window))
            else:
                self._take(window, selection)

    def _windows(self, room: int) -> list[QuoteSpan]:
        """The spans to choose from, found once and kept: later calls have about the same room."""
        if not self._found:
            most = max(50, room // _CHARS_PER_ATOM)
            windows: dict[QuoteSpan, None] = {}
            for atom in self._best[:most]:
                for number in self._index.atoms[atom].newest_numbers:
                    if self._may_quote(number):
                        windows.update(dict.fromkeys(self._windows_in(atom, number)))
            self._found = list(windows)
        return self._found

    def _windows_in(self, atom: str, number: int) -> list[QuoteSpan]:
        """The spans around the atom; a line with hardly anything but the atom gives none."""
        found = []
        for part, text in enumerate(self._texts_of(number)):
            at = text.find(atom)
            for _ in range(_OCCURRENCES):
                if at < 0:
                    break
                # The arguments of a call are JSON on one line.
                line = (0, len(text)) if part else _line_around(text, at)
                window = _window(text, at, at + len(atom), line)
                if window:
                    found.append(QuoteSpan(number, part, *window))
                at = text.find(atom, line[1])
        return found

    def _density(self, window: QuoteSpan, selection: _QuoteSelection) -> float:
        worth = sum(self.worth_of(atom) for atom in self._atoms_of(window) if atom not in selection.covered)
        if not worth:
            return 0.0
        chars = window.end - window.start + self._overhead(window, selection)
        return worth / math.pow(chars, _LENGTH_POWER)

    def _is_about_focus(self, window: QuoteSpan) -> bool:
        text = self._texts_of(window.number)[window.part]
        around = text[max(0, window.start - _FOCUS_REACH_CHARS) : window.end + _FOCUS_REACH_CHARS]
        return not self._focus.isdisjoint(plain_words_in(around))

    def _overhead(self, window: QuoteSpan, selection: _QuoteSelection) -> int:
        line, chars = self._line(window.number, window.part)
        return _SEPARATOR_CHARS if line in selection.lines else _SEPARATOR_CHARS + chars

    def _take(self, window: QuoteSpan, selection: _QuoteSelection) -> None:
        key = (window.number, window.part)
        before = selection.spans.get(key, [])
        after = _joined([*before, (window.start, window.end)])
        added = _length(after) - _length(before) + self._overhead(window, selection) - _SEPARATOR_CHARS
        if selection.spent + added > selection.room:
            return
        selection.spans[key] = after
        selection.spent += added
        selection.lines.add(self._line(*key)[0])
        for start, end in after:
            selection.covered.update(self._atoms_of(QuoteSpan(*key, start, end)))

    def _quotes(self, selection: _QuoteSelection) -> dict[Hashable, list[str]]:
        quotes: dict[Hashable, list[str]] = {}
        for (number, part), spans in sorted(selection.spans.items()):
            text = self._texts_of(number)[part]
            line, _ = self._line(number, part)
            found = (_readable(text, start, end, is_call=part > 0) for start, end in spans)
            quotes.setdefault(line, []).extend(quote for quote in found if self._is_clean(number, part, quote))
        return {line: texts for line, texts in quotes.items() if texts}

    def _is_clean(self, number: int, part: int, quote: str) -> bool:
        """Whether the quote cuts through no secret: part of one would not be recognised as a secret any more."""
        key = (number, part)
        if key not in self._clean:
            text = self._texts_of(number)[part]
            clean = redact_text(text)
            self._clean[key] = None if clean == text else _readable(clean, 0, len(clean), is_call=part > 0)
        clean_text = self._clean[key]
        return clean_text is None or quote in clean_text

    def _line(self, number: int, part: int) -> tuple[Hashable, int]:
        key = (number, part)
        if key not in self._lines:
            self._lines[key] = self._line_of(number, part)
        return self._lines[key]

    def _texts_of(self, number: int) -> list[str]:
        if number not in self._texts:
            self._texts[number] = quotable_texts(self._read(number))
        return self._texts[number]

    def _atoms_of(self, window: QuoteSpan) -> tuple[str, ...]:
        if window not in self._atoms_at:
            text = self._texts_of(window.number)[window.part][window.start : window.end]
            known = self._index.atoms
            self._atoms_at[window] = tuple({atom: None for _, _, atom in atom_spans(text) if atom in known})
        return self._atoms_at[window]

    def worth_of(self, atom: str) -> float:
        """How much it is worth to show the atom; 0 where the index does not know it."""
        worth = self._worth.get(atom)
        if worth is None:
            worth = self._index.worth(atom, self._first) if atom in self._index.atoms else 0.0
            if self._focus and not self._focus.isdisjoint(plain_words_in(atom)):
                worth = max(worth, _FOCUS_WORTH)
            self._worth[atom] = worth
        return worth


def _line_around(text: str, at: int) -> tuple[int, int]:
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, end if end >= 0 else len(text)


def _window(text: str, start: int, end: int, line: tuple[int, int]) -> tuple[int, int] | None:
    """The span around an atom that includes its nearest words within its line; None where there are too few."""
    low, high = max(line[0], start - _REACH_CHARS), min(line[1], end + _REACH_CHARS)
    words = [(found.start(), found.end(), found.group().lower()) for found in _WORD.finditer(text, low, high)]
    left = [word for word in words if word[1] <= start and word[2] not in STOP_WORDS]
    right = [word for word in reversed(words) if word[0] >= end and word[2] not in STOP_WORDS]
    different = len({word for _, _, word in (*left, *right)})
    if different < _FEWEST_WORDS:
        return None
    # Half the words of a short line are enough to know the line; of a long one, the nearest few.
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
    """The span on one line; in the arguments of a call, which are JSON, no escape is cut in two."""
    if is_call:
        start -= _backslashes_before(text, start) % 2
        end -= _backslashes_before(text, end) % 2
    return " ".join(text[start:end].split())


def _backslashes_before(text: str, at: int) -> int:
    return at - len(text[:at].rstrip("\\"))


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1] + _JOIN_GAP_CHARS:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _length(spans: list[tuple[int, int]]) -> int:
    return sum(end - start + _SEPARATOR_CHARS for start, end in spans)


def _is_selected(window: QuoteSpan, selection: _QuoteSelection) -> bool:
    spans = selection.spans.get((window.number, window.part), [])
    return any(start <= window.start and window.end <= end for start, end in spans)
