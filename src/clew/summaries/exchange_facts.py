"""What a handoff must tell of each exchange, and how the entries that a model wrote are completed with what they lack.

Of an exchange: the request in the person's words, the agent's conclusion, what was changed and run. A model tells
exchanges in its own way; what it told is found by words, by exact strings and by references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from clew.ledger import LedgerExchange, actions_by_exchange, atoms_in
from clew.ledger.verify import claims_in
from clew.summaries import handoff as parts
from clew.summaries.deeds import deeds_of, reference_of
from clew.summaries.handoff import CONTINUED, SummaryInput, number_in, quoted_request
from clew.summaries.required_facts import TASK_CHARS, RequiredFact, normalized
from clew.summaries.sentences import TELLING_WIDTH, Sentence, conclusion_of, quoted_sentences, sentences_in

_NEWEST_WHOLE = 3
_OLD_REQUEST_CHARS = 340
_OLD_WORDS_COMPARED = 80
_SHORTEST_COMPARED = 16
_NEWEST_IN_DETAIL = 8
_CONCLUSION_CHARS = 420
_FEWEST_ATOMS = 2
# How many exchanges of a very long history are considered.
_MOST = 300
_AS_ABOVE = "Asked, as above"


@dataclass(frozen=True, slots=True)
class ExchangeFacts:
    """The lines that must be told of exchanges, each kind with the newest first."""

    requests: Sequence[RequiredFact]
    conclusions: Sequence[RequiredFact]
    deeds: Sequence[RequiredFact]


def exchange_facts(source: SummaryInput) -> ExchangeFacts:
    """What must be told of the exchanges that a summary covers."""
    exchanges = source.ledger.exchanges[-_MOST:]
    newest = list(enumerate(reversed(exchanges)))
    requests = [fact for age, exchange in newest for fact in _request(source, exchange, age)]
    conclusions = [fact for age, exchange in newest for fact in _conclusion(source, exchange, age)]
    return ExchangeFacts(requests, conclusions, list(_deeds(source, exchanges)))


def _request(source: SummaryInput, exchange: LedgerExchange, age: int) -> Iterator[RequiredFact]:
    if not exchange.request or _stays(source, exchange.number):
        return
    is_new = age < _NEWEST_WHOLE
    line = quoted_request(exchange, TASK_CHARS if is_new else _OLD_REQUEST_CHARS)
    if exchange.cancelled_by is not None:
        line = f"{line[:-1]}; cancelled by m{exchange.cancelled_by})"
    words = _compared(exchange.request, TASK_CHARS if is_new else _OLD_WORDS_COMPARED)
    yield RequiredFact(parts.COMPLETED, line, words, exchange.number, exchange=exchange.number)


def _compared(request: str, chars: int) -> str:
    """The words by which a request is known."""
    # "yes" is a part of many words.
    return request[:chars] if len(request) >= _SHORTEST_COMPARED else f'"{request}"'


def _conclusion(source: SummaryInput, exchange: LedgerExchange, age: int) -> Iterator[RequiredFact]:
    number = exchange.closing_number
    if number is None or not source.first <= number < source.last:
        return
    worth = _worth_in(source)
    telling = [one for one in sentences_in(exchange.closing, number, worth) if one.width >= TELLING_WIDTH]
    if not conclusion_of(telling, telling, is_ended=exchange.is_ended or not age):
        return
    ranked = sorted(telling, key=lambda one: (-one.conclusion, one.order))
    chosen = _fitting(ranked, _CONCLUSION_CHARS) if age < _NEWEST_IN_DETAIL else ranked[:1]
    if chosen:
        best, line = ranked[0].text, quoted_sentences(chosen)
        atoms = frozenset(atoms_in(best)) | {claim.text for claim in claims_in(best)}
        known_by = atoms if len(atoms) >= _FEWEST_ATOMS else frozenset()
        yield RequiredFact(
            parts.COMPLETED, line, best, number, exchange=exchange.number, atoms=known_by, reference=f"m{number}"
        )


def _fitting(ranked: Sequence[Sentence], chars: int) -> list[Sentence]:
    """The best sentence, and further ones while there is room."""
    taken = list(ranked[:1])
    left = chars - sum(one.chars for one in taken)
    for one in ranked[1:]:
        if one.chars <= left and one.worth > 0:
            taken.append(one)
            left -= one.chars
    return taken


def _deeds(source: SummaryInput, exchanges: Sequence[LedgerExchange]) -> Iterator[RequiredFact]:
    """What was changed and run in the newest exchanges; of older ones the conclusion and the list of files tell it."""
    folded = (action for action in source.ledger.actions if source.first <= action.number < source.last)
    by_exchange = actions_by_exchange(list(exchanges), folded)
    for position in range(len(exchanges) - 1, max(-1, len(exchanges) - 1 - _NEWEST_IN_DETAIL), -1):
        for line in deeds_of(by_exchange.get(position, ()), frozenset(source.ledger.files)):
            atoms = frozenset(atoms_in(line[: line.rfind(" (m")]))
            number = number_in(reference_of(line))
            # A run that is named under another heading, such as one that still fails, is told there.
            reference = f"m{number}" if line.startswith("RAN ") else ""
            asked = exchanges[position].number
            yield RequiredFact(parts.COMPLETED, line, line, number, exchange=asked, atoms=atoms, reference=reference)


def _worth_in(source: SummaryInput) -> Callable[[str], float]:
    index = source.ledger.index
    return lambda atom: index.worth(atom, source.first) if atom in index.atoms else 0.0


def _stays(source: SummaryInput, number: int) -> bool:
    """Whether the message can be read whole below the handoff."""
    return number >= source.last and number not in source.shortened


# -- the entries of a handoff ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Entry:
    """One entry under "Completed actions": the exchange it tells, as far as that can be seen, and its lines."""

    exchange: int
    lines: list[str]
    is_head: bool
    """Whether its first line is the request of the exchange."""


def complete_entries(
    entries: Sequence[str], missing: Sequence[RequiredFact], exchanges: Sequence[LedgerExchange]
) -> list[str]:
    """The entries with the lines they lack, each in the entry of its exchange; new entries stand in their order."""
    asked = {one.number: normalized(_compared(one.request, _OLD_WORDS_COMPARED)) for one in exchanges if one.request}
    known = [_read_entry(entry, asked) for entry in entries]
    by_exchange: dict[int, list[RequiredFact]] = {}
    for fact in missing:
        assert fact.exchange is not None
        by_exchange.setdefault(fact.exchange, []).append(fact)
    for number, facts in sorted(by_exchange.items()):
        _add_to_entry(known, number, facts)
    return [CONTINUED.join(entry.lines) for entry in known]


def _read_entry(entry: str, asked: Mapping[int, str]) -> _Entry:
    """The entry with the exchange that it tells: the one whose request it quotes, else the one its number lies in."""
    lines = entry.split(CONTINUED)
    number, says = number_in(lines[0]), normalized(lines[0])
    quoted = [own for own, words in asked.items() if words in says]
    if quoted:
        return _Entry(number if number in quoted else quoted[-1], lines, is_head=True)
    owner = max((own for own in asked if own <= number), default=-1)
    return _Entry(owner, lines, is_head=owner == number and lines[0].startswith(('"', "Asked", "The active task")))


def _add_to_entry(entries: list[_Entry], number: int, facts: Sequence[RequiredFact]) -> None:
    """Put the lines of one exchange into its entry: the request first, then the conclusion, then the rest."""
    head = [fact.line for fact in facts if fact.number == number]
    rest = [fact.line for fact in facts if fact.number != number]
    own = next((entry for entry in entries if entry.exchange == number and entry.is_head), None)
    if own is None:
        at = next((at for at, entry in enumerate(entries) if entry.exchange >= number), len(entries))
        own = _Entry(number, head or [f"{_AS_ABOVE} (m{number})"], is_head=True)
        entries.insert(at, own)
    elif head:
        own.lines[:0] = head
    own.lines[1:1] = [line for line in rest if line.startswith('"')]
    own.lines += [line for line in rest if not line.startswith('"')]
