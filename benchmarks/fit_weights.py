"""Fits the weights of the handoff's value function, and reports what each feature is worth on harnesses not fitted on.

    python benchmarks/fit_weights.py [--quick] [--write] [--shared FOLDER]

`_cases.py` says what is scored. A harness is a file of sessions, a program named in it, or one session of the exam.

1. Every weight is moved up and down by a step, and each harness is scored again. Terms also get the weights of a
   log-linear regression on "was needed later".
2. For each harness, a fit on all others combines the moves that gained there, and is scored on that harness alone.
3. On the same left-out harnesses, each feature is removed: the loss is its contribution. Features without one are
   dropped together.

With --write, `weights.json` is replaced where other weights (fitted, without those features, or both) are better on
left-out harnesses than the present ones. Plain Python, two processes, about 10 CPU minutes; --quick scores one session
of each harness at one target in about one. The present weights may have been set by looking at the same sessions: for
them, no harness is left out.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple, Protocol, TypeAlias

from _cases import EXAM, Case, Features, Session, shared_sessions
from _sessions import SHARED
from _table import report
from clew.handoff.worth import Weights, load_weights

WEIGHTS = Path(__file__).resolve().parents[1] / "src" / "clew" / "handoff" / "weights.json"
MOST_SESSIONS, QUICK_SESSIONS = 6, 1
"""Of one harness."""
PROCESSES = 2
STEPS = {"term": 0.2, "kind": 0.25, "candidate": 0.3}
FACTOR = 1.5
"""The step of a bonus: it is multiplied or divided."""
NEUTRAL = {"repeated": 1.0, "whole": 1.0}
"""What a bonus is without the feature, if not 0."""
EXAM_SHARE = 0.5
"""Of the objective; the rest is for facts."""
ENOUGH = 40
"""A harness with fewer facts weighs less."""
RIDGE, SWEEPS, PART = 0.02, 200, 0.15
LINE = ((0.5, 0.0), (1.0, 0.0), (0.5, 0.3), (0.0, 0.3))
"""The tries of a fit: how far to go along the gains, and how far to the regression."""
LEAST_GAIN = 0.02
"""In points: below it a feature has no gain."""
TIE = 0.1
"""In points: what other weights than the present ones may lose for one kind of marks."""
PRESENT = "present"
_AGES = ("newest", "recent", "late", "middle", "old")
_TIMES = ("once", "twice", "few times", "several times", "many times")
SHAPES = ("name", "number", "path", "word")
GROUPS = {
    "term": (SHAPES, _AGES, _TIMES, tuple(f"word {name}" for name in _AGES), tuple(f"word {name}" for name in _TIMES)),
    "candidate": (_AGES,),
}
"""Features of which a term or candidate has exactly one."""

Key: TypeAlias = tuple[str, str]
"""A table of the weights, and a name in it."""
Flat: TypeAlias = dict[Key, float]
Group: TypeAlias = tuple[Key, ...]
Folds: TypeAlias = dict[str | None, Flat]
"""The weights that were fitted without a harness; for None on all."""
Job: TypeAlias = tuple[Flat, Collection[str] | None]
"""Weights, and the harnesses to score them on; None for all."""
TermCounts: TypeAlias = list[tuple[str, dict[Features, tuple[int, int]]]]
"""For each case its harness, and for each set of features how many such terms were needed and how many there are."""


class Score(NamedTuple):
    points: float = 0.0
    of: int = 0
    lamp: float = 0.0
    """Points as the exam counts them."""

    def plus(self, other: Score) -> Score:
        return Score(self.points + other.points, self.of + other.of, self.lamp + other.lamp)

    @property
    def percent(self) -> float:
        return 100 * self.points / self.of


Scores: TypeAlias = Mapping[str, Score]
"""By harness."""


class Scorer(Protocol):
    def scores(self, jobs: Sequence[Job]) -> list[Scores]: ...

    def term_counts(self) -> TermCounts: ...

    def feature_names(self) -> set[Key]: ...


class Cases:
    """Scores the cases of some sessions in this process."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        self.cases = [Case(session, target) for session in sessions for target in session.targets]

    def scores(self, jobs: Sequence[Job]) -> list[Scores]:
        return [self._scores(as_tables(weights), harnesses) for weights, harnesses in jobs]

    def _scores(self, weights: Weights, harnesses: Collection[str] | None) -> Scores:
        total: dict[str, Score] = {}
        for case in self.cases:
            if harnesses is None or case.harness in harnesses:
                marks, shown = case.marks, case.shown(weights)
                score = Score(marks.points(shown), marks.size, marks.lamp(shown))
                total[case.harness] = total.get(case.harness, Score()).plus(score)
        return total

    def term_counts(self) -> TermCounts:
        return [(case.harness, case.term_counts()) for case in self.cases]

    def feature_names(self) -> set[Key]:
        candidates = [candidate for case in self.cases for candidate in case.draft.material.candidates]
        named = {("candidate", name) for candidate in candidates for name in candidate.features}
        return named | {("kind", candidate.kind.value) for candidate in candidates}


