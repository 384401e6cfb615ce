"""Fits the weights of the handoff's value function, and reports what each feature is worth on harnesses not fitted on.

    python benchmarks/fit_weights.py [--quick] [--write] [--shared FOLDER]

Sessions are cut where 70% of their text has passed; the facts that the agent used later must be in the fold of what is
before the cut (the scorer and the data of `quality.py`). In the sessions of the exam, the key strings of the answers
must be in the fold. A harness is a file of sessions, a source named in it, or one session of the exam.

1. Every weight is moved up and down by a step, and the sessions of each harness are scored again. Terms also get the
   weights of a ridge regression on "was needed later".
2. For each harness, a fit on all others combines the moves that gained there, and is scored on that harness alone.
3. On the same left-out harnesses, each feature is removed: the loss is its contribution. Features whose removal costs
   nothing are dropped, if dropping all of them together costs nothing.

Only the selection is repeated, at a fixed size: messages that stay beside the handoff are those of the present weights.
With --write the fit on all harnesses replaces `weights.json`, if it is better on left-out harnesses than the present
weights. Plain Python, two processes, about 15 minutes; --quick scores few sessions in less than two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple, Protocol

import clew
from _sessions import LEAST_CHARS, SHARED, CutSession, conversation_files, cut_sessions, load_scorer, name_of
from _table import report
from clew.config import CompressionSettings
from clew.engines import ContextCompressor
from clew.engines.compressor.budgets import budgets_for_target
from clew.handoff import Summary, SummaryInput, summarize_builtin
from clew.handoff.builtin import Draft
from clew.handoff.candidates import Candidate
from clew.handoff.worth import Weights, Worth, load_weights, term_features
from clew.tokens import counter_for

COUNT = counter_for(None).text
WEIGHTS = Path(__file__).resolve().parents[1] / "src" / "clew" / "handoff" / "weights.json"
EXAM_TOKENS, FACT_CHARS = (10_000, 5_000), (40_000, 10_400)
NEAR = 0.96
"""The share of the wanted chars that a fold is planned for."""
SEVERAL = "other_harnesses"
"""A file whose sessions name their programs."""
MOST_SESSIONS, QUICK_SESSIONS = 6, 1
"""Of one harness."""
PROCESSES = 2
TABLES = ("term", "kind", "candidate", "bonus")
EXAM = "exam "
CONSIDERED = 3
"""A selection considers what the present weights choose for a handoff of so many times the size."""
STEPS = {"term": 0.2, "kind": 0.25, "candidate": 0.3}
FACTOR = 1.5
"""The step of a bonus: it is multiplied or divided."""
EXAM_SHARE = 0.5
"""Of the objective; the rest is retention."""
ENOUGH = 40
"""A harness with fewer facts weighs less."""
RIDGE, SWEEPS = 0.02, 60
LINE = ((0.5, 0.0), (1.0, 0.0), (0.5, 0.3), (1.0, 0.3), (0.0, 0.3))
"""The tries of a fit: how far to go along the gains, and how far to the regression."""
LEAST_GAIN = 0.02
"""In points: below it a feature has no gain."""
TIE = 0.1
"""In points: weights with fewer features are preferred up to this loss."""
GROUPS = {
    "term": (
        ("exact", "word"),
        ("newest", "recent", "late", "middle", "old"),
        ("once", "twice", "few times", "several times", "many times"),
    ),
    "candidate": (("newest", "recent", "late", "middle", "old"),),
}
"""Features of which a term or candidate has exactly one: without them, all have their mean."""

Flat = dict[tuple[str, str], float]
"""Weights by table and name."""
Group = tuple[tuple[str, str], ...]
Job = tuple[Flat, Collection[str] | None]
"""Weights, and the harnesses to score them on; None for all."""
Counts = dict[tuple[str, ...], tuple[float, float]]
"""For each set of features of terms: how many such terms were needed, and how many there are."""


class Score(NamedTuple):
    points: float
    of: int
    lamp: float
    """Points as the exam counts them."""


Scores = Mapping[str, Score]
"""By harness."""


# -- sessions and their marks ------------------------------------------------------------------------------------------


class Marks(Protocol):
    """What should be in the fold of a session."""

    needed: Sequence[str]
    """As text, for the terms in it."""
    size: int

    def text(self, messages: Sequence[Any]) -> str:
        """The messages as the scorer reads them."""

    def shown(self, text: str, known: frozenset[str]) -> set[str]:
        """What the text shows and is not known to be shown elsewhere."""

    def points(self, shown: set[str]) -> float: ...

    def lamp(self, shown: set[str]) -> float: ...


class FactMarks:
    """The facts that the agent used after the cut."""

    def __init__(self, scorer: Any, session: CutSession) -> None:
        self._scorer, self.needed = scorer, session.need
        found = {atom: scorer.companions(atom, session.before) for atom in session.need}
        self._lines = {atom: lines for atom, lines in found.items() if lines}
        self.size = len(self._lines)

    def text(self, messages: Sequence[Any]) -> str:
        return "\n".join(map(self._scorer.text, messages))

    def shown(self, text: str, known: frozenset[str]) -> set[str]:
        shows = self._scorer.shown_as_fact
        return {atom for atom, lines in self._lines.items() if atom not in known and shows(atom, lines, text)}

    def points(self, shown: set[str]) -> float:
        return len(shown)

    lamp = points


class AnswerMarks:
    """The key strings of the answers to the questions of the exam."""

    def __init__(self, scorer: Any, questions: Sequence[Any]) -> None:
        self._scorer = scorer
        self._parts = [[scorer.keys_of(part) for part in question["must_have"]] for question in questions]
        self._keys = {key for parts in self._parts for keys in parts for key in keys}
        self.needed = [part for question in questions for part in question["must_have"]]
        self.size = len(self._parts)

    def text(self, messages: Sequence[Any]) -> str:
        return str(self._scorer.as_text(messages))

    def shown(self, text: str, known: frozenset[str]) -> set[str]:
        text, share = self._scorer.normal(text), self._scorer.share
        return {key for key in self._keys - known if share(key, text) == 1.0}

    def points(self, shown: set[str]) -> float:
        return sum(mean(self._share(keys, shown) for keys in parts) for parts in self._parts)

    def lamp(self, shown: set[str]) -> float:
        """The marks of the exam: a part counts from a share on."""
        shares = [[self._share(keys, shown) for keys in parts] for parts in self._parts]
        return sum(mean(1.0 if one >= 0.85 else 0.5 if one >= 0.6 else 0.0 for one in each) for each in shares)

    def _share(self, keys: Sequence[str], shown: set[str]) -> float:
        weight = self._scorer.weight
        return sum(weight(key) for key in keys if key in shown) / sum(map(weight, keys)) if keys else 1.0


@dataclass(frozen=True)
class Session:
    harness: str
    messages: Sequence[Any]
    targets: tuple[int, ...]
    """In tokens."""
    marks: Marks


def fact_sessions(data: Path, scorer: Any, least_chars: int = LEAST_CHARS) -> Iterator[Session]:
    for path in conversation_files(data):
        for cut in cut_sessions(path, scorer, least_chars):
            chars = sum(len(scorer.text(message)) for message in cut.before)
            targets = tuple(round(NEAR * most * clew.count_tokens(cut.before) / chars) for most in FACT_CHARS)
            marks = FactMarks(scorer, cut)
            if marks.size:
                yield Session(cut.source if name_of(path) == SEVERAL else name_of(path), cut.before, targets, marks)


def exam_sessions(folder: Path) -> Iterator[Session]:
    scorer = load_scorer(folder / "exam.py")
    questions = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    for name, messages in scorer.sessions(folder / "sessions"):
        yield Session(f"{EXAM}{name}", messages, EXAM_TOKENS, AnswerMarks(scorer, questions[name]))


# -- scoring -----------------------------------------------------------------------------------------------------------


class CachedWorth(Worth):
    """The features of terms are found once for all weights."""

    def __init__(self, draft: Draft, weights: Weights, features: dict[str, tuple[str, ...]]) -> None:
        super().__init__(draft.material, draft.record.next_number, weights, draft.source.focus)
        self._of_terms, self._features = weights["term"], features

    def of_term(self, term: str) -> float:
        features = self._features.get(term)
        if features is None:
            use = self._material.uses.get(term)
            kind = self._material.terms.kinds[term]
            features = self._features[term] = () if use is None else term_features(term, kind, use, self._end)
        found = self._by_features.get(features)
        if found is None:
            weight = sum(self._of_terms.get(name, 0.0) for name in features)
            found = self._by_features[features] = max(0.0, weight)
        return found


class WeighedDraft(Draft):
    """A draft whose weights can be changed: messages are read once."""

    _features: dict[str, tuple[str, ...]]
    _shown_before: set[str]

    def weigh(self, weights: Weights) -> None:
        self._worth = CachedWorth(self, weights, self.__dict__.setdefault("_features", {}))

    def _shown_terms(self) -> set[str]:
        if "_shown_before" not in self.__dict__:
            self._shown_before = super()._shown_terms()
        return self._shown_before


class Case:
    """A session at one target: what stays beside the handoff, and the room that the handoff has."""

    def __init__(self, session: Session, target: int) -> None:
        written: list[tuple[SummaryInput, Summary]] = []

        async def summarize(source: SummaryInput, budget: int) -> Summary:
            written.append((source, await summarize_builtin(source, budget, COUNT)))
            return written[-1][1]

        budgets = budgets_for_target(target, CompressionSettings())
        engine = ContextCompressor(budgets=budgets, summarize=summarize, has_store=False)
        done = asyncio.run(engine.compress(list(session.messages)))
        self.harness, self.marks = session.harness, session.marks
        staying = self.marks.text(done.messages)
        self.draft: WeighedDraft | None = None
        self._costs: dict[Candidate, float] = {}
        if written:
            source, summary = written[0]
            staying = staying.replace(summary.text, "")
            self.draft = WeighedDraft(source)
            self._room = COUNT(summary.text) - COUNT(self.draft.handoff(()).render())
            self._narrow()
        self._known = frozenset(self.marks.shown(staying, frozenset()))

    def _narrow(self) -> None:
        """Drop the candidates that come nowhere near the handoff: a selection then takes a fraction of the time."""
        assert self.draft is not None
        near, self._room = self._room, CONSIDERED * self._room
        self.draft.material.candidates = self._taken(self.draft)
        self._room = near

    def shown(self, weights: Weights) -> set[str]:
        return {*self._known, *self.marks.shown(self.text(weights), self._known)}

    def text(self, weights: Weights) -> str:
        """The handoff with these weights, about as long as the one with the present weights."""
        if self.draft is None:
            return ""
        self.draft.weigh(weights)
        return self.draft.handoff(self._taken(self.draft)).render()

    def _taken(self, draft: Draft) -> list[Candidate]:
        taken: list[Candidate] = []
        room = float(self._room)
        for candidate, chars in draft.order():
            room -= chars * self._tokens_per_char(candidate)
            if room < 0:
                break
            taken.append(candidate)
        return taken

    def _tokens_per_char(self, candidate: Candidate) -> float:
        found = self._costs.get(candidate)
        if found is None:
            found = self._costs[candidate] = COUNT(candidate.text) / max(1, len(candidate.text))
        return found

    def term_counts(self) -> Counts:
        """How many terms were needed, by their features."""
        counts: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
        if self.draft is not None:
            material, end = self.draft.material, self.draft.record.next_number
            needed = material.terms.of_all(self.marks.needed)
            for term, use in material.uses.items():
                count = counts[term_features(term, material.terms.kinds[term], use, end)]
                count[0] += term in needed
                count[1] += 1
        return {features: (needed, total) for features, (needed, total) in counts.items()}


class Cases:
    """The cases of some sessions, scored in this process."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        self.cases = [Case(session, target) for session in sessions for target in session.targets]

    def scores(self, jobs: Sequence[Job]) -> list[Scores]:
        return [self._scores(*job) for job in jobs]

    def _scores(self, weights: Flat, harnesses: Collection[str] | None = None) -> Scores:
        total: defaultdict[str, Counter[str]] = defaultdict(Counter)
        nested = as_tables(weights)
        for case in self.cases:
            if harnesses is None or case.harness in harnesses:
                marks, shown = case.marks, case.shown(nested)
                total[case.harness].update(points=marks.points(shown), lamp=marks.lamp(shown), of=marks.size)
        return {harness: Score(one["points"], one["of"], one["lamp"]) for harness, one in total.items()}

    def term_counts(self) -> list[tuple[str, Counts]]:
        return [(case.harness, case.term_counts()) for case in self.cases]

    def feature_names(self) -> set[tuple[str, str]]:
        drafts = [case.draft for case in self.cases if case.draft is not None]
        candidates = [candidate for draft in drafts for candidate in draft.material.candidates]
        named = {("candidate", name) for candidate in candidates for name in candidate.features}
        return named | {("kind", candidate.kind.value) for candidate in candidates}


