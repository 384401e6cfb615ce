"""How well a text answers a query: bm25 of its terms, with boosts for coverage, phrases and exact names.

One ranking for all databases. Knows texts and terms; where they came from does not matter to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clew.store.lookup import Phrase
from clew.store.matching import FoldedText, Match
from clew.store.query import ParsedQuery, Term

_SATURATION = 1.2
_LENGTH_SHARE = 0.5
_USUAL_CHARS = 2_000
_OTHER_FORM = 0.7
_NEIGHBOURS = 0.6
_EXACT_CASE = 0.25
_NEAR_CHARS = 160


@dataclass(frozen=True, slots=True)
class Scored:
    """A text's score, and where it holds which terms."""

    score: float
    found: Mapping[Term, Sequence[Match]]


def rarity(estimate: int, total: int) -> float:
    """How much a term says: the rarer, the more (idf)."""
    return math.log(1 + (max(total, estimate) - estimate + 0.5) / (estimate + 0.5))


def score_text(text: str, query: ParsedQuery, rarities: Mapping[Term, float]) -> Scored:
    """Score a text by the terms it holds."""
    seen = FoldedText(text)
    found = {term: matches for term in query.terms if (matches := seen.matches(term))}
    if not found:
        return Scored(0.0, found)
    whole = sum(rarities[term] * term.weight for term in query.terms) or 1.0
    held = sum(rarities[term] * term.weight for term in found)
    relevance = sum(_bm25(matches, len(text)) * rarities[term] * term.weight for term, matches in found.items())
    score = relevance * (0.3 + 0.7 * (held / whole) ** 2)
    score += held * _NEIGHBOURS * _neighbours(seen, query.neighbours)
    score += held * _EXACT_CASE * _closeness(list(found.values()))
    return Scored(score, found)


def _bm25(matches: Sequence[Match], length: int) -> float:
    count = sum(1.0 if match.spelling == 0 else _OTHER_FORM for match in matches)
    norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / _USUAL_CHARS)
    return count * (_SATURATION + 1) / (count + norm)


def _neighbours(seen: FoldedText, pairs: Sequence[Phrase]) -> float:
    """The share of neighbouring query words that are neighbours in the text."""
    if not pairs:
        return 0.0
    return sum(1 for pair in pairs if seen.places(pair)) / len(pairs)


def _closeness(groups: Sequence[Sequence[Match]]) -> float:
    """How close together different terms come: 1 when all stand within a line or two, 0 when they do not meet."""
    if len(groups) < 2:
        return 0.0
    marks = sorted((match.start, number) for number, matches in enumerate(groups) for match in matches)
    best, low = 1, 0
    within: dict[int, int] = {}
    for start, number in marks:
        within[number] = within.get(number, 0) + 1
        while marks[low][0] < start - _NEAR_CHARS:
            gone = marks[low][1]
            within[gone] -= 1
            if not within[gone]:
                del within[gone]
            low += 1
        best = max(best, len(within))
    return (best - 1) / (len(groups) - 1)
