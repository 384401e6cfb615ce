"""Neighbours of hits in a conversation, and the choice of the hits of a page without repeated passages.

An answer often is the turn behind the one with the words of the question ("How often do you train?", "Three times a
week."). So a turn of a person or a model is ranked by what is beside it too. Results of tools and turns with calls
are ranked alone: what they hold does not depend on the turn before. A question about the user ("my keys") is answered
by a turn of the user, which long replies with the same words would hide; so the turns of that speaker weigh more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import heapify, heappop, heappush
from operator import or_

from clew.store.search.base import SearchDocument
from clew.store.search.query import QueryTerm, Role
from clew.store.search.ranking import TextScore

_AFTER_QUESTION = 0.75
_AFTER = 0.35
_BEFORE = 0.25
_BEFORE_REPLY = 0.5
_SPEAKER_WEIGHT = 3.0
"""The weight of a turn of the speaker whom the query is about."""
_ANCHORS = 12
_TALK_CHARS = 2_000
"""A longer turn is understood without the turns around it."""
_WITHOUT_TERMS = 0.4
"""At most this share of a page are neighbours that hold no term of the query."""
_RARE_TERM_SHARE = 3
"""One in so many hits may be shown for a term that no better hit has."""
_RARE = 0.9
"""The share of the weight of the rarest term from which a term is rare; common words replace no hit."""
_ALIKE = 0.8
_TURNS_ALIKE = 0.6
"""From this share of equal words on, two documents are alike."""
_SAME = 0.95
"""From this share on, messages of one conversation are one hit; results of tools also where one word of ten differs."""
_FEWEST_WORDS = 10
_REPEATED = 0.6
_LOOKED_AT = 4
_COMPARED_CHARS = 400

_number = re.compile(r"\d+")

Place = tuple[int, int]
"""A conversation, and the number of a message in it."""


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document that was read, with its score alone, and with what its neighbours add."""

    doc: SearchDocument
    result: TextScore
    score: float
    id: int = 0
    """The id of the document; 0 for a neighbour, which the index was not asked for."""
    begins: int = 0
    """Where the passage begins that is like the question, for a document that was found by its meaning."""
    others: tuple[RankedDocument, ...] = ()
    """The next best parts of the same text."""
    copies: tuple[int, ...] = ()
    """The numbers of messages that are nearly the same, and are shown by their numbers alone."""

    @property
    def key(self) -> tuple[str, int]:
        """The kind and the row that it is of."""
        return self.doc.origin.kind, self.doc.origin.ref

    @property
    def turn(self) -> Place | None:
        """Which turn of a person or a model it is of; None where of none."""
        it = self.doc.origin
        is_turn = it.kind == "message" and it.role in ("user", "assistant")
        return (it.conversation, it.seq) if is_turn and it.conversation is not None and it.seq is not None else None

    @property
    def is_result(self) -> bool:
        """Whether it is the result of a tool call."""
        return self.doc.origin.role == "tool"

    @property
    def place(self) -> Place | None:
        """Where it is in a talk; None for what is ranked alone."""
        return self.turn if self.doc.stop <= _TALK_CHARS else None


def places_beside(ranked: Sequence[RankedDocument], speaker: Role | None = None) -> list[Place]:
    """The neighbours of the best turns that were not read yet."""
    known = {it.turn for it in ranked}
    places = [it.turn if speaker else it.place for it in ranked]
    anchors = [place for place in places if place is not None][:_ANCHORS]
    beside = [(conversation, seq + step) for conversation, seq in anchors for step in (1, -1) if seq + step >= 0]
    return [place for place in dict.fromkeys(beside) if place not in known]


def with_neighbours(documents: Sequence[RankedDocument], speaker: Role | None = None) -> list[RankedDocument]:
    """The documents with the scores of their neighbours added, the best first; turns of the speaker weigh more."""
    at = {turn: it for it in documents if (turn := it.turn) is not None}
    ranked = []
    for it in documents:
        score = it.result.score + _from_neighbours(it, at, speaker)
        is_of_speaker = speaker is not None and it.turn is not None and it.doc.origin.role == speaker
        score = score * _SPEAKER_WEIGHT if is_of_speaker else score
        ranked.append(it if score == it.score else replace(it, score=score))
    return sorted(
        (it for it in ranked if it.score > 0), key=lambda it: (-round(it.score, 9), -it.id, -it.doc.origin.ref)
    )


def _from_neighbours(document: RankedDocument, at: Mapping[Place, RankedDocument], speaker: Role | None) -> float:
    place = document.place
    if place is None:
        return 0.0
    conversation, seq = place
    before, after = at.get((conversation, seq - 1)), at.get((conversation, seq + 1))
    score = 0.0
    if before is not None and before.place:
        score += before.result.score * (_AFTER_QUESTION if "?" in before.doc.text[-200:] else _AFTER)
    if after is not None and speaker == document.doc.origin.role == "user":
        score += after.result.score * _BEFORE_REPLY
    elif after is not None and after.place:
        score += after.result.score * _BEFORE
    return score