_own_cases: list[Cases] = []
"""Of a worker process."""


def _start_worker(shared: Path, is_quick: bool, share: int) -> None:
    sessions = shared_sessions(shared, QUICK_SESSIONS if is_quick else MOST_SESSIONS)[share::PROCESSES]
    _own_cases.append(Cases([replace(one, targets=one.targets[-1:]) for one in sessions] if is_quick else sessions))


def _ask_worker(method: str, *arguments: Any) -> Any:
    return getattr(_own_cases[0], method)(*arguments)


class Workers:
    """Scores in several processes, each of which has a share of the sessions."""

    def __init__(self, shared: Path, *, is_quick: bool) -> None:
        self._pools = [
            ProcessPoolExecutor(1, initializer=_start_worker, initargs=(shared, is_quick, share))
            for share in range(PROCESSES)
        ]

    def scores(self, jobs: Sequence[Job]) -> list[Scores]:
        asked = [[pool.submit(_ask_worker, "scores", [job]) for pool in self._pools] for job in jobs]
        return [reduce(_joined, (future.result()[0] for future in futures), {}) for futures in asked]

    def term_counts(self) -> TermCounts:
        return [one for pool in self._pools for one in pool.submit(_ask_worker, "term_counts").result()]

    def feature_names(self) -> set[Key]:
        return {one for pool in self._pools for one in pool.submit(_ask_worker, "feature_names").result()}


def _joined(some: Scores, others: Scores) -> Scores:
    return {one: some.get(one, Score()).plus(others.get(one, Score())) for one in {**some, **others}}


def mean_score(scores: Scores, harnesses: Collection[str]) -> float:
    """In percent: exam and facts have their shares, harnesses of each weigh the same if they have enough marks."""
    kinds: dict[bool, list[tuple[float, float]]] = {}
    for harness in harnesses:
        is_exam = harness.startswith(EXAM)
        weight = 1.0 if is_exam else min(1.0, scores[harness].of / ENOUGH)
        kinds.setdefault(is_exam, []).append((weight, scores[harness].percent))
    means = {kind: sum(w * x for w, x in found) / sum(w for w, _ in found) for kind, found in kinds.items()}
    return EXAM_SHARE * means[True] + (1 - EXAM_SHARE) * means[False] if len(means) > 1 else sum(means.values())


def as_flat(weights: Weights) -> Flat:
    return {(table, name): weight for table, names in weights.items() for name, weight in names.items()}


def as_tables(flat: Flat) -> dict[str, dict[str, float]]:
    tables: dict[str, dict[str, float]] = {table: {} for table in (*STEPS, "bonus")}
    for (table, name), weight in flat.items():
        tables[table][name] = weight
    return tables


def rounded(weights: Flat) -> dict[str, dict[str, float]]:
    """As they are written; features of weight 0 are left out."""
    return as_tables({key: round(one, 2) for key, one in weights.items() if round(one, 2) or key[0] == "bonus"})


