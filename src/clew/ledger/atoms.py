"""Atoms: strings that could not be guessed again, such as paths, names, numbers, hashes, errors; and where they occur.

`AtomIndex` records in which messages each was seen, and says how likely it is needed again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, chain
from typing import Any, NamedTuple

from clew.ledger.extract import arguments_of, decoded_text
from clew.messages import Message

_SUFFIXES = (
    "py|pyi|tsx?|jsx?|mjs|json|md|go|rs|java|kt|cc?|hh?|cpp|hpp|cs|rb|php|swift|yaml|yml|toml|txt|sh|cfg|ini|env|lock"
    "|html|css|scss|sql|ipynb|csv|tsv|xml|proto|log|db|vue|svelte|tf|patch|diff|png|jpg|svg|pdf|zip|gz|ps1|conf"
)
# Where two shapes fit, the longer one is named first: a path holds names, an id holds numbers. No shape but a reference
# begins behind a letter or digit, which is said once for all of them: inside a word nothing else is tried then.
_SHAPES = (
    r"(?<![@+-])[~.]{0,2}[\w@+-]*+(?:/[\w.@+-]+)++"  # a path
    rf"|(?<!-)[\w-]++\.(?:{_SUFFIXES})\b"  # a file
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|[A-Za-z]+_\w+"  # snake_case
    r"|[a-z]+[A-Z]\w+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+\b"  # camelCase, PascalCase
    r"|[A-Z]\w*(?:Error|Exception|Warning)\b"
    r"|\d+(?:\.\d+)+\b|(?<!\.)\d{3,}\b"  # versions, decimals, numbers of some length
    r"|[0-9a-f]{7,40}\b"
    r"|[A-Z]{2,}\d[A-Z0-9]+\b|[A-Z]\d{3,4}\b"  # codes
)
ATOM = re.compile(rf"(?<!\w)(?:{_SHAPES})|#\d{{3,}}\b")
ATOM_EDGES = ".,;:)(\"'`-"
SHORTEST_ATOM = 4
# Longer words are base64 or minified code, and not worth keeping.
_LONGEST_WORD = 400
# `1340:` and `1340→` at the start of a line are line numbers of a listing.
_LINE_NUMBER = re.compile(r"\d+[:|→]")
# Begins with a class of chars and looks back from it, since a search for one class is fast.
_MAY_HOLD = re.compile(r"[/_#\d.A-Z](?:(?<=[/_#])|(?<=\d)(?:\d|\.\d|[a-f])|(?<=[a-f]\d)|(?<=[a-z][A-Z])|(?<=\.)[a-z])")

_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")
STOP_WORDS = frozenset(
    "the and for with that this from not are was you all has have but its can will into been were they then than "
    "when what which there their your out use used using one two may any our also just like more some such only".split()
)
_COMMON = STOP_WORDS.union(
    "very over src test tests file files code docs main index home work json type name path read".split()
)
_HEX = "0123456789abcdef"

# Caches of what each word holds; both are pure functions of the word.
_PLAIN: set[str] = set()
_ATOMS: dict[str, tuple[str, ...]] = {}
_MOST_WORDS = 400_000


def atom_spans(text: str) -> list[tuple[int, int, str]]:
    """Each atom of a short text as (start, end, atom)."""
    return [
        (match.start(), match.end(), atom)
        for match in ATOM.finditer(text)
        if len(atom := match.group().strip(ATOM_EDGES)) >= SHORTEST_ATOM
    ]


def candidate_words(text: str) -> set[str]:
    """The words of a text that may hold atoms; those known to hold none are dropped by one set difference."""
    return set(text.split()) - _PLAIN


def words_with_atoms(words: Iterable[str]) -> list[str]:
    """The words in their order, without those that are known to hold no atom."""
    return [word for word in words if word not in _PLAIN]


def atoms_in(text: str) -> set[str]:
    """The atoms of a text of any length."""
    return {atom for atoms in atoms_by_word(candidate_words(text)).values() for atom in atoms}


def atoms_of_word(word: str) -> tuple[str, ...]:
    """The atoms of one word."""
    found = _ATOMS.get(word)
    if found is None and word not in _PLAIN:
        _learn({word})
        found = _ATOMS.get(word)
    return found or ()


def atoms_by_word(words: set[str]) -> dict[str, tuple[str, ...]]:
    """The atoms of each of the words that holds any."""
    new = words.difference(_ATOMS)
    if new:
        _learn(new)
    return {word: _ATOMS[word] for word in words if word in _ATOMS}


def _learn(words: set[str]) -> None:
    """Find the atoms of new words in one pass over all of them, which is several times as fast as one by one."""
    if len(_PLAIN) + len(_ATOMS) > _MOST_WORDS:
        _PLAIN.clear()
        _ATOMS.clear()
    _PLAIN.update(words)
    likely = [word for word in words if SHORTEST_ATOM <= len(word) <= _LONGEST_WORD and _MAY_HOLD.search(word)]
    found: dict[str, dict[str, None]] = {}
    ends = accumulate(len(word) + 1 for word in likely)
    word, end = "", 0
    word_ends = zip(likely, ends, strict=True)
    for start, _, atom in atom_spans("\n".join(likely)):
        while start >= end:
            word, end = next(word_ends)
        found.setdefault(word, {})[atom] = None
    for word, atoms in found.items():
        if not _LINE_NUMBER.fullmatch(word):
            _ATOMS[word] = tuple(atoms)
            _PLAIN.discard(word)


def plain_words_in(text: str) -> set[str]:
    """The plain words of a text or a name, lower case: `decodeChatMessage` and `chat_message` share two."""
    return {word.lower() for word in _PLAIN_WORD.findall(text)} - _COMMON


def words_of_name(name: str) -> Iterator[str]:
    """The same words one by one, common ones too."""
    return map(str.lower, _PLAIN_WORD.findall(name))


def is_path(atom: str) -> bool:
    return "/" in atom or ("." in atom and not atom[0].isdigit())


def is_name(atom: str) -> bool:
    """Whether it is an identifier, and no number, hash or path."""
    return not is_path(atom) and atom[0].isalpha() and bool(atom.strip(_HEX))


# -- where atoms occur -------------------------------------------------------------------------------------------------

_REQUEST_CHARS = 6_000
_FEW_ATOMS = 32
_NEVER = -1


class AtomLine(NamedTuple):
    """A line of a text: where it starts and ends, the atoms that it was found for, and its words."""

    start: int
    end: int
    held: Sequence[str]
    words: Sequence[str]


class AtomStats:
    """In how many messages of users, assistants and tools an atom occurs, and in which last."""

    __slots__ = ("assistant", "atom", "last", "last_assistant", "last_but_one", "tool", "user")

    def __init__(self, atom: str) -> None:
        self.atom = atom
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


def _split_lines(text: str) -> list[tuple[int, int, list[str]]]:
    """Each line of a text: where it starts and ends, and its words."""
    start, lines = 0, []
    for line in text.split("\n"):
        end = start + len(line)
        lines.append((start, end, line.split()))
        start = end + 1
    return lines


def _lines_around(text: str, atoms: Iterable[AtomStats]) -> list[tuple[int, int, list[str]]]:
    """The lines of a text that have one of the atoms in them, be it as a part of another."""
    ends: dict[int, int] = {}
    for stats in atoms:
        at = text.find(stats.atom)
        while at >= 0:
            end = text.find("\n", at)
            if end < 0:
                end = len(text)
            ends[text.rfind("\n", 0, at) + 1] = end
            at = text.find(stats.atom, end)
    return [(start, end, text[start:end].split()) for start, end in sorted(ends.items())]


class AtomIndex:
    """The atoms of the messages so far. Adding a message costs what that message costs, not what came before it."""

    def __init__(self) -> None:
        self.atoms: dict[str, AtomStats] = {}
        self.last = 0
        self._by_word: dict[str, tuple[AtomStats, ...]] = {}
        self._request_words: set[str] = set()
        """Words of what people asked for: an atom made of them is likely part of the task."""

    def add(self, message: Message, number: int, arguments: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Record a message; `arguments` are those of its calls, where they were read before."""
        self.last = number
        role = message["role"]
        text = decoded_text(message, arguments_of(message) if arguments is None else arguments)
        new = []
        known = self._by_word
        unknown = []
        # Words are looked up, not atoms: most words come again and need not be searched for atoms then.
        for word in candidate_words(text):
            found = known.get(word)
            if found is None:
                unknown.append(word)
                continue
            for stats in found:
                if stats.last != number:
                    stats.last_but_one = stats.last
                    stats.last = number
                    new.append(stats)
        for stats in self._learn(unknown) if unknown else ():
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

    def lines_with(self, atoms: Set[AtomStats], text: str, most: int, longest: int) -> Iterator[AtomLine]:
        """The lines of a text that hold one of the atoms, in order: of each atom the first `most` lines.

        Lines with more than `longest` chars do not count. The text may have words that no message has, such as those
        that stood between marks of JSON.
        """
        # A few strings are found faster than a text is split into its words.
        lines = _lines_around(text, atoms) if len(atoms) <= _FEW_ATOMS else _split_lines(text)
        if not lines:
            return
        words = set(chain.from_iterable(of_line for _, _, of_line in lines)) - _PLAIN
        by_word = self._by_word
        known = words & by_word.keys()
        wanted = {
            word: [stats.atom for stats in by_word[word] if stats in atoms]
            for word in known
            if not atoms.isdisjoint(by_word[word])
        }
        for word, others in atoms_by_word(words.difference(known)).items():
            if own := [atom for atom in others if self.atoms.get(atom) in atoms]:
                wanted[word] = own
        wanted_words = wanted.keys()
        times: dict[str, int] = {}
        for start, end, of_line in lines:
            # Most lines hold none, which is found out without a look at each of their words.
            if end - start > longest or wanted_words.isdisjoint(of_line):
                continue
            held = [atom for word in of_line if word in wanted for atom in wanted[word]]
            few = []
            for atom in dict.fromkeys(held) if len(held) > 1 else held:
                times[atom] = often = times.get(atom, 0) + 1
                if often <= most:
                    few.append(atom)
            if few:
                yield AtomLine(start, end, few, of_line)

    def newest(self, most: int) -> list[str]:
        """The `most` atoms that were seen last."""
        if len(self.atoms) <= most:
            return sorted(self.atoms)
        known = self.atoms.values()
        oldest = sorted([stats.last for stats in known], reverse=True)[most - 1]
        newest = [stats for stats in known if stats.last >= oldest]
        newer = sorted(stats.atom for stats in newest if stats.last > oldest)
        # Sorted, since sets have no order: the same history must give the same choice among equally old ones.
        as_old = sorted(stats.atom for stats in newest if stats.last == oldest)
        return [*newer, *as_old[: most - len(newer)]]

    def worth(self, atom: str, first: int, newest_request: int | None = None) -> float:
        """How likely the atom is needed again, from 0 to 1, where the messages from `first` on are summarised.

        The weights were fitted by hand on what agents used again. What the agent wrote or a user named counts most,
        then how late and how often it came, and whether that was since the newest of several requests; what many tool
        results show is seldom needed.
        """
        stats = self.atoms[atom]
        span = max(1, self.last - first)
        seen = stats.user + stats.assistant + stats.tool
        score = -3.0 + 0.9 * math.log1p(seen) - 0.6 * math.log1p(stats.tool)
        if stats.last > first:
            score += 1.2 * ((stats.last - first) / span)
        if stats.assistant:
            score += 0.8 + max(0.0, (stats.last_assistant - first) / span)
        if stats.user:
            score += 0.8
        if is_path(atom):
            score += 0.9 if "." in atom else 0.3
        elif is_name(atom):
            score += 0.8
        if not self._request_words.isdisjoint(words_of_name(atom)):
            score += 1.0
        if newest_request is not None and stats.last >= newest_request:
            score += 0.5
        return 1 / (1 + math.exp(-score))

    def _learn(self, words: Iterable[str]) -> Iterator[AtomStats]:
        """Find the atoms of new words, and give each of them for each of its words."""
        known = self.atoms
        for word, atoms in atoms_by_word(set(words)).items():
            own = []
            for atom in atoms:
                stats = known.get(atom)
                if stats is None:
                    stats = known[atom] = AtomStats(atom)
                own.append(stats)
            self._by_word[word] = tuple(own)
            yield from own
