"""The tables of `rules.toml`, and the kinds of secrets that are known by their first characters."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from clew.lazy import lazy_pattern, read_beside

RULES: dict[str, Any] = tomllib.loads(read_beside(__file__, "rules.toml").decode())

SecretCheck: TypeAlias = Callable[[bytes], bool]


def expanded(pattern: str) -> bytes:
    """An expression of the rules with its macros replaced."""
    while (macro := _MACRO.search(pattern)) is not None:
        pattern = pattern[: macro.start()] + RULES["macros"][macro[1]] + pattern[macro.end() :]
    return pattern.encode("ascii")


_MACRO = re.compile(r"\{([A-Z_]+)\}")

# A run that may be this long has no upper limit: a limit would be tried again from every later start within the same
# run, which hostile text can make slow.
_UNLIMITED = 200


@dataclass(frozen=True, slots=True)
class CharRun:
    """`low` to `high` characters of one class; `chars` is the inside of a regex character class."""

    chars: str
    low: int
    high: int

    @property
    def is_unlimited(self) -> bool:
        return self.high >= _UNLIMITED

    @property
    def pattern(self) -> str:
        """Possessive, because what follows a run is never one of its characters."""
        return f"[{self.chars}]{{{self.low},{'' if self.is_unlimited else self.high}}}+"


@dataclass(frozen=True, slots=True)
class OptionalParts:
    """Parts that some secrets of the kind have and others do not."""

    parts: tuple[SecretPart, ...]


SecretPart: TypeAlias = str | CharRun | OptionalParts


def is_no_placeholder(secret: bytes) -> bool:
    """False for `ghp_xxxxxxxx` and `sk-ant-your-key-here`, which people write instead of a secret."""
    return not _PLACEHOLDER_SHAPE.search(secret)


def is_mixed(secret: bytes) -> bool:
    """True when capitals, small letters and digits all occur: for kinds that an identifier could look like."""
    return is_no_placeholder(secret) and all(chars.search(secret) for chars in (_CAPITAL, _SMALL, _DIGIT))


def has_digit(secret: bytes) -> bool:
    return is_no_placeholder(secret) and bool(_DIGIT.search(secret))


def is_no_word(secret: bytes) -> bool:
    return is_no_placeholder(secret) and bool(_DIGIT.search(secret) or _CAPITAL.search(secret))


_PLACEHOLDER_SHAPE = lazy_pattern(rb"(?i)x{8}|your[-_]?(?:api|key|token|secret|own|access|real|actual|[-_])")
_CAPITAL = lazy_pattern(rb"[A-Z]")
_SMALL = lazy_pattern(rb"[a-z]")
_DIGIT = lazy_pattern(rb"[0-9]")


@dataclass(frozen=True, slots=True)
class SecretKind:
    """One kind of secret. A secret is `before`, then one of `starts`, then `body`.

    `before` is for the few whose known literal is in the middle; `preceded_by` is text that must precede the
    secret and is not a part of it.
    """

    name: str
    starts: tuple[str, ...]
    body: tuple[SecretPart, ...]
    check: SecretCheck = is_no_placeholder
    before: CharRun | None = None
    preceded_by: str = ""
    whole_word: bool = False
    """There must be no `-` or `_` before the secret either, as for all secrets that may contain them."""

    def pattern_after(self, start: str) -> str:
        """The regex for what follows the literal `start`."""
        preceded_by = f"(?<={self.preceded_by}{re.escape(start)})" if self.preceded_by else ""
        alone = f"(?<![_-]{re.escape(start)})" if self.whole_word or _may_contain_dash(self.body[-1]) else ""
        return preceded_by + alone + "".join(map(_pattern_of, self.body)) + _right_boundary(self.body[-1])


def _may_contain_dash(last: SecretPart) -> bool:
    # Otherwise only the last of `figd_figd_figd_...` would match, and after its removal the one before it.
    return isinstance(last, CharRun) and not last.is_unlimited and ("_" in last.chars or "-" in last.chars[-1:])


def _pattern_of(part: SecretPart) -> str:
    if isinstance(part, str):
        return re.escape(part)
    if isinstance(part, CharRun):
        return part.pattern
    return "(?:" + "".join(map(_pattern_of, part.parts)) + ")?"


def _right_boundary(last: SecretPart) -> str:
    if isinstance(last, CharRun):
        # A full stop after a secret ends a sentence.
        return "" if last.is_unlimited else f"(?![A-Za-z0-9{last.chars.replace('.', '')}])"
    return "(?![A-Za-z0-9])"


_CHECKS = {"mixed": is_mixed, "digit": has_digit, "no-word": is_no_word}
_CLASSES = {
    "alnum": "A-Za-z0-9",
    "word": "A-Za-z0-9_-",
    "hex": "0-9a-f",
    "upper": "A-Z0-9",
    "lower": "a-z0-9",
    "base64": "A-Za-z0-9+/_-",
    "digits": "0-9",
}
_PART = re.compile(
    r"\((?P<optional>[^()]*)\)\?|\{(?:\[(?P<chars>[^]]+)\]|(?P<name>\w+)):(?P<low>\d+)(?:-(?P<high>\d+))?\}|[^{(]+"
)
_SHORT_FORMS = {"{uuid}": "{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}", "{pad}": "{[=]:0-2}"}


def _parts(written: str) -> Iterator[SecretPart]:
    for match in _PART.finditer(written):
        if match["low"]:
            yield CharRun(
                match["chars"] or _CLASSES[match["name"]], int(match["low"]), int(match["high"] or match["low"])
            )
        else:
            yield OptionalParts(tuple(_parts(match["optional"]))) if match["optional"] else match[0]


def _kind(row: str) -> SecretKind:
    named, body, *conditions = row.split(" | ")
    for short, long in _SHORT_FORMS.items():
        body = body.replace(short, long)
    name, *starts = named.split()
    kind: dict[str, Any] = {"check": is_no_placeholder}
    for condition in " ".join(conditions).split():
        key, _, value = condition.partition("=")
        if key == "before":
            (kind["before"],) = _parts(value)
        elif key == "after":
            kind["preceded_by"] = value
        elif key == "whole":
            kind["whole_word"] = True
        else:
            kind["check"] = _CHECKS[key]
    return SecretKind(name, tuple(starts), tuple(_parts(body)) or ("",), **kind)


CATALOG = tuple(_kind(row) for row in RULES["kinds"].splitlines() if row and not row.startswith("#"))
"""The kinds of secrets that are known by their first characters."""
