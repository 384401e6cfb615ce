"""The topic that a handoff shall tell most of: which texts are about it, and the lines to quote for it.

A topic is words, an identifier or a path, in any language. Case does not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from clew.ledger.atoms import plain_words_in
from clew.ledger.spans import QuoteSpan, spans_at

_CJK = r"\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af"
_TERM = re.compile(rf"[{_CJK}]+|[^\s{_CJK},;:!?\"'`()\[\]{{}}<>，。；：！？、]+")
_LINE = re.compile(r"^.*\S", re.MULTILINE)
_SHORT_CHARS = 3
_CHARS_OF_A_WORD = 2
_MOST_PLACES = 40
_NEAR_CHARS = 150


class FocusTopic:
    """A topic. A text is about it where it holds the topic as it was written, or at least half of its words."""

    def __init__(self, topic: str) -> None:
        self.text = " ".join(topic.split())
        words = list(dict.fromkeys(word.lower() for word in _words_in(self.text)))
        self._phrase = _pattern(self.text)
        self._words = [_pattern(word) for word in words]
        self._needed = (len(words) + 1) // 2
        self._any = re.compile("|".join(one.pattern for one in (self._phrase, *self._words)), re.IGNORECASE)

    def is_about(self, text: str) -> bool:
        if not self._any.search(text):
            return False
        return bool(self._phrase.search(text)) or sum(bool(one.search(text)) for one in self._words) >= self._needed

    def places_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the topic or one of its words stands, from and to."""
        return (found.span() for found in self._any.finditer(text))

    def spans_in(self, numbers: Sequence[int], texts: Callable[[int], Sequence[str]]) -> Iterator[list[QuoteSpan]]:
        """Lines of these messages: with the topic, then around those, then the others; of like ones the newest."""
        tiers: tuple[list[QuoteSpan], ...] = ([], [], [])
        seen: set[str] = set()
        for number in reversed(numbers):
            for part, text in enumerate(texts(number)):
                for tier, (start, end) in self._ranked_lines(text):
                    if (line := text[start:end]) not in seen:
                        seen.add(line)
                        tiers[tier].append(QuoteSpan(number, part, start, end))
        yield from tiers

    def _ranked_lines(self, text: str) -> Iterable[tuple[int, tuple[int, int]]]:
        places = list(islice(self.places_in(text), _MOST_PLACES))
        yield from ((0, span) for span in spans_at(text, places))
        for start, end in spans_at(text, ((line.end(), line.end()) for line in _LINE.finditer(text))):
            reach = range(start - _NEAR_CHARS, end + _NEAR_CHARS)
            yield (1 if any(at in reach for at, _ in places) else 2), (start, end)


def _words_in(topic: str) -> Iterator[str]:
    """Its words that are not in every text; of Chinese, Japanese and Korean two chars each, as no blank parts words."""
    for term in _TERM.findall(topic):
        term = term.strip(".-")
        if re.match(f"[{_CJK}]", term):
            yield from (term[at : at + _CHARS_OF_A_WORD] for at in range(max(1, len(term) - 1)))
        elif plain_words_in(term) or any(not char.isalpha() for char in term):
            yield term


def _pattern(term: str) -> re.Pattern[str]:
    """A short term is a word of its own: `CI` is no part of `special`."""
    escaped = r"\s+".join(map(re.escape, term.split()))
    edges = (r"(?<![^\W_])", r"(?![^\W_])") if len(term) <= _SHORT_CHARS and term.isascii() else ("", "")
    return re.compile(edges[0] + escaped + edges[1], re.IGNORECASE)
