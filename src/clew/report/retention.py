"""What the folded messages held, and how much of it the result still says word for word.

Reads the originals with the ledger and looks each fact up in the text of the result. A fact that the handoff tells in
other words counts as not retained.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clew.ledger import Ledger, shorten, text_with_calls
from clew.messages import text_of
from clew.report.compaction_report import CompactionReport, MessageOutcome

_READ_IN_FULL_CHARS: Final = 4_000_000
_MAX_STRINGS: Final = 5_000
_MAX_LOST_STRINGS: Final = 1_000
_MAX_FACTS_OF_A_KIND: Final = 200
_MAX_FACT_CHARS: Final = 400

FACT_KINDS: Final[Mapping[str, str]] = {
    "rules": "Rules and preferences that people stated",
    "asks": "What people asked for",
    "files": "Files that were changed",
    "errors": "Errors that calls ended with",
    "decisions": "Decisions",
}


@dataclass(frozen=True, slots=True)
class FoldedFact:
    """Something the ledger found in a folded message."""

    kind: str
    text: str
    number: int
    is_retained: bool
    """Whether the result still says it word for word."""


@dataclass(frozen=True, slots=True)
class LostString:
    """A path, name, number or hash that is nowhere in the result, and the message where it was seen last."""

    text: str
    number: int
    messages: int
    """In how many messages it was."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the folded messages the result still says."""

    facts: tuple[FoldedFact, ...] = ()
    strings: int = 0
    """Exact strings that were looked up."""
    retained: int = 0
    """Of these, how many the result still has."""
    lost: tuple[LostString, ...] = ()
    """The others, the most informative first, as far as they are shown."""


def measure_retention(report: CompactionReport) -> Retention:
    """Look up the facts and exact strings of the folded messages in the result."""
    folded = {outcome.number for outcome in report.folded if outcome.number is not None}
    if not folded:
        return Retention()
    ledger = _read_outcomes(report.outcomes)
    result = _ResultText(text_with_calls(message) for message in report.result.compaction.messages)
    facts = tuple(_facts(ledger, folded, result))
    strings = _most_informative(ledger, folded, min(folded))
    lost_strings = [string for string in strings if not result.shows(string)]
    lost = [
        LostString(string, _last_seen(ledger, string, folded), ledger.index.atoms[string].messages)
        for string in lost_strings[:_MAX_LOST_STRINGS]
    ]
    return Retention(facts, len(strings), len(strings) - len(lost_strings), tuple(lost))


class _ResultText:
    """The text of the result, prepared so that a fact is found however it was quoted."""

    def __init__(self, texts: Iterator[str]) -> None:
        self._text = "\n".join(texts)
        self._plain = _plain(self._text)

    def shows(self, string: str) -> bool:
        return string in self._text

    def says(self, text: str) -> bool:
        return _plain(text) in self._plain


def _plain(text: str) -> str:
    """One line, without what JSON puts before quotes."""
    return " ".join(text.replace("\\n", " ").replace("\\", "").split())


def _read_outcomes(outcomes: Sequence[MessageOutcome]) -> Ledger:
    ledger = Ledger()
    lengths = [len(text_of(outcome.message)) for outcome in outcomes]
    left = sum(lengths)
    for outcome, length in zip(outcomes, lengths, strict=True):
        if outcome.number is not None:
            # The numbers of a conversation that was folded before have a gap.
            ledger.next_number = outcome.number
            ledger.add(outcome.message, outline=left > _READ_IN_FULL_CHARS)
        left -= length
    return ledger


def _facts(ledger: Ledger, folded: Container[int], result: _ResultText) -> Iterator[FoldedFact]:
    found: dict[str, list[tuple[str, int]]] = {
        "rules": [(rule.text, rule.number) for rule in ledger.rules],
        "asks": [(ask.text, ask.number) for ask in ledger.requests],
        "files": [(fact.path, fact.changes[-1]) for fact in ledger.files.values() if fact.changes],
        "errors": [
            (action.outcome.error, action.result)
            for action in ledger.actions
            if action.failed and action.outcome and action.outcome.error and action.result is not None
        ],
        "decisions": [(said.text, said.number) for said in ledger.decisions],
    }
    for kind, told in found.items():
        newest = dict(pair for pair in told if pair[1] in folded)
        for text, number in list(newest.items())[-_MAX_FACTS_OF_A_KIND:]:
            yield FoldedFact(kind, shorten(text, _MAX_FACT_CHARS), number, result.says(text))


def _most_informative(ledger: Ledger, folded: Container[int], first: int) -> list[str]:
    # By the newest numbers that the index keeps of each: reading every folded message again would double the cost.
    index = ledger.index
    known = [string for string, seen in index.atoms.items() if any(number in folded for number in seen.newest_numbers)]
    return sorted(known, key=lambda string: (-index.worth(string, first), string))[:_MAX_STRINGS]


def _last_seen(ledger: Ledger, string: str, folded: Container[int]) -> int:
    numbers = ledger.index.atoms[string].newest_numbers
    return next((number for number in reversed(numbers) if number in folded), numbers[-1])