def first_page(
    ranked: Sequence[RankedDocument], rarities: Mapping[QueryTerm, float], limit: int
) -> list[RankedDocument]:
    """The best documents, each passage once; the last are replaced by documents with rare terms that no better one has.

    Otherwise many rows with all the common words of a query would hide the one row with its rare word.
    """
    if len(ranked) == 1 and ranked[0].result.found:
        return list(ranked)
    page = _spread(ranked, limit)
    shown = {it.key for it in page}
    rest = [it for it in ranked if it.key not in shown]
    held = {term for document in page for term in document.result.found}
    with_rare_terms: list[RankedDocument] = []
    weights = {term: rarity * term.weight for term, rarity in rarities.items()}
    rarest = max(weights.values(), default=0.0)
    for term in sorted(weights, key=lambda term: -weights[term]):
        if len(with_rare_terms) == limit // _RARE_TERM_SHARE or weights[term] < _RARE * rarest:
            break
        if term not in held and (best := next((it for it in rest if term in it.result.found), None)) is not None:
            with_rare_terms.append(best)
            held.update(best.result.found)
    return [*page[: limit - len(with_rare_terms)], *with_rare_terms]


def _spread(ranked: Sequence[RankedDocument], limit: int) -> list[RankedDocument]:
    """The documents of a page, chosen one by one; the score of one that is like chosen ones is lowered.

    A second passage with the same words may still be the one that was asked for, so that it is not left out.
    """
    # A heap, so that a low score is compared with the chosen ones late, and mostly never.
    waiting = [(-it.score, number, 0) for number, it in enumerate(ranked[: limit * _LOOKED_AT])]
    heapify(waiting)
    chosen: list[RankedDocument] = []
    shown: list[tuple[int, float]] = []
    bits = _WordBits()
    without_terms = 0
    while waiting and len(chosen) < limit:
        score, number, compared = heappop(waiting)
        document = ranked[number]
        words = bits.of(number, document)
        repeated = 0
        same: int | None = None
        for at, (others, alike) in enumerate(shown[compared:], compared):
            count, common = max(words.bit_count(), others.bit_count(), 1), (words & others).bit_count()
            repeated += common / count >= alike
            is_same = common / count >= _SAME or (document.is_result and count - common == 1 and count >= _FEWEST_WORDS)
            if is_same and _shows_all_of(chosen[at], document):
                same = at
        if same is not None:
            kept = chosen[same]
            chosen[same] = replace(kept, copies=(*kept.copies, document.doc.origin.seq or 0))
            continue
        if repeated:
            heappush(waiting, (score * _REPEATED**repeated, number, len(chosen)))
            continue
        if not document.result.found:
            without_terms += 1
            if without_terms > limit * _WITHOUT_TERMS:
                continue
        chosen.append(document)
        shown.append((words, _ALIKE if document.place is None else _TURNS_ALIKE))
    return chosen


def _shows_all_of(shown: RankedDocument, alike: RankedDocument) -> bool:
    """Whether one that is like a shown one is a copy of it: a message of the same conversation and the same side, with
    no other term of the query, be it in the one word that differs or behind the compared part."""
    a, b = shown.doc.origin, alike.doc.origin
    is_of_one_side = a.kind == b.kind == "message" and a.conversation == b.conversation and a.role == b.role
    return is_of_one_side and alike.result.found.keys() <= shown.result.found.keys()


class _WordBits(dict[str, int]):
    """The words of documents as numbers, a bit for each word: what two have in common is found without making a set."""

    def __init__(self) -> None:
        super().__init__()
        self._of: dict[int, int] = {}

    def __missing__(self, word: str) -> int:
        bit = self[word] = 1 << len(self)
        return bit

    def of(self, number: int, document: RankedDocument) -> int:
        """The words of a document, which is known by its number from then on."""
        words = self._of.get(number)
        if words is None:
            words = self._of[number] = reduce(or_, map(self.__getitem__, _compared(document).split()), 0)
        return words


def _compared(document: RankedDocument) -> str:
    """The part of a document that is compared with others: around its first match, and without the numbers of a result.

    Each run of a command prints other times, counts and line numbers; in what people and models say numbers matter.
    """
    first = min((matches[0].start for matches in document.result.found.values()), default=0)
    start = max(0, first - _COMPARED_CHARS // 2)
    text = document.doc.text[start : start + _COMPARED_CHARS]
    return _number.sub("0", text) if document.is_result else text
