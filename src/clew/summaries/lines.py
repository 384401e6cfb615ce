"""What a handoff could say, line by line: what must be told, what was said, what was told before, what was done.

Reads the ledger and the handoff before. Chooses nothing: which lines fit is decided by whoever writes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from clew.ledger import Action, FileFact, Ledger, Statement, arguments_of, is_question, shorten
from clew.summaries import handoff as parts
from clew.summaries.certain import certain_facts, file_line, quoted
from clew.summaries.handoff import Handoff
from clew.summaries.story import Story

_ASK_CHARS = 220
_DECISION_CHARS = 240
_COMMAND_CHARS = 150
_BRIEF_CHARS = 50
_ERROR_CHARS = 160
# How far back lines are looked for; a longer history has no room for older ones anyway.
_NEWEST_LINES = 300
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
    return Lines(musts, said, _told(previous, {line.text for line in musts}), done)


def actions_of(story: Story) -> list[Action]:
    """The actions of the messages that the summary stands for."""
    return [action for action in story.ledger.actions if story.first <= action.number < story.last]


def key_of(action: Action) -> Hashable:
    return action.number, action.place


def action_text(action: Action, quotes: Sequence[str] = (), *, brief: bool = False) -> str:
    """`RAN pytest -q -> exit 1, 2 failed: quotes [terminal m18]`"""
    text = f"{action.verb} {_brief(action.target) if brief else shorten(action.target, _COMMAND_CHARS)}".rstrip()
    if action.change:
        text += f" {action.change}"
    if action.outcome and (phrase := action.outcome.phrase()):
        text += f" -> {phrase}" if action.verb in ("RAN", "CALLED") or action.failed else f", {phrase}"
    if action.failed and action.outcome and action.outcome.error and not brief:
        text += f": {shorten(action.outcome.error, _ERROR_CHARS)}"
    if quotes:
        text += f": {'… '.join(quotes)}"
    return f"{text} [{action.tool} m{action.number}]"


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
        told.append(f"Running: {state.serving[0]} (m{state.serving[1]}).")
    if not told:
        return [Line(parts.STATE, text, -1) for text in previous.lines(parts.STATE)]
    return [Line(parts.STATE, " ".join(told), ledger.next)]


def _plan(ledger: Ledger) -> list[Line]:
    """The newest list of tasks that the agent wrote down, by how far each is."""
    if not ledger.plan:
        return []
    call, number = ledger.plan
    items = next((value for value in arguments_of(call).values() if isinstance(value, list)), [])
    lines = []
    for item in items:
        if isinstance(item, dict) and (text := _plan_text(item)):
            status = str(item.get("status", "pending"))
            heading = parts.IN_PROGRESS if status.startswith(("in", "active", "doing")) else parts.REMAINING
            if not status.startswith(("complete", "done", "cancel")):
                lines.append(Line(heading, f"{shorten(text, 200)} (m{number})", number))
    return lines


def _plan_text(item: dict[str, Any]) -> str:
    texts = (item.get(key) for key in ("content", "step", "task", "text", "title"))
    return next((text for text in texts if isinstance(text, str)), "")


def _asks(story: Story) -> list[Line]:
    """What people said after the first request, and what they asked with the answer they got."""
    lines = []
    for ask in story.ledger.asks[1:][-_NEWEST_LINES:]:
        if ask.answer and is_question(ask.text):
            text = f"{quoted(ask.text, _ASK_CHARS)} -> {shorten(ask.answer, _ASK_CHARS)}"
            lines.append(Line(parts.ANSWERED, f"{text} (m{ask.number}, m{ask.answered_at})", ask.number, bonus=0.4))
        else:
            text = f"then: {quoted(ask.text, _ASK_CHARS)} (m{ask.number})"
            lines.append(Line(parts.GOAL, text, ask.number, bonus=0.6))
    return lines


def _decisions(ledger: Ledger) -> list[Line]:
    newest: list[Statement] = list({said.text: said for said in ledger.decisions[-_NEWEST_LINES:]}.values())
    return [
        Line(parts.DECISIONS, f"{shorten(said.text, _DECISION_CHARS)} (m{said.number})", said.number, bonus=0.3)
        for said in newest
    ]


def _files_read(story: Story) -> list[Line]:
    newest: list[FileFact] = sorted(story.ledger.files.values(), key=lambda fact: -fact.last)[:_NEWEST_LINES]
    return [Line(parts.FILES, file_line(fact), fact.last) for fact in newest if not fact.changes]


def _told(previous: Handoff, already: set[str]) -> list[Line]:
    """What the handoff before said, apart from what must be told again anyway."""
    worth = {
        parts.GOAL: 0.6, parts.COMPLETED: 0.2, parts.TRIED: 0.3, parts.BLOCKED: 0.1, parts.DECISIONS: 0.2,
        parts.ANSWERED: 0.1, parts.PENDING: 0.2, parts.REMAINING: 0.1, parts.IN_PROGRESS: 0.1, parts.FILES: 0.1,
        parts.VALUES: 0.0,
    }  # fmt: skip
    lines = [
        Line(heading, text, _source(text), bonus=bonus)
        for heading, bonus in worth.items()
        for text in previous.lines(heading)
        if text not in already and not text.startswith("(")
    ]
    # A task that is no longer the newest was a step on the way.
    lines += [
        Line(parts.GOAL, text if text.startswith("then: ") else f"then: {text}", _source(text), bonus=0.6)
        for text in previous.lines(parts.ACTIVE_TASK)
        if text not in already
    ]
    return lines


def _source(text: str) -> int:
    """The message that a line out of an earlier handoff names first."""
    found = _SOURCE.search(text)
    return int(found[1]) if found else -1
