"""The facts that every handoff must have: the task, the goal, rules, changed files, and errors that still block.

With the state of the work and the plan they are the lines that a handoff has first. They come from the ledger and the
previous handoff. Each has the words by which a text that a model wrote is known to contain it already. Neither models
nor tokens are known here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from clew.ledger import (
    Action,
    LastFailure,
    Ledger,
    LedgerExchange,
    LedgerStatement,
    goes_on,
    is_only_pleased,
    is_slip,
    last_failures,
    left_out,
    person_said,
    rule_replaced_by,
    shorten,
    shows_command,
)
from clew.messages import text_of
from clew.summaries import handoff as parts
from clew.summaries.deeds import brief_target, outline_of, told_target
from clew.summaries.file_lines import changed_files, joined_lines, read_files
from clew.summaries.handoff import SummaryInput, number_at_end, number_in, quoted, quoted_request, shorten_redacted

# Longer ones are cut: the task is also kept word for word in the conversation.
TASK_CHARS = 2_400
_GOAL_CHARS = 800
_WORDS_OF_GOAL = 3
_COMMAND_CHARS = 60
_SERVING_CHARS = 160
_UNCOMMITTED_CHARS = 400
_ERROR_CHARS = 130
_MOST_FILES_OF_CURE = 2
_OVERCOME = "; overcome by "
# How many earlier rules are compared with a rule; comparing all with all would be quadratic.
_RULES_COMPARED = 200
# How many rules and failures of a very long history are considered.
_NEWEST = 300
_RECENT_MESSAGES = 40
_MANY_REQUESTS = 5
_ASKED_FIRST = "; asked first)"
_WHOLE = "; whole "
_ASKED_IN, _RESUMED_CHARS = "; asked in m", 320
_RESUMES = re.compile(rf"{_ASKED_IN}(\d+)\)")
_TOLD_TASK = re.compile(rf'(?:".*", that is )?(?P<what>".*") \(m(?P<number>\d+)(?:{_ASKED_IN}(?P<asked>\d+))?')
_NAME_CHARS = 160
"""Of a task or a goal that can be read elsewhere."""
_QUOTED_LINE = re.compile(r'"(.*)" \(m(\d+)')
_REPLACES = re.compile(r"(; replaces .*)\)$")
_NUMBER_AT_END = re.compile(r"\(m(\d+)\)$")
_CHANGING = "modify|change|changing|touch|edit|adjust|update|alter|adapt|rework|refactor"
_FORBIDS_CHANGE = re.compile(
    rf"\b(?:don'?t|do not) (?:{_CHANGING})\w* (?:the |any |my |our |this |that )?(?:[\w-]+ )??(?P<what>[\w-]{{4,}})"
    r"(?=[,;.!]| and\b|\Z)",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not|don'?t|never|without)\b", re.IGNORECASE)
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True, slots=True)
class RequiredFact:
    """One line that a handoff must have, and the words by which a text is known to contain the fact."""

    heading: str
    line: str
    words: str
    number: int = -1
    """The message it came from, by which the lines of a heading are sorted."""
    exchange: int | None = None
    """The exchange in whose entry it stands; None for a line of its own."""
    atoms: frozenset[str] = frozenset()
    """Exact strings that tell it too, all together, in whatever words."""
    reference: str = ""
    """The message that tells it too, where that is named: `m15`."""

    def is_in(self, normalized_text: str, atoms: Collection[str] = ()) -> bool:
        """Whether a text, and the atoms in it, tell the fact."""
        if self.words in normalized_text or (self.atoms and all(atom in atoms for atom in self.atoms)):
            return True
        return bool(self.reference) and re.search(rf"\({self.reference}\b", normalized_text) is not None


def required_facts(source: SummaryInput) -> list[RequiredFact]:
    """The facts, the most important first, each once and without secrets."""
    hard, soft = _rules(source)
    blocking, overcome = _failures(source)
    facts = [*_task(source), *_goal(source), *hard, *blocking, *_files(source), *soft, *overcome]
    return cleaned_facts(source, facts)


def cleaned_facts(source: SummaryInput, facts: Iterable[RequiredFact]) -> list[RequiredFact]:
    """The facts without secrets, each once, in their order, with words that can be compared."""
    clean = (
        replace(fact, line=source.clean(fact.line), words=normalized(source.clean(fact.words)))
        for fact in facts
        if fact.words.strip()
    )
    return list({(fact.heading, fact.words): fact for fact in clean}.values())


def normalized(text: str) -> str:
    """The text on one line in lower case, for comparing."""
    return " ".join(text.lower().split())


def _task(source: SummaryInput) -> Iterator[RequiredFact]:
    """The newest thing that a person asked for; what a program wrote into a user message is none."""
    asked = [one for one in reversed(source.ledger.exchanges) if one.request]
    newest = next((one for one in asked if one.asks), asked[0] if asked else None)
    said = person_said(source.task)
    said = "" if newest is not None and (shows_command(said) or is_only_pleased(said)) else said
    if said and (newest is None or (source.task_number or 0) > newest.number):
        # It stands behind what the ledger has read.
        reference = f" (m{source.task_number})" if source.task_number is not None else ""
        line = _resumed(source, said, source.task_number, asked) or f"{quoted(said, TASK_CHARS)}{reference}"
        yield RequiredFact(parts.ACTIVE_TASK, line, said)
    elif newest is not None:
        resumed = "" if newest.chosen else _resumed(source, newest.request, newest.number, asked)
        yield RequiredFact(parts.ACTIVE_TASK, resumed or quoted_request(newest, TASK_CHARS), newest.request)
    elif told := source.previous_lines(parts.ACTIVE_TASK):
        yield RequiredFact(parts.ACTIVE_TASK, told[0], told[0])


def _resumed(source: SummaryInput, said: str, number: int | None, asked: Iterable[LedgerExchange]) -> str:
    """What is to be gone on with, where a person says no more: `"resume", that is "Port it." (m9; asked in m2)`."""
    if number is None or not goes_on(said):
        return ""
    earlier = (one for one in asked if one.number < number and one.asks and one.cancelled_by is None)
    before = next((one for one in earlier if not goes_on(one.request)), None)
    told = _TOLD_TASK.match(next(iter(source.previous_lines(parts.ACTIVE_TASK)), ""))
    # What was answered is not gone on with, but what comes next.
    if any(one.is_ended for one in source.ledger.exchanges if one is before or not one.request):
        return ""
    if before is not None:
        what, asked_in = quoted(before.chosen or before.request, _RESUMED_CHARS), before.number
    elif told is not None:
        what, asked_in = told["what"], int(told["asked"] or told["number"])
    else:
        return ""
    return f"{quoted(said, TASK_CHARS)}, that is {what} (m{number}{_ASKED_IN}{asked_in})"


def _goal(source: SummaryInput) -> Iterator[RequiredFact]:
    """The first request that says what for, from the previous handoff or from the ledger."""
    if told := source.previous_lines(parts.GOAL):
        yield RequiredFact(parts.GOAL, told[0], told[0])
        return
    asked = [one for one in source.ledger.exchanges if one.request and not one.is_screen]
    told_first = _first_told(source)
    if told_first and not (asked and asked[0].number <= number_at_end(told_first)):
        yield RequiredFact(parts.GOAL, told_first, told_first)
        return
    first = next((one for one in asked if says_what_for(one.request)), asked[0] if asked else None)
    if first is not None:
        line = quoted_request(first, _GOAL_CHARS)
        if len(asked) - asked.index(first) > _MANY_REQUESTS:
            # Much later it may no longer be what all of it is for.
            line = f"{line[:-1]}{_ASKED_FIRST}"
        yield RequiredFact(parts.GOAL, line, first.request)


def _first_told(source: SummaryInput) -> str:
    """The first request of a previous handoff, which named no goal where that was its task."""
    entries = source.previous_lines(parts.COMPLETED)
    head = entries[0].split(parts.CONTINUED, 1)[0] if entries else ""
    if head.startswith('"'):
        return head
    task = next(iter(source.previous_lines(parts.ACTIVE_TASK)), "")
    return task if task and number_in(head) == number_at_end(task) else ""


def state_facts(source: SummaryInput) -> Iterator[RequiredFact]:
    """The state of the work as tool results told it last."""
    state = source.ledger.state
    if state.branch:
        at = f" at {state.commit[0]}" if state.commit else ""
        words = state.commit[0] if state.commit else state.branch[0]
        yield RequiredFact(parts.STATE, f"Branch {state.branch[0]}{at} (m{state.branch[1]}).", words, state.branch[1])
    if state.uncommitted and (told := _uncommitted(source.ledger, *state.uncommitted)):
        number = state.uncommitted[1]
        yield RequiredFact(parts.STATE, f"{told} (m{number}).", told, number, reference=f"m{number}")
    if state.tests:
        yield RequiredFact(parts.STATE, f"Tests: {state.tests[0]} (m{state.tests[1]}).", state.tests[0], state.tests[1])
    if state.serving:
        serving, number = shorten_redacted(state.serving[0], _SERVING_CHARS), state.serving[1]
        yield RequiredFact(parts.STATE, f"Running: {serving} (m{number}).", serving, number)
    number = source.task_number if source.task_number is not None else -1
    if source.task and source.first <= number < source.last and not person_said(source.task):
        # It is kept behind the handoff, where it looks like what is to be answered next.
        told = f"m{number}, which follows, was written by a program and has been answered."
        yield RequiredFact(parts.STATE, told, told, number)


def _uncommitted(ledger: Ledger, told: str, number: int) -> str:
    """`Not committed: modified src/a.py`; that all is committed only where nothing was changed since."""
    if told:
        return f"Not committed: {shorten_redacted(told, _UNCOMMITTED_CHARS)}"
    is_changed = any(max(fact.changes, default=-1) > number for fact in ledger.files.values())
    return "" if is_changed else "Nothing to commit"


def longer_goal(source: SummaryInput, line: HandoffLine) -> HandoffLine:
    """The goal in more of the person's words, where the line cuts it and they can be read."""
    number = number_at_end(line.text)
    exchange = next((one for one in source.ledger.exchanges if one.number == number and one.request), None)
    if exchange is None or '…" (m' not in line.text or _WHOLE in line.text:
        return line
    whole = source.clean(quoted_request(exchange, TASK_CHARS))
    return replace(line, text=f"{whole[:-1]}{_ASKED_FIRST}" if line.text.endswith(_ASKED_FIRST) else whole)