_own_cases: list[Cases] = []
"""Of a worker process."""


def _start_worker(shared: Path, most: int, share: int, of: int) -> None:
    _own_cases.append(Cases(islice(by_size(shared_sessions(shared, most)), share, None, of)))


def _ask_worker(method: str, *arguments: Any) -> Any:
    return getattr(_own_cases[0], method)(*arguments)


class Workers:
    """Scores in two processes, each of which has half of the sessions."""

    def __init__(self, shared: Path, most_sessions: int) -> None:
        self._pools = [
            ProcessPoolExecutor(1, initializer=_start_worker, initargs=(shared, most_sessions, share, PROCESSES))
            for share in range(PROCESSES)
        ]

    def scores(self, jobs: Sequence[Job]) -> list[Scores]:
        asked = [[pool.submit(_ask_worker, "scores", [job]) for pool in self._pools] for job in jobs]
        return [reduce(_joined, (future.result()[0] for future in futures)) for futures in asked]

    def term_counts(self) -> list[tuple[str, Counts]]:
        return [one for pool in self._pools for one in pool.submit(_ask_worker, "term_counts").result()]

    def feature_names(self) -> set[tuple[str, str]]:
        return {one for pool in self._pools for one in pool.submit(_ask_worker, "feature_names").result()}


def _joined(some: Scores, others: Scores) -> Scores:
    nothing = Score(0.0, 0, 0.0)
    both = {harness: (some.get(harness, nothing), others.get(harness, nothing)) for harness in {**some, **others}}
    return {
        harness: Score(one.points + other.points, one.of + other.of, one.lamp + other.lamp)
        for harness, (one, other) in both.items()
    }


