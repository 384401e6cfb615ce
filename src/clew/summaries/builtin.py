"""The built-in summariser: the ledger, told as a handoff. Deterministic; no network, no key, no model.

What must be there comes first (the task, the rules, the files that changed, the errors that stand); then the actions
worth a line; what room is left goes to quotes of the original text, chosen for what will be needed again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clew.ledger import (
    Action,
    FileFact,
    FragmentChooser,
    Ledger,
    Statement,
    arguments_of,
    atoms_in,
    is_question,
    replaced_by,
    shorten,
)
from clew.summaries import handoff as parts
from clew.summaries.handoff import Handoff
from clew.summaries.story import CountTokens, Story, Summary

# Task and goal also stand word for word in the conversation, after the handoff and before it.
_TASK_CHARS = 400
_GOAL_CHARS = 300
_ASK_CHARS = 220
_COMMAND_CHARS = 150
_ERROR_CHARS = 180
_MOST_FAILURES = 12
# How far back lines are looked for; a longer history has no room for older ones anyway.
_NEWEST_LINES = 300
_RECENT_MESSAGES = 40
_TESTS = "any tests"
_SHARE_OF_MUSTS = 0.6
_SHARE_OF_SAID = 0.12
_CHARS_PER_TOKEN = 3.4
_TRIES_TO_FIT = 4
_BRIEF_CHARS = 50
_BEFORE_THE_COMMAND = re.compile(r"^\s*cd \S+ *(?:&&|;)\s*")
_SOURCE = re.compile(r"\bm(\d+)\b")

BUILTIN = "built-in"
TEMPLATE = "builtin/1"


@dataclass(frozen=True, slots=True)
class Line:
    """One line under a heading. `source` is the message it came from and orders the lines of a heading."""

    heading: str
    text: str
    source: int
    action: Action | None = None
    bonus: float = 0.0


@dataclass(frozen=True, slots=True)
class Lines:
    """All that could be told: what must be, the most important first; what was said or told before; what was done."""

    musts: list[Line]
    said: list[Line]
    done: list[Line]


async def summarize_builtin(story: Story, budget: int, count: CountTokens) -> Summary:
    """The summary that needs no model."""
    return Summary(write_handoff(story, budget, count).render(), written_by=BUILTIN, template=TEMPLATE)


def write_handoff(story: Story, budget: int, count: CountTokens) -> Handoff:
    """The handoff that tells the most of the story in at most `budget` tokens."""
    lines = _lines_of(story)
    chooser = _chooser(story)
    chars = int(budget * _CHARS_PER_TOKEN)
    written = Handoff({})
    for _ in range(_TRIES_TO_FIT):
        written = _compose(story, chooser, lines, chars)
        size = count(written.render())
        if size <= budget and (size > 0.97 * budget or len(written.render()) < 0.8 * chars):
            return written
        chars = int(chars * min(1.5, 0.99 * budget / max(1, size)))
    while count(written.render()) > budget and chars > 100:
        chars = int(chars * 0.9)
        written = _compose(story, chooser, lines, chars)
    return written


def _compose(story: Story, chooser: FragmentChooser, lines: Lines, room: int) -> Handoff:
    chosen = list(_fitting(lines.musts, int(room * _SHARE_OF_MUSTS)))
    covered = set(story.standing).union(*(atoms_in(line.text) for line in chosen))
    left = room - sum(map(_cost, chosen))
    chosen += _most_telling(chooser, lines.said, covered, int(left * _SHARE_OF_SAID))
    left = room - sum(map(_cost, chosen))
    quotes, spent = chooser.choose(left, covered=covered, shown=set())
    done = [line for line in lines.done if line.action and _key(line.action) not in quotes]
    chosen += _most_telling(chooser, done, covered, left - spent)
    return Handoff(_told(story, chosen, quotes))


def _chooser(story: Story) -> FragmentChooser:
    owners = _owners(story)

    def line_of(number: int, part: int) -> tuple[Hashable, int]:
        action = owners.get((number, part))
        if action is None:
            return number, len(f"- m{number}: ")
        return _key(action), len(_action_text(action, (), brief=True)) + 6

    def may_quote(number: int) -> bool:
        return story.first <= number < story.last or number in story.also

    return FragmentChooser(story.ledger.index, story.read, story.first, may_quote, line_of)


def _owners(story: Story) -> dict[tuple[int, int], Action]:
    """The action that a part of a message belongs to: its call, its result, or what was said before the first call."""
    owners: dict[tuple[int, int], Action] = {}
    for action in _actions(story):
        owners[action.number, action.place + 1] = action
        owners.setdefault((action.number, 0), action)
        if action.result is not None:
            owners[action.result, 0] = action
    return owners


def _actions(story: Story) -> list[Action]:
    """The actions of the messages that the summary stands for."""
    return [action for action in story.ledger.actions if story.first <= action.number < story.last]


def _key(action: Action) -> Hashable:
    return action.number, action.place


def _fitting(lines: Iterable[Line], room: int) -> Iterator[Line]:
    """The lines that fit, in order of importance; one that is too long is passed over, not cut."""
    for line in lines:
        if _cost(line) <= room:
            room -= _cost(line)
            yield line


def _most_telling(chooser: FragmentChooser, options: list[Line], covered: set[str], room: int) -> list[Line]:
    """The lines that add the most per char; adds their atoms to `covered`."""

    def density(line: Line) -> float:
        new = (atom for atom in atoms_in(line.text) if atom not in covered)
        return (line.bonus + sum(map(chooser.worth_of, new))) / _cost(line)

    taken = []
    ranked = sorted(options, key=lambda line: (-density(line), line.source))
    # A second look at each costs little and tells whether what it adds was told by a better line.
    for line in ranked:
        if _cost(line) <= room and density(line) > 0.002:
            taken.append(line)
            covered |= atoms_in(line.text)
            room -= _cost(line)
    return taken


def _cost(line: Line) -> int:
    return len(line.text) + 5


# -- the lines ---------------------------------------------------------------------------------------------------------


def _lines_of(story: Story) -> Lines:
    ledger, previous = story.ledger, story.previous or Handoff({})
    rules = _rules(story)
    musts = [
        *_task(story),
        *_goal(story),
        *(line for line in rules if line.bonus),
        *_state(ledger, previous),
        *_plan(ledger),
        *_failures(ledger),
        *_files(story, changed=True),
        *(line for line in rules if not line.bonus),
    ]
    said = [
        *_kept(previous, parts.COMPLETED, bonus=0.2),
        *_kept(previous, parts.TRIED, bonus=0.3),
        *_kept(previous, parts.DECISIONS, bonus=0.2),
        *_kept(previous, parts.ANSWERED, bonus=0.1),
        *_kept(previous, parts.VALUES),
        *_asks(story),
        *_files(story, changed=False),
        *(Line(parts.DECISIONS, f"{shorten(said.text, 240)} (m{said.number})", said.number, bonus=0.3)
          for said in _newest(ledger.decisions)),
    ]  # fmt: skip
    done = [_action_line(action) for action in _actions(story)[-_NEWEST_LINES:]]
    return Lines(musts, said, done)


def _task(story: Story) -> list[Line]:
    if not story.task:
        return []
    at = f" (m{story.task_at})" if story.task_at is not None else ""
    return [Line(parts.ACTIVE_TASK, f"{_quoted(story.task, _TASK_CHARS)}{at}", -1)]


def _goal(story: Story) -> list[Line]:
    if story.previous and story.previous.lines(parts.GOAL):
        return [Line(parts.GOAL, text, _source(text)) for text in story.previous.lines(parts.GOAL)]
    if not story.ledger.asks:
        return []
    ask = story.ledger.asks[0]
    return [Line(parts.GOAL, f"{_quoted(ask.text, _GOAL_CHARS)} (m{ask.number})", ask.number)]


def _rules(story: Story) -> list[Line]:
    """The rules that hold, each with the one it replaced; a rule that was taken back is told only there."""
    known = [_rule_again(text) for text in (story.previous or Handoff({})).lines(parts.RULES)]
    said = _newest([*known, *story.ledger.rules])
    lines = []
    gone: set[str] = set()
    for position in range(len(said) - 1, -1, -1):
        rule = said[position]
        if rule.text in gone:
            continue
        old = replaced_by(rule, said[:position])
        because = ""
        if old and old.text not in gone:
            gone.add(old.text)
            because = f"; replaces {_quoted(old.text, 120)}, m{old.number}"
        text = f'"{" ".join(rule.text.split())}" (m{rule.number}{because})'
        lines.append(Line(parts.RULES, text, rule.number, bonus=float(rule.hard)))
    return lines


def _rule_again(text: str) -> Statement:
    """A rule out of an earlier handoff: quoted, with its message."""
    quote = re.match(r'"(.*)" \(m(\d+)', text)
    return Statement("rule", quote[1] if quote else text, int(quote[2]) if quote else -1, hard=True)


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
    return next(
        (item[key] for key in ("content", "step", "task", "text", "title") if isinstance(item.get(key), str)), ""
    )


def _failures(ledger: Ledger) -> list[Line]:
    """The last error of each command that failed: blocked where nothing like it worked since, else tried."""
    last: dict[str, Action] = {}
    worked: dict[str, int] = {}
    for action in ledger.actions:
        if action.failed and action.outcome and action.outcome.error:
            last[_likeness(action)] = action
        elif action.outcome:
            worked[_likeness(action)] = action.number
            if action.outcome.tests:
                worked[_TESTS] = action.number
    lines = []
    recent = ledger.next - _RECENT_MESSAGES
    for key, action in sorted(last.items(), key=lambda item: -item[1].number)[:_MOST_FAILURES]:
        assert action.outcome
        since = max(worked.get(key, -1), worked.get(_TESTS, -1) if action.outcome.tests else -1)
        heading = parts.BLOCKED if since < action.number and action.number >= recent else parts.TRIED
        error = shorten(action.outcome.error, _ERROR_CHARS)
        lines.append(
            Line(heading, f"{_brief(action.target) or action.tool}: {error} (m{action.result})", action.number)
        )
    return lines


def _likeness(action: Action) -> str:
    """Commands count as the same one when they start alike."""
    return f"{action.verb} {' '.join(action.target.split()[:4])[:60]}"


def _files(story: Story, *, changed: bool) -> list[Line]:
    """The files that were changed, those of an earlier handoff among them; or those that were only read."""
    known = (story.previous or Handoff({})).lines(parts.FILES) if changed else ()
    lines = {_path_in(text): Line(parts.FILES, text, _source(text)) for text in known}
    for fact in sorted(story.ledger.files.values(), key=lambda fact: -fact.last)[:_NEWEST_LINES]:
        if bool(fact.changes) == changed:
            lines[fact.path] = Line(parts.FILES, _file_text(fact), fact.last)
    return list(lines.values())


def _file_text(fact: FileFact) -> str:
    tools = ", ".join(tool if times == 1 else f"{tool} {times}x" for tool, times in fact.tools.items())
    when = f"m{fact.first}" if fact.first == fact.last else f"m{fact.first}-m{fact.last}"
    return f"{fact.argument or 'path'}: {fact.path} ({tools}, {when})"


def _asks(story: Story) -> list[Line]:
    """What people said after the first request, and what they asked with the answer they got."""
    lines = []
    for ask in story.ledger.asks[1:][-_NEWEST_LINES:]:
        if ask.answer and is_question(ask.text):
            question, answer = _quoted(ask.text, _ASK_CHARS), shorten(ask.answer, _ASK_CHARS)
            text = f"{question} -> {answer} (m{ask.number}, m{ask.answered_at})"
            lines.append(Line(parts.ANSWERED, text, ask.number, bonus=0.4))
        else:
            lines.append(
                Line(parts.GOAL, f"then: {_quoted(ask.text, _ASK_CHARS)} (m{ask.number})", ask.number, bonus=0.6)
            )
    return lines


def _action_line(action: Action) -> Line:
    bonus = 0.3 if action.files or action.failed else 0.1
    return Line(parts.COMPLETED, _action_text(action, ()), action.number, action, bonus)


def _action_text(action: Action, quotes: Sequence[str], *, brief: bool = False) -> str:
    text = f"{action.verb} {_brief(action.target) if brief else shorten(action.target, _COMMAND_CHARS)}".rstrip()
    if action.change:
        text += f" {action.change}"
    if action.outcome and (phrase := action.outcome.phrase()):
        text += f" -> {phrase}" if action.verb in ("RAN", "CALLED") or action.failed else f", {phrase}"
    if action.failed and action.outcome and action.outcome.error and not brief:
        text += f": {shorten(action.outcome.error, 160)}"
    if quotes:
        text += f": {'… '.join(quotes)}"
    return f"{text} [{action.tool} m{action.number}]"


def _brief(target: str) -> str:
    """The end of a path, the start of a command: what tells most in few chars."""
    if " " not in target and target.count("/") > 2:
        return "…/" + "/".join(target.rsplit("/", 2)[1:])
    return shorten(_BEFORE_THE_COMMAND.sub("", target), _BRIEF_CHARS)


def _kept(previous: Handoff, heading: str, bonus: float = 0.0) -> list[Line]:
    return [Line(heading, text, _source(text), bonus=bonus) for text in previous.lines(heading)]


# -- telling -----------------------------------------------------------------------------------------------------------


def _told(story: Story, chosen: list[Line], quotes: dict[Hashable, list[str]]) -> dict[str, list[str]]:
    in_full = {_key(line.action) for line in chosen if line.action}
    lines = [line for line in chosen if not line.action]
    listed = 0
    for action in _actions(story):
        key = _key(action)
        if key in in_full or key in quotes:
            text = _action_text(action, quotes.pop(key, ()), brief=key not in in_full)
            lines.append(Line(parts.COMPLETED, text, action.number))
            listed += 1
    for number, texts in quotes.items():
        assert isinstance(number, int)
        lines.append(Line(parts.VALUES, f"m{number}: {'… '.join(texts)}", number))
    sections: dict[str, list[str]] = {}
    for line in sorted(lines, key=lambda line: line.source):
        sections.setdefault(line.heading, []).append(line.text)
    _say_what_is_not_listed(story, listed, sections)
    return sections


def _say_what_is_not_listed(story: Story, shown: int, sections: dict[str, list[str]]) -> None:
    left = len(_actions(story)) - shown
    if left > 0 and parts.COMPLETED in sections:
        sections[parts.COMPLETED].append(
            f"({left:,} more actions between m{story.first} and m{story.last - 1} are not listed)"
        )


def _newest(statements: Sequence[Statement]) -> list[Statement]:
    """The newest statements, each text once."""
    return list({said.text: said for said in statements}.values())[-_NEWEST_LINES:]


def _quoted(text: str, most: int) -> str:
    return json.dumps(shorten(text, most), ensure_ascii=False)


def _source(text: str) -> int:
    """The message that a line out of an earlier handoff names first."""
    found = _SOURCE.search(text)
    return int(found[1]) if found else -1


def _path_in(text: str) -> str:
    return text.split(": ", 1)[-1].split(" (", 1)[0]
