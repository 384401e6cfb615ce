"""What is kept whatever a model writes: the task, the goal, the rules, the files that changed, the errors that stand.

Reads the ledger and the handoff before; each fact knows by which words a text tells it. Knows no model and no tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clew.ledger import Action, FileFact, Ledger, Statement, atoms_in, is_path, replaced_by, shorten
from clew.redact import redact_text
from clew.summaries import handoff as parts
from clew.summaries.handoff import Handoff
from clew.summaries.story import Story

# Task and goal also stand word for word in the conversation, after the handoff and before it.
_TASK_CHARS = 600
_GOAL_CHARS = 300
_COMMAND_CHARS = 60
_ERROR_CHARS = 130
# A rule takes back one that was said not long before it; comparing each with all would grow with their square.
_RULES_BACK = 200
# How far back a very long history is looked through.
_NEWEST = 300
_RECENT_MESSAGES = 40
_TESTS = "any tests"
_QUOTED_RULE = re.compile(r'"(.*)" \(m(\d+)')
_REPLACES = re.compile(r"(; replaces .*)\)$")
_NUMBER = re.compile(r"\(m(\d+)\)$")
_ANY_NUMBER = re.compile(r"\bm(\d+)\b")
_CHANGED = "changed"
_FILE_LINE = re.compile(r"\w+: (.+) \([^()]*\bm\d+\)$")


@dataclass(frozen=True, slots=True)
class Fact:
    """One line that must be told, and the words by which a text is known to tell it."""

    heading: str
    line: str
    told_by: str
    source: int = -1
    """The message it came from, which orders the lines of a heading."""

    def is_told_in(self, flat_text: str) -> bool:
        return self.told_by in flat_text


def certain_facts(story: Story) -> list[Fact]:
    """The facts, the most important first, each once; without secrets."""
    hard, soft = _rules(story)
    standing, overcome = _failures(story)
    facts = [*_task(story), *_goal(story), *hard, *standing, *_files(story), *soft, *overcome]
    clean = (
        replace(fact, line=redact_text(fact.line), told_by=flat(redact_text(fact.told_by)))
        for fact in facts
        if fact.told_by.strip()
    )
    return list({(fact.heading, fact.told_by): fact for fact in clean}.values())


def flat(text: str) -> str:
    """The text as it is compared: on one line, in small letters."""
    return " ".join(text.lower().split())


def _task(story: Story) -> Iterator[Fact]:
    if story.task.strip():
        at = f" (m{story.task_at})" if story.task_at is not None else ""
        quote = quoted(story.task, _TASK_CHARS)
        yield Fact(parts.ACTIVE_TASK, f"{quote}{at}", quote)


def _goal(story: Story) -> Iterator[Fact]:
    """The first request: out of the ledger where it reaches back so far, else out of the handoff before."""
    told = [_statement(line) for line in (story.previous or Handoff({})).lines(parts.GOAL)]
    asks = [Statement("rule", cut(ask.text, _GOAL_CHARS), ask.number) for ask in story.ledger.asks[:1]]
    first = min((*asks, *(goal for goal in told if goal)), key=lambda goal: goal.number, default=None)
    if first:
        yield Fact(parts.GOAL, f"{quoted(first.text, _GOAL_CHARS)} (m{first.number})", first.text)


def _rules(story: Story) -> tuple[list[Fact], list[Fact]]:
    """The rules that hold, newest first: those that forbid or demand, then the preferences."""
    lines = (story.previous or Handoff({})).lines(parts.RULES)
    known = {flat(rule.text): rule for line in lines if (rule := _statement(line))}
    said = list((known | {flat(rule.text): rule for rule in story.ledger.rules}).values())
    said = sorted(said, key=lambda rule: rule.number)[-_NEWEST:]
    # Why a rule holds is told on, also when the ledger does not reach back to the one it replaced.
    told_why = {rule.text: why[1] for line in lines if (rule := _statement(line)) and (why := _REPLACES.search(line))}
    gone: set[str] = set()
    hard: list[Fact] = []
    soft: list[Fact] = []
    for position in range(len(said) - 1, -1, -1):
        rule = said[position]
        if rule.text in gone:
            continue
        old = replaced_by(rule, said[max(0, position - _RULES_BACK) : position])
        because = ""
        if old and old.text not in gone:
            gone.add(old.text)
            because = f"; replaces {quoted(old.text, 120)}, m{old.number}"
        because = because or told_why.get(rule.text, "")
        text = " ".join(rule.text.split())
        (hard if rule.hard else soft).append(
            Fact(parts.RULES, f'"{text}" (m{rule.number}{because})', text, rule.number)
        )
    # The newest message first, and within it as it was said.
    for facts in (hard, soft):
        facts.reverse()
        facts.sort(key=lambda fact: fact.source, reverse=True)
    # What a model put into its own words is no quote, and holds all the same.
    soft += [Fact(parts.RULES, line, line) for line in lines if not _statement(line)]
    return hard, soft


def _statement(line: str) -> Statement | None:
    """What a person said, out of a handoff: quoted, with its message. A model's own words are no quote."""
    found = _QUOTED_RULE.match(line)
    return Statement("rule", found[1], int(found[2]), hard=True) if found else None


