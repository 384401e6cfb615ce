"""Grounds a model's handoff in the ledger: what it invented is marked, what it dropped comes back, all within budget.

Three steps: check each exact string against the source; put back what is kept for certain; fill the room that is
left with what was told before and with quotes, the most important first. Knows no model and no prompt.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from clew.errors import SummaryFailed
from clew.ledger import FragmentChooser, atoms_in, whole_text
from clew.ledger.verify import Source, Verified, claims_in, verified_only, verify
from clew.messages import Message
from clew.redact import redact_messages, redact_text
from clew.summaries import handoff as parts
from clew.summaries.certain import Fact, certain_facts, flat
from clew.summaries.handoff import Handoff
from clew.summaries.shortening import Shortened, rendered_size, shorten_handoff, worth_in
from clew.summaries.story import CountTokens, Story

_CHARS_PER_TOKEN = 3.4
_TRIES_TO_FIT = 5
_LEAST_ROOM = 40
_SHARES_OF_CERTAIN = (0.6, 0.4, 0.2, 0.0)
_SHARE_OF_TOLD_BEFORE = 0.35
# With fewer claims than this, a few odd ones say nothing about the whole.
_CLAIMS_THAT_TELL = 8
_MOST_UNVERIFIED = 0.5
_TOLD_BEFORE = (parts.DECISIONS, parts.TRIED, parts.ANSWERED, parts.COMPLETED, parts.VALUES)
_LITTLE_MORE_CHARS = 40


@dataclass(frozen=True, slots=True)
class Grounded:
    """A handoff that holds: within budget, checked, complete in what has to be kept."""

    text: str
    unverified: tuple[str, ...]
    left_out: int
    """Lines of the model that did not fit."""


def ground(story: Story, drafted: Handoff, budget: int, count: CountTokens) -> Grounded:
    """The model's handoff, checked and completed; raises `SummaryFailed` where it cannot be used."""
    checked, verified = check(story, drafted)
    if verified.claims >= _CLAIMS_THAT_TELL and verified.share_unverified > _MOST_UNVERIFIED:
        raise SummaryFailed(
            f"{len(verified.unverified)} of {verified.claims} exact strings do not occur in the conversation",
            kind="unfounded",
        )
    story = without_secrets(story)
    fitted = _with_certain_fitted(story, checked, budget, count)
    text = redact_text(_filled(story, fitted.handoff, budget, count).render())
    unverified = tuple(claim for claim in verified.unverified if claim in text)
    return Grounded(text, unverified, fitted.left_out)


def without_secrets(story: Story) -> Story:
    """The same story, read without secrets: what is quoted from it is safe."""
    read = story.read

    def read_clean(number: int) -> Message:
        return redact_messages([read(number)])[0]

    return replace(story, read=read_clean)


def check(story: Story, drafted: Handoff) -> tuple[Handoff, Verified]:
    """The handoff with its unfounded strings marked."""
    lines = [(heading, " ".join(line.split())) for heading in parts.HEADINGS for line in drafted.lines(heading)]
    newest = max(story.last, story.ledger.next, (story.task_at or 0) + 1)
    source = Source(story.ledger.index, _source_texts(story), newest)
    verified = verify("\n".join(line for _, line in lines), source)
    sections: dict[str, list[str]] = {}
    for (heading, _), line in zip(lines, verified.text.split("\n"), strict=True):
        sections.setdefault(heading, []).append(line)
    return Handoff(sections), verified


def _source_texts(story: Story) -> Iterator[str]:
    """Everything that the handoff may rest on; what is short and likely comes first."""
    yield story.task
    yield story.focus or ""
    if story.previous:
        yield verified_only(story.previous.render())
    for number in range(story.first, story.last):
        yield whole_text(story.read(number))


# -- what is kept for certain ------------------------------------------------------------------------------------------


def _with_certain_fitted(story: Story, checked: Handoff, budget: int, count: CountTokens) -> Shortened:
    """The handoff with all that must be kept, within budget; in a tiny one, with the most important of it."""
    facts = certain_facts(story)
    worth = worth_in(story.ledger.index, story.first)
    for share in _SHARES_OF_CERTAIN:
        merged, keep = _with_certain(checked, _as_fit(facts, int(budget * share), count))
        fitted = shorten_handoff(merged, budget, count, worth, keep)
        if fitted is not None:
            return fitted
    raise SummaryFailed(f"a budget of {budget:,} tokens has no room for the headings", kind="no_room")


