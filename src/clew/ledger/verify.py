"""Checks a text against its source: which paths, numbers, hashes and names in it do not occur in the source.

Each such string is looked up in the atom index first and then, if it is not there, in the texts of the source.
Whether a sentence is true is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clew.ledger.atoms import ATOM, ATOM_EDGES, SHORTEST_ATOM, AtomIndex

UNVERIFIED_MARK = "⟨unverified⟩"

# ASCII, so that in "修改了src/app.py文件" the path ends where the Chinese begins.
_CLAIM = re.compile(
    rf"(?P<atom>{ATOM.pattern})"
    r"|(?P<number>(?<![\w.,/-])\d{1,3}(?:[,_]\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.])\d{2,}(?:\.\d+)?(?![\w]))",
    re.ASCII,
)
_REFERENCE = re.compile(r"(?<![\w/.])m(\d+)(?![\w/]|\.\w)", re.ASCII)
_REDACTED = re.compile(r"\[REDACTED[^\]\n]{0,60}\]")
_DIGIT_GROUPS = re.compile(r"(?<=\d)[,_](?=\d{3})")
_WORD_PAIR = re.compile(r"([A-Za-z]+/)[A-Za-z]+")
_MARKED = re.compile(rf"[^\s`\"'(]*{UNVERIFIED_MARK}")
# Names that everybody knows and that need no source.
_COMMON_NAMES = frozenset(
    "JavaScript TypeScript GitHub GitLab PostgreSQL MySQL SQLite MongoDB OpenAI DeepSeek LangChain PyPI PyTorch NumPy "
    "TensorFlow CoffeeScript GraphQL DevOps LaTeX YouTube LinkedIn macOS iOS iPhone iPad FastAPI WebSocket "
    "WebSockets OAuth PowerShell VSCode JetBrains IntelliJ README.md".split()
)


@dataclass(frozen=True, slots=True)
class Claim:
    """One exact string of a text, and its position."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class VerifiedText:
    """A text with its unverified claims marked, the number of distinct claims, and which are unverified."""

    text: str
    claims: int
    unverified: tuple[str, ...]

    @property
    def share_unverified(self) -> float:
        return len(self.unverified) / self.claims if self.claims else 0.0


@dataclass(frozen=True, slots=True)
class VerificationSource:
    """Where claims are looked up: the index, then the texts, which are read only as far as needed."""

    index: AtomIndex
    texts: Iterable[str]
    last: int
    """A reference such as m12 is valid below this number."""


def verify(text: str, source: VerificationSource) -> VerifiedText:
    """The text with a mark behind each path, number, hash, name and reference that the source does not have."""
    text = text.replace(UNVERIFIED_MARK, "")
    claims = list(claims_in(text))
    distinct = dict.fromkeys(claim.text for claim in claims)
    missing = _not_in(source, distinct)
    references = [Claim(found.start(), found.end(), found[0]) for found in _REFERENCE.finditer(text)]
    missing |= {claim.text for claim in references if int(claim.text[1:]) >= source.last}
    wrong = [claim for claim in (*claims, *references) if claim.text in missing]
    unverified = tuple(dict.fromkeys(claim.text for claim in sorted(wrong, key=_start)))
    return VerifiedText(_marked(text, wrong), len(distinct), unverified)


def without_unverified(text: str) -> str:
    """A text that was checked before, without the claims marked then, so that none is a source for itself."""
    return _MARKED.sub("", text) if UNVERIFIED_MARK in text else text


def claims_in(text: str) -> Iterator[Claim]:
    """The strings of a text that have to occur in its source."""
    hidden = [found.span() for found in _REDACTED.finditer(text)]
    for found in _CLAIM.finditer(text):
        claim = found.group().strip(ATOM_EDGES)
        if claim in _COMMON_NAMES or (len(claim) < SHORTEST_ATOM and not claim[:1].isdigit()):
            continue
        start = found.start() + found.group().index(claim)
        if not any(low <= start < high for low, high in hidden):
            yield Claim(start, start + len(claim), claim)


def _not_in(source: VerificationSource, claims: Iterable[str]) -> set[str]:
    known = source.index.atoms
    sought = {claim: _forms(claim) for claim in claims if claim not in known}
    # "and/or" looks like a path; it is one when the source knows a folder of that name.
    pairs = {claim: pair[1] for claim in sought if (pair := _WORD_PAIR.fullmatch(claim))}
    folders: set[str] = set()
    texts = iter(source.texts)
    while sought and (text := next(texts, None)) is not None:
        for claim in [claim for claim, forms in sought.items() if _occurs_in(text, forms)]:
            del sought[claim]
        folders.update(folder for claim, folder in pairs.items() if claim in sought and folder in text)
    return {claim for claim in sought if claim not in pairs or pairs[claim] in folders}


def _forms(claim: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The spellings of a claim that a source may have: each as a plain string and as a pattern with boundaries."""
    if claim[0].isdigit():
        plain = _DIGIT_GROUPS.sub("", claim)
        spellings = dict.fromkeys((claim, plain, *_grouped(plain)))
        return tuple((spelling, _bounded(spelling)) for spelling in spellings)
    return ((claim, _bounded(claim)),)


def _grouped(plain: str) -> list[str]:
    whole, dot, fraction = plain.partition(".")
    if not whole.isdigit() or len(whole) < 4:
        return []
    return [f"{int(whole):,}{dot}{fraction}", f"{int(whole):_}{dot}{fraction}"]


def _bounded(spelling: str) -> re.Pattern[str]:
    # In the arguments of a call a line end is written \n, and the name after it begins behind that n.
    before = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))" if spelling[0].isalnum() or spelling[0] == "_" else ""
    hash_like = len(spelling) >= 7 and set(spelling) <= set("0123456789abcdef")
    after = "" if hash_like else r"(?![A-Za-z0-9_])" if spelling[-1].isalnum() or spelling[-1] == "_" else ""
    return re.compile(f"{before}{re.escape(spelling)}{after}")


def _occurs_in(text: str, forms: tuple[tuple[str, re.Pattern[str]], ...]) -> bool:
    return any(spelling in text and pattern.search(text) for spelling, pattern in forms)


def _start(claim: Claim) -> int:
    return claim.start


def _marked(text: str, wrong: Iterable[Claim]) -> str:
    pieces = []
    done = 0
    for claim in sorted(wrong, key=_start):
        pieces.append(text[done : claim.end] + UNVERIFIED_MARK)
        done = claim.end
    return "".join((*pieces, text[done:]))
