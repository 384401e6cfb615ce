"""Grounds a model's handoff in the ledger: marks what it invented, adds what it dropped, and keeps it within budget.

Three steps: verify each exact string against the source; add the required facts that are missing; fill the room that
is left with lines of the previous handoff and quotes. Also shortens a handoff to a budget. No model is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import itemgetter

from clew.errors import SummaryFailed
from clew.ledger import AtomIndex, QuoteSelector, atoms_in, shorten, text_with_calls
from clew.ledger.verify import VerificationSource, VerifiedText, claims_in, verify, without_unverified
from clew.messages import Message
from clew.redact import redact_messages, redact_text
from clew.summaries import handoff as parts
from clew.summaries.exchange_facts import complete_entries, exchange_facts
from clew.summaries.focus_line import focus_facts, is_focus_line
from clew.summaries.handoff import CountTokens, Handoff, SummaryInput
from clew.summaries.required_facts import RequiredFact, cleaned_facts, normalized, required_facts, state_facts

_CHARS_PER_TOKEN = 3.4
_TRIES_TO_FIT = 5
_NEARLY_FULL = 0.93
_LEAST_ROOM = 40
_SHARES_OF_REQUIRED = (0.6, 0.4, 0.2, 0.0)
_SHARE_OF_PREVIOUS = 0.35
# With fewer claims than this, the share of unverified ones means nothing.
_FEWEST_CLAIMS = 8
_MOST_UNVERIFIED = 0.5
_HEADINGS_KEPT = (parts.DECISIONS, parts.TRIED, parts.ANSWERED, parts.COMPLETED, parts.VALUES)
_REPEATED_EXTRA_CHARS = 40
_WORDS_COMPARED = 80
_HEADINGS_FIRST = frozenset({parts.ACTIVE_TASK, parts.GOAL, parts.RULES, parts.BLOCKED})
_SHARE_OF_FOCUS_LINE = 0.06
# Of the room for facts that is left when its turn comes.
_SHARE_OF_REQUESTS = 0.5
_SHARE_OF_CONCLUSIONS = 0.5
_SHARE_OF_DEEDS = 0.5


@dataclass(frozen=True, slots=True)
class GroundedHandoff:
    """A handoff within its budget, verified and with all required facts."""

    text: str
    unverified: tuple[str, ...]
    left_out: int
    """Lines of the model that did not fit."""


def ground_handoff(
    source: SummaryInput, drafted: Handoff, budget: int, count: CountTokens, beside: Sequence[str] = ()
) -> GroundedHandoff:
    """The model's handoff, verified and completed; raises `SummaryFailed` where it cannot be used.

    `beside` are texts that the model was shown beside the source.
    """
    checked, verified = mark_unverified(source, drafted, beside)
    if verified.claims >= _FEWEST_CLAIMS and verified.share_unverified > _MOST_UNVERIFIED:
        raise SummaryFailed(
            f"{len(verified.unverified)} of {verified.claims} exact strings do not occur in the conversation",
            kind="unfounded",
        )
    source = redacted_input(source)
    fitted = _with_required_facts(source, checked, budget, count)
    text = redact_text(fill_handoff(source, fitted.handoff, budget, count).render())
    unverified = tuple(claim for claim in verified.unverified if claim in text)
    return GroundedHandoff(text, unverified, fitted.left_out)


def redacted_input(source: SummaryInput) -> SummaryInput:
    """The same input with messages redacted as they are read, so that quotes of them have no secrets."""
    if source.is_redacted:
        return source
    read = source.read

    def read_clean(number: int) -> Message:
        return redact_messages([read(number)])[0]

    return replace(source, read=read_clean)


def mark_unverified(source: SummaryInput, drafted: Handoff, beside: Sequence[str] = ()) -> tuple[Handoff, VerifiedText]:
    """The handoff with its unverified strings marked."""
    lines = [
        (heading, " ".join(line.split()), at > 0)
        for heading in parts.HEADINGS
        for entry in drafted.lines(heading)
        for at, line in enumerate(entry.split(parts.CONTINUED))
    ]
    last = max(source.last, source.ledger.next_number, (source.task_number or 0) + 1)
    sources = VerificationSource(source.ledger.index, chain(_source_texts(source), beside), last)
    verified = verify("\n".join(line for _, line, _ in lines), sources)
    sections: dict[str, list[str]] = {}
    for (heading, _, continues), line in zip(lines, verified.text.split("\n"), strict=True):
        own = sections.setdefault(heading, [])
        if continues:
            own[-1] += f"{parts.CONTINUED}{line}"
        else:
            own.append(line)
    return Handoff(sections), verified


def _source_texts(source: SummaryInput) -> Iterator[str]:
    """Every text that the handoff may be based on, short and likely ones first."""
    yield source.task
    yield source.focus or ""
    if source.previous:
        yield without_unverified(source.previous.render())
    for number in range(source.first, source.last):
        yield text_with_calls(source.read(number))


# -- required facts ----------------------------------------------------------------------------------------------------


def _with_required_facts(source: SummaryInput, checked: Handoff, budget: int, count: CountTokens) -> ShortenedHandoff:
    """The handoff with the required facts, within budget; with a tiny budget, only the most important facts."""
    told = exchange_facts(source)
    certain = required_facts(source)
    groups = (
        (1.0, [fact for fact in certain if fact.heading in _HEADINGS_FIRST]),
        (1.0, cleaned_facts(source, focus_facts(source, int(budget * _CHARS_PER_TOKEN * _SHARE_OF_FOCUS_LINE)))),
        (_SHARE_OF_REQUESTS, cleaned_facts(source, told.requests)),
        (_SHARE_OF_CONCLUSIONS, cleaned_facts(source, told.conclusions)),
        (
            1.0,
            [
                *(fact for fact in certain if fact.heading not in _HEADINGS_FIRST),
                *cleaned_facts(source, state_facts(source)),
            ],
        ),
        (_SHARE_OF_DEEDS, cleaned_facts(source, told.deeds)),
    )
    worth = line_worth_in(source.ledger.index, source.first)
    for share in _SHARES_OF_REQUIRED:
        merged, keep = _completed(source, checked, _Chooser(checked, int(budget * share), count).choose(groups))
        fitted = shorten_handoff(merged, budget, count, worth, keep)
        if fitted is not None:
            return fitted
    raise SummaryFailed(f"a budget of {budget:,} tokens has no room for the headings", kind="no_room")


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The facts that are told: those that the model wrote itself, and those that are added to what it wrote."""

    written: list[RequiredFact]
    added: list[RequiredFact]


