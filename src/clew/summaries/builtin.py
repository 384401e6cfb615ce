"""The built-in summariser: writes a handoff from the ledger. Deterministic; no network, no key, no model.

Required lines come first (the task, rules, changed files, errors), then requests, decisions and lines of the previous
handoff. The room that is left goes to quotes of the original text, by how likely each will be needed again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from clew.ledger import (
    Action,
    Ledger,
    QuoteSelector,
    atoms_in,
    is_question,
    shorten,
    text_with_calls,
)
from clew.redact import redact_text
from clew.summaries import handoff as parts
from clew.summaries.handoff import CountTokens, Handoff, Summary, SummaryInput
from clew.summaries.required_facts import file_line, number_in, path_in_line, quoted, required_facts, shorten_redacted

BUILTIN = "built-in"
TEMPLATE = "builtin/1"

_SHARE_OF_REQUIRED = 0.85
_SHARE_OF_STATEMENTS = 0.12
_SHARE_OF_PREVIOUS = 0.35
_LEAST_DENSITY = 0.0003
# What an atom of the previous handoff is worth when the ledger does not reach back to it.
_WORTH_OF_PREVIOUS = 0.15
_TRIES_TO_FIT = 4
_CLOSE_ENOUGH = 0.96
_SAMPLE_CHARS = 12_000
_FEWEST_CHARS = 30
_FEWEST_CHARS_OF_TASK = 24


async def summarize_builtin(source: SummaryInput, budget: int, count: CountTokens) -> Summary:
    """The summary of the built-in summariser."""
    text = redact_text(write_handoff(source, budget, count).render())
    return Summary(text, written_by=BUILTIN, template=TEMPLATE)


def write_handoff(source: SummaryInput, budget: int, count: CountTokens) -> Handoff:
    """The handoff that keeps the most in at most `budget` tokens; an empty one where not even the headings fit."""
    lines = candidate_lines(source)
    selector = _selector(source)
    chars = int(budget * _chars_per_token(source, count))
    for _ in range(_TRIES_TO_FIT):
        written = _compose(source, selector, lines, chars)
        text = written.render()
        size = count(text)
        if size <= budget and (size > _CLOSE_ENOUGH * budget or len(text) < 0.8 * chars):
            return written
        chars = int(chars * min(1.5, 0.98 * budget / max(1, size)))
    while size > budget and chars > _FEWEST_CHARS:
        chars = int(chars * 0.8)
        written = _compose(source, selector, lines, chars)
        size = count(written.render())
    return written if size <= budget else Handoff({})


def _chars_per_token(source: SummaryInput, count: CountTokens) -> float:
    """Measured on the newest text, less a little since quotes are denser."""
    sample, number = "", source.last
    while len(sample) < _SAMPLE_CHARS and number > source.first:
        number -= 1
        sample += text_with_calls(source.read(number))[:_SAMPLE_CHARS]
    return 0.95 * len(sample) / max(1, count(sample)) if sample else 3.0


def _compose(source: SummaryInput, selector: QuoteSelector, lines: CandidateLines, room: int) -> Handoff:
    chosen = list(_fitting(lines.required, int(room * _SHARE_OF_REQUIRED)))
    covered = set(source.kept_atoms).union(*(atoms_in(line.text) for line in chosen))
    left = room - _chars(chosen)
    chosen += _best_lines(selector, lines.statements, covered, int(left * _SHARE_OF_STATEMENTS))
    chosen += _best_lines(selector, lines.previous, covered, int(left * _SHARE_OF_PREVIOUS), unknown=_WORTH_OF_PREVIOUS)
    left = room - _chars(chosen)
    quotes, spent = selector.select(left, covered)
    actions = [line for line in lines.actions if line.action and action_key(line.action) not in quotes]
    chosen += _best_lines(selector, actions, covered, left - spent)
    return Handoff(_sections(source, chosen, quotes))


def _selector(source: SummaryInput) -> QuoteSelector:
    owners = _owners(source)

    def line_of(number: int, part: int) -> tuple[Hashable, int]:
        action = owners.get((number, part))
        if action is None:
            return number, len(f"- m{number}: ")
        return action_key(action), len(action_text(action, brief=True)) + 6

    ledger = source.ledger
    return QuoteSelector(ledger.index, source.read, source.first, source.may_quote, line_of, source.focus or "")


def _owners(source: SummaryInput) -> dict[tuple[int, int], Action]:
    """The action that a part of a message belongs to: its call, its result, or the text before the first call."""
    owners: dict[tuple[int, int], Action] = {}
    for action in actions_of(source):
        owners[action.number, action.call_index + 1] = action
        owners.setdefault((action.number, 0), action)
        if action.result is not None:
            owners[action.result, 0] = action
    return owners


def _fitting(lines: Iterable[HandoffLine], room: int) -> Iterator[HandoffLine]:
    """The lines that fit, in order; one that is too long is skipped, except for the task, which is shortened: a
    handoff that names none would seem to have none."""
    for full in lines:
        line = _shorter(full, room) if full.heading == parts.ACTIVE_TASK and full.chars > room else full
        if line.chars <= room:
            room -= line.chars
            yield line


def _shorter(line: HandoffLine, chars: int) -> HandoffLine:
    quote, _, reference = line.text.rpartition('" (')
    most = chars - len(reference) - 9
    return replace(line, text=f'{shorten(quote, most)}" ({reference}') if most >= _FEWEST_CHARS_OF_TASK else line


def _best_lines(
    selector: QuoteSelector, options: list[HandoffLine], covered: set[str], room: int, unknown: float = 0.0
) -> list[HandoffLine]:
    """The lines that add the most per char; adds their atoms to `covered`."""

    def density(line: HandoffLine) -> float:
        new = (atom for atom in atoms_in(line.text) if atom not in covered)
        # Sets have no order, and this sum is the same in any.
        return (line.bonus + math.fsum(selector.worth_of(atom) or unknown for atom in new)) / line.chars

    taken = []
    # Computed again when its turn comes, since a better line may have the same atoms.
    for line in sorted(options, key=lambda line: (-density(line), line.number)):
        if line.chars <= room and density(line) > _LEAST_DENSITY:
            taken.append(line)
            covered |= atoms_in(line.text)
            room -= line.chars
    return taken


def _chars(lines: Iterable[HandoffLine]) -> int:
    return sum(line.chars for line in lines)


def _sections(
    source: SummaryInput, chosen: list[HandoffLine], quotes: dict[Hashable, list[str]]
) -> dict[str, list[str]]:
    """The lines under their headings, in the order of their messages."""
    in_full = {action_key(line.action) for line in chosen if line.action}
    lines = [line for line in chosen if not line.action]
    actions = actions_of(source)
    listed = [action for action in actions if action_key(action) in in_full or action_key(action) in quotes]
    for action in listed:
        key = action_key(action)
        text = action_text(action, quotes.pop(key, ()), brief=key not in in_full)
        lines.append(HandoffLine(parts.COMPLETED, text, action.number))
    for number, texts in quotes.items():
        assert isinstance(number, int)
        lines.append(HandoffLine(parts.VALUES, f"m{number}: {'… '.join(texts)}", number))
    sections: dict[str, list[str]] = {}
    for line in sorted(lines, key=lambda line: line.number):
        sections.setdefault(line.heading, []).append(redact_text(line.text))
    if len(listed) < len(actions) and parts.COMPLETED in sections:
        more = len(actions) - len(listed)
        rest = f"({more:,} more action{'s' if more > 1 else ''} between m{source.first} and m{source.last - 1})"
        sections[parts.COMPLETED].append(rest)
    return sections


# -- the lines to choose from ------------------------------------------------------------------------------------------

_REQUEST_CHARS = 220
_DECISION_CHARS = 240
_COMMAND_CHARS = 150
_BRIEF_CHARS = 50
_PLAN_CHARS = 200
_SERVING_CHARS = 160
_ERROR_CHARS = 160
# How many lines of a kind are considered; there is no room for older ones anyway.
_NEWEST_LINES = 300
_WORD = re.compile(r"\w{2,}")
# A quote of only these words and the target adds nothing to the line.
_ARGUMENTS = frozenset("path file_path filePath command description pattern query url content limit offset".split())
_FROM_PLAN = re.compile(r"\(m\d+\)$")
_CD_PREFIX = re.compile(r"^\s*cd \S+ *(?:&&|;)\s*")


@dataclass(frozen=True, slots=True)
class HandoffLine:
    """One line under a heading. `number` is the message it came from, by which the lines of a heading are sorted."""

    heading: str
    text: str
    number: int
    action: Action | None = None
    bonus: float = 0.0
    """What the line is worth in addition to its atoms."""

    @property
    def chars(self) -> int:
        """Its length with bullet and line end."""
        return len(self.text) + 5


@dataclass(frozen=True, slots=True)
class CandidateLines:
    """All the lines that a handoff could have."""

    required: list[HandoffLine]
    """The most important first."""
    statements: list[HandoffLine]
    previous: list[HandoffLine]
    """Lines of the previous handoff."""
    actions: list[HandoffLine]


def candidate_lines(source: SummaryInput) -> CandidateLines:
    """All the lines that a handoff of these messages could have."""
    facts = [HandoffLine(fact.heading, fact.line, fact.number) for fact in required_facts(source)]
    required = [*facts, *_state(source), *_plan(source.ledger)]
    statements = [*_requests(source.ledger), *_decisions(source.ledger), *_files_read(source.ledger)]
    actions = [HandoffLine(parts.COMPLETED, action_text(a), a.number, a, 0.3 if a.files or a.failed else 0.1)
               for a in actions_of(source)[-_NEWEST_LINES:]]  # fmt: skip
    known = {line.text for line in (*required, *statements)}
    return CandidateLines(required, statements, _previous_lines(source, known), actions)


def actions_of(source: SummaryInput) -> list[Action]:
    """The actions of the messages that are summarised."""
    return [action for action in source.ledger.actions if source.first <= action.number < source.last]


def action_key(action: Action) -> Hashable:
    return action.number, action.call_index


def action_text(action: Action, quotes: Sequence[str] = (), *, brief: bool = False) -> str:
    """`RAN pytest -q -> exit 1, 2 failed: quotes [terminal m18]`"""
    target = _brief(action.target) if brief else shorten_redacted(action.target, _COMMAND_CHARS)
    text = f"{action.verb} {target}".rstrip()
    if action.change:
        text += f" {action.change}"
    if action.outcome and (outcome := action.outcome.describe()):
        text += f" -> {outcome}" if action.verb in ("RAN", "CALLED") or action.failed else f", {outcome}"
    if action.failed and action.outcome and action.outcome.error and not brief:
        text += f": {shorten_redacted(action.outcome.error, _ERROR_CHARS)}"
    if new := [quote for quote in quotes if not _words(quote) <= _words(f"{text} {action.tool}") | _ARGUMENTS]:
        text += f": {'… '.join(new)}"
    return f"{text} [{' '.join(action.tool.split())} m{action.number}]"


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))


def _brief(target: str) -> str:
    """The end of a path, or the start of a command."""
    if " " not in target and target.count("/") > 2:
        return "…/" + "/".join(target.rsplit("/", 2)[1:])
    return shorten(_CD_PREFIX.sub("", target), _BRIEF_CHARS)


def _state(source: SummaryInput) -> list[HandoffLine]:
    state = source.ledger.state
    facts = []
    if state.branch:
        at = f" at {state.commit[0]}" if state.commit else ""
        facts.append(f"Branch {state.branch[0]}{at} (m{state.branch[1]}).")
    if state.tests:
        facts.append(f"Tests: {state.tests[0]} (m{state.tests[1]}).")
    if state.serving:
        facts.append(f"Running: {shorten_redacted(state.serving[0], _SERVING_CHARS)} (m{state.serving[1]}).")
    if not facts:
        return [HandoffLine(parts.STATE, text, -1) for text in source.previous_lines(parts.STATE)]
    return [HandoffLine(parts.STATE, " ".join(facts), source.ledger.next_number)]


def _plan(ledger: Ledger) -> list[HandoffLine]:
    """The tasks of the agent's newest plan that are in progress or open."""
    items, number = ledger.plan
    headings = {"doing": parts.IN_PROGRESS, "open": parts.REMAINING}
    return [
        HandoffLine(headings[item.progress], f"{shorten_redacted(item.text, _PLAN_CHARS)} (m{number})", number)
        for item in items
        if item.progress in headings
    ]


