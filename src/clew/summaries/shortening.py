"""Makes a handoff fit a budget: the lines that the ledger ranks lowest go first, and some never go.

Knows headings, atoms and tokens. Knows no model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from clew.ledger import AtomIndex, atoms_in, shorten
from clew.redact import redact_text
from clew.summaries import handoff as parts
from clew.summaries.handoff import Handoff
from clew.summaries.story import CountTokens

# What a line is worth for standing under its heading, in the same coin as the worth of its atoms.
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

Worth = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Shortened:
    """A handoff within its budget, and how many lines had to go."""

    handoff: Handoff
    left_out: int


def worth_in(index: AtomIndex, first: int) -> Worth:
    """What the atoms of a line are worth for one who reads from message `first` on."""

    def worth(line: str) -> float:
        return sum(index.worth(atom, first) for atom in atoms_in(line) if atom in index.seen)

    return worth


def rendered_size(handoff: Handoff, count: CountTokens) -> int:
    return count(redact_text(handoff.render()))


def shorten_handoff(
    handoff: Handoff, budget: int, count: CountTokens, worth: Worth, keep: Collection[tuple[str, str]] = ()
) -> Shortened | None:
    """The handoff in at most `budget` tokens; None when what has to be kept, (heading, line) each, is larger."""
    size = rendered_size(handoff, count)
    if size <= budget:
        return Shortened(handoff, 0)
    lines = [
        (heading, line if (heading, line) in keep else shorten(line, _LONGEST_LINE_CHARS))
        for heading in parts.HEADINGS
        for line in handoff.lines(heading)
    ]
    ranked = sorted(
        (position for position, line in enumerate(lines) if line not in keep),
        key=lambda position: _density(lines[position], position / len(lines), count, worth),
    )
    gone: set[int] = set()
    for _ in range(_ROUNDS):
        size = rendered_size(_without(lines, gone), count)
        if size <= budget:
            return Shortened(_without(lines, gone), len(gone))
        if len(gone) == len(ranked):
            return None
        gone.update(_cheapest(lines, ranked[len(gone) :], size - budget, count))
    rest = _without(lines, set(ranked))
    return Shortened(rest, len(ranked)) if rendered_size(rest, count) <= budget else None


def _density(line: tuple[str, str], place: float, count: CountTokens, worth: Worth) -> float:
    heading, text = line
    value = _WORTH_OF_HEADING.get(heading, _WORTH_OF_ANY_LINE) + worth(text)
    # Of two like lines the later one is about the later work.
    return (value + 0.1 * place) / max(1, count(text))


def _cheapest(lines: Sequence[tuple[str, str]], ranked: Sequence[int], over: int, count: CountTokens) -> list[int]:
    """The lowest ranked lines that together free about `over` tokens; at least one."""
    taken = []
    freed = 0
    for position in ranked:
        taken.append(position)
        freed += count(lines[position][1]) + 1
        if freed >= over:
            break
    return taken


def _without(lines: Sequence[tuple[str, str]], gone: Collection[int]) -> Handoff:
    sections: dict[str, list[str]] = {}
    for position, (heading, line) in enumerate(lines):
        if position not in gone:
            sections.setdefault(heading, []).append(line)
    return Handoff(sections)