def moved(weights: Flat, key: Key, steps: float) -> Flat:
    """With one weight moved."""
    old = weights[key]
    new = old * FACTOR**steps if key[0] == "bonus" else old + steps * STEPS[key[0]]
    return {**weights, key: min(new, 1.0) if key == ("bonus", "fade") else new}


def without(weights: Flat, group: Group) -> Flat:
    """Without features. Where each term or candidate has one of them, their mean goes to what else it has."""
    table, first = group[0]
    if table == "bonus":
        return {**weights, group[0]: NEUTRAL.get(first, 0.0)}
    left = {key: weight for key, weight in weights.items() if key not in group}
    if len(group) == 1:
        return left
    average = mean(weights.get(key, 0.0) for key in group)
    if first in SHAPES:
        return left | dict.fromkeys(group, average)
    shapes = SHAPES[-1:] if first.startswith("word ") else SHAPES[:-1]
    others = [key for key in left if (key[1] in shapes if table == "term" else key[0] == "kind")]
    return left | {key: left[key] + average for key in others}


def groups_of(weights: Flat) -> list[Group]:
    """Features that are removed together."""
    joined = [tuple((table, name) for name in names) for table, groups in GROUPS.items() for names in groups]
    return [*joined, *((key,) for key in weights if not any(key in group for group in joined))]


def regression(counts: TermCounts, present: Flat) -> Flat:
    """The weights of terms by log-linear regression on being needed; each harness weighs the same.

    They are scaled so that needed terms have the mean weight that they have now.
    """
    totals: defaultdict[str, Counter[Features]] = defaultdict(Counter)
    needed: defaultdict[str, Counter[Features]] = defaultdict(Counter)
    for harness, found in counts:
        for features, (some, total) in found.items():
            totals[harness][features] += total
            needed[harness][features] += some
    rows = []
    for harness, by_features in totals.items():
        terms, wanted = sum(by_features.values()), max(1, sum(needed[harness].values()))
        for features, total in by_features.items():
            rows.append((features, total / terms, needed[harness][features] / total * terms / wanted))
    aims: defaultdict[str, float] = defaultdict(float)
    for features, share, aim in rows:
        for name in features:
            aims[name] += share * aim
    weights = dict.fromkeys(sorted(aims), 0.0)
    for _ in range(SWEEPS):
        expected = dict.fromkeys(weights, 0.0)
        for features, share, _ in rows:
            chance = share * math.exp(sum(map(weights.__getitem__, features)))
            for name in features:
                expected[name] += chance
        for name, own in weights.items():
            # Every term has several features that move together, so each moves a part of the way.
            weights[name] = own + PART * (aims[name] - expected[name] - RIDGE * own) / (expected[name] + RIDGE)

    def mean_needed(of: Mapping[str, float]) -> float:
        return sum(share * aim * math.exp(sum(of.get(name, 0.0) for name in names)) for names, share, aim in rows)

    shift = math.log(mean_needed(as_tables(present)["term"]) / max(1e-9, mean_needed(weights)))
    return {("term", name): weight + (shift if name in SHAPES else 0.0) for name, weight in weights.items()}


