"""What the folded messages held, and which of it no longer stands in the result word for word.

Reads the originals with the ledger and looks each fact up in the text of the result. Judges no sentence: a fact that
the handoff tells in other words counts as not standing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clew.engines import Fate
from clew.ledger import Ledger, shorten, whole_text
from clew.messages import text_of
from clew.report.account import Account, Cell

_READ_IN_FULL_CHARS: Final = 4_000_000
_STRINGS_WEIGHED: Final = 5_000
_STRINGS_SHOWN: Final = 1_000
_FACTS_OF_A_KIND: Final = 200
_FACT_CHARS: Final = 400

KINDS: Final[Mapping[str, str]] = {
    "rules": "Rules and preferences that people stated",
    "asks": "What people asked for",
    "files": "Files that were changed",
    "errors": "Errors that calls ended with",
    "decisions": "Decisions",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """Something the ledger found in a folded message."""

    kind: str
    text: str
    number: int
    stands: bool
    """Whether the result still says it word for word."""


@dataclass(frozen=True, slots=True)
class LostString:
    """A path, name, number or hash that stands nowhere in the result, and where it was seen last."""

    text: str
    number: int
    messages: int
    """In how many messages it was."""


@dataclass(frozen=True, slots=True)
class Survival:
    """What is left of the folded messages."""

    facts: tuple[Fact, ...] = ()
    strings: int = 0
    """Exact strings that were looked up."""
    standing: int = 0
    lost: tuple[LostString, ...] = ()
    """Those that no longer stand, the most telling first, as far as they are shown."""


def survival_of(account: Account) -> Survival:
    """What stands and what is gone of the messages that were folded."""
    folded = {cell.number: cell for cell in account.cells if cell.fate is Fate.SUMMARISED and cell.number is not None}
    if not folded:
        return Survival()
    ledger = _ledger_of(account.cells)
    result = _Result(whole_text(message) for message in account.done.compaction.messages)
    facts = tuple(_facts(ledger, folded, result))
    strings = _most_telling(ledger, folded, min(folded))
    standing = [result.shows(string) for string in strings]
    gone = [string for string, stands in zip(strings, standing, strict=True) if not stands]
    lost = [
        LostString(string, _last_seen(ledger, string, folded), ledger.index.seen[string].messages) for string in gone
    ]
    return Survival(facts, len(strings), sum(standing), tuple(lost[:_STRINGS_SHOWN]))


class _Result:
    """The text of the result, made so that a fact is found however it was quoted."""

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


def _ledger_of(cells: Sequence[Cell]) -> Ledger:
    ledger = Ledger()
    lengths = [len(text_of(cell.message)) for cell in cells]
    left = sum(lengths)
    for cell, length in zip(cells, lengths, strict=True):
        if cell.number is not None:
            # The numbers of a conversation that was folded before have a gap.
            ledger.next = cell.number
            ledger.add(cell.message, outline=left > _READ_IN_FULL_CHARS)
        left -= length
    return ledger


def _facts(ledger: Ledger, folded: Mapping[int, Cell], result: _Result) -> Iterator[Fact]:
    found: dict[str, list[tuple[str, int]]] = {
        "rules": [(rule.text, rule.number) for rule in ledger.rules],
        "asks": [(ask.text, ask.number) for ask in ledger.asks],
        "files": [(fact.path, fact.last) for fact in ledger.files.values() if fact.changes],
        "errors": [
            (action.outcome.error, action.result)
            for action in ledger.actions
            if action.failed and action.outcome and action.outcome.error and action.result is not None
        ],
        "decisions": [(said.text, said.number) for said in ledger.decisions],
    }
    for kind, told in found.items():
        newest = dict(pair for pair in told if pair[1] in folded)
        for text, number in list(newest.items())[-_FACTS_OF_A_KIND:]:
            yield Fact(kind, shorten(text, _FACT_CHARS), number, result.says(text))


def _most_telling(ledger: Ledger, folded: Mapping[int, Cell], first: int) -> list[str]:
    # By the places that the index keeps, the newest of each: reading every folded message again would double the cost.
    index = ledger.index
    known = [string for string, seen in index.seen.items() if any(place in folded for place in seen.places)]
    return sorted(known, key=lambda string: (-index.worth(string, first), string))[:_STRINGS_WEIGHED]


def _last_seen(ledger: Ledger, string: str, folded: Mapping[int, Cell]) -> int:
    places = ledger.index.seen[string].places
    return next((place for place in reversed(places) if place in folded), places[-1])
