"""The score of a text for a query (bm25 with boosts), and the snippet of it that is shown."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from clew.store.search.base import SearchDocument, Snippet
from clew.store.search.days import WRITTEN_WITHIN, DayRange, day_of
from clew.store.search.query import FoldedText, ParsedQuery, QueryTerm, TermMatch, parse_query
from clew.store.search.words import OVERLAP_CHARS

SNIPPET_CHARS = 320
# It begins with a set of characters, so that the rest is tried only at those.
_end_of_sentence = re.compile(
    r"[.!?…。！？｡\n](?:(?<=[.!?…])[.!?…]*[\"'”’)\]]*(?=\s)|(?<=[。！？｡])[。！？｡]*[」』”’）]*|(?<=\n))"
)

# Between two values of JSON, or two cells of a row.
_value_border = re.compile(r"""[,;|}\]](?=\s*["'{\[|]|\s)""")
_word_border = re.compile(r"\s")
_BORDERS = (_end_of_sentence, _value_border, _word_border)
_LONGEST_VALUE = 300
"""A run without a space, such as an address, is not cut if it is at most so long."""
_FIRST_PART, _LATER_PART = 66, 17
"""The share of the first and of each later excerpt, in percent of all characters."""
_folders = re.compile(r"(?<![\w./~-])/(?:[\w.@-]+/)+")
_PATHS_READ = 1_500
"""Of each text, in characters: paths are in calls and at the beginning of results."""
_FEWEST_PATHS, _SHARE_OF_PATHS = 8, 0.6
_LEAST_EXCERPT = 0.25
_SHOWN_ALREADY = 0.3
"""A further excerpt has at least this share of the weight of the first; a term that was shown counts this much."""

_OF_QUESTIONS = (1.2, 0.75)
_OF_WORDS = (0.8, 0.3)
"""The parameters of bm25: saturation, and the share of the length. Answers of people are short; lines of code are in
long results, which repeat common words."""
USUAL_CHARS = 2_000
USUAL_TURN_CHARS = 1_000
"""People write short turns; long replies with the same words would rank above them."""
DAY_WEIGHT = 4.0
"""The weight of a text written on a day that a query names: that of a word in one of fifty documents."""
_OTHER_FORM = 0.7
_NEIGHBOURS = 0.6
_CLOSENESS = 0.25
_NEAR_CHARS = 300
_SHARE_NEAR = 0.8
"""The share of terms close together, against terms anywhere, in how much of a query a text has."""


class Mark(NamedTuple):
    """Where a text has a term, which is given by its index."""

    start: int
    stop: int
    term: int


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
    # A long listing has every word somewhere; an answer has them close together.
    near = min(held, _nearby_weight(found, rarities))
    coverage = (near * _SHARE_NEAR + held * (1 - _SHARE_NEAR)) / total
    score = relevance * (0.3 + 0.7 * coverage**2)
    score += held * _NEIGHBOURS * _neighbours(folded, query.terms, found)
    score += near * _CLOSENESS
    return TextScore(score, found)


def score_days(at: int, asked: DayRange | None) -> float:
    """The score of a text for being written on the days that were asked for, or soon after."""
    if asked is None:
        return 0.0
    behind = day_of(at) - asked.last
    if behind <= 0:
        return DAY_WEIGHT if day_of(at) >= asked.first else 0.0
    return DAY_WEIGHT * max(0.0, 1 - behind / (WRITTEN_WITHIN + 1))


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


def _nearby_weight(found: Mapping[QueryTerm, Sequence[TermMatch]], rarities: Mapping[QueryTerm, float]) -> float:
    """The most weight of different terms within a few lines of each other."""
    marks = sorted(Mark(it.start, it.stop, term) for term, matches in enumerate(found.values()) for it in matches)
    return closest_terms(marks, [rarities[term] * term.weight for term in found], _NEAR_CHARS)[1]


def closest_terms(marks: Sequence[Mark], weights: Sequence[float], width: int) -> tuple[range, float]:
    """The range of at most `width` characters with most weight of different terms, the shortest of equal ones; and that
    weight. `marks` are in order, and `weights` are those of the terms.
    """
    best, chosen = 0.0, range(marks[0].start, marks[0].stop)
    low, held = 0, 0.0
    within = [0] * len(weights)
    for mark in marks:
        start, stop, term = mark
        held += 0.0 if within[term] else weights[term]
        within[term] += 1
        # A term that is there twice needs to be there once.
        while marks[low].start < start and (stop - marks[low].start > width or within[marks[low].term] > 1):
            gone = marks[low].term
            within[gone] -= 1
            held -= 0.0 if within[gone] else weights[gone]
            low += 1
        span = range(marks[low].start, max(stop, marks[low].stop))
        if held > best + 1e-9 or (held > best - 1e-9 and len(span) < len(chosen)):
            best, chosen = max(best, held), span
    return chosen, best


def cut_excerpts(
    text: str,
    terms: Sequence[tuple[float, Sequence[TermMatch]]],
    chars: int,
    most: int,
    doc: SearchDocument | None = None,
) -> list[Snippet]:
    """At most so many parts of a document's text with about `chars` characters in all, the best first.

    `terms` has the weight and the matches of each term. A second part is cut for terms that the first does not show.
    """
    # A later part of a longer text begins anywhere in a word, which is whole in the part before it.
    is_later_part = doc is not None and doc.start > 0
    found = marks = sorted(
        Mark(it.start, it.stop, term)
        for term, (_, of_term) in enumerate(terms)
        for it in of_term
        if it.start or not is_later_part
    )
    weights = [weight for weight, _ in terms]
    if len(text) <= chars and not is_later_part:
        return [_snippet(text, *_trimmed(text, 0, len(text)), found, doc)]
    if not marks:
        return [_snippet(text, *_extended(text, range(0), chars, is_later_part), (), doc)]
    if most == 1 or len(text) <= chars:
        span = closest_terms(marks, weights, chars * 2 // 3)[0]
        return [_snippet(text, *_extended(text, span, chars, is_later_part), found, doc)]
    cut: list[Snippet] = []
    shown: list[tuple[int, int]] = []
    least = 0.0
    while marks and len(cut) < most:
        span, weight = closest_terms(marks, weights, chars // 2)
        if weight < least:
            break
        least = least or weight * _LEAST_EXCERPT
        # An answer is mostly beside the words that ask for it: the first part is the long one.
        share = _LATER_PART if cut else _FIRST_PART
        start, stop = _extended(text, span, chars * share // 100, is_later_part)
        if not any(start < high and stop > low for low, high in shown):
            shown.append((start, stop))
            cut.append(_snippet(text, start, stop, found, doc))
        for term in {mark.term for mark in marks if start <= mark.start < stop}:
            weights[term] *= _SHOWN_ALREADY
        marks = [mark for mark in marks if not start <= mark.start < stop]
    return cut


def project_folder(texts: Sequence[str]) -> str:
    """The folder in which most absolute paths of some texts are, the deepest; empty where they share none."""
    counts: Counter[str] = Counter()
    paths = 0
    for text in texts:
        for path in _folders.findall(text, 0, _PATHS_READ):
            paths += 1
            parts = path.split("/")
            counts.update("/".join(parts[:depth]) for depth in range(3, len(parts)))
    most = [folder for folder, count in counts.items() if count >= max(_FEWEST_PATHS, _SHARE_OF_PATHS * paths)]
    return max(most, key=len, default="")


def excerpts_around(text: str, words: str, chars: int, most: int, *, only_found: bool = False) -> list[range]:
    """Where a text has some words: at most so many ranges with about `chars` characters in all, in order.

    Where it has none of the words, its beginning; with `only_found` nothing.
    """
    folded = FoldedText(text)
    found = [(term, matches) for term in parse_query(words).terms if (matches := folded.matches(term))]
    if not found and only_found:
        return []
    # How rare a word is elsewhere is not known here: long words and those that are here less often say more.
    weights = [(term.weight * len(term.any_of[0].words[0]) / len(matches), matches) for term, matches in found]
    cut = cut_excerpts(text, weights, chars, most)
    return [range(it.start, it.start + len(it.text)) for it in sorted(cut, key=lambda it: it.start)]


def cut_snippet(
    text: str,
    matches: Sequence[TermMatch],
    chars: int = SNIPPET_CHARS,
    doc: SearchDocument | None = None,
) -> Snippet:
    """About `chars` characters of a text around its most matches, in whole lines or sentences if possible.

    A match weighs as much as it is long. `doc` is the document of the text: where in a longer one it is.
    """
    return cut_excerpts(text, [(it.stop - it.start, [it]) for it in matches], chars, 1, doc)[0]


def _extended(text: str, span: range, chars: int, is_later_part: bool) -> tuple[int, int]:
    """A range of about `chars` characters around a span that breaks no line, sentence or value, if possible."""
    spare = max(0, chars - len(span)) // 2
    low = span.start or (min(OVERLAP_CHARS, len(text)) if is_later_part else 0)
    start = _sentence_start(text, low, spare, is_later_part)
    high = max(start, span.stop)
    return _trimmed(text, start, _sentence_stop(text, high, max(chars - (high - start), spare)))


def _trimmed(text: str, start: int, stop: int) -> tuple[int, int]:
    """A range without the whitespace at its ends."""
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    return start, stop


def _snippet(text: str, start: int, stop: int, found: Sequence[Mark], doc: SearchDocument | None) -> Snippet:
    marks = sorted((it.start - start, it.stop - start) for it in found if it.start >= start and it.stop <= stop)
    offset, chars = (doc.start, doc.chars) if doc else (0, len(text))
    is_start = offset == 0 and not text[:start].strip()
    is_end = offset + len(text) == chars and not text[stop:].strip()
    return Snippet(text[start:stop], _merged(marks), offset + start, is_start, is_end)


def _sentence_start(text: str, index: int, spare: int, is_later_part: bool) -> int:
    """The start of a line or sentence at most `spare` characters before an index; else of a value, else of a word."""
    floor = max(0, index - spare)
    if floor == 0 and not is_later_part:
        return 0
    if (start := first_border(text, floor, index)) is not None:
        return start
    lowest = max(0, floor - _LONGEST_VALUE)
    last = max(text.rfind(space, lowest, floor) for space in " \n\t")
    return max(last + 1, lowest)


def _sentence_stop(text: str, index: int, spare: int) -> int:
    """The end of the last line or sentence at most `spare` characters behind an index; else of a value or a word."""
    ceiling = min(len(text), index + spare)
    if ceiling == len(text):
        return ceiling
    if (stop := last_border(text, index, ceiling)) is not None:
        return stop
    end = _word_border.search(text, ceiling, ceiling + _LONGEST_VALUE)
    return end.start() if end else min(len(text), ceiling + _LONGEST_VALUE)


def first_border(text: str, low: int, high: int) -> int | None:
    """Behind the first end of a line or sentence between two positions; else of a value, else of a word."""
    return next((found.end() for border in _BORDERS if (found := border.search(text, low, high))), None)


def last_border(text: str, low: int, high: int) -> int | None:
    """Behind the last end of a line or sentence between two positions; else of a value, else of a word."""
    for border in _BORDERS:
        if ends := [found.end() for found in border.finditer(text, low, high)]:
            return ends[-1]
    return None


def _merged(marks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Marks with overlapping ones made one."""
    merged: list[tuple[int, int]] = []
    for start, stop in marks:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)