def says_what_for(request: str) -> bool:
    """Whether it is more than a greeting or a choice; scripts without blanks have a word in one or two chars."""
    return len(request.split()) >= _WORDS_OF_GOAL or len(_DENSE.findall(request)) > 2 * _WORDS_OF_GOAL


def _rules(source: SummaryInput) -> tuple[list[RequiredFact], list[RequiredFact]]:
    """The rules that hold, newest first: those that forbid or demand, and the preferences."""
    lines = source.previous_lines(parts.RULES)
    known = {normalized(rule.text): rule for line in lines if (rule := _quoted_statement(line))}
    rules = list((known | _newest_rules(source.ledger.rules)).values())
    rules = sorted(rules, key=lambda rule: rule.number)[-_NEWEST:]
    # The reason is kept also when the ledger does not reach back to the rule that was replaced.
    reasons = {
        rule.text: why[1] for line in lines if (rule := _quoted_statement(line)) and (why := _REPLACES.search(line))
    }
    task = next(_task(source), None)
    cancelled = {one.number: one.cancelled_by for one in source.ledger.exchanges if one.cancelled_by is not None}
    replaced: set[str] = set()
    hard: list[RequiredFact] = []
    soft: list[RequiredFact] = []
    for position in range(len(rules) - 1, -1, -1):
        rule = rules[position]
        if rule.text in replaced:
            continue
        old = rule_replaced_by(rule, rules[max(0, position - _RULES_COMPARED) : position])
        reason = ""
        if old and old.text not in replaced:
            replaced.add(old.text)
            reason = f"; replaces {quoted(old.text, 120)}, m{old.number}"
        reason = reason or reasons.get(rule.text, "")
        if (by := cancelled.get(rule.number)) is not None:
            reason += f"; said of a task that m{by} cancelled"
        elif task and _forbids_task(rule.text, task.words):
            reason += "; about that change only, and not about the active task"
        text = " ".join(rule.text.split())
        (hard if rule.is_hard else soft).append(
            RequiredFact(parts.RULES, f'"{text}" (m{rule.number}{reason})', text, rule.number)
        )
    # The newest message first; the rules of one message in their own order.
    for facts in (hard, soft):
        facts.reverse()
        facts.sort(key=lambda fact: fact.number, reverse=True)
    # A rule in a model's own words has no quote to compare, and is kept as it is.
    soft += [RequiredFact(parts.RULES, line, line) for line in lines if not _quoted_statement(line)]
    return hard, soft


