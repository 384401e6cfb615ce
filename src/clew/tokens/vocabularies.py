"""Exact counts with real vocabularies, all of them inside the installed wheel: nothing is ever downloaded.

Knows how to count a text, not which model uses which vocabulary. A vocabulary takes about 0.1 s to load, so that
happens at the first count and never at import.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from splintr import AnyTokenizer

# A list of token numbers takes forty bytes a token: long texts are counted in pieces, and memory stays small.
_PIECE_CHARS = 1_000_000
# Between a line end and a letter every vocabulary here starts a new token, so a cut there changes no count.
_SAFE_CUT = re.compile(r"\n(?=[A-Za-z])")
# In these two every special marker starts so; a text without it can be counted the quick way, which reads markers.
_MARKERS = {"o200k_base": "<|", "cl100k_base": "<|"}


class Vocabulary:
    """One vocabulary; markers that a text spells out are counted as the plain text they are."""

    __slots__ = ("_marker", "_tokenizer", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._marker = _MARKERS.get(name)
        self._tokenizer: AnyTokenizer | None = None

    def count(self, text: str) -> int:
        if len(text) <= _PIECE_CHARS:
            return self._count(text)
        return sum(self._count(piece) for piece in _pieces(text))

    def _count(self, text: str) -> int:
        tokenizer = self._tokenizer or self._load()
        try:
            return self._encoded_length(tokenizer, text)
        except UnicodeEncodeError:
            return self._encoded_length(tokenizer, without_lone_surrogates(text))

    def _encoded_length(self, tokenizer: AnyTokenizer, text: str) -> int:
        if self._marker is not None and self._marker not in text:
            return len(tokenizer.encode_flat(text)) // 4
        return len(tokenizer.encode_ordinary(text))

    def _load(self) -> AnyTokenizer:
        from splintr import Tokenizer

        self._tokenizer = Tokenizer.from_pretrained(self.name)
        return self._tokenizer


@cache
def vocabulary(name: str) -> Vocabulary:
    """The vocabulary of this name; loaded once per process."""
    return Vocabulary(name)


def without_lone_surrogates(text: str) -> str:
    """The same text, with the replacement character for each half of a pair that has no other half."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _pieces(text: str) -> list[str]:
    pieces, start = [], 0
    while len(text) - start > _PIECE_CHARS:
        end = start + _PIECE_CHARS
        cut = _SAFE_CUT.search(text, end - 10_000, end)
        stop = cut.end() if cut else end
        pieces.append(text[start:stop])
        start = stop
    return [*pieces, text[start:]]