def shared_sessions(shared: Path, most: int) -> Iterator[Session]:
    """At most so many sessions of each harness."""
    found: list[Session] = []
    if (shared / "data").exists():
        found += fact_sessions(shared / "data", load_scorer(shared / "retention.py"))
    if (shared / "exam").exists():
        found += exam_sessions(shared / "exam")
    taken = Counter[str]()
    for session in found:
        taken[session.harness] += 1
        if taken[session.harness] <= most:
            yield session


def by_size(sessions: Iterable[Session]) -> list[Session]:
    return sorted(sessions, key=lambda session: len(json.dumps(session.messages)))


# -- weights -----------------------------------------------------------------------------------------------------------


def as_flat(weights: Weights) -> Flat:
    return {(table, name): weight for table, names in weights.items() for name, weight in names.items()}


def as_tables(flat: Flat) -> dict[str, dict[str, float]]:
    tables: dict[str, dict[str, float]] = {table: {} for table in TABLES}
    for (table, name), weight in flat.items():
        tables[table][name] = weight
    return tables


def moved(weights: Flat, key: tuple[str, str], way: float) -> Flat:
    """With one weight moved by so many steps."""
    old = weights[key]
    new = old * FACTOR**way if key[0] == "bonus" else old + way * STEPS[key[0]]
    return {**weights, key: min(new, 1.0) if key == ("bonus", "fade") else new}