class _Chooser:
    """Chooses the required facts that fit, the most important first; one that is too long is skipped, not cut."""

    def __init__(self, checked: Handoff, tokens: int, count: CountTokens) -> None:
        self._text = normalized("\n".join(line for lines in checked.sections.values() for line in lines))
        self._atoms = _atoms_of(self._text) | _atoms_of(checked.render())
        self._left = tokens
        self._count = count

    def choose(self, groups: Sequence[tuple[float, Sequence[RequiredFact]]]) -> _Chosen:
        """Each group may take its share of what the ones before it left."""
        chosen = _Chosen([], [])
        for share, facts in groups:
            room = int(self._left * share)
            for fact in facts:
                is_told = fact.is_in(self._text, self._atoms)
                # These are told in the person's own words, whatever the model wrote.
                is_told = is_told and fact.heading not in (parts.ACTIVE_TASK, parts.RULES)
                cost = self._count(fact.line) + 2
                if cost > room:
                    continue
                # Also what the model wrote takes room that others must leave to it.
                room, self._left = room - cost, self._left - cost
                if is_told:
                    chosen.written.append(fact)
                else:
                    self._add(fact, chosen)
        return chosen

    def _add(self, fact: RequiredFact, chosen: _Chosen) -> None:
        chosen.added.append(fact)
        self._text += f" {normalized(fact.line)}"
        self._atoms |= _atoms_of(fact.line)


def _completed(source: SummaryInput, checked: Handoff, chosen: _Chosen) -> tuple[Handoff, set[tuple[str, str]]]:
    """The handoff with the facts it dropped, and the (heading, line) pairs that must stay."""
    sections = {heading: list(lines) for heading, lines in checked.sections.items()}
    for heading in dict.fromkeys(fact.heading for fact in chosen.added if fact.exchange is None):
        own = [fact for fact in chosen.added if fact.heading == heading and fact.exchange is None]
        written = sections.get(heading, [])
        if heading == parts.ACTIVE_TASK:
            written = []
        elif heading == parts.RULES:
            # Rules are quoted in the user's words; a line of the model that only repeats one is not needed.
            written = [line for line in written if not _only_repeats(line, own)]
        elif heading == parts.VALUES:
            # What the model copied from the previous handoff names fewer messages.
            written = [line for line in written if not is_focus_line(line)]
        added = [fact.line for fact in sorted(own, key=lambda fact: fact.number)]
        sections[heading] = [*added, *written] if heading in (parts.GOAL, parts.RULES) else [*written, *added]
    of_exchanges = [fact for fact in chosen.added if fact.exchange is not None]
    if of_exchanges:
        entries = sections.get(parts.COMPLETED, [])
        sections[parts.COMPLETED] = complete_entries(entries, of_exchanges, source.ledger.exchanges)
    keep = {(fact.heading, fact.line) for fact in chosen.added}
    keep.update(_lines_with(sections, chosen.written))
    return Handoff(sections), keep