def _with_certain(checked: Handoff, facts: Sequence[Fact]) -> tuple[Handoff, set[tuple[str, str]]]:
    """The handoff with what it dropped, and the lines of it that must stay."""
    prose = flat("\n".join(line for lines in checked.sections.values() for line in lines))
    sections = {heading: list(lines) for heading, lines in checked.sections.items()}
    keep: set[tuple[str, str]] = set()
    for heading in dict.fromkeys(fact.heading for fact in facts):
        own = [fact for fact in facts if fact.heading == heading]
        written = sections.get(heading, [])
        if heading == parts.ACTIVE_TASK:
            written, missing = [], own
        elif heading == parts.RULES:
            # A rule stands in the user's own words; a line of the model that only repeats one is not needed.
            written, missing = [line for line in written if not _only_repeats(line, own)], own
        else:
            missing = [fact for fact in own if not fact.is_told_in(prose)]
        added = [fact.line for fact in sorted(missing, key=lambda fact: fact.source)]
        sections[heading] = [*added, *written] if heading in (parts.GOAL, parts.RULES) else [*written, *added]
        keep.update((heading, line) for line in added)
    told = [fact for fact in facts if fact.is_told_in(prose)]
    keep.update(_telling(sections, told))
    return Handoff(sections), keep


def _telling(sections: Mapping[str, Sequence[str]], facts: Sequence[Fact]) -> Iterator[tuple[str, str]]:
    """For each fact that the model told itself, the first line that tells it."""
    lines = [(heading, line, flat(line)) for heading in parts.HEADINGS for line in sections.get(heading, ())]
    for fact in facts:
        yield from [(heading, line) for heading, line, said in lines if fact.told_by in said][:1]


def _only_repeats(line: str, rules: Sequence[Fact]) -> bool:
    return any(rule.told_by in flat(line) and len(line) < len(rule.told_by) + _LITTLE_MORE_CHARS for rule in rules)


def _as_fit(facts: Sequence[Fact], tokens: int, count: CountTokens) -> list[Fact]:
    """The most important facts that fit; one that is too long is passed over, not cut."""
    taken = []
    for fact in facts:
        cost = count(fact.line) + 2
        if cost <= tokens:
            taken.append(fact)
            tokens -= cost
    return taken


# -- what fills the rest -----------------------------------------------------------------------------------------------


def _filled(story: Story, base: Handoff, budget: int, count: CountTokens) -> Handoff:
    """The handoff with as much of what it dropped as fits."""
    room = budget - rendered_size(base, count)
    if room < _LEAST_ROOM:
        return base
    chooser = _chooser(story)
    covered = set(story.standing) | _atoms_of(base.render())
    chars = int(room * _CHARS_PER_TOKEN)
    for _ in range(_TRIES_TO_FIT):
        filled = _with_quotes(story, base, chooser, set(covered), chars)
        size = rendered_size(filled, count)
        if size <= budget:
            return filled
        chars = int(chars * 0.95 * room / max(room, size - (budget - room)))
    return base


def _with_quotes(story: Story, base: Handoff, chooser: FragmentChooser, covered: set[str], chars: int) -> Handoff:
    sections = {heading: list(lines) for heading, lines in base.sections.items()}
    for heading, line in _told_before(story, covered, int(chars * _SHARE_OF_TOLD_BEFORE)):
        # What was told before is older than what the model wrote now.
        sections.setdefault(heading, []).insert(0, line)
        covered |= _atoms_of(line)
        chars -= len(line) + 4
    quotes, _ = chooser.choose(chars, covered=covered, shown=set())
    for number in sorted(number for number in quotes if isinstance(number, int)):
        # The chooser quotes a thing from a second place where there is room; the model has told of it in prose.
        new = [quote for quote in quotes[number] if not _atoms_of(quote) <= covered]
        if new:
            sections.setdefault(parts.VALUES, []).append(redact_text(f"m{number}: {' … '.join(new)}"))
    return Handoff(sections)


def _told_before(story: Story, covered: set[str], chars: int) -> list[tuple[str, str]]:
    """Lines of the previous handoff that the new one says hardly anything of, the most telling first, as they fit."""
    previous = story.previous or Handoff({})
    worth = worth_in(story.ledger.index, story.first)
    dropped = [
        (heading, line)
        for heading in _TOLD_BEFORE
        for line in previous.lines(heading)
        if not line.startswith("(") and _is_dropped(line, covered)
    ]
    ranked = sorted(dropped, key=lambda one: -(worth(one[1]) + 0.2) / (len(one[1]) + 4))
    taken = []
    for one in ranked:
        if len(one[1]) + 4 <= chars:
            taken.append(one)
            chars -= len(one[1]) + 4
    # Last first: they are put in front of their sections one by one.
    return [one for one in reversed(dropped) if one in taken]


def _is_dropped(line: str, covered: set[str]) -> bool:
    atoms = _atoms_of(line)
    return bool(atoms) and 2 * len(atoms - covered) > len(atoms)


def _atoms_of(text: str) -> set[str]:
    """Atoms, also those that stand in Chinese text without blanks around them."""
    return atoms_in(text) | {claim.text for claim in claims_in(text)}


def _chooser(story: Story) -> FragmentChooser:
    def line_of(number: int, part: int) -> tuple[Hashable, int]:
        del part
        return number, len(f"- m{number}: ")

    def may_quote(number: int) -> bool:
        return story.first <= number < story.last or number in story.also

    return FragmentChooser(story.ledger.index, story.read, story.first, may_quote, line_of)