def without(weights: Flat, group: Group) -> Flat:
    """Without features. Where each term or candidate has one of them, their mean goes to what else each of them has."""
    values = [weights[key] for key in group if key in weights]
    left = {key: weight for key, weight in weights.items() if key not in group}
    if len(group) == 1:
        return left
    table = group[0][0]
    if table == "term" and ("term", "exact") in group:
        return left | dict.fromkeys(group, mean(values))
    others = (
        [key for key in left if key[0] == "kind"] if table == "candidate" else [("term", "exact"), ("term", "word")]
    )
    return left | {key: left.get(key, 0.0) + mean(values) for key in others}


def groups_of(weights: Flat) -> list[Group]:
    """Features that are removed together."""
    joined = [tuple((table, name) for name in names) for table, groups in GROUPS.items() for names in groups]
    single = [(key,) for key in weights if not any(key in group for group in joined)]
    return [*joined, *single]


def regression(counts: Iterable[tuple[str, Counts]], present: Flat) -> Flat:
    """The weights of terms by ridge regression on being needed; each harness weighs the same.

    They are scaled so that needed terms have the mean weight that they have now.
    """
    by_harness: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    needed: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for harness, found in counts:
        for features, (some, total) in found.items():
            by_harness[harness][features] += total
            needed[harness][features] += some
    rows = [
        (features, total / sum(totals.values()), needed[harness][features] / total * sum(totals.values()) / every)
        for harness, totals in by_harness.items()
        if (every := sum(needed[harness].values()))
        for features, total in totals.items()
    ]
    names = sorted({name for features, _, _ in rows for name in features})
    weights = dict.fromkeys(names, 0.0)
    for _ in range(SWEEPS):
        for name in names:
            own = [row for row in rows if name in row[0]]
            mass = sum(row[1] for row in own)
            error = sum(share * (aim - sum(weights[one] for one in features)) for features, share, aim in own)
            weights[name] += (error - RIDGE * weights[name]) / (mass + RIDGE)

    def mean_needed(weight_of: Mapping[str, float]) -> float:
        return sum(n * aim * max(0.0, sum(weight_of.get(f, 0.0) for f in features)) for features, n, aim in rows)

    scale = mean_needed(as_tables(present)["term"]) / max(1e-9, mean_needed(weights))
    return {("term", name): scale * weight for name, weight in weights.items()}


