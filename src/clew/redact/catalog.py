"""The tables of `rules.toml`, and the kinds of secrets that are known by their first characters."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from clew.lazy import lazy_pattern, read_beside

RULES: dict[str, Any] = tomllib.loads(read_beside(__file__, "rules.toml").decode())


def expanded(pattern: str) -> bytes:
    """An expression of the rules with its macros replaced."""
    while (macro := _MACRO.search(pattern)) is not None:
        pattern = pattern[: macro.start()] + RULES["macros"][macro[1]] + pattern[macro.end() :]
    return pattern.encode("ascii")


_MACRO = re.compile(r"\{([A-Z_]+)\}")

# A run that may be this long has no upper limit: a limit would be tried again from every later start within the same
# run, which hostile text can make slow.
_UNLIMITED = 200


class CharRun(NamedTuple):
    """`low` to `high` characters of one class; `chars` is the inside of a regex character class."""

    chars: str
    low: int
    high: int

    @property
    def pattern(self) -> str:
        """Possessive, because what follows a run is never one of its characters."""
        return f"[{self.chars}]{{{self.low},{'' if self.high >= _UNLIMITED else self.high}}}+"

    @property
    def boundary(self) -> str:
        """What must not follow a secret that ends with this run; a full stop ends a sentence."""
        return "" if self.high >= _UNLIMITED else f"(?![A-Za-z0-9{self.chars.replace('.', '')}])"

    @property
    def may_end_with_dash(self) -> bool:
        return self.high < _UNLIMITED and ("_" in self.chars or "-" in self.chars[-1:])


class OptionalParts(NamedTuple):
    """Parts that some secrets of the kind have and others do not."""

    parts: tuple[SecretPart, ...]

    @property
    def pattern(self) -> str:
        return f"(?:{_pattern_of(self.parts)})?"


SecretPart: TypeAlias = str | CharRun | OptionalParts


def _pattern_of(parts: Sequence[SecretPart]) -> str:
    return "".join(re.escape(part) if isinstance(part, str) else part.pattern for part in parts)


# `ghp_xxxxxxxx` and `sk-ant-your-key-here`, which people write instead of a secret.
_PLACEHOLDER_SHAPE = lazy_pattern(rb"(?i)x{8}|your[-_]?(?:api|key|token|secret|own|access|real|actual|[-_])")
_MUST_HAVE = {
    # For kinds that an identifier could look like.
    "mixed": (lazy_pattern(rb"[A-Z]"), lazy_pattern(rb"[a-z]"), lazy_pattern(rb"[0-9]")),
    "digit": (lazy_pattern(rb"[0-9]"),),
    "no-word": (lazy_pattern(rb"[0-9A-Z]"),),
}


@dataclass(frozen=True, slots=True)
class SecretKind:
    """One kind of secret. A secret is `before`, then one of `starts`, then `body`.

    `before` is for the few whose known literal is in the middle; `preceded_by` is text that must precede the
    secret and is not a part of it.
    """

    name: str
    starts: tuple[str, ...]
    body: tuple[SecretPart, ...]
    must_have: tuple[re.Pattern[bytes], ...] = ()
    before: CharRun | None = None
    preceded_by: str = ""
    whole_word: bool = False
    """There must be no `-` or `_` before the secret either, as for all secrets that may contain them."""

    def check(self, secret: bytes) -> bool:
        return not _PLACEHOLDER_SHAPE.search(secret) and all(chars.search(secret) for chars in self.must_have)

    def pattern_after(self, start: str) -> str:
        """The regex for what follows the literal `start`."""
        last = self.body[-1]
        # Otherwise only the last of `figd_figd_figd_...` would match, and after its removal the one before it.
        is_whole = self.whole_word or (isinstance(last, CharRun) and last.may_end_with_dash)
        preceded_by = f"(?<={self.preceded_by}{re.escape(start)})" if self.preceded_by else ""
        alone = f"(?<![_-]{re.escape(start)})" if is_whole else ""
        boundary = last.boundary if isinstance(last, CharRun) else "(?![A-Za-z0-9])"
        return preceded_by + alone + _pattern_of(self.body) + boundary


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
            low, chars = int(match["low"]), match["chars"] or _CLASSES[match["name"]]
            yield CharRun(chars, low, int(match["high"] or low))
        else:
            yield OptionalParts(tuple(_parts(match["optional"]))) if match["optional"] else match[0]


def _kind(row: str) -> SecretKind:
    named, body, *conditions = row.split(" | ")
    for short, long in _SHORT_FORMS.items():
        body = body.replace(short, long)
    name, *starts = named.split()
    options = dict(condition.partition("=")[::2] for condition in " ".join(conditions).split())
    return SecretKind(
        name,
        tuple(starts),
        tuple(_parts(body)) or ("",),
        next((chars for condition, chars in _MUST_HAVE.items() if condition in options), ()),
        next((run for run in _parts(options.get("before", "")) if isinstance(run, CharRun)), None),
        options.get("after", ""),
        "whole" in options,
    )


CATALOG = tuple(_kind(row) for row in RULES["kinds"].splitlines() if row and not row.startswith("#"))
"""The kinds of secrets that are known by their first characters."""
