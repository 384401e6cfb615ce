"""Atoms: the exact strings in a text that nobody could guess again: paths, names, numbers, hashes, errors.

Knows characters only. A word is looked at once in a process's life: texts of an agent repeat their words, so most of
the cost of reading a message is splitting it.
"""

from __future__ import annotations

import re
from itertools import accumulate

_SUFFIXES = (
    "py|pyi|tsx?|jsx?|mjs|json|md|go|rs|java|kt|cc?|hh?|cpp|hpp|cs|rb|php|swift|yaml|yml|toml|txt|sh|cfg|ini|env|lock"
    "|html|css|scss|sql|ipynb|csv|tsv|xml|proto|log|db|vue|svelte|tf|patch|diff|png|jpg|svg|pdf|zip|gz|ps1|conf"
)
# Where two shapes fit, the longer one is named first: a path holds names, an id holds numbers.
_PATH = r"(?<![\w@+-])[~.]{0,2}[\w@+-]*(?:/[\w.@+-]+)+"
_OTHERS = (
    rf"(?<![\w-])[\w-]+\.(?:{_SUFFIXES})\b"  # a file
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b[A-Za-z]+_\w+"  # snake_case
    r"|\b[a-z]+[A-Z]\w+|\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+\b"  # camelCase, PascalCase
    r"|\b[A-Z]\w*(?:Error|Exception|Warning)\b"
    r"|\b\d+(?:\.\d+)+\b|(?<![\w.])\d{3,}\b"  # versions, decimals, numbers of some length
    r"|\b[0-9a-f]{7,40}\b"
    r"|\b[A-Z]{2,}\d[A-Z0-9]+\b|\b[A-Z]\d{3,4}\b|#\d{3,}\b"  # codes and references
)
ATOM = re.compile(f"{_PATH}|{_OTHERS}")
_EDGES = ".,;:)(\"'`-"
_SHORTEST = 4
# Nobody needs a word longer than this back; base64 and minified code come as such words.
_LONGEST_WORD = 400
# `1340:` and `1340→` at the start of a line are where a listing is, not what it says.
_LINE_NUMBER = re.compile(r"\d+[:|→]")
_MAY_HOLD = re.compile(r"[/_#]|\d\d|\d\.\d|[a-z][A-Z]|\.[a-z]|[a-f]\d|\d[a-f]")

_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")
_COMMON = frozenset(
    "the and for with that this from not are was you all has have but its can will into been were they then than when "
    "what which there their your out use used using one two may any our also just like more some such only very over "
    "src test tests file files code docs main index home work json type name path read".split()
)

# What is known of the words seen so far: pure functions of the word, kept to save time and for nothing else.
_PLAIN: set[str] = set()
_ATOMS: dict[str, tuple[str, ...]] = {}
_MOST_WORDS = 400_000


def spans_in(text: str) -> list[tuple[int, int, str]]:
    """Each atom of a short text with where it stands: (start, end, atom)."""
    return [
        (match.start(), match.end(), atom)
        for match in ATOM.finditer(text)
        if len(atom := match.group().strip(_EDGES)) >= _SHORTEST
    ]


def telling_words(text: str) -> set[str]:
    """The words of a text that may hold atoms.

    Most words hold none, and which those are is known after a few messages: one set difference drops them all.
    """
    return set(text.split()) - _PLAIN


def atoms_in(text: str) -> set[str]:
    """The atoms of a text of any length."""
    return {atom for atoms in atoms_by_word(telling_words(text)).values() for atom in atoms}


def atoms_by_word(words: set[str]) -> dict[str, tuple[str, ...]]:
    """For each of the words that hold atoms, which."""
    new = words.difference(_ATOMS)
    if new:
        _learn(new)
    return {word: _ATOMS[word] for word in words if word in _ATOMS}


def _learn(words: set[str]) -> None:
    """Find the atoms of new words, all in one pass: a search for each of them would cost several times as much."""
    if len(_PLAIN) + len(_ATOMS) > _MOST_WORDS:
        _PLAIN.clear()
        _ATOMS.clear()
    _PLAIN.update(words)
    likely = [word for word in words if _SHORTEST <= len(word) <= _LONGEST_WORD and _MAY_HOLD.search(word)]
    found: dict[str, dict[str, None]] = {}
    ends = accumulate(len(word) + 1 for word in likely)
    word, end = "", 0
    places = zip(likely, ends, strict=True)
    for start, _, atom in spans_in("\n".join(likely)):
        while start >= end:
            word, end = next(places)
        found.setdefault(word, {})[atom] = None
    for word, atoms in found.items():
        if not _LINE_NUMBER.fullmatch(word):
            _ATOMS[word] = tuple(atoms)
            _PLAIN.discard(word)


def words_in(text: str) -> set[str]:
    """The plain words of a text or a name, lower case: `decodeChatMessage` and `chat_message` share two."""
    return {word.lower() for word in _PLAIN_WORD.findall(text)} - _COMMON


def is_path(atom: str) -> bool:
    return "/" in atom or ("." in atom and not atom[0].isdigit())


def is_name(atom: str) -> bool:
    """Whether it is an identifier, and no number, hash or path."""
    return not is_path(atom) and atom[0].isalpha() and not set(atom) <= _HEX


_HEX = frozenset("0123456789abcdef")