def _forbids_task(rule: str, task: str) -> bool:
    """Whether a rule forbade to change what is asked to be changed now: it was about a change that is done.

    Not what shall never be done: that stands, whatever is asked.
    """
    forbidden = _FORBIDS_CHANGE.search(rule)
    if forbidden is None or normalized(rule) in normalized(task):
        return False
    asked = re.search(rf"\b(?:{_CHANGING})\w*\b[^.;!?\n]{{0,40}}\b{re.escape(forbidden['what'])}\b", task, re.I)
    return asked is not None and not _NOT.search(task[: asked.end()].rpartition(". ")[2])


def _newest_rules(rules: Sequence[LedgerStatement]) -> dict[str, LedgerStatement]:
    """The newest rules by what they say, each where it was said last."""
    newest: dict[str, LedgerStatement] = {}
    seen: set[str] = set()
    for rule in reversed(rules):
        # Most of thousands were said before, word for word.
        if rule.text not in seen:
            seen.add(rule.text)
            newest.setdefault(normalized(rule.text), rule)
            if len(newest) == _NEWEST:
                break
    return dict(reversed(newest.items()))


def _quoted_statement(line: str) -> LedgerStatement | None:
    """What a user said, from a line that quotes it with its message; None for a line in a model's own words."""
    found = _QUOTED_LINE.match(line)
    return LedgerStatement(found[1], int(found[2]), is_hard=True) if found else None


