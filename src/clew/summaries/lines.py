"""What a handoff could say, line by line: what must be told, what was said, what was told before, what was done.

Reads the ledger and the handoff before. Chooses nothing: which lines fit is decided by whoever writes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from clew.ledger import Action, FileFact, Ledger, Statement, is_question, shorten
from clew.summaries import handoff as parts
from clew.summaries.certain import certain_facts, cut, file_line, path_in, quoted
from clew.summaries.handoff import Handoff
from clew.summaries.story import Story

_ASK_CHARS = 220
_DECISION_CHARS = 240
_COMMAND_CHARS = 150
_BRIEF_CHARS = 50
_PLAN_CHARS = 200
_SERVING_CHARS = 160
_ERROR_CHARS = 160
# How far back lines are looked for; a longer history has no room for older ones anyway.
_NEWEST_LINES = 300
_WORD = re.compile(r"\w{2,}")
# A quote of these and the target says nothing that the line does not.
_ARGUMENTS = frozenset("path file_path filePath command description pattern query url content limit offset".split())
_FROM_PLAN = re.compile(r"\(m\d+\)$")
_SOURCE = re.compile(r"\bm(\d+)\b")
_BEFORE_THE_COMMAND = re.compile(r"^\s*cd \S+ *(?:&&|;)\s*")


@dataclass(frozen=True, slots=True)
class Line:
    """One line under a heading. `source` is the message it came from and orders the lines of a heading."""

    heading: str
    text: str
    source: int
    action: Action | None = None
    bonus: float = 0.0
    """What the line is worth beside the atoms in it."""

    @property
    def chars(self) -> int:
        """Its length with bullet and line end."""
        return len(self.text) + 5


@dataclass(frozen=True, slots=True)
class Lines:
    """All that could be told."""

    musts: list[Line]
    """The most important first."""
    said: list[Line]
    told: list[Line]
    """Out of the handoff before."""
    done: list[Line]


def lines_of(story: Story) -> Lines:
    """Everything that a handoff of this story could say."""
    previous = story.previous or Handoff({})
    certain = [Line(fact.heading, fact.line, fact.source) for fact in certain_facts(story)]
    musts = [*certain, *_state(story.ledger, previous), *_plan(story.ledger)]
    said = [*_asks(story), *_decisions(story.ledger), *_files_read(story)]
    done = [Line(parts.COMPLETED, action_text(a), a.number, a, 0.3 if a.files or a.failed else 0.1)
            for a in actions_of(story)[-_NEWEST_LINES:]]  # fmt: skip
    return Lines(musts, said, _told(story, previous, {line.text for line in (*musts, *said)}), done)


def actions_of(story: Story) -> list[Action]:
    """The actions of the messages that the summary stands for."""
    return [action for action in story.ledger.actions if story.first <= action.number < story.last]


def key_of(action: Action) -> Hashable:
    return action.number, action.place


def action_text(action: Action, quotes: Sequence[str] = (), *, brief: bool = False) -> str:
    """`RAN pytest -q -> exit 1, 2 failed: quotes [terminal m18]`"""
    text = f"{action.verb} {_brief(action.target) if brief else cut(action.target, _COMMAND_CHARS)}".rstrip()
    if action.change:
        text += f" {action.change}"
    if action.outcome and (phrase := action.outcome.phrase()):
        text += f" -> {phrase}" if action.verb in ("RAN", "CALLED") or action.failed else f", {phrase}"
    if action.failed and action.outcome and action.outcome.error and not brief:
        text += f": {cut(action.outcome.error, _ERROR_CHARS)}"
    if new := [quote for quote in quotes if not _words(quote) <= _words(f"{text} {action.tool}") | _ARGUMENTS]:
        text += f": {'… '.join(new)}"
    return f"{text} [{' '.join(action.tool.split())} m{action.number}]"


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))


def _brief(target: str) -> str:
    """The end of a path, the start of a command: what tells most in few chars."""
    if " " not in target and target.count("/") > 2:
        return "…/" + "/".join(target.rsplit("/", 2)[1:])
    return shorten(_BEFORE_THE_COMMAND.sub("", target), _BRIEF_CHARS)


def _state(ledger: Ledger, previous: Handoff) -> list[Line]:
    state = ledger.state
    told = []
    if state.branch:
        at = f" at {state.commit[0]}" if state.commit else ""
        told.append(f"Branch {state.branch[0]}{at} (m{state.branch[1]}).")
    if state.tests:
        told.append(f"Tests: {state.tests[0]} (m{state.tests[1]}).")
    if state.serving:
        told.append(f"Running: {cut(state.serving[0], _SERVING_CHARS)} (m{state.serving[1]}).")
    if not told:
        return [Line(parts.STATE, text, -1) for text in previous.lines(parts.STATE)]
    return [Line(parts.STATE, " ".join(told), ledger.next)]


def _plan(ledger: Ledger) -> list[Line]:
    """The newest list of tasks that the agent wrote down, by how far each is."""
    items, number = ledger.plan
    headings = {"doing": parts.IN_PROGRESS, "open": parts.REMAINING}
    return [
        Line(headings[item.progress], f"{cut(item.text, _PLAN_CHARS)} (m{number})", number)
        for item in items
        if item.progress in headings
    ]


def _asks(story: Story) -> list[Line]:
    """What people said after the first request, and what they asked with the answer they got."""
    lines = []
    for ask in story.ledger.asks[1:][-_NEWEST_LINES:]:
        if ask.answer and is_question(ask.text):
            text = f"{quoted(ask.text, _ASK_CHARS)} -> {cut(ask.answer, _ASK_CHARS)}"
            lines.append(Line(parts.ANSWERED, f"{text} (m{ask.number}, m{ask.answered_at})", ask.number, bonus=0.4))
        else:
            text = f"then: {quoted(ask.text, _ASK_CHARS)} (m{ask.number})"
            lines.append(Line(parts.GOAL, text, ask.number, bonus=0.6))
    return lines


def _decisions(ledger: Ledger) -> list[Line]:
    newest: list[Statement] = list({said.text: said for said in ledger.decisions[-_NEWEST_LINES:]}.values())
    return [
        Line(parts.DECISIONS, f"{cut(said.text, _DECISION_CHARS)} (m{said.number})", said.number, bonus=0.3)
        for said in newest
    ]


def _files_read(story: Story) -> list[Line]:
    newest: list[FileFact] = sorted(story.ledger.files.values(), key=lambda fact: -fact.last)[:_NEWEST_LINES]
    return [Line(parts.FILES, file_line(fact), fact.last) for fact in newest if not fact.changes]


def _told(story: Story, previous: Handoff, already: set[str]) -> list[Line]:
    """What the handoff before said, apart from what is told again anyway."""
    worth = {
        parts.GOAL: 0.6, parts.COMPLETED: 0.2, parts.TRIED: 0.3, parts.BLOCKED: 0.1, parts.DECISIONS: 0.2,
        parts.ANSWERED: 0.1, parts.PENDING: 0.2, parts.REMAINING: 0.1, parts.IN_PROGRESS: 0.1, parts.FILES: 0.1,
        parts.VALUES: 0.0,
    }  # fmt: skip
    lines = [
        Line(heading, text, _source(text), bonus=bonus)
        for heading, bonus in worth.items()
        for text in previous.lines(heading)
        if text not in already and not text.startswith("(") and not _is_known(story.ledger, heading, text)
    ]
    # A task that is no longer the newest was a step on the way.
    lines += [
        Line(parts.GOAL, text if text.startswith("then: ") else f"then: {text}", _source(text), bonus=0.6)
        for text in previous.lines(parts.ACTIVE_TASK)
        if text not in already and not _is_known(story.ledger, parts.ACTIVE_TASK, text)
    ]
    return lines


def _is_known(ledger: Ledger, heading: str, text: str) -> bool:
    """Whether the ledger has it too, perhaps with something newer to say of it."""
    if heading in (parts.GOAL, parts.ACTIVE_TASK):
        source = _source(text)
        return any(ask.number == source for ask in ledger.asks)
    if heading == parts.FILES:
        return path_in(text) in ledger.files
    if heading in (parts.REMAINING, parts.IN_PROGRESS):
        return bool(ledger.plan[0]) and _FROM_PLAN.search(text) is not None
    return False


def _source(text: str) -> int:
    """The message that a line out of an earlier handoff names first."""
    found = _SOURCE.search(text)
    return int(found[1]) if found else -1
