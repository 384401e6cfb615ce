"""The parts of a text that are shown for some words, with as many characters as a reader asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from clew.store.search.query import FoldedText, parse_query
from clew.store.search.ranking import Mark, closest_terms, first_border, last_border

_MOST_MATCHES = 20_000
"""Of each word: the place that is looked for may be behind thousands of others with a usual word."""
_CLOSE_CHARS = 600
"""Words within so many characters are close together."""
_MORE_PLACES = 2
_SHARE_OF_PLACE = 17
"""Of a further place, in percent of all characters."""
_LEAST_WEIGHT = 0.25
"""A further place has words with at least this share of the weight of the first."""
_SHARE_BEFORE = 4
"""One part of so many of what surrounds a place precedes it: what is looked for mostly follows."""
_SLACK_SHARE, _LEAST_SLACK = 20, 16
"""A part is at most this fraction of its characters, or so many, shorter than asked for, to end at a border."""


def parts_around(text: str, words: str, chars: int, offset: int = 0) -> list[range]:
    """The ranges of a text to show, in order: `chars` characters in all or a little less, at lines or words.

    The first choice is the place where most of the words are close together; words that are only elsewhere get places
    of their own. Without words, or where the text has none of them, or with an offset: `chars` characters from there.
    """
    if len(text) - offset <= chars:
        return [range(min(offset, len(text)), len(text))]
    marks, weights = _marks(text, words) if words and not offset else ([], [])
    if not marks:
        return [range(offset, _border_before(text, offset + chars, chars, offset))]
    first, weight = closest_terms(marks, weights, min(_CLOSE_CHARS, chars * 2 // 3))
    whole = _window(text, first, chars, 0, len(text))
    further: list[range] = []
    shown = _terms_in(marks, whole)
    for _ in range(_MORE_PLACES):
        left = [mark for mark in marks if mark.term not in shown]
        if not left:
            break
        share = chars * _SHARE_OF_PLACE // 100
        span, held = closest_terms(left, weights, min(_CLOSE_CHARS, share * 2 // 3))
        if held < _LEAST_WEIGHT * weight:
            break
        # Between the first place and the others before and behind.
        low = max([it.stop for it in (*further, first) if it.stop <= span.start], default=0)
        high = min([it.start for it in (*further, first) if it.start >= span.stop], default=len(text))
        further.append(_window(text, span, share, low, high))
        shown |= _terms_in(marks, further[-1])
    if not further:
        return [whole]
    low = max([it.stop for it in further if it.stop <= first.start], default=0)
    high = min([it.start for it in further if it.start >= first.stop], default=len(text))
    main = _window(text, first, chars - sum(map(len, further)), low, high)
    return _filled(text, sorted([main, *further], key=lambda it: it.start), chars)


def _marks(text: str, words: str) -> tuple[list[Mark], list[float]]:
    """Where the text has the words, in order, and the weight of each word: a rare one decides between equal places."""
    folded = FoldedText(text)
    found = [(term, matches) for term in parse_query(words).terms if (matches := folded.matches(term, _MOST_MATCHES))]
    marks = [Mark(it.start, it.stop, number) for number, (_, matches) in enumerate(found) for it in matches]
    weights = [term.weight * (1 + 0.5 / len(matches)) for term, matches in found]
    return sorted(marks), weights


def _terms_in(marks: Sequence[Mark], part: range) -> set[int]:
    return {mark.term for mark in marks if part.start <= mark.start and mark.stop <= part.stop}


def _window(text: str, span: range, chars: int, floor: int, ceiling: int) -> range:
    """A range of about `chars` characters around a span, between two positions; most of them behind it."""
    start = max(floor, min(span.start - (chars - len(span)) // _SHARE_BEFORE, ceiling - chars))
    start = max(floor, min(start, span.start))
    if start > floor:
        start = _border_behind(text, start, chars, span.start)
    stop = min(ceiling, start + chars)
    return range(start, stop if stop == ceiling else _border_before(text, stop, chars, min(span.stop, stop)))


def _filled(text: str, parts: list[range], chars: int) -> list[range]:
    """The parts with what is left of the characters added behind them, then before the first; adjacent ones are one."""
    for at in reversed(range(len(parts))):
        left = chars - sum(map(len, parts))
        if left <= chars // _SLACK_SHARE:
            break
        start, stop = parts[at].start, parts[at].stop
        ceiling = parts[at + 1].start if at + 1 < len(parts) else len(text)
        end = min(ceiling, stop + left)
        parts[at] = range(start, end if end == ceiling else _border_before(text, end, left, stop))
    if (left := chars - sum(map(len, parts))) > chars // _SLACK_SHARE:
        first = parts[0]
        floor = max(0, first.start - left)
        parts[0] = range(_border_behind(text, floor, left, first.start) if floor else 0, first.stop)
    starts = [parts[0].start, *(other.start for one, other in pairwise(parts) if one.stop < other.start)]
    stops = [*(one.stop for one, other in pairwise(parts) if one.stop < other.start), parts[-1].stop]
    return [range(start, stop) for start, stop in zip(starts, stops, strict=True)]


def _border_before(text: str, index: int, chars: int, floor: int) -> int:
    """The end of a line, sentence, value or word a little before an index; the index where there is none."""
    border = last_border(text, max(floor, index - _slack(chars)), index)
    return index if border is None else border


def _border_behind(text: str, index: int, chars: int, ceiling: int) -> int:
    """The start of a line, sentence, value or word a little behind an index; the index where there is none."""
    border = first_border(text, index, min(ceiling, index + _slack(chars)))
    return index if border is None else border


def _slack(chars: int) -> int:
    return max(chars // _SLACK_SHARE, _LEAST_SLACK)