# -- the fit -----------------------------------------------------------------------------------------------------------


class Scorer(Protocol):
    def scores(self, jobs: Sequence[Job]) -> list[Scores]: ...

    def term_counts(self) -> list[tuple[str, Counts]]: ...

    def feature_names(self) -> set[tuple[str, str]]: ...


def mean_score(scores: Scores, harnesses: Collection[str]) -> float:
    """In percent: half for the exam, half for facts, where there are both; harnesses weigh the same."""
    shares: dict[bool, list[tuple[float, float]]] = {}
    for harness in harnesses:
        is_exam = harness.startswith(EXAM)
        weight = 1.0 if is_exam else min(1.0, scores[harness].of / ENOUGH)
        shares.setdefault(is_exam, []).append((weight, 100 * scores[harness].points / scores[harness].of))
    means = {
        is_exam: sum(w * share for w, share in found) / sum(w for w, _ in found) for is_exam, found in shares.items()
    }
    return EXAM_SHARE * means[True] + (1 - EXAM_SHARE) * means[False] if len(means) > 1 else mean(means.values())


class Fit:
    """Moves of single weights with their gains on each harness, and the fits that combine them."""

    def __init__(self, scorer: Scorer, present: Flat) -> None:
        self._scorer = scorer
        self.present = present | dict.fromkeys(sorted(scorer.feature_names() - present.keys()), 0.0)
        self._moves = [
            (key, way) for key, weight in self.present.items() if weight or key[0] != "bonus" for way in (1, -1)
        ]
        first, *rest = scorer.scores(
            [(self.present, None), *((moved(self.present, *move), None) for move in self._moves)]
        )
        self.scores, self._moved = first, dict(zip(self._moves, rest, strict=True))
        self._counts = scorer.term_counts()
        self.harnesses = sorted(first)
        self.unmeasured = {
            key for key, _ in self._moves if all(self._moved.get((key, way)) == first for way in (1, -1))
        }

    def folds(self) -> dict[str | None, Flat]:
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
        ways = {key: self._way(key, others) for key in self.present}
        terms = regression((one for one in self._counts if one[0] in others), self.present)
        for far, blend in LINE:
            weights = dict(self.present)
            for key, way in ways.items():
                weights = moved(weights, key, far * way) if way else weights
            for key, weight in terms.items():
                weights[key] = (1 - blend) * weights.get(key, 0.0) + blend * weight
            yield weights

    def _way(self, key: tuple[str, str], harnesses: Sequence[str]) -> float:
        """How many steps to go with a weight: less where harnesses disagree."""
        best = 0.0
        for way in (1, -1):
            if (key, way) not in self._moved:
                continue
            scores = self._moved[key, way]
            gain = mean_score(scores, harnesses) - mean_score(self.scores, harnesses)
            each = [100 * (scores[one].points - self.scores[one].points) / scores[one].of for one in harnesses]
            doubt = stdev(each) / math.sqrt(len(each)) if len(each) > 1 else 0.0
            if gain > 0 and (far := gain / (gain + doubt)) > abs(best):
                best = way * far
        return best

    def held_out(self, weights_of: Mapping[str | None, Flat]) -> Scores:
        """The score of each harness with the weights that were fitted without it."""
        scored = self._scorer.scores([(weights_of[harness], (harness,)) for harness in self.harnesses])
        return {harness: score for scores in scored for harness, score in scores.items()}