def _requests(ledger: Ledger) -> list[HandoffLine]:
    """What users said after the first request, and their questions with the answers."""
    lines = []
    for asked in ledger.requests[1:][-_NEWEST_LINES:]:
        quote = quoted(asked.text, _REQUEST_CHARS)
        if asked.answer and is_question(asked.text):
            text = (
                f"{quote} -> {shorten_redacted(asked.answer, _REQUEST_CHARS)} (m{asked.number}, m{asked.answer_number})"
            )
            lines.append(HandoffLine(parts.ANSWERED, text, asked.number, bonus=0.4))
        else:
            lines.append(HandoffLine(parts.GOAL, f"then: {quote} (m{asked.number})", asked.number, bonus=0.6))
    return lines


def _decisions(ledger: Ledger) -> list[HandoffLine]:
    newest = {decision.text: decision for decision in ledger.decisions[-_NEWEST_LINES:]}
    return [
        HandoffLine(
            parts.DECISIONS, f"{shorten_redacted(text, _DECISION_CHARS)} (m{one.number})", one.number, bonus=0.3
        )
        for text, one in newest.items()
    ]


def _files_read(ledger: Ledger) -> list[HandoffLine]:
    newest = sorted(ledger.files.values(), key=lambda fact: -fact.last)[:_NEWEST_LINES]
    return [HandoffLine(parts.FILES, file_line(fact), fact.last) for fact in newest if not fact.changes]