def _failures(source: SummaryInput) -> tuple[list[RequiredFact], list[RequiredFact]]:
    """The last error of each command, newest first: those that still block, and those that were overcome."""
    blocking: list[RequiredFact] = []
    overcome: list[RequiredFact] = []
    recent = source.ledger.next_number - _RECENT_MESSAGES
    # What the agent spoke about before the next request came is not in the way of that one.
    answered = next((one.closing_number for one in source.ledger.exchanges[-2:-1] if one.closing_number), -1)
    for failure in last_failures(source.ledger.actions, max(recent, answered))[:_NEWEST]:
        outcome = failure.action.outcome
        if failure.action.verb == "READ" and is_slip(failure.action):
            continue
        if failure.blocks:
            blocking.append(_failure(failure, parts.BLOCKED))
        # Nothing is learnt from one that was overcome as if of itself, nor from a slip.
        elif outcome and outcome.error and not is_slip(failure.action) and (failure.cure or not failure.shown_by):
            overcome.append(_failure(failure, parts.TRIED))
    # What stands in the way was not overcome by what helped for a while.
    again = {fact.words for fact in blocking}
    return blocking, [*(fact for fact in overcome if fact.words not in again), *_previous_failures(source)]


def _failure(failure: LastFailure, heading: str) -> RequiredFact:
    """`make test -> exit 2: error: no rule to make target (m12)`"""
    action = failure.action
    assert action.outcome is not None
    what = shorten_redacted(outline_of(told_target(action)), _COMMAND_CHARS) or action.tool
    error = shorten_redacted(action.outcome.error, _ERROR_CHARS)
    how = f" -> {ended}" if (ended := action.outcome.exit_and_tests()) else ""
    cure = _told_cure(failure.cure)
    said = error.rstrip(":") if cure else error
    said = said.removesuffix(".") if cure and not said.endswith("..") else said
    line = " ".join(f"{what}{how}{': ' if error else ''}{said}{cure} (m{action.number})".split())
    return RequiredFact(heading, line, error.rstrip("…") or what, action.number)


def _told_cure(cure: Sequence[Action]) -> str:
    """`; overcome by changing src/db.py, m14-m18`"""
    if not cure:
        return ""
    first, last = cure[0], cure[-1]
    files = list(dict.fromkeys(brief_target(path) for action in cure for path in action.files))
    did = (
        f"changing {', '.join(files[:_MOST_FILES_OF_CURE])}"
        if files
        else shorten_redacted(outline_of(told_target(last)), _COMMAND_CHARS)
    )
    where = f"m{last.number}" if first is last else f"m{first.number}-m{last.number}"
    return f"{_OVERCOME}{did}, {where}"


def _previous_failures(source: SummaryInput) -> Iterator[RequiredFact]:
    """Failures that only the previous handoff has, since the ledger does not reach back so far."""
    start = _first_number(source.ledger)
    lines = [(heading, line) for heading in (parts.BLOCKED, parts.TRIED) for line in source.previous_lines(heading)]
    numbered = [(int(found[1]), found.start(), *each) for each in lines if (found := _NUMBER_AT_END.search(each[1]))]
    # The newest first: where there is no room for all, the oldest are left out.
    for number, end, heading, line in sorted(numbered, key=lambda one: -one[0]):
        if number < start:
            heading = heading if number >= source.ledger.next_number - _RECENT_MESSAGES else parts.TRIED
            yield RequiredFact(heading, line, line[:end].split(": ", 1)[-1].partition(_OVERCOME)[0].strip(), number)


def _first_number(ledger: Ledger) -> int:
    numbers = [request.number for request in ledger.requests[:1]] + [action.number for action in ledger.actions[:1]]
    return min(numbers, default=0)