def contributions(fit: Fit, folds: Mapping[str | None, Flat], scores: Scores) -> Iterator[dict[str, Any]]:
    """What each feature adds on harnesses that it was not fitted on, in points."""
    for group in groups_of(fit.present):
        if fit.unmeasured.issuperset(group):
            continue
        less = fit.held_out({harness: without(weights, group) for harness, weights in folds.items()})
        each = [100 * (scores[one].points - less[one].points) / scores[one].of for one in fit.harnesses]
        yield {
            "table": group[0][0],
            "feature": ", ".join(name for _, name in group),
            "gain": mean_score(scores, fit.harnesses) - mean_score(less, fit.harnesses),
            "harnesses better": sum(gain > 0 for gain in each),
            "worse": sum(gain < 0 for gain in each),
            "group": group,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--quick", action="store_true", help="one session of each harness")
    parser.add_argument("--write", action="store_true", help="replace the weights in the package")
    chosen = parser.parse_args()
    workers = Workers(chosen.shared, QUICK_SESSIONS if chosen.quick else MOST_SESSIONS)
    fit = Fit(workers, as_flat(load_weights()))
    folds = fit.folds()
    fitted = fit.held_out(folds)
    rows = sorted(contributions(fit, folds, fitted), key=lambda row: -row["gain"])
    report("fit_weights_features", rows, list(rows[0])[:-1])
    # Bonuses stay: they are for requests, rules and files, which a handoff must have, and few marks depend on them.
    useless = [row["group"] for row in rows if row["gain"] < LEAST_GAIN and row["table"] != "bonus"]
    present = dict.fromkeys(folds, fit.present)
    choices = {
        "present": present,
        "fitted": folds,
        "present, fewer features": {harness: reduce(without, useless, fit.present) for harness in folds},
        "fitted, fewer features": {harness: reduce(without, useless, weights) for harness, weights in folds.items()},
    }
    scores = {name: fit.held_out(weights) for name, weights in choices.items()}
    report("fit_weights", list(harness_rows(scores, fit.harnesses)), ["harness", "possible", *choices])
    best = max(scores, key=lambda name: mean_score(scores[name], fit.harnesses) + TIE * name.endswith("features"))
    print(f"\nbest on left-out harnesses: {best}; without a gain: {[name for group in useless for _, name in group]}")
    print(f"no session depends on: {sorted(name for _, name in fit.unmeasured)}")
    if chosen.write:
        WEIGHTS.write_text(json.dumps(rounded(choices[best][None]), indent=1) + "\n", encoding="utf-8")
        print(f"written: {WEIGHTS}")


def harness_rows(scores: Mapping[str, Scores], harnesses: Sequence[str]) -> Iterator[dict[str, Any]]:
    """In percent, with the weights that were fitted without the harness."""
    for harness in harnesses:
        shares = {name: 100 * found[harness].points / found[harness].of for name, found in scores.items()}
        yield {"harness": harness, "possible": next(iter(scores.values()))[harness].of, **shares}
    exams = [harness for harness in harnesses if harness.startswith(EXAM)]
    facts = [harness for harness in harnesses if harness not in exams]
    for title, some in (("facts", facts), ("exam", exams), ("all", harnesses)):
        if some:
            yield {"harness": title, **{name: mean_score(found, some) for name, found in scores.items()}}
    if exams:
        lamps = {name: 100 * mean(found[one].lamp / found[one].of for one in exams) for name, found in scores.items()}
        yield {"harness": "exam, marks of the lamp", **lamps}


def rounded(weights: Flat) -> dict[str, dict[str, float]]:
    """Weights of 0 are left out."""
    return as_tables({key: round(weight, 2) for key, weight in weights.items() if round(weight, 2)})


if __name__ == "__main__":
    main()
