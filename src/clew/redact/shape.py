"""How a secret that announces itself is described: the literal it starts with, then runs of characters.

Knows how a shape becomes a regular expression over bytes. Does not know any provider: those are in `catalog`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Check: TypeAlias = Callable[[bytes], bool]


# A run that may grow this long is taken as far as it goes: a limit would have to be tried again from every later
# start within the same run, and hostile text would make that slow.
_OPEN = 200


@dataclass(frozen=True, slots=True)
class Run:
    """`low` to `high` characters of one class; `chars` is the inside of a regex character class."""

    chars: str
    low: int
    high: int

    @property
    def is_open(self) -> bool:
        return self.high >= _OPEN

    @property
    def pattern(self) -> str:
        """Possessive: what follows a run in a shape is never one of its characters, so giving back cannot help."""
        return f"[{self.chars}]{{{self.low},{'' if self.is_open else self.high}}}+"


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
    return Run("A-Za-z0-9+/_-", low, high or low)


def digits(low: int, high: int = 0) -> Run:
    return Run("0-9", low, high or low)


PADDING = Run("=", 0, 2)
UUID: tuple[Part, ...] = (hexa(8), "-", hexa(4), "-", hexa(4), "-", hexa(4), "-", hexa(12))


def anything_but_a_stand_in(secret: bytes) -> bool:
    """False for `ghp_xxxxxxxx` and `sk-ant-your-key-here`: people write those where a secret would be."""
    return not _STAND_IN(secret)


def is_mixed(secret: bytes) -> bool:
    """True when capitals, small letters and digits all occur: for shapes that an identifier could have by chance."""
    return bool(anything_but_a_stand_in(secret) and _CAPITAL(secret) and _SMALL(secret) and _DIGIT(secret))


def has_digit(secret: bytes) -> bool:
    return bool(anything_but_a_stand_in(secret) and _DIGIT(secret))


def is_no_word(secret: bytes) -> bool:
    return bool(anything_but_a_stand_in(secret) and (_DIGIT(secret) or _CAPITAL(secret)))


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
    """Also `-` and `_` before the secret rule it out; so they do wherever the secret may contain them itself."""

    def pattern_after(self, start: str) -> str:
        """The regex for what follows the literal `start`."""
        behind = f"(?<={self.behind}{re.escape(start)})" if self.behind else ""
        alone = f"(?<![_-]{re.escape(start)})" if self.whole_word or _may_hold_a_dash(self.body[-1]) else ""
        return behind + alone + "".join(map(pattern_of, self.body)) + _right_boundary(self.body)


def _may_hold_a_dash(last: Part) -> bool:
    # Of `figd_figd_figd_...` only the last would fit, and once it is taken out the one before it would.
    return isinstance(last, Run) and not last.is_open and ("_" in last.chars or "-" in last.chars[-1:])


def pattern_of(part: Part) -> str:
    if isinstance(part, str):
        return re.escape(part)
    if isinstance(part, Run):
        return part.pattern
    return "(?:" + "".join(map(pattern_of, part.parts)) + ")?"


def _right_boundary(body: tuple[Part, ...]) -> str:
    last = body[-1]
    if isinstance(last, Run) and last.is_open:
        return ""
    # A full stop after a secret ends a sentence.
    return f"(?![A-Za-z0-9{last.chars.replace('.', '')}])" if isinstance(last, Run) else "(?![A-Za-z0-9])"
