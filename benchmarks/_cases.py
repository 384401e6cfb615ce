"""Sessions whose handoffs are written again and again with other weights, and what should be in them.

A session is cut where 70% of its text has passed: the facts that its agent used later should be in the fold of what is
before the cut. Of a session of the exam, the key strings of the answers should be in the fold. Only the selection is
repeated, at a fixed size: the messages that stay beside the handoff are those of the present weights.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias

import clew
from _sessions import LEAST_CHARS, CutSession, conversation_files, cut_sessions, load_scorer, name_of
from clew.config import CompressionSettings
from clew.engines import ContextCompressor
from clew.engines.compressor.plan import budgets_for_target
from clew.handoff import Summary, SummaryInput, summarize_builtin
from clew.handoff.builtin import Draft
from clew.handoff.candidates import Candidate
from clew.handoff.worth import Weights, Worth, term_features
from clew.tokens import counter_for

COUNT = counter_for(None).text
EXAM_TOKENS, FACT_CHARS = (10_000, 5_000), (40_000, 10_400)
NEAR = 0.96
"""The share of the wanted chars that a fold is planned for."""
SEVERAL = "other_harnesses"
"""A file whose sessions name their programs."""
EXAM = "exam "
CONSIDERED = 3
"""A selection considers what the present weights choose for a handoff of so many times the size."""

Features: TypeAlias = tuple[str, ...]


class FactMarks:
    """The facts that the agent used after the cut."""

    def __init__(self, scorer: Any, session: CutSession) -> None:
        self._scorer, self.needed = scorer, session.need
        found = {atom: scorer.companions(atom, session.before) for atom in session.need}
        self._lines = {atom: lines for atom, lines in found.items() if lines}
        self.size = len(self._lines)

    def text(self, messages: Sequence[Any]) -> str:
        return "\n".join(map(self._scorer.text, messages))

    def shown(self, text: str, known: frozenset[str] = frozenset()) -> set[str]:
        """What the text shows, apart from what is known to be shown elsewhere."""
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

    def shown(self, text: str, known: frozenset[str] = frozenset()) -> set[str]:
        text, share = self._scorer.normal(text), self._scorer.share
        return {key for key in self._keys - known if share(key, text) == 1.0}

    def points(self, shown: set[str]) -> float:
        return sum(mean(self._share(keys, shown) for keys in parts) for parts in self._parts)

    def lamp(self, shown: set[str]) -> float:
        """Points as the exam counts them: a part counts whole or half from a share on."""
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
    marks: FactMarks | AnswerMarks


def fact_sessions(data: Path, scorer: Any, least_chars: int = LEAST_CHARS) -> Iterator[Session]:
    for path in conversation_files(data):
        for cut in cut_sessions(path, scorer, least_chars):
            chars = sum(len(scorer.text(message)) for message in cut.before)
            tokens = clew.count_tokens(cut.before)
            targets = tuple(round(NEAR * most * tokens / chars) for most in FACT_CHARS if most < chars)
            harness = cut.source if name_of(path) == SEVERAL else name_of(path)
            if (marks := FactMarks(scorer, cut)).size:
                yield Session(harness, cut.before, targets, marks)


def exam_sessions(folder: Path) -> Iterator[Session]:
    scorer = load_scorer(folder / "exam.py")
    questions = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    for name, messages in scorer.sessions(folder / "sessions"):
        yield Session(f"{EXAM}{name}", messages, EXAM_TOKENS, AnswerMarks(scorer, questions[name]))


def shared_sessions(shared: Path, most: int) -> list[Session]:
    """At most so many sessions of each harness, the shortest first."""
    found: list[Session] = []
    if (shared / "data").exists():
        found += fact_sessions(shared / "data", load_scorer(shared / "retention.py"))
    if (shared / "exam").exists():
        found += exam_sessions(shared / "exam")
    taken, kept = Counter[str](), []
    for session in sorted(found, key=lambda session: len(session.marks.text(session.messages))):
        taken[session.harness] += 1
        if taken[session.harness] <= most:
            kept.append(session)
    return kept


class CachedWorth(Worth):
    """The features of terms are found once for all weights."""

    def __init__(self, draft: Draft, weights: Weights, features: dict[str, Features]) -> None:
        super().__init__(draft.material, draft.record.next_number, weights, draft.source.focus)
        self._features = features

    def of_term(self, term: str) -> float:
        features = self._features.get(term)
        if features is None:
            use, kind = self._material.uses.get(term), self._material.terms.kinds[term]
            features = self._features[term] = () if use is None else term_features(term, kind, use, self._end)
        return self._by(features) if features else 0.0


class WeighedDraft(Draft):
    """A draft whose weights can be changed: messages are read once."""

    def __init__(self, source: SummaryInput) -> None:
        super().__init__(source, COUNT)
        self._features: dict[str, Features] = {}
        self._shown = super()._shown_terms()

    def weigh(self, weights: Weights) -> None:
        self._worth = CachedWorth(self, weights, self._features)

    def _shown_terms(self) -> set[str]:
        return self._shown


class Case:
    """A session at one target: what stays beside the handoff, and the room that the handoff has."""

    def __init__(self, session: Session, target: int) -> None:
        written: list[tuple[SummaryInput, Summary]] = []

        async def summarize(source: SummaryInput, budget: int) -> Summary:
            written.append((source, summarize_builtin(source, budget, COUNT)))
            return written[-1][1]

        budgets = budgets_for_target(target, CompressionSettings())
        engine = ContextCompressor(budgets=budgets, summarize=summarize, has_store=False)
        done = asyncio.run(engine.compress(list(session.messages)))
        [(source, summary)] = written
        self.harness, self.marks, self.draft = session.harness, session.marks, WeighedDraft(source)
        self._known = frozenset(self.marks.shown(self.marks.text(done.messages).replace(summary.text, "")))
        self._room = COUNT(summary.text) - COUNT(self.draft.handoff(()).render())
        # Without the candidates that come nowhere near the handoff, a selection takes a fraction of the time.
        self.draft.material.candidates = self._taken(CONSIDERED * self._room)

    def shown(self, weights: Weights) -> set[str]:
        """What the fold shows with these weights in a handoff of the same size."""
        self.draft.weigh(weights)
        handoff = self.draft.handoff(self._taken(self._room))
        return {*self._known, *self.marks.shown(handoff.render(), self._known)}

    def _taken(self, room: float) -> list[Candidate]:
        taken: list[Candidate] = []
        for candidate, tokens in self.draft.order():
            room -= tokens
            if room < 0:
                break
            taken.append(candidate)
        return taken

    def term_counts(self) -> dict[Features, tuple[int, int]]:
        """For each set of features: how many such terms were needed, and how many there are."""
        counts: defaultdict[Features, list[int]] = defaultdict(lambda: [0, 0])
        material, end = self.draft.material, self.draft.record.next_number
        needed = material.terms.of_all(self.marks.needed)
        for term, use in material.uses.items():
            count = counts[term_features(term, material.terms.kinds[term], use, end)]
            count[0] += term in needed
            count[1] += 1
        return {features: (some, total) for features, (some, total) in counts.items()}
