"""Tokens of a text: counted with a vocabulary, or estimated from which kinds of characters follow each other.

The vocabularies are inside the installed wheel; nothing is downloaded. Loading one takes about 0.1 s, which happens
at the first count.
"""

from __future__ import annotations

import re
from binascii import unhexlify
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING
from zlib import adler32

from clew.tokens.weights import CLASSES, LEAD_SCALE, LEAD_WEIGHTS, PAIR_SCALE, PAIR_WEIGHTS

if TYPE_CHECKING:
    from splintr import AnyTokenizer


# A list of token numbers takes forty bytes a token: long texts are counted in pieces to save memory.
_PIECE_CHARS = 1_000_000
# Between a line end and a letter every vocabulary here starts a new token, so a cut there changes no count.
_SAFE_CUT = re.compile(r"\n(?=[A-Za-z])")
# How special markers start in these two; the faster way to count reads markers, so it is only for texts without any.
_MARKERS = {"o200k_base": "<|", "cl100k_base": "<|"}
# Long texts are estimated in pieces, too.
_BLOCK = 65_520
# So many bytes add up to less than 65,521, the modulus of Adler-32.
_SUMMED = 256
_NOT_LEADING = bytes(range(0xC0))
_OUTSIDE_ASCII = 15


class Vocabulary:
    """One vocabulary; special markers in a text are counted as plain text."""

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
            from clew.messages import replace_lone_surrogates  # rarely needed, and slow to import

            return self._encoded_length(tokenizer, replace_lone_surrogates(text))

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


def _pieces(text: str) -> list[str]:
    pieces, start = [], 0
    while len(text) - start > _PIECE_CHARS:
        end = start + _PIECE_CHARS
        cut = _SAFE_CUT.search(text, end - 10_000, end)
        stop = cut.end() if cut else end
        pieces.append(text[start:stop])
        start = stop
    return [*pieces, text[start:]]


def _class_of_each_byte() -> bytes:
    table = bytearray(256)
    for number, characters in enumerate(CLASSES):
        for character in characters:
            table[ord(character)] = number
    table[0x80:] = bytes([_OUTSIDE_ASCII]) * 0x80
    return bytes(table)


CLASS_OF_BYTE = _class_of_each_byte()
_DIGIT_OF_BYTE = bytes(b"0123456789abcdef"[number] for number in CLASS_OF_BYTE)


class Estimator:
    """Estimates with one set of weights; `more` adds tokens to single pairs, given as (left class, right class).

    Every byte of UTF-8 belongs to one of sixteen classes. Each pair of neighbours adds the weight that was fitted for
    it, and each character outside ASCII adds the weight of its leading byte, which names its script. The sums are
    computed with hexadecimal digits and checksums, the fastest ways through bytes in plain Python: 200 MB a second.
    """

    __slots__ = ("_leads", "_pairs", "name")

    def __init__(self, name: str, more: Mapping[tuple[int, int], float]) -> None:
        self.name = name
        pairs = bytearray(weight for row in PAIR_WEIGHTS[name] for weight in row)
        for (left, right), tokens in more.items():
            place = left * 16 + right
            pairs[place] = min(255, pairs[place] + round(tokens * PAIR_SCALE))
        self._pairs = bytes(pairs)
        self._leads = bytes(0xC0) + bytes(LEAD_WEIGHTS[name])

    def tokens(self, text: str) -> float:
        """The estimate, not rounded, because callers add several first."""
        if not text:
            return 0.0
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) <= _BLOCK:
            return self._block(raw, text.isascii())
        blocks = (raw[start : start + _BLOCK] for start in range(0, len(raw), _BLOCK))
        return sum(self._block(block, block.isascii()) for block in blocks)

    def _block(self, raw: bytes, is_ascii: bool) -> float:
        # A class is one hexadecimal digit, and two digits are one byte: a byte for each character and the one after it,
        # first for every other one, then for those between. The class after the last is 0.
        digits = raw.translate(_DIGIT_OF_BYTE)
        neighbours = unhexlify(digits + b"0" + digits[1:] if len(digits) % 2 else digits + digits[1:] + b"0")
        tokens = _sum_of_bytes(neighbours.translate(self._pairs)) / PAIR_SCALE
        if is_ascii:
            return tokens
        leads = raw.translate(self._leads, _NOT_LEADING)
        return tokens + _sum_of_bytes(leads) / LEAD_SCALE


def _sum_of_bytes(raw: bytes) -> int:
    """The sum at the speed of C: the lower half of an Adler-32 that starts at 0 is the sum modulo 65,521."""
    if len(raw) <= _SUMMED:
        return adler32(raw, 0) & 0xFFFF
    view = memoryview(raw)
    return sum([adler32(view[start : start + _SUMMED], 0) & 0xFFFF for start in range(0, len(raw), _SUMMED)])


def features(text: str) -> Sequence[int]:
    """What the weights are multiplied with: 256 counts of neighbours, then 64 of leading bytes. Used to fit them."""
    raw = text.encode("utf-8", "surrogatepass")
    counts = [0] * 320
    classes = raw.translate(CLASS_OF_BYTE)
    for left, right in zip(classes, classes[1:] + b"\0", strict=False):
        counts[left * 16 + right] += 1
    for byte in raw:
        if byte >= 0xC0:
            counts[0x100 + byte - 0xC0] += 1
    return counts