def _failures(story: Story) -> tuple[list[Fact], list[Fact]]:
    """The last error of each command, newest first: of those that still stand in the way, and of the others."""
    last: dict[str, Action] = {}
    worked: dict[str, int] = {}
    for action in story.ledger.actions:
        if action.failed:
            last[_likeness(action)] = action
        elif action.outcome and not action.failed:
            worked[_likeness(action)] = action.number
            if action.outcome.tests:
                worked[_TESTS] = action.number
    standing: list[Fact] = []
    overcome: list[Fact] = []
    recent = story.ledger.next - _RECENT_MESSAGES
    for key, action in sorted(last.items(), key=lambda item: -item[1].number)[:_NEWEST]:
        since = max(worked.get(key, -1), worked.get(_TESTS, -1) if action.outcome and action.outcome.tests else -1)
        is_over = since > action.number or action.number < recent
        if is_over and action.outcome and not action.outcome.error:
            continue  # It said nothing, and is no longer in the way.
        (overcome if is_over else standing).append(_failure(action, parts.TRIED if is_over else parts.BLOCKED))
    return standing, [*overcome, *_told_failures(story)]


def _failure(action: Action, heading: str) -> Fact:
    """`make test -> exit 2: error: no rule to make target`"""
    assert action.outcome is not None
    what = cut(action.target, _COMMAND_CHARS) or action.tool
    error = cut(action.outcome.error, _ERROR_CHARS)
    how = f" -> {ended}" if (ended := action.outcome.ended()) else ""
    line = " ".join(f"{what}{how}{': ' if error else ''}{error} (m{action.result})".split())
    return Fact(heading, line, error.rstrip("…") or what, action.number)


def _told_failures(story: Story) -> Iterator[Fact]:
    """Failures of which only the handoff before knows, since the ledger does not reach back so far."""
    begin = _start_of(story.ledger)
    previous = story.previous or Handoff({})
    told = [(heading, line) for heading in (parts.BLOCKED, parts.TRIED) for line in previous.lines(heading)]
    numbered = [(int(found[1]), found.start(), *each) for each in told if (found := _NUMBER.search(each[1]))]
    # The newest first: where there is no room for all, the oldest go.
    for number, end, heading, line in sorted(numbered, key=lambda one: -one[0]):
        if number < begin:
            yield Fact(heading, line, line[:end].split(": ", 1)[-1].strip(), number)


def _start_of(ledger: Ledger) -> int:
    return min((*(ask.number for ask in ledger.asks[:1]), *(one.number for one in ledger.actions[:1])), default=0)


def _likeness(action: Action) -> str:
    """Commands count as the same one when they start alike."""
    return f"{action.verb} {' '.join(action.target.split()[:4])[:60]}"


def _files(story: Story) -> Iterator[Fact]:
    """The files that were changed, newest first, and those that only the handoff before knows of."""
    files = story.ledger.files
    told = {path_in(line): line for line in (story.previous or Handoff({})).lines(parts.FILES) if _CHANGED in line}
    changed = (fact for fact in files.values() if fact.changes)
    for fact in sorted(changed, key=lambda fact: -fact.last)[:_NEWEST]:
        since = _first_number(told.get(fact.path, ""))
        yield Fact(parts.FILES, file_line(fact, since), fact.path, fact.last)
    for path, line in reversed(told.items()):
        if path not in files or not files[path].changes:
            yield Fact(parts.FILES, line, path, _first_number(line) or -1)


def path_in(line: str) -> str:
    """The path that a line about a file names: as we write such lines, or as the first path in a model's words."""
    if found := _FILE_LINE.match(line):
        return found[1]
    return min(filter(is_path, atoms_in(line)), key=lambda path: (line.find(path), -len(path)), default=line)


def _first_number(line: str) -> int | None:
    found = _ANY_NUMBER.search(line)
    return int(found[1]) if found else None


def file_line(fact: FileFact, since: int | None = None) -> str:
    """`file_path: src/retry.py (changed; read_file, patch 3x, m7-m98)`"""
    tools = ", ".join(tool if times == 1 else f"{tool} {times}x" for tool, times in fact.tools.items())
    first = fact.first if since is None else min(since, fact.first)
    when = f"m{first}" if first == fact.last else f"m{first}-m{fact.last}"
    changed = f"{_CHANGED}; " if fact.changes else ""
    return " ".join(f"{fact.argument or 'path'}: {fact.path} ({changed}{tools}, {when})".split())


def quoted(text: str, most: int) -> str:
    return json.dumps(cut(text, most), ensure_ascii=False)


def cut(text: str, most: int) -> str:
    """The text shortened; without secrets first, since half of one would not be known for what it is."""
    return shorten(redact_text(text[: 4 * most]) if len(text) > most else text, most)