def _lines_with(sections: Mapping[str, Sequence[str]], facts: Sequence[RequiredFact]) -> Iterator[tuple[str, str]]:
    """For each fact that the model wrote itself, the first line that contains it."""
    lines = [
        (heading, line, normalized(line))
        for heading in parts.HEADINGS
        for entry in sections.get(heading, ())
        for line in entry.split(parts.CONTINUED)
    ]
    for fact in facts:
        yield from [(heading, line) for heading, line, text in lines if fact.is_in(text)][:1]


def _only_repeats(line: str, rules: Sequence[RequiredFact]) -> bool:
    return any(rule.is_in(normalized(line)) and len(line) < len(rule.words) + _REPEATED_EXTRA_CHARS for rule in rules)


# -- lines of the previous handoff, and quotes -------------------------------------------------------------------------


def fill_handoff(source: SummaryInput, base: Handoff, budget: int, count: CountTokens) -> Handoff:
    """The handoff with as many previous lines and quotes as fit."""
    room = budget - rendered_size(base, count)
    if room < _LEAST_ROOM:
        return base
    selector = _selector(source)
    covered = set(source.kept_atoms) | _atoms_of(base.render())
    chars = int(room * _CHARS_PER_TOKEN)
    best, most, start = base, 0, budget - room
    for _ in range(_TRIES_TO_FIT):
        filled = _with_quotes(source, base, selector, set(covered), chars)
        size = rendered_size(filled, count)
        if size <= budget:
            if size <= most or size >= _NEARLY_FULL * budget:
                return filled if size > most else best
            best, most = filled, size
        # Quotes that are left out, or told as one, take less than was thought.
        chars = int(chars * min(2.0, 0.95 * room / max(1, size - start)))
    return best


def _with_quotes(
    source: SummaryInput, base: Handoff, selector: QuoteSelector, covered: set[str], chars: int
) -> Handoff:
    sections = {heading: list(lines) for heading, lines in base.sections.items()}
    for heading, line in _dropped_lines(source, base, covered, int(chars * _SHARE_OF_PREVIOUS)):
        # They are older than what the model wrote now, so they come first.
        sections.setdefault(heading, []).insert(0, line)
        covered |= _atoms_of(line)
        chars -= len(line) + 4
    quotes, _ = selector.select(chars, chars, covered)
    for number, own in groupby(sorted(quotes), key=itemgetter(0)):
        # Quotes that only repeat what the handoff already has are left out.
        new = [quote for key in own for quote in quotes[key] if not _atoms_of(quote) <= covered]
        if new:
            sections.setdefault(parts.VALUES, []).append(redact_text(f"m{number}: {' · '.join(new)}"))
    return Handoff(sections)


def _dropped_lines(source: SummaryInput, base: Handoff, covered: set[str], chars: int) -> list[tuple[str, str]]:
    """Lines of the previous handoff that the new one hardly covers, chosen by worth as they fit."""
    prose = normalized(base.render())
    worth = line_worth_in(source.ledger.index, source.first)
    dropped = [
        (heading, line)
        for heading in _HEADINGS_KEPT
        for line in source.previous_lines(heading)
        if not line.startswith("(") and _is_dropped(line, covered, prose)
    ]
    ranked = sorted(dropped, key=lambda one: -(worth(one[1]) + 0.2) / (len(one[1]) + 4))
    taken = []
    for one in ranked:
        if len(one[1]) + 4 <= chars:
            taken.append(one)
            chars -= len(one[1]) + 4
    # The last first, since they are put in front of their sections one by one.
    return [one for one in reversed(dropped) if one in taken]


def _is_dropped(line: str, covered: set[str], prose: str) -> bool:
    atoms = _atoms_of(line)
    if atoms:
        return 2 * len(atoms - covered) > len(atoms)
    # Words of people without any exact string in them: by the words themselves.
    return line.startswith('"') and normalized(line.split(parts.CONTINUED)[0])[:_WORDS_COMPARED] not in prose


