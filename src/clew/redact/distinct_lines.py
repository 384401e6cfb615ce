"""The distinct lines of many texts, as one text in which each stands alone.

In a long history most lines come again. What is to be known of a line is found out once, in the text of all of them,
and a text in which no line matters need not be searched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import accumulate

ALONE = "\n\0\n"
"""Between texts that are searched together: nothing that is searched for goes on behind a null character."""


@dataclass(frozen=True, slots=True)
class DistinctLines:
    """Lines in any order. In their text each has `ALONE` before and behind it."""

    lines: list[str]
    text: str

    @classmethod
    def of(cls, texts: Iterable[str]) -> DistinctLines:
        lines: set[str] = set()
        for text in texts:
            lines.update(text.split("\n"))
        ordered = ["", *lines, ""]
        return cls(ordered, ALONE.join(ordered))

    def at(self, read: str, places: Iterable[int]) -> Iterator[str]:
        """The lines at these places of their text as it is read, in which no line is missing."""
        if not (wanted := list(places)):
            return
        starts = list(accumulate((len(line) + len(ALONE) for line in read.split(ALONE)), initial=0))
        assert len(starts) == len(self.lines) + 1
        for place in wanted:
            yield self.lines[bisect_right(starts, place) - 1]


@dataclass(frozen=True, slots=True)
class SuspectLines:
    """Lines without any of which a text has no secret."""

    alone: Set[str]
    """Those that have a secret, or may have one together with other lines, whatever these are."""
    any: Set[str]
    """These, and those that may go on a key which begins in the line before: most texts with those have no key."""


def literals_in(folded: bytes, literals: Iterable[bytes]) -> set[bytes]:
    """Those of the literals that a text in lower case may have: most words come again, and are searched once."""
    wanted = set(literals)
    # Digits are left out, because the words that differ in them alone are many.
    chars = frozenset(b"".join(wanted)) - frozenset(b"0123456789")
    letters = bytes(byte if byte in chars else ord(" ") for byte in range(256))
    longest = max(map(len, wanted))
    text = folded.translate(letters)
    words: set[bytes] = set()
    for start in range(0, len(text), _PIECE_CHARS):
        words.update(text[max(0, start - longest) : start + _PIECE_CHARS].split())
    written = b" ".join(words)
    return {literal for literal in wanted if all(part in written for part in literal.translate(letters).split())}


# The words of so many stay in the processor's cache.
_PIECE_CHARS = 20_000