class Fit:
    """The gains of moving each weight on each harness, and the fits that combine them."""

    def __init__(self, scorer: Scorer, present: Flat) -> None:
        self._scorer, self._counts = scorer, scorer.term_counts()
        names = {("term", name) for _, found in self._counts for features in found for name in features}
        self.present = present | dict.fromkeys(sorted((names | scorer.feature_names()) - present.keys()), 0.0)
        moves = [(key, way) for key in self.present for way in (1, -1)]
        jobs: list[Job] = [(self.present, None), *((moved(self.present, *move), None) for move in moves)]
        self.scores, *rest = scorer.scores(jobs)
        self._moved = dict(zip(moves, rest, strict=True))
        self.harnesses = sorted(self.scores)
        self.unmeasured = {key for key in self.present if self._moved[key, 1] == self._moved[key, -1] == self.scores}

    def folds(self) -> Folds:
        """The weights fitted without each harness; for None those fitted on all."""
        tries = [(left_out, weights) for left_out in (*self.harnesses, None) for weights in self._tries(left_out)]
        scored = self._scorer.scores([(weights, None) for _, weights in tries])
        best: dict[str | None, tuple[float, Flat]] = {}
        for (left_out, weights), scores in zip(tries, scored, strict=True):
            score = mean_score(scores, self._others(left_out))
            if left_out not in best or score > best[left_out][0]:
                best[left_out] = (score, weights)
        return {left_out: weights for left_out, (_, weights) in best.items()}

    def _others(self, left_out: str | None) -> list[str]:
        return [harness for harness in self.harnesses if harness != left_out]

    def _tries(self, left_out: str | None) -> Iterator[Flat]:
        others = self._others(left_out)
        steps = {key: self._steps(key, others) for key in self.present}
        terms = regression([one for one in self._counts if one[0] in others], self.present)
        for far, blend in LINE:
            weights = reduce(lambda found, key: moved(found, key, far * steps[key]), steps, self.present)
            yield weights | {key: (1 - blend) * weights.get(key, 0.0) + blend * new for key, new in terms.items()}

    def _steps(self, key: Key, harnesses: Sequence[str]) -> float:
        """How far to move a weight: less where harnesses disagree, and not at all where the gain may be chance."""
        best = 0.0
        for way in (1, -1):
            scores = self._moved[key, way]
            gain = mean_score(scores, harnesses) - mean_score(self.scores, harnesses)
            each = [scores[one].percent - self.scores[one].percent for one in harnesses]
            doubt = stdev(each) / math.sqrt(len(each)) if len(each) > 1 else 0.0
            if gain > doubt and (far := gain / (gain + doubt)) > abs(best):
                best = way * far
        return best

    def held_out(self, weights_of: Folds) -> Scores:
        """The score of each harness with the weights that were fitted without it."""
        scored = self._scorer.scores([(weights_of[harness], (harness,)) for harness in self.harnesses])
        return {harness: score for scores in scored for harness, score in scores.items()}

    def contributions(self, folds: Folds) -> list[Contribution]:
        """What each feature adds on harnesses that it was not fitted on."""
        whole = self.held_out(folds)
        groups = [group for group in groups_of(self.present) if not self.unmeasured.issuperset(group)]
        lessened = [{harness: without(weights, group) for harness, weights in folds.items()} for group in groups]
        return [Contribution(group, whole, self.held_out(less)) for group, less in zip(groups, lessened, strict=True)]


@dataclass(frozen=True)
class Contribution:
    group: Group
    whole: Scores
    less: Scores
    """Without the features of the group."""

    def gain(self, harnesses: Collection[str]) -> float:
        return mean_score(self.whole, harnesses) - mean_score(self.less, harnesses)

    def row(self) -> dict[str, Any]:
        each = [self.whole[one].percent - self.less[one].percent for one in self.whole]
        names = {"table": self.group[0][0], "feature": ", ".join(name for _, name in self.group)}
        better, worse = sum(one > 0 for one in each), sum(one < 0 for one in each)
        return {**names, "gain": self.gain(self.whole), "harnesses better": better, "worse": worse}


class Fitted(NamedTuple):
    """The weights to use, and the account of how they were found."""

    weights: Flat
    best: str
    """Present or fitted, with or without the features of no gain."""
    features: list[dict[str, Any]]
    harnesses: list[dict[str, Any]]
    dropped: list[Group]
    unmeasured: set[Key]


