"""The value function: what showing a term or quoting a candidate is worth, as weighted sums of features.

The weights are data (`weights.json`), fitted by `benchmarks/fit_weights.py` on what agents used later.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping
from functools import cache

from clew.facts.text import TermKind
from clew.handoff.candidates import (
    IN_CALL,
    IN_CLOSING,
    IN_REQUEST,
    IN_RESULT,
    IN_WORDS,
    Candidate,
    Kind,
    Material,
    TermUse,
)
from clew.handoff.value import BLOCKED, COMPLETED, FILES, GOAL, RULES, TRIED
from clew.lazy import read_beside

_KIND_OF_HEADING = {
    RULES: Kind.RULE,
    GOAL: Kind.RULE,
    COMPLETED: Kind.REQUEST,
    FILES: Kind.FILE,
    BLOCKED: Kind.FAILURE,
    TRIED: Kind.FAILURE,
}

_PREVIOUS, _FADING = Kind.PREVIOUS, frozenset({Kind.REQUEST, Kind.FILE, Kind.FAILURE})
_WORD = TermKind.WORD
_AGES, _MOST_BACK = ("newest", "recent", "late", "middle", "old"), (5, 15, 40, 120)
"""How many messages back, at most, for each but the last."""
_TIMES, _MOST_TIMES = ("once", "twice", "few times", "several times", "many times"), (1, 2, 4, 8)
"""In how many messages, at most, for each but the last."""

_PLACES = (
    (IN_REQUEST, "asked"),
    (IN_WORDS, "said"),
    (IN_CLOSING, "closing"),
    (IN_CALL, "called"),
    (IN_RESULT, "result"),
)

Weights = Mapping[str, Mapping[str, float]]


@cache
def load_weights() -> Weights:
    loaded: dict[str, dict[str, float]] = json.loads(read_beside(__file__, "weights.json"))
    return loaded


def age_of(number: int, end: int) -> str:
    """How far back a message lies, in words."""
    return _AGES[bisect_left(_MOST_BACK, end - number)]


def term_features(term: str, kind: TermKind, uses: TermUse, end: int) -> tuple[str, ...]:
    """The features of a term, by name; plain words have names of their own."""
    places = uses.places
    if kind is TermKind.WORD:
        shape, of = "word", "word "
    else:
        shape, of = "number" if term[0].isdigit() else "path" if "/" in term or "\\" in term else "name", ""
    found = [shape, of + age_of(uses.last, end), of + _TIMES[bisect_left(_MOST_TIMES, uses.messages)]]
    found += [of + name for place, name in _PLACES if places & place]
    return tuple(found)


class Worth:
    """The weights of the terms and candidates of one conversation."""

    def __init__(self, material: Material, end: int, weights: Weights | None = None, focus: str | None = None) -> None:
        self._material, self._end = material, end
        self._weights = weights or load_weights()
        self._focus = material.terms.of(focus) if focus else set()
        self._by_features: dict[tuple[int, ...], float] = {}
        self._by_term: dict[str, float] = {}
        self._of_candidates: dict[tuple[object, ...], tuple[float, float]] = {}

    def of_term(self, term: str) -> float:
        found = self._by_term.get(term)
        if found is None:
            found = self._by_term[term] = self._term(term)
        return found

    def _term(self, term: str) -> float:
        use = self._material.uses.get(term)
        if use is None:
            return 0.0
        kind = self._material.terms.kinds[term]
        shape = 0 if kind is _WORD else 1 if term[0].isdigit() else 2 if "/" in term or "\\" in term else 3
        # Terms with the same numbers have the same features, whose names take longer to make.
        key = (
            shape,
            bisect_left(_MOST_BACK, self._end - use.last),
            bisect_left(_MOST_TIMES, use.messages),
            use.places,
        )
        found = self._by_features.get(key)
        if found is None:
            found = self._by_features[key] = self._by(term_features(term, kind, use, self._end))
        return found

    def _by(self, features: tuple[str, ...]) -> float:
        """What a term with these features is worth: chances multiply, so the weights are added as logarithms."""
        weights = self._weights["term"]
        return math.exp(sum(weights.get(name, 0.0) for name in features))

    def of_candidate(self, candidate: Candidate) -> tuple[float, float]:
        """What the weight of the candidate's terms is multiplied by, and what it is worth whatever they are."""
        if self._focus:
            return self._scale_of(candidate), self._bonus_of(candidate)
        # The pieces of one message differ in little but their terms.
        key = (candidate.kind, candidate.numbers, candidate.features, candidate.section)
        found = self._of_candidates.get(key)
        if found is None:
            found = self._of_candidates[key] = self._scale_of(candidate), self._bonus_of(candidate)
        return found

    def _scale_of(self, candidate: Candidate) -> float:
        age = age_of(candidate.numbers[-1], self._end) if candidate.numbers else ""
        focus = "" if self._focus.isdisjoint(candidate.terms) else "focus"
        weights = self._weights["candidate"]
        total = self._weights["kind"].get(candidate.kind, 0.0)
        return math.exp(total + sum(weights.get(name, 0.0) for name in (age, focus, *candidate.features)))

    def _bonus_of(self, candidate: Candidate) -> float:
        """Older requests and files count less."""
        kind = candidate.kind
        if kind is _PREVIOUS:
            kind = _KIND_OF_HEADING.get(candidate.section, kind)
        bonus = self.bonus(kind)
        if "line" in candidate.features:
            bonus = self.bonus("conclusion") if "words" in candidate.features else 0.0
        if bonus and candidate.kind in _FADING and candidate.numbers:
            back = (self._end - candidate.numbers[-1]) / max(1, self._end)
            bonus *= 1.0 - self._weights["bonus"]["fade"] * back
        if bonus:
            for name in candidate.features:
                bonus *= self._weights["bonus"].get(name, 1.0)
        return bonus if self._focus.isdisjoint(candidate.terms) else bonus + self.bonus("focus")

    def bonus(self, name: str) -> float:
        return self._weights["bonus"].get(name, 0.0)
