"""How a secret that announces itself is described: the literal it starts with, then runs of characters.

Knows how a shape becomes a regular expression over bytes. Does not know any provider: those are in `catalog`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Check: TypeAlias = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class Run:
    """`low` to `high` characters of one class; `chars` is the inside of a regex character class."""

    chars: str
    low: int
    high: int

    @property
    def pattern(self) -> str:
        return f"[{self.chars}]{{{self.low},{self.high}}}"


@dataclass(frozen=True, slots=True)
class Maybe:
    """Parts that some secrets of the kind have and others do not."""

    parts: tuple[Part, ...]


Part: TypeAlias = str | Run | Maybe


def alnum(low: int, high: int = 0) -> Run:
    return Run("A-Za-z0-9", low, high or low)


def word(low: int, high: int = 0) -> Run:
    return Run("A-Za-z0-9_-", low, high or low)


def hexa(low: int, high: int = 0) -> Run:
    return Run("0-9a-f", low, high or low)


def upper(low: int, high: int = 0) -> Run:
    return Run("A-Z0-9", low, high or low)


def lower(low: int, high: int = 0) -> Run:
    return Run("a-z0-9", low, high or low)


def base64(low: int, high: int = 0) -> Run:
    return Run("A-Za-z0-9+/=_-", low, high or low)


def digits(low: int, high: int = 0) -> Run:
    return Run("0-9", low, high or low)


UUID: tuple[Part, ...] = (hexa(8), "-", hexa(4), "-", hexa(4), "-", hexa(4), "-", hexa(12))


def anything_but_a_stand_in(secret: bytes) -> bool:
    """False for `ghp_xxxxxxxx` and `sk-ant-your-key-here`: people write those where a secret would be."""
    return not _STAND_IN(secret)


def is_mixed(secret: bytes) -> bool:
    """True when capitals, small letters and digits all occur: for shapes that an identifier could have by chance."""
    return bool(anything_but_a_stand_in(secret) and _CAPITAL(secret) and _SMALL(secret) and _DIGIT(secret))


def has_digit(secret: bytes) -> bool:
    return bool(anything_but_a_stand_in(secret) and _DIGIT(secret))


_STAND_IN = re.compile(rb"(?i)x{8}|your[-_]?(?:api|key|token|secret|own|access|real|actual|[-_])").search
_CAPITAL = re.compile(rb"[A-Z]").search
_SMALL = re.compile(rb"[a-z]").search
_DIGIT = re.compile(rb"[0-9]").search


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of secret. A secret is `reach`, then one of `starts`, then `body`.

    `reach` is for the few whose known literal stands in the middle; `behind` is text that must come before the
    secret and is not a part of it.
    """

    name: str
    starts: tuple[str, ...]
    body: tuple[Part, ...]
    check: Check = anything_but_a_stand_in
    reach: Run | None = None
    behind: str = ""
    whole_word: bool = False
    """Also `-` and `_` before the secret rule it out: for bodies so long that they may be tried only once per run."""

    def pattern_after(self, start: str) -> str:
        """The regex for what follows the literal `start`, its left boundary included."""
        return _left_boundary(self, start) + "".join(map(pattern_of, self.body)) + _right_boundary(self.body)


def pattern_of(part: Part) -> str:
    if isinstance(part, str):
        return re.escape(part)
    if isinstance(part, Run):
        return part.pattern
    return "(?:" + "".join(map(pattern_of, part.parts)) + ")?"


# What may stand directly before a secret although it ends in a letter or a digit: an escaped line end, a
# percent-encoded or \u-escaped character, the end of a terminal colour.
_ESCAPES = (r"\\[nrt]", r"%[0-9A-Fa-f]{2}", r"\\u00[0-9A-Fa-f]{2}", r"\[[0-9]m", r"\[[0-9][0-9]m", r";[0-9][0-9]m")
_ESCAPED = re.compile(f"(?:{'|'.join(_ESCAPES)})$".encode("ascii")).search
_LONGEST_ESCAPE = 6


def starts_freely(text: bytes, start: int) -> bool:
    """Whether what begins at `start` is a word of its own and not the end of a longer one."""
    if not text[start - 1 : start].isalnum() or start == 0:
        return True
    return bool(_ESCAPED(text[max(0, start - _LONGEST_ESCAPE) : start]))


def _left_boundary(kind: Kind, start: str) -> str:
    """Lookbehinds placed after the literal, so that the literal itself comes first and can be searched for fast."""
    literal = (kind.reach.pattern if kind.reach else "") + re.escape(start)
    if kind.behind:
        return f"(?<={kind.behind}{literal})"
    if kind.whole_word:
        return "(?:" + "|".join((f"(?<![A-Za-z0-9_-]{literal})", *(f"(?<={e}{literal})" for e in _ESCAPES))) + ")"
    return f"(?<={literal})" if kind.reach else ""


def _right_boundary(body: tuple[Part, ...]) -> str:
    last = body[-1]
    return f"(?![A-Za-z0-9{last.chars}])" if isinstance(last, Run) else "(?![A-Za-z0-9])"
