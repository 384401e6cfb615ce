"""The facts and strings of the folded messages, and how many of them the result still has word for word.

Facts come from the record of the originals, exact strings from their text; each is looked up in the text of the
result. A fact that the handoff says in other words counts as lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clew.facts import Record, Terms, flatten, shorten
from clew.messages import Message, arguments_of_call, calls_of, text_of
from clew.report.compaction_report import CompactionReport, MessageOutcome

_MAX_STRINGS: Final = 5_000
_MAX_LOST_STRINGS: Final = 1_000
_MIN_STRING_CHARS: Final = 4
_MAX_MESSAGE_CHARS: Final = 60_000
"""Of each message, as much as the built-in summariser reads."""
_MAX_FACTS_OF_A_KIND: Final = 200
_MAX_FACT_CHARS: Final = 400

FACT_KINDS: Final[Mapping[str, str]] = {
    "requests": "Requests of people",
    "rules": "Rules and preferences of people",
    "files": "Files that were changed",
    "errors": "Errors of calls that failed",
}


@dataclass(frozen=True, slots=True)
class FoldedFact:
    """A fact in the record of a folded message."""

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
    """The number of messages that have it."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the folded messages the result still says."""

    facts: tuple[FoldedFact, ...] = ()
    strings: int = 0
    """Exact strings that were looked up."""
    retained: int = 0
    """Of these, how many the result still has."""
    lost: tuple[LostString, ...] = ()
    """The others, those in most messages first, as far as they are shown."""


def measure_retention(report: CompactionReport) -> Retention:
    """Look up the facts and exact strings of the folded messages in the result."""
    folded = {outcome.number: outcome for outcome in report.folded if outcome.number is not None}
    if not folded:
        return Retention()
    result = "\n".join(map(text_with_calls, report.result.compaction.messages))
    strings = _exact_strings(folded)
    lowered = result.lower()
    lost = [string for string in strings if string.text not in lowered]
    return Retention(
        tuple(_facts(_record_of(report.outcomes), folded, flatten(result))),
        len(strings),
        len(strings) - len(lost),
        tuple(_as_written(string, folded[string.number]) for string in lost[:_MAX_LOST_STRINGS]),
    )


def _record_of(outcomes: Sequence[MessageOutcome]) -> Record:
    record = Record()
    for outcome in outcomes:
        if outcome.number is not None:
            record.add(outcome.message, outcome.number)
    return record


def _facts(record: Record, folded: Mapping[int, MessageOutcome], result: str) -> Iterator[FoldedFact]:
    found: dict[str, list[tuple[str, int]]] = {
        "requests": [(exchange.request, exchange.number) for exchange in record.exchanges],
        "rules": [(rule.text, rule.number) for rule in record.rules],
        "files": [(file.path, file.last) for file in record.files.values()],
        "errors": [
            (action.outcome.error, action.result)
            for action in record.actions()
            if action.outcome and action.outcome.failed and action.outcome.error and action.result is not None
        ],
    }
    for kind, facts in found.items():
        newest = dict(fact for fact in facts if fact[1] in folded)
        for text, number in list(newest.items())[-_MAX_FACTS_OF_A_KIND:]:
            yield FoldedFact(kind, shorten(text, _MAX_FACT_CHARS), number, flatten(text) in result)


def _exact_strings(folded: Mapping[int, MessageOutcome]) -> list[LostString]:
    """The exact strings of the folded messages in lower case, those in most messages first, then the newest."""
    terms = Terms()
    seen: dict[str, tuple[int, int]] = {}
    for number, outcome in folded.items():
        for term in terms.of(text_with_calls(outcome.message)[:_MAX_MESSAGE_CHARS]):
            if terms.kinds[term] and len(term) >= _MIN_STRING_CHARS:
                seen[term] = number, seen.get(term, (0, 0))[1] + 1
    found = [LostString(term, number, messages) for term, (number, messages) in seen.items()]
    return sorted(found, key=lambda each: (-each.messages, -each.number, each.text))[:_MAX_STRINGS]


def _as_written(string: LostString, outcome: MessageOutcome) -> LostString:
    """The string as its message spells it."""
    text = text_with_calls(outcome.message)
    at = text.lower().find(string.text)
    written = text[at : at + len(string.text)] if at >= 0 else ""
    return LostString(written, string.number, string.messages) if written.lower() == string.text else string


def text_with_calls(message: Message) -> str:
    """The text of a message and the argument values of its calls, without names of tools, keys and JSON escapes."""
    values = (value for call in calls_of(message) for value in _strings_in(arguments_of_call(call)))
    return "\n".join((text_of(message), *values))


def _strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings_in(inner)
    elif isinstance(value, str | int | float):
        yield str(value)
