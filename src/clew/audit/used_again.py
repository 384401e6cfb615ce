"""What an agent used after a compaction that it knew only from before, and which of it the result still shows.

An atom is a path, an identifier, a number, a hash or an error. It was used again where the agent wrote it after the
compaction, it occurs in what was folded, and nothing after the compaction showed it first. It is kept as a fact where
the result shows it beside words of one of its source lines, so that a bare list of names keeps nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from clew.lazy import lazy_pattern
from clew.messages import Message
from clew.report import text_with_calls

_FILE_ENDINGS: Final = "py ts tsx js json md go rs java c h cpp yaml yml toml txt sh cfg ini html css sql ipynb csv tsv"
_PIECE: Final = r"[\w.@+\-]+"
_START: Final = r"(?!(?<=\\)[nrt])"
"""No letter of an escape: code that prints "\nDone" says nothing of an nDone."""
_PATTERNS: Final = tuple(
    lazy_pattern(pattern)
    for pattern in (
        # Paths from a root, paths with a file ending, and file names alone.
        rf"(?:~|\.{{0,2}})?/(?:{_PIECE}/)*{_PIECE}|{_START}(?:[\w@+\-]+/)+{_PIECE}\.\w{{1,5}}"
        rf"|{_START}\b[\w\-]+\.(?:{_FILE_ENDINGS.replace(' ', '|')})\b",
        # snake_case, camelCase, PascalCase, AB12.
        rf"{_START}\b(?:[A-Za-z]+_[A-Za-z0-9_]+|[a-z]+[A-Z][A-Za-z0-9]+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+"
        r"|[A-Z]{2,}[0-9][A-Z0-9]+)\b",
        r"(?<![\w.])\d{3,}(?:\.\d+)?(?![\w])|\b\d+\.\d+(?:\.\d+)*\b|#\d+\b",
        r"\b[0-9a-f]{7,40}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f\-]{22}\b",
        r"\b[A-Z]\w*(?:Error|Exception|Warning)\b(?:: [^\n]{5,120})?|\bE\d{3,4}\b|\bexit code \d+"
        r"|\bFAILED [\w/.:\[\]\-]+",
    )
)
_WORD: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{2,}|\d{2,}|[\u4e00-\u9fff]{2}")
_COMMON: Final = frozenset(
    "the and for with that this from not are was you all has have but its can will into been were they then than when "
    "what which there their your out use used using one two may any our also just like more some such only very "
    "over".split()
)
_AROUND: Final = ".,;:)(\"'`"
_MIN_CHARS: Final = 4
_NEAR_CHARS: Final = 120
_MAX_SOURCE_LINES: Final = 8
"""Of these, the newest, one has to share words with what the result says."""
_MIN_SHARED: Final = 2
_MAX_SHARED: Final = 4


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a message."""

    message: int
    """Index in the list that was given."""
    text: str


@dataclass(frozen=True, slots=True)
class UsedAtom:
    """An atom that was used again."""

    text: str
    source: Place
    """The newest line that it was on before the compaction."""
    use: Place
    """The line where the agent wrote it."""
    contexts: tuple[frozenset[str], ...]
    """Words beside it on the newest lines that it was on; empty if it was alone on them."""

    @property
    def is_fact(self) -> bool:
        return bool(self.contexts)

    def is_in(self, result: str) -> bool:
        return self.text in result

    def is_shown_in(self, result: str) -> bool:
        """Whether the result shows it beside words of one of its source lines."""
        for at in _places(self.text, result):
            near = _words_beside(result, at, self.text)
            if any(len(words & near) >= _wanted(words) for words in self.contexts):
                return True
        return False


def used_again(before: Sequence[Message], after: Iterable[Message]) -> list[UsedAtom]:
    """The atoms that the agent used after a compaction and knew only from before it, in the order of their use."""
    folded = [text_with_calls(message) for message in before]
    whole = "\n".join(folded)
    used: dict[str, Place] = {}
    seen = ""
    for index, message in enumerate(after):
        text = text_with_calls(message)
        if message["role"] == "assistant":
            for atom in atoms_in(text):
                if atom not in used and atom not in seen and atom in whole:
                    used[atom] = Place(index, _line_at(text, text.find(atom)))
        seen += f"\n{text}"
    return [UsedAtom(atom, _source(atom, folded), use, tuple(_contexts(atom, folded))) for atom, use in used.items()]


def atoms_in(text: str) -> list[str]:
    """The atoms of a text, each once."""
    found = (match.group().strip(_AROUND) for pattern in _PATTERNS for match in pattern.finditer(text))
    return list(dict.fromkeys(atom for atom in found if len(atom) >= _MIN_CHARS))


def _source(atom: str, folded: Sequence[str]) -> Place:
    for index in range(len(folded) - 1, -1, -1):
        if (at := folded[index].rfind(atom)) >= 0:
            return Place(index, _line_at(folded[index], at))
    # It spans two messages only where it holds a line end, which no atom does.
    return Place(0, "")


def _line_at(text: str, at: int) -> str:
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    return text[start : end if end >= 0 else len(text)]


def _contexts(atom: str, folded: Sequence[str]) -> Iterator[frozenset[str]]:
    """The words beside an atom on the newest lines that have at least two of them."""
    count = 0
    for text in reversed(folded):
        if atom not in text:
            continue
        for line in text.split("\n"):
            at = line.find(atom)
            if at < 0:
                continue
            near = _words_beside(line, at, atom)
            if len(near) >= _MIN_SHARED:
                yield near
                count += 1
            if count >= _MAX_SOURCE_LINES:
                return


def _words_beside(text: str, at: int, atom: str) -> frozenset[str]:
    around = text[max(0, at - _NEAR_CHARS) : at + len(atom) + _NEAR_CHARS].replace(atom, " ")
    return frozenset(match.group().lower() for match in _WORD.finditer(around)) - _COMMON


def _wanted(words: frozenset[str]) -> int:
    return max(_MIN_SHARED, min(_MAX_SHARED, len(words) // 2))


def _places(atom: str, text: str) -> Iterator[int]:
    return (match.start() for match in re.finditer(f"(?={re.escape(atom)})", text))