def _atoms_of(text: str) -> set[str]:
    """Atoms, also those in Chinese text without spaces around them."""
    return atoms_in(text) | {claim.text for claim in claims_in(text)}


def _selector(source: SummaryInput) -> QuoteSelector:
    def line_of(number: int, part: int) -> tuple[Hashable, int]:
        del part
        return number, len(f"- m{number}: ")

    return QuoteSelector(
        source.ledger.index, source.read, source.first, source.may_quote, line_of, redacted=source.clean
    )


# -- shortening to a budget --------------------------------------------------------------------------------------------

# What a line is worth by its heading, on the same scale as the worth of its atoms.
_WORTH_OF_HEADING: Mapping[str, float] = {
    parts.ACTIVE_TASK: 20.0,
    parts.GOAL: 8.0,
    parts.RULES: 8.0,
    parts.STATE: 5.0,
    parts.IN_PROGRESS: 5.0,
    parts.BLOCKED: 5.0,
    parts.PENDING: 5.0,
    parts.REMAINING: 2.0,
    parts.DECISIONS: 2.0,
    parts.TRIED: 2.0,
}
_WORTH_OF_ANY_LINE = 0.5
_LONGEST_LINE_CHARS = 1_200
_ROUNDS = 12

LineWorth = Callable[[str], float]
_HandoffPart = tuple[str, str, int]
"""The heading, a line, and which entry under the heading it is a line of."""


@dataclass(frozen=True, slots=True)
class ShortenedHandoff:
    """A handoff within its budget, and how many lines were left out."""

    handoff: Handoff
    left_out: int


def line_worth_in(index: AtomIndex, first: int) -> LineWorth:
    """A function that gives the worth of a line's atoms, where the messages from `first` on are summarised."""

    def worth(line: str) -> float:
        return sum(index.worth(atom, first) for atom in atoms_in(line) if atom in index.atoms)

    return worth


def rendered_size(handoff: Handoff, count: CountTokens) -> int:
    return count(redact_text(handoff.render()))


def shorten_handoff(
    handoff: Handoff, budget: int, count: CountTokens, worth: LineWorth, keep: Collection[tuple[str, str]] = ()
) -> ShortenedHandoff | None:
    """The handoff in at most `budget` tokens; None where the lines to keep, (heading, line) each, do not fit."""
    size = rendered_size(handoff, count)
    if size <= budget:
        return ShortenedHandoff(handoff, 0)
    lines = [
        (heading, line if (heading, line) in keep else shorten(line, _LONGEST_LINE_CHARS), entry)
        for heading in parts.HEADINGS
        for entry, text in enumerate(handoff.lines(heading))
        for line in text.split(parts.CONTINUED)
    ]
    ranked = sorted(
        (position for position, line in enumerate(lines) if line[:2] not in keep),
        key=lambda position: _density(lines[position], position / len(lines), count, worth),
    )
    removed: set[int] = set()
    for _ in range(_ROUNDS):
        size = rendered_size(_without(lines, removed), count)
        if size <= budget:
            return ShortenedHandoff(_without(lines, removed), len(removed))
        if len(removed) == len(ranked):
            return None
        removed.update(_cheapest(lines, ranked[len(removed) :], size - budget, count))
    rest = _without(lines, set(ranked))
    return ShortenedHandoff(rest, len(ranked)) if rendered_size(rest, count) <= budget else None


def _density(line: _HandoffPart, position: float, count: CountTokens, worth: LineWorth) -> float:
    heading, text, _ = line
    value = _WORTH_OF_HEADING.get(heading, _WORTH_OF_ANY_LINE) + worth(text)
    # Of two similar lines the later one is worth more.
    return (value + 0.1 * position) / max(1, count(text))


def _cheapest(lines: Sequence[_HandoffPart], ranked: Sequence[int], over: int, count: CountTokens) -> list[int]:
    """The lowest ranked lines that together free about `over` tokens; at least one."""
    taken = []
    freed = 0
    for position in ranked:
        taken.append(position)
        freed += count(lines[position][1]) + 1
        if freed >= over:
            break
    return taken


def _without(lines: Sequence[_HandoffPart], removed: Collection[int]) -> Handoff:
    sections: dict[str, dict[int, list[str]]] = {}
    for position, (heading, line, entry) in enumerate(lines):
        if position not in removed:
            sections.setdefault(heading, {}).setdefault(entry, []).append(line)
    return Handoff(
        {heading: [parts.CONTINUED.join(own) for own in told.values()] for heading, told in sections.items()}
    )
