"""The score of a text for a query (bm25 with boosts), and the snippet of it that is shown."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from clew.store.search.base import Snippet
from clew.store.search.days import FARTHEST_DAYS, DayRange, day_of, days_told
from clew.store.search.query import FoldedText, ParsedQuery, QueryTerm, TermMatch
from clew.store.search.words import case_folded

SNIPPET_CHARS = 320
# Its first character is one of a set: the rest is tried only where such a one stands.
_end_of_sentence = re.compile(
    r"[.!?…。！？｡\n](?:(?<=[.!?…])[.!?…]*[\"'”’)\]]*(?=\s)|(?<=[。！？｡])[。！？｡]*[」』”’）]*|(?<=\n))"
)

_OF_QUESTIONS = (1.2, 0.5)
_OF_WORDS = (0.8, 0.3)
"""How soon more of a word counts no more, and how much the length of a text does. What people answer is short; a line
of code stands in long results, and its fillers stand there often."""
USUAL_CHARS = 2_000
USUAL_TURN_CHARS = 1_000
"""People write short turns; next to long replies with the same words they would not be seen."""
DAY_WEIGHT = 4.0
"""What it counts that a text speaks of the days that a query names; as much as a word in one of fifty documents."""
_LONGEST_TOLD = 31
_WRITTEN_THEN = 0.5
"""A text that was written on such a day, and speaks of none, counts this much of it."""
_OTHER_FORM = 0.7
_LONGEST_RELATED = 2_000
"""In a longer text some related word stands anyway."""
_NEIGHBOURS = 0.6
_CLOSENESS = 0.25
_NEAR_CHARS = 160


@dataclass(frozen=True, slots=True)
class TextScore:
    """The score of a text, and where it has which terms."""

    score: float
    found: Mapping[QueryTerm, Sequence[TermMatch]]


def rarity(estimate: int, total: int) -> float:
    """The weight of a term by how many of all documents have it (idf)."""
    return math.log(1 + (max(total, estimate) - estimate + 0.5) / (estimate + 0.5))


def score_text(
    text: str, query: ParsedQuery, rarities: Mapping[QueryTerm, float], usual_chars: int = USUAL_CHARS
) -> TextScore:
    """Score a text by the terms it has, how many of all, how often, and how close together."""
    folded = FoldedText(text)
    found = {term: matches for term in query.terms if (matches := folded.matches(term))}
    if len(text) <= _LONGEST_RELATED:
        for term, others in query.related:
            if term not in found and (matches := folded.matches(others)):
                found[others] = matches
    if not found:
        return TextScore(0.0, found)
    total = held = relevance = 0.0
    for term in query.terms:
        total += rarities[term] * term.weight
    saturation, length_share = _OF_QUESTIONS if query.is_question else _OF_WORDS
    norm = saturation * (1 - length_share + length_share * len(text) / usual_chars)
    for term, matches in found.items():
        weight = rarities[term] * term.weight
        held += weight
        relevance += weight * _bm25(matches, saturation, norm)
    total = total or 1.0
    held = min(total, held)
    score = relevance * (0.3 + 0.7 * (held / total) ** 2)
    score += held * _NEIGHBOURS * _neighbours(folded, query.terms, found)
    score += held * _CLOSENESS * _closeness(list(found.values()))
    return TextScore(score, found)


def score_days(text: str, at: int, asked: DayRange | None) -> float:
    """What it counts that a text, written at a certain time, speaks of the days that were asked for."""
    if asked is None:
        return 0.0
    day = day_of(at)
    if not asked.first - 1 <= day <= asked.last + FARTHEST_DAYS:
        return 0.0
    if any(
        days.overlaps(asked) for days in days_told(case_folded(text), day) if days.last - days.first <= _LONGEST_TOLD
    ):
        return DAY_WEIGHT
    return DAY_WEIGHT * _WRITTEN_THEN if asked.first <= day <= asked.last else 0.0


def _bm25(matches: Sequence[TermMatch], saturation: float, norm: float) -> float:
    count = 0.0
    for match in matches:
        count += 1.0 if match.spelling == 0 else _OTHER_FORM
    return count * (saturation + 1) / (count + norm)


def _neighbours(
    folded: FoldedText, terms: Sequence[QueryTerm], found: Mapping[QueryTerm, Sequence[TermMatch]]
) -> float:
    """The share of neighbouring terms of the query that are neighbours in the text."""
    if len(terms) < 2 or len(found) < 2:
        return 0.0
    beside = 0
    for one, other in pairwise(terms):
        if one in found and other in found:
            starts = {match.start for match in found[other]}
            beside += any(folded.is_followed_by(match.stop, starts) for match in found[one])
    return beside / (len(terms) - 1)


def _closeness(groups: Sequence[Sequence[TermMatch]]) -> float:
    """How close together different terms are: 1 where all are within a line or two, 0 where no two are."""
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


def cut_snippet(
    text: str,
    matches: Sequence[TermMatch],
    chars: int = SNIPPET_CHARS,
    offset: int = 0,
    terms: Sequence[tuple[int, float]] = (),
) -> Snippet:
    """About `chars` characters of a text around its most important matches, in whole sentences or lines if possible.

    `terms` has for each match the number and weight of its term; by default a match weighs as much as it is long.
    """
    weights = terms or [(number, match.stop - match.start) for number, match in enumerate(matches)]
    low, high = (matches[0].start, matches[0].stop) if len(matches) == 1 else (0, 0)
    if len(matches) > 1:
        low, high = _best_span(matches, weights, chars * 2 // 3)
    spare = max(0, chars - (high - low)) // 2
    start = _sentence_start(text, low, spare)
    stop = _sentence_stop(text, high, max(chars - (high - start), spare))
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    marks = tuple(
        (match.start - start, match.stop - start) for match in matches if match.start >= start and match.stop <= stop
    )
    return Snippet(text[start:stop], _merged(marks), offset + start, start == 0, stop == len(text))


def _best_span(matches: Sequence[TermMatch], weights: Sequence[tuple[int, float]], width: int) -> tuple[int, int]:
    """The range of at most `width` characters whose terms, each counted once, weigh most."""
    best, chosen, low, held = -1.0, (matches[0].start, matches[0].stop), 0, 0.0
    within: Counter[int] = Counter()
    for match, (term, weight) in zip(matches, weights, strict=True):
        held += 0.0 if within[term] else weight
        within[term] += 1
        # A term that is there twice needs to be shown once.
        while matches[low].start < match.start and (
            match.stop - matches[low].start > width or within[weights[low][0]] > 1
        ):
            gone, lost = weights[low]
            within[gone] -= 1
            held -= 0.0 if within[gone] else lost
            low += 1
        if held > best + 1e-9:
            best, chosen = held, (matches[low].start, match.stop)
    return chosen


def _sentence_start(text: str, index: int, spare: int) -> int:
    """The start of the sentence around an index, else of a word, at most `spare` characters before it."""
    floor = max(0, index - spare)
    if floor == 0:
        return 0
    ends = [match.end() for match in _end_of_sentence.finditer(text, floor, index)]
    if ends:
        return ends[0]
    for start in range(floor, index):
        if text[start - 1].isspace():
            return start
    return floor


def _sentence_stop(text: str, index: int, spare: int) -> int:
    """The end of the last sentence within `spare` characters after an index, else of a word."""
    ceiling = min(len(text), index + spare)
    if ceiling == len(text):
        return ceiling
    ends = [match.end() for match in _end_of_sentence.finditer(text, index, ceiling)]
    if ends:
        return ends[-1]
    for stop in range(ceiling, index, -1):
        if text[stop].isspace():
            return stop
    return ceiling


def _merged(marks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Marks with overlapping ones made one."""
    merged: list[tuple[int, int]] = []
    for start, stop in marks:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)