def fitted(scorer: Scorer, present: Flat) -> Fitted:
    fit = Fit(scorer, present)
    folds = fit.folds()
    found = sorted(fit.contributions(folds), key=lambda one: -one.gain(fit.harnesses))

    def useless(left_out: str | None) -> list[Group]:
        # Which features are dropped is also decided without the harness that is scored. Bonuses stay: they are for
        # requests, rules and files, which a handoff must have, and few marks depend on them.
        others = [harness for harness in fit.harnesses if harness != left_out]
        return [one.group for one in found if one.gain(others) < LEAST_GAIN and one.group[0][0] != "bonus"]

    choices: dict[str, Folds] = {
        PRESENT: dict.fromkeys(folds, fit.present),
        "fitted": folds,
        "present, fewer": {harness: reduce(without, useless(harness), fit.present) for harness in folds},
        "fitted, fewer": {harness: reduce(without, useless(harness), weights) for harness, weights in folds.items()},
    }
    scores = {name: fit.held_out(weights) for name, weights in choices.items()}
    best = best_choice(scores)
    rows = [one.row() for one in found]
    return Fitted(choices[best][None], best, rows, list(_rows(scores)), useless(None), fit.unmeasured)


def best_choice(scores: Mapping[str, Scores]) -> str:
    """Present weights, unless others are better by more than the standard error and worse for neither kind of marks."""
    best = PRESENT
    for name in scores:
        gains = [_gain(scores, name, harnesses) for _, harnesses in _parts(scores[name])]
        (total, error) = gains[-1]
        if total > error and min(gain for gain, _ in gains) > -TIE and total > _gain(scores, best, [*scores[name]])[0]:
            best = name
    return best


def _gain(scores: Mapping[str, Scores], name: str, harnesses: Collection[str]) -> tuple[float, float]:
    """What weights gain over the present ones, and the standard error of it over harnesses."""
    each = [scores[name][one].percent - scores[PRESENT][one].percent for one in harnesses]
    error = stdev(each) / math.sqrt(len(each)) if len(each) > 1 else 0.0
    return mean_score(scores[name], harnesses) - mean_score(scores[PRESENT], harnesses), error


def _parts(scores: Scores) -> list[tuple[str, list[str]]]:
    exams = [harness for harness in scores if harness.startswith(EXAM)]
    facts = [harness for harness in scores if harness not in exams]
    return [(title, some) for title, some in (("facts", facts), ("exam", exams), ("all", [*scores])) if some]


def _rows(scores: Mapping[str, Scores]) -> Iterator[dict[str, Any]]:
    """In percent; fitted weights and dropped features were chosen without the harness."""
    for harness, score in scores[PRESENT].items():
        yield {"harness": harness, "of": score.of, **{name: found[harness].percent for name, found in scores.items()}}
    for title, some in _parts(scores[PRESENT]):
        yield {"harness": title, **{name: mean_score(found, some) for name, found in scores.items()}}
        yield {"harness": "  gain", **{name: _gain(scores, name, some)[0] for name in scores}}
        yield {"harness": "  standard error", **{name: _gain(scores, name, some)[1] for name in scores}}
    if exams := [harness for harness in scores[PRESENT] if harness.startswith(EXAM)]:
        lamps = {name: 100 * mean(found[one].lamp / found[one].of for one in exams) for name, found in scores.items()}
        yield {"harness": "exam, marks of the lamp", **lamps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=SHARED, help="the folder with data, exam and scorers")
    parser.add_argument("--quick", action="store_true", help="one session of each harness, at one target")
    parser.add_argument("--write", action="store_true", help="replace the weights in the package")
    chosen = parser.parse_args()
    if not (chosen.shared / "data").exists() and not (chosen.shared / "exam").exists():
        parser.error(f"no sessions in {chosen.shared}")
    workers = Workers(chosen.shared, is_quick=chosen.quick)
    found = fitted(workers, as_flat(load_weights()))
    report("fit_weights_features", found.features, list(found.features[0]))
    report("fit_weights", found.harnesses, list(found.harnesses[0]))
    print(f"\nchosen: {found.best}")
    print(
        f"features without a gain: {', '.join(f'{table} {name}' for group in found.dropped for table, name in group)}"
    )
    print(f"no score depends on: {', '.join(f'{table} {name}' for table, name in sorted(found.unmeasured))}")
    if chosen.write:
        WEIGHTS.write_text(json.dumps(rounded(found.weights), indent=1) + "\n", encoding="utf-8")
        print(f"written: {WEIGHTS}")


if __name__ == "__main__":
    main()
