"""Text as a reader sees it: without colour codes and characters of no width, with escaped characters decoded.

Secrets are searched for in that text, and their places are given in the original.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_INVISIBLE = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
_COLOUR = r"\[[0-9;:?]{0,24}[A-Za-z]"
# Each begins with a set of characters, which makes it as fast as a search for those.
_HIDDEN = re.compile(
    rf"[\x1b\\{_INVISIBLE}](?:(?<=\x1b)(?:{_COLOUR}|\][^\x07\x1b]{{0,256}}(?:\x07|\x1b\\)|[()][A-Z0-9])"
    rf"|(?<=\\)(?:(?:u001[bB]|x1[bB]|033|e){_COLOUR}|u(?P<code>[0-9A-Fa-f]{{4}}))"
    rf"|(?<=[{_INVISIBLE}]))"
)
_ESCAPED = re.compile(rf"\\(?:u[0-9A-Fa-f]{{4}}|(?:x1[bB]|033|e){_COLOUR})")
_NOT_PLAIN = re.compile(f"[{_INVISIBLE}\uff10-\uff1a\uff1d\uff21-\uff3a\uff41-\uff5a]")
_HAS_INVISIBLE = re.compile(f"[{_INVISIBLE}]")
_WIDE = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]")
_FULL_WIDTH = {0xFF01 + n: 0x21 + n for n in range(94)}


@dataclass(frozen=True, slots=True)
class ReadableText:
    """A text as a reader sees it, and where its pieces were in the original."""

    text: str
    _starts: tuple[int, ...] = ()
    """Where in `text` each piece starts, and in `_origins` where it started in the original."""
    _origins: tuple[int, ...] = ()
    _lengths: tuple[int, ...] = ()
    """Of each piece in the original, with what was decoded to fewer characters; 0 where it is as it was."""

    @property
    def is_mapped(self) -> bool:
        """Whether places in it differ from those in the original."""
        return bool(self._starts)

    def in_original(self, start: int, end: int) -> tuple[int, int]:
        if not self._starts:
            return start, end
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, place: int) -> tuple[int, int]:
        """Start and end of one character in the original."""
        piece = bisect_right(self._starts, place) - 1
        origin = self._origins[piece] + place - self._starts[piece]
        return (
            (self._origins[piece], self._origins[piece] + self._lengths[piece])
            if self._lengths[piece]
            else (
                origin,
                origin + 1,
            )
        )


def readable(text: str) -> ReadableText:
    """The text as it is read; the same string where nothing is hidden in it."""
    plain = text
    has_hidden = "\x1b" in text or _ESCAPED.search(text) is not None
    if not text.isascii() and _NOT_PLAIN.search(text):
        # Of the same length, so that places stay.
        plain = text.translate(_FULL_WIDTH) if _WIDE.search(text) else text.replace("：", ":").replace("＝", "=")
        has_hidden = has_hidden or _HAS_INVISIBLE.search(text) is not None
    if not has_hidden:
        return ReadableText(plain)
    return _without_hidden(plain)


def _without_hidden(text: str) -> ReadableText:
    pieces: list[str] = []
    starts: list[int] = []
    origins: list[int] = []
    lengths: list[int] = []
    done = size = 0
    for match in _HIDDEN.finditer(text):
        start, end = match.span()
        code = match["code"]
        char = chr(int(code, 16)) if code else ""
        if char and ("\ud800" <= char <= "\udfff" or char < " "):
            char = " "
        elif char and _HAS_INVISIBLE.match(char):
            char = ""
        for piece, origin, length in ((text[done:start], done, 0), (char, start, end - start)):
            if piece:
                pieces.append(piece)
                starts.append(size)
                origins.append(origin)
                lengths.append(length)
                size += len(piece)
        done = end
    pieces.append(text[done:])
    starts.append(size)
    origins.append(done)
    lengths.append(0)
    return ReadableText("".join(pieces), tuple(starts), tuple(origins), tuple(lengths))