def _files(source: SummaryInput) -> Iterator[RequiredFact]:
    for line in changed_files(source.ledger, source.previous_lines(parts.FILES)):
        yield RequiredFact(parts.FILES, line.text, line.path, line.last)


# -- the lines that come first -----------------------------------------------------------------------------------------

_FEWEST_CHARS_OF_TASK = 24
_PLAN_CHARS = 200


@dataclass(frozen=True, slots=True)
class HandoffLine:
    """One line under a heading. `number` is the message it came from, by which the lines of a heading are sorted."""

    heading: str
    text: str
    number: int

    @property
    def chars(self) -> int:
        """Its length with bullet and line end."""
        return len(self.text) + 5


def certain_lines(source: SummaryInput) -> list[HandoffLine]:
    """The lines that come first, the most important first."""
    facts = [HandoffLine(fact.heading, fact.line, fact.number) for fact in required_facts(source)]
    tasks = [line.text for line in facts if line.heading == parts.ACTIVE_TASK]
    task = {int(number) for text in tasks for number in (number_at_end(text), *_RESUMES.findall(text))}
    lines = [line for line in facts if line.heading not in (parts.FILES, parts.TRIED)]
    # A goal that is still the task need not be told twice.
    lines = [line for line in lines if line.heading != parts.GOAL or number_at_end(line.text) not in task]
    files = joined_lines(line.text for line in facts if line.heading == parts.FILES)
    changed = [HandoffLine(parts.FILES, text, -1) for text in files]
    read = [HandoffLine(parts.FILES, text, 0) for text in joined_lines(one.text for one in read_files(source.ledger))]
    tried = [line for line in facts if line.heading == parts.TRIED]
    return [*lines, *changed, *_state(source), *_plan_lines(source), *tried, *read]


def _plan_lines(source: SummaryInput) -> list[HandoffLine]:
    lines = _plan(source.ledger)
    if source.ledger.plan[0]:
        return lines
    headings = (parts.IN_PROGRESS, parts.REMAINING)
    return [HandoffLine(heading, text, -1) for heading in headings for text in source.previous_lines(heading)]


def shorter_task(line: HandoffLine, chars: int) -> HandoffLine:
    """The task is cut where it is too long for the room: with none named, a reader would think that there is none."""
    said, _, source = line.text.rpartition('" (')
    most = chars - len(source) - 9
    if line.chars <= chars or most < _FEWEST_CHARS_OF_TASK:
        return line
    return replace(line, text=f'{shorten(said, most)}" ({source}')


def named_task(line: HandoffLine, where: str) -> HandoffLine:
    """The task or the goal by its first words, with where all of it stands: `above` or `below`."""
    said, _, source = line.text.rpartition('" (')
    if len(said) <= _NAME_CHARS or _WHOLE in source or _ASKED_IN in source:
        return line
    return replace(line, text=f'{shorten(said, _NAME_CHARS)}" ({source[:-1]}{_WHOLE}{where})')


def continued_task(source: SummaryInput, line: HandoffLine) -> HandoffLine:
    """The task by its first words and by what is left out of it where its beginning and its end stand above.

    What stands below is no longer there when more is folded.
    """
    number = number_at_end(line.text)
    if number not in source.shortened or number >= source.first:
        return line
    said, _, reference = line.text.rpartition('" (')
    whole, shown = text_of(source.read(number)), text_of(source.shortened[number])
    rest = " ".join(source.clean(left_out(whole, shown)).split())
    at = said.find(rest[:_NAME_CHARS])
    if at <= 2 * _NAME_CHARS:
        return line
    told = said[at:] if len(said) - at <= len(rest) else f"{said[at : at + len(rest)]}…"
    return replace(line, text=f'{shorten(said[:at], _NAME_CHARS)} {told}" ({reference[:-1]}; its beginning above)')


def _state(source: SummaryInput) -> list[HandoffLine]:
    facts = " ".join(fact.line for fact in state_facts(source))
    if not facts:
        return [HandoffLine(parts.STATE, text, -1) for text in source.previous_lines(parts.STATE)]
    return [HandoffLine(parts.STATE, facts, source.ledger.next_number)]


def _plan(ledger: Ledger) -> list[HandoffLine]:
    """The tasks of the agent's newest plan that are in progress or open."""
    items, number = ledger.plan
    headings = {"doing": parts.IN_PROGRESS, "open": parts.REMAINING}
    return [
        HandoffLine(headings[item.progress], f"{shorten_redacted(item.text, _PLAN_CHARS)} (m{number})", number)
        for item in items
        if item.progress in headings
    ]
