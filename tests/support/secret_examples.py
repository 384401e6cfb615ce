"""Generated secrets for tests and benchmarks.

They are generated when needed, so that no file contains anything that looks like a key. A corpus file has one case a
line: `⏎` is a line end, `§alnum:40§` is filler of that alphabet and length, `« »` are around what must be redacted.
"""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass
from pathlib import Path

from clew.redact.catalog import CharRun, OptionalParts, SecretKind, SecretPart

# Without the percent sign, which begins an escape.
_PRINTABLE = string.ascii_letters + string.digits + string.punctuation.replace("%", "")

_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "b64": string.ascii_letters + string.digits,
    "hex": "0123456789abcdef",
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "bech32": "qpzry9x8gf2tvdw0s3jn54khce6mua7l",
}


@dataclass(frozen=True, slots=True)
class CorpusCase:
    """A text, and the secrets in it; a false case has none."""

    text: str
    secrets: tuple[str, ...]


def cases_in(corpus: Path) -> list[CorpusCase]:
    """The cases of a corpus file, with the same filler at every reading."""
    lines = corpus.read_text(encoding="utf-8").splitlines()
    return [_case(line) for line in lines if line and not line.startswith("# ")]


def _case(line: str) -> CorpusCase:
    chance = random.Random(line)

    def filler(match: re.Match[str]) -> str:
        return "".join(chance.choices(_ALPHABETS[match[1]], k=int(match[2])))

    filled = re.sub(r"§(\w+):(\d+)§", filler, line).replace("⏎", "\n")
    return CorpusCase(re.sub("[«»]", "", filled), tuple(re.findall("«(.*?)»", filled, re.DOTALL)))


def example_secret(kind: SecretKind, seed: int = 0, start: str | None = None) -> str:
    """A secret of that kind; another for every seed. `start` chooses one of the literals it may start with."""
    literal = start if start is not None else kind.starts[seed % len(kind.starts)]
    # Not for any secret's sake: the same seed must give the same text.
    chance = random.Random(f"{kind.name} {seed}")
    while not kind.check((secret := _one(kind, literal, chance)).encode("ascii")):
        pass
    return secret


def _one(kind: SecretKind, literal: str, chance: random.Random) -> str:
    before = _some(kind.before, chance) if kind.before else ""
    return before + literal + "".join(_some(part, chance) for part in kind.body)


def text_before(kind: SecretKind) -> str:
    """What must come directly before a secret of that kind, if anything must."""
    return "12345678:" if kind.preceded_by else ""


def _some(part: SecretPart, chance: random.Random) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, OptionalParts):
        return "".join(_some(inner, chance) for inner in part.parts)
    # The first and last are letters or digits, as in generated keys; the first twenty too, as in nearly all.
    plain = [char for char in _chars(part) if char.isalnum()]
    length = chance.randint(part.low, min(part.high, part.low + 16)) if plain else part.low
    start = chance.choices(plain, k=min(20, length)) if plain else []
    middle = chance.choices(_chars(part), k=max(0, length - 21))
    return "".join((*start, *middle, *chance.choices(plain, k=min(1, length - len(start) - len(middle)))))


def _chars(run: CharRun) -> list[str]:
    return re.findall(f"[{run.chars}]", _PRINTABLE)
