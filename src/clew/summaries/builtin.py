"""The built-in summariser: the ledger, told as a handoff. Deterministic; no network, no key, no model.

What must be there comes first (the task, the rules, the files that changed, the errors that stand); then what was said
and told before; what room is left goes to quotes of the original text, chosen for what will be needed again.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace

from clew.ledger import Action, FragmentChooser, atoms_in, shorten, whole_text
from clew.redact import redact_text
from clew.summaries import handoff as parts
from clew.summaries.handoff import Handoff
from clew.summaries.lines import Line, Lines, action_text, actions_of, key_of, lines_of
from clew.summaries.story import CountTokens, Story, Summary

BUILTIN = "built-in"
TEMPLATE = "builtin/1"

_SHARE_OF_MUSTS = 0.85
_SHARE_OF_SAID = 0.12
_SHARE_OF_TOLD = 0.35
_LEAST_DENSITY = 0.0003
# What an atom of the handoff before is worth when the ledger does not reach back to it.
_WORTH_OF_TOLD = 0.15
_TRIES_TO_FIT = 4
_CLOSE_ENOUGH = 0.96
_SAMPLE_CHARS = 12_000
_FEWEST_CHARS = 30
_FEWEST_CHARS_OF_TASK = 24


async def summarize_builtin(story: Story, budget: int, count: CountTokens) -> Summary:
    """The summary that needs no model."""
    text = redact_text(write_handoff(story, budget, count).render())
    return Summary(text, written_by=BUILTIN, template=TEMPLATE)


def write_handoff(story: Story, budget: int, count: CountTokens) -> Handoff:
    """The handoff that tells the most of the story in at most `budget` tokens."""
    lines = lines_of(story)
    chooser = _chooser(story)
    chars = int(budget * _chars_per_token(story, count))
    for _ in range(_TRIES_TO_FIT):
        written = _compose(story, chooser, lines, chars)
        text = written.render()
        size = count(text)
        if size <= budget and (size > _CLOSE_ENOUGH * budget or len(text) < 0.8 * chars):
            return written
        chars = int(chars * min(1.5, 0.98 * budget / max(1, size)))
    while size > budget and chars > _FEWEST_CHARS:
        chars = int(chars * 0.8)
        written = _compose(story, chooser, lines, chars)
        size = count(written.render())
    return written if size <= budget else Handoff({})


def _chars_per_token(story: Story, count: CountTokens) -> float:
    """By the newest text of the story; quotes out of it are a little denser."""
    sample, number = "", story.last
    while len(sample) < _SAMPLE_CHARS and number > story.first:
        number -= 1
        sample += whole_text(story.read(number))[:_SAMPLE_CHARS]
    return 0.95 * len(sample) / max(1, count(sample)) if sample else 3.0


def _compose(story: Story, chooser: FragmentChooser, lines: Lines, room: int) -> Handoff:
    chosen = list(_fitting(lines.musts, int(room * _SHARE_OF_MUSTS)))
    covered = set(story.standing).union(*(atoms_in(line.text) for line in chosen))
    left = room - _chars(chosen)
    chosen += _most_telling(chooser, lines.said, covered, int(left * _SHARE_OF_SAID))
    chosen += _most_telling(chooser, lines.told, covered, int(left * _SHARE_OF_TOLD), unknown=_WORTH_OF_TOLD)
    left = room - _chars(chosen)
    quotes, spent = chooser.choose(left, covered=covered, shown=set())
    done = [line for line in lines.done if line.action and key_of(line.action) not in quotes]
    chosen += _most_telling(chooser, done, covered, left - spent)
    return Handoff(_told(story, chosen, quotes))


def _chooser(story: Story) -> FragmentChooser:
    owners = _owners(story)

    def line_of(number: int, part: int) -> tuple[Hashable, int]:
        action = owners.get((number, part))
        if action is None:
            return number, len(f"- m{number}: ")
        return key_of(action), len(action_text(action, brief=True)) + 6

    def may_quote(number: int) -> bool:
        return story.first <= number < story.last or number in story.also

    return FragmentChooser(story.ledger.index, story.read, story.first, may_quote, line_of, story.focus or "")


def _owners(story: Story) -> dict[tuple[int, int], Action]:
    """The action that a part of a message belongs to: its call, its result, or what was said before the first call."""
    owners: dict[tuple[int, int], Action] = {}
    for action in actions_of(story):
        owners[action.number, action.place + 1] = action
        owners.setdefault((action.number, 0), action)
        if action.result is not None:
            owners[action.result, 0] = action
    return owners


def _fitting(lines: Iterable[Line], room: int) -> Iterator[Line]:
    """The lines that fit, in order of importance; one that is too long is passed over. Only the task is cut instead:
    with none named, a reader would think that there is none."""
    for whole in lines:
        line = _shorter(whole, room) if whole.heading == parts.ACTIVE_TASK and whole.chars > room else whole
        if line.chars <= room:
            room -= line.chars
            yield line


def _shorter(line: Line, chars: int) -> Line:
    said, _, source = line.text.rpartition('" (')
    most = chars - len(source) - 9
    return replace(line, text=f'{shorten(said, most)}" ({source}') if most >= _FEWEST_CHARS_OF_TASK else line


def _most_telling(
    chooser: FragmentChooser, options: list[Line], covered: set[str], room: int, unknown: float = 0.0
) -> list[Line]:
    """The lines that add the most per char; adds their atoms to `covered`."""

    def density(line: Line) -> float:
        new = (atom for atom in atoms_in(line.text) if atom not in covered)
        # Atoms come in any order; this sum is the same in all of them.
        return (line.bonus + math.fsum(chooser.worth_of(atom) or unknown for atom in new)) / line.chars

    taken = []
    # Each is weighed a second time when its turn comes: what it adds may have been told by a better line.
    for line in sorted(options, key=lambda line: (-density(line), line.source)):
        if line.chars <= room and density(line) > _LEAST_DENSITY:
            taken.append(line)
            covered |= atoms_in(line.text)
            room -= line.chars
    return taken


def _chars(lines: Iterable[Line]) -> int:
    return sum(line.chars for line in lines)


def _told(story: Story, chosen: list[Line], quotes: dict[Hashable, list[str]]) -> dict[str, list[str]]:
    """The lines under their headings, in the order in which things happened."""
    in_full = {key_of(line.action) for line in chosen if line.action}
    lines = [line for line in chosen if not line.action]
    actions = actions_of(story)
    listed = [action for action in actions if key_of(action) in in_full or key_of(action) in quotes]
    for action in listed:
        key = key_of(action)
        text = action_text(action, quotes.pop(key, ()), brief=key not in in_full)
        lines.append(Line(parts.COMPLETED, text, action.number))
    for number, texts in quotes.items():
        assert isinstance(number, int)
        lines.append(Line(parts.VALUES, f"m{number}: {'… '.join(texts)}", number))
    sections: dict[str, list[str]] = {}
    for line in sorted(lines, key=lambda line: line.source):
        sections.setdefault(line.heading, []).append(redact_text(line.text))
    if len(listed) < len(actions) and parts.COMPLETED in sections:
        more = len(actions) - len(listed)
        rest = f"({more:,} more action{'s' if more > 1 else ''} between m{story.first} and m{story.last - 1})"
        sections[parts.COMPLETED].append(rest)
    return sections
