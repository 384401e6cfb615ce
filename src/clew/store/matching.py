"""Where the terms of a query stand in a text. The same answer as the index gives, found in the text itself."""

from __future__ import annotations

from dataclasses import dataclass

from clew.store.lookup import Phrase
from clew.store.query import Term
from clew.store.words import folded, is_unspaced

MOST_MATCHES = 32


@dataclass(frozen=True, slots=True)
class Match:
    start: int
    stop: int
    spelling: int
    """Which spelling of the term: 0 is how it was written."""


class FoldedText:
    """A text with its folded form, in which each character stands at the same place."""

    __slots__ = ("folded", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.folded = folded(text)

    def matches(self, term: Term) -> list[Match]:
        """Where a term stands, in order."""
        if term.kind == "word" and len(term.any_of) > 1:
            return self._forms(term)
        found: list[Match] = []
        for spelling, phrase in enumerate(term.any_of):
            found += (Match(start, stop, spelling) for start, stop in self.places(phrase))
        if len(term.any_of) > 1:
            found.sort(key=lambda match: match.start)
        return found

    def _forms(self, term: Term) -> list[Match]:
        """The forms of one word: they begin alike, so that one pass finds them all."""
        forms = {phrase.words[0]: number for number, phrase in enumerate(term.any_of) if not phrase.is_prefix}
        begun = [phrase for phrase in term.any_of if phrase.is_prefix]
        shared = _shared_start(list(forms))
        if begun or not shared:
            return [Match(*place, number) for number, phrase in enumerate(term.any_of) for place in self.places(phrase)]
        found: list[Match] = []
        start = self.folded.find(shared)
        while start >= 0 and len(found) < MOST_MATCHES:
            stop = start + len(shared)
            if self._is_border(start):
                stop = self._word_end(stop)
                number = forms.get(self.folded[start:stop])
                if number is not None:
                    found.append(Match(start, stop, number))
            start = self.folded.find(shared, stop)
        return found

    def _word_end(self, place: int) -> int:
        while not self._is_border(place):
            place += 1
        return place

    def places(self, phrase: Phrase) -> list[tuple[int, int]]:
        """Where a phrase stands: its words whole, with nothing but spaces and signs between them."""
        first = phrase.words[0]
        places: list[tuple[int, int]] = []
        start = self.folded.find(first)
        while start >= 0 and len(places) < MOST_MATCHES:
            stop = self._stop_of(phrase, start)
            if stop is not None:
                places.append((start, stop))
            start = self.folded.find(first, start + 1 if stop is None else max(stop, start + 1))
        return places

    def _stop_of(self, phrase: Phrase, start: int) -> int | None:
        stop = start
        last = len(phrase.words) - 1
        for number, word in enumerate(phrase.words):
            begin = start if number == 0 else self._next_word(stop)
            if not self.folded.startswith(word, begin):
                return None
            stop = begin + len(word)
            unbounded = is_unspaced(word)
            if not unbounded and not self._is_border(begin):
                return None
            if not unbounded and not (phrase.is_prefix and number == last) and not self._is_border(stop):
                return None
        return stop

    def _next_word(self, place: int) -> int:
        text = self.folded
        while place < len(text) and not text[place].isalnum():
            place += 1
        return place

    def _is_border(self, place: int) -> bool:
        """Whether a word can begin or end at a place; the humps of camelCase are borders too."""
        text = self.text
        if place <= 0 or place >= len(text):
            return True
        before, after = text[place - 1], text[place]
        if not before.isalnum() or not after.isalnum():
            return True
        if before.isascii() and after.isascii():
            is_hump = after.isupper() and not before.isupper()
            return is_hump or (before.isupper() and after.isupper() and text[place + 1 : place + 2].islower())
        return is_unspaced(before) or is_unspaced(after)


def _shared_start(words: list[str]) -> str:
    """What all of these words begin with."""
    low, high = min(words), max(words)
    length = 0
    while length < len(low) and low[length] == high[length]:
        length += 1
    return low[:length]