def _previous_lines(source: SummaryInput, known: set[str]) -> list[HandoffLine]:
    """The lines of the previous handoff, apart from those that the ledger gives again."""
    bonuses = {
        parts.GOAL: 0.6, parts.COMPLETED: 0.2, parts.TRIED: 0.3, parts.BLOCKED: 0.1, parts.DECISIONS: 0.2,
        parts.ANSWERED: 0.1, parts.PENDING: 0.2, parts.REMAINING: 0.1, parts.IN_PROGRESS: 0.1, parts.FILES: 0.1,
        parts.VALUES: 0.0,
    }  # fmt: skip
    lines = [
        HandoffLine(heading, text, number_in(text), bonus=bonus)
        for heading, bonus in bonuses.items()
        for text in source.previous_lines(heading)
        if text not in known and not text.startswith("(") and not _is_in_ledger(source.ledger, heading, text)
    ]
    # An earlier task is listed with the goal, as a later request.
    lines += [
        HandoffLine(parts.GOAL, text if text.startswith("then: ") else f"then: {text}", number_in(text), bonus=0.6)
        for text in source.previous_lines(parts.ACTIVE_TASK)
        if text not in known and not _is_in_ledger(source.ledger, parts.ACTIVE_TASK, text)
    ]
    return lines


def _is_in_ledger(ledger: Ledger, heading: str, text: str) -> bool:
    """Whether the ledger has the same fact, perhaps in a newer state."""
    if heading in (parts.GOAL, parts.ACTIVE_TASK):
        number = number_in(text)
        return any(asked.number == number for asked in ledger.requests)
    if heading == parts.FILES:
        return path_in_line(text) in ledger.files
    if heading in (parts.REMAINING, parts.IN_PROGRESS):
        return bool(ledger.plan[0]) and _FROM_PLAN.search(text) is not None
    return False
