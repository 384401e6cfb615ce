"""A snippet: the part of a text where most of a query stands, completed to whole sentences or lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clew.store.matching import Match

SNIPPET_CHARS = 320
_end_of_sentence = re.compile(r"(?:[.!?…]+[\"'”’)\]]*(?=\s)|[。！？｡]+[」』”’）]*|\n)")


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text around the best matches; `marks` are the places in it that matched."""

    text: str
    marks: tuple[tuple[int, int], ...]
    start: int
    """Where it begins in the whole text."""
    is_start: bool
    is_end: bool


def cut_snippet(
    text: str,
    matches: Sequence[Match],
    chars: int = SNIPPET_CHARS,
    offset: int = 0,
    terms: Sequence[tuple[int, float]] = (),
) -> Snippet:
    """About `chars` characters of a text, centred on where its matches say most.

    `terms` tells for each match which term it is of, and how much that term says; without it, long matches say more.
    """
    worth = terms or [(number, match.stop - match.start) for number, match in enumerate(matches)]
    low, high = _most_telling(matches, worth, chars * 2 // 3) if matches else (0, 0)
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
    return Snippet(text[start:stop], _apart(marks), offset + start, start == 0, stop == len(text))


def _most_telling(matches: Sequence[Match], worth: Sequence[tuple[int, float]], width: int) -> tuple[int, int]:
    """From the first to the last match of the stretch whose terms, each counted once, say most."""
    best, chosen, low, held = -1.0, (matches[0].start, matches[0].stop), 0, 0.0
    within: Counter[int] = Counter()
    for match, (term, says) in zip(matches, worth, strict=True):
        held += 0.0 if within[term] else says
        within[term] += 1
        # What stands there twice needs to be shown once.
        while matches[low].start < match.start and (
            match.stop - matches[low].start > width or within[worth[low][0]] > 1
        ):
            gone, said = worth[low]
            within[gone] -= 1
            held -= 0.0 if within[gone] else said
            low += 1
        if held > best + 1e-9:
            best, chosen = held, (matches[low].start, match.stop)
    return chosen


def _sentence_start(text: str, place: int, spare: int) -> int:
    """The start of the sentence that holds a place, else of a word, at most `spare` characters back."""
    floor = max(0, place - spare)
    if floor == 0:
        return 0
    ends = [match.end() for match in _end_of_sentence.finditer(text, floor, place)]
    if ends:
        return ends[0]
    for start in range(floor, place):
        if text[start - 1].isspace():
            return start
    return floor


def _sentence_stop(text: str, place: int, spare: int) -> int:
    """The end of a sentence behind a place, the last that fits; else of a word."""
    ceiling = min(len(text), place + spare)
    if ceiling == len(text):
        return ceiling
    ends = [match.end() for match in _end_of_sentence.finditer(text, place, ceiling)]
    if ends:
        return ends[-1]
    for stop in range(ceiling, place, -1):
        if text[stop].isspace():
            return stop
    return ceiling


def _apart(marks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Marks that do not overlap."""
    apart: list[tuple[int, int]] = []
    for start, stop in marks:
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(stop, apart[-1][1]))
        else:
            apart.append((start, stop))
    return tuple(apart)
