"""The score of a text for a query (bm25 with boosts), and the snippet of it that is shown."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from clew.store.search.base import SearchDocument, Snippet
from clew.store.search.days import TOLD_WITHIN, DayRange, day_of
from clew.store.search.query import FoldedText, ParsedQuery, QueryTerm, TermMatch, parse_query

SNIPPET_CHARS = 320
# Its first character is one of a set: the rest is tried only where such a one stands.
_end_of_sentence = re.compile(
    r"[.!?…。！？｡\n](?:(?<=[.!?…])[.!?…]*[\"'”’)\]]*(?=\s)|(?<=[。！？｡])[。！？｡]*[」』”’）]*|(?<=\n))"
)

# Between two values of JSON, or two cells of a row.
_value_border = re.compile(r"""[,;|}\]](?=\s*["'{\[|]|\s)""")
_word_border = re.compile(r"\s")
_BORDERS = (_end_of_sentence, _value_border, _word_border)
_LONGEST_VALUE = 300
"""A run without a space, such as an address, is not broken where it is at most so long."""
_FIRST_PART, _LATER_PART = 66, 17
"""Of three excerpts, in percent of their characters."""
_folders = re.compile(r"(?<![\w./~-])/(?:[\w.@-]+/)+")
_PATHS_READ = 1_500
"""Of each text, in characters: paths stand in calls and at the beginning of results."""
_FEWEST_PATHS, _SHARE_OF_PATHS = 8, 0.6
_LEAST_EXCERPT = 0.25
_SHOWN_ALREADY = 0.3
"""A further excerpt has at least this share of the weight of the first; a term that was shown counts this much."""

_OF_QUESTIONS = (1.2, 0.75)
_OF_WORDS = (0.8, 0.3)
"""How soon more of a word counts no more, and how much the length of a text does. What people answer is short; a line
of code stands in long results, and its fillers stand there often."""
USUAL_CHARS = 2_000
USUAL_TURN_CHARS = 1_000
"""People write short turns; next to long replies with the same words they would not be seen."""
DAY_WEIGHT = 4.0
"""What it counts that a text was written on a day that a query names; as much as a word in one of fifty documents."""
_OTHER_FORM = 0.7
_NEIGHBOURS = 0.6
_CLOSENESS = 0.25
_NEAR_CHARS = 300


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
    # In a long listing every word stands somewhere; in an answer they stand together.
    near = min(held, _nearby_weight(found, rarities))
    score = relevance * (0.3 + 0.7 * ((held + near) / (2 * total)) ** 2)
    score += held * _NEIGHBOURS * _neighbours(folded, query.terms, found)
    score += near * _CLOSENESS
    return TextScore(score, found)


def score_days(at: int, asked: DayRange | None) -> float:
    """What it counts that a text was written on the days that were asked for, or soon after."""
    if asked is None:
        return 0.0
    behind = day_of(at) - asked.last
    if behind <= 0:
        return DAY_WEIGHT if day_of(at) >= asked.first else 0.0
    return DAY_WEIGHT * max(0.0, 1 - behind / (TOLD_WITHIN + 1))


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
    """The most weight of different terms that stand within a few lines of each other."""
    weights = [rarities[term] * term.weight for term in found]
    marks = sorted((match.start, number) for number, matches in enumerate(found.values()) for match in matches)
    best = held = 0.0
    low = 0
    within = [0] * len(weights)
    for start, number in marks:
        held += 0.0 if within[number] else weights[number]
        within[number] += 1
        while marks[low][0] < start - _NEAR_CHARS:
            gone = marks[low][1]
            within[gone] -= 1
            held -= 0.0 if within[gone] else weights[gone]
            low += 1
        best = max(best, held)
    return best


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
    marked = sorted(((match, number) for number, (_, matches) in enumerate(terms) for match in matches), key=_start)
    weights = [weight for weight, _ in terms]
    matches = [match for match, _ in marked]
    if most == 1 or len(text) <= chars:
        return [cut_snippet(text, matches, chars, doc, [(number, weights[number]) for _, number in marked])]
    cut: list[Snippet] = []
    shown: list[tuple[int, int]] = []
    least = 0.0
    while marked and len(cut) < most:
        span, weight = _best_span([match for match, _ in marked], [(n, weights[n]) for _, n in marked], chars // 2)
        if weight < least:
            break
        least = least or weight * _LEAST_EXCERPT
        # An answer is mostly beside the words that ask for it: the first part is the long one.
        start, stop = _extended(text, span, chars * _FIRST_PART // 100 if not cut else chars * _LATER_PART // 100)
        if not any(start < high and stop > low for low, high in shown):
            shown.append((start, stop))
            cut.append(_snippet(text, start, stop, matches, doc))
        for number in {number for match, number in marked if start <= match.start < stop}:
            weights[number] *= _SHOWN_ALREADY
        marked = [(match, number) for match, number in marked if not start <= match.start < stop]
    return cut or [cut_snippet(text, (), chars, doc)]


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
    terms: Sequence[tuple[int, float]] = (),
) -> Snippet:
    """About `chars` characters of a text around its most important matches, in whole lines or sentences if possible.

    `terms` has for each match the number and weight of its term; by default a match weighs as much as it is long.
    `doc` is the document of the text: where in a longer one it is.
    """
    weights = terms or [(number, match.stop - match.start) for number, match in enumerate(matches)]
    span = _best_span(matches, weights, chars * 2 // 3)[0] if matches else (0, 0)
    return _snippet(text, *_extended(text, span, chars), matches, doc)


def _start(marked: tuple[TermMatch, int]) -> int:
    return marked[0].start


def _extended(text: str, span: tuple[int, int], chars: int) -> tuple[int, int]:
    """A range of about `chars` characters around a span that breaks no line, sentence or value, if possible."""
    low, high = span
    spare = max(0, chars - (high - low)) // 2
    start = _sentence_start(text, low, spare)
    stop = _sentence_stop(text, high, max(chars - (high - start), spare))
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    return start, stop


def _snippet(text: str, start: int, stop: int, matches: Sequence[TermMatch], doc: SearchDocument | None) -> Snippet:
    marks = [(it.start - start, it.stop - start) for it in matches if it.start >= start and it.stop <= stop]
    offset, chars = (doc.start, doc.chars) if doc else (0, len(text))
    return Snippet(text[start:stop], _merged(marks), offset + start, offset + start == 0, offset + stop == chars)


def _best_span(
    matches: Sequence[TermMatch], weights: Sequence[tuple[int, float]], width: int
) -> tuple[tuple[int, int], float]:
    """The range of at most `width` characters whose terms, each counted once, weigh most; and their weight."""
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
    return chosen, best


def _sentence_start(text: str, index: int, spare: int) -> int:
    """The start of a line or sentence at most `spare` characters before an index; else of a value, else of a word."""
    floor = max(0, index - spare)
    if floor == 0:
        return 0
    for border in _BORDERS:
        if (found := border.search(text, floor, index)) is not None:
            return found.end()
    return max(text.rfind(" ", max(0, floor - _LONGEST_VALUE), floor) + 1, floor - _LONGEST_VALUE)


def _sentence_stop(text: str, index: int, spare: int) -> int:
    """The end of the last line or sentence at most `spare` characters behind an index; else of a value or a word."""
    ceiling = min(len(text), index + spare)
    if ceiling == len(text):
        return ceiling
    for border in _BORDERS:
        ends = [match.end() for match in border.finditer(text, index, ceiling)]
        if ends:
            return ends[-1]
    end = _word_border.search(text, ceiling, ceiling + _LONGEST_VALUE)
    return end.start() if end else min(len(text), ceiling + _LONGEST_VALUE)


def _merged(marks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Marks with overlapping ones made one."""
    merged: list[tuple[int, int]] = []
    for start, stop in marks:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)
