"""The record of a conversation: exchanges, actions with outcomes, files, plan, rules and state, as values.

A `Record` reads message by message; what a message costs does not depend on how many messages precede it. It holds
numbers of messages and short texts, never copies of results. A `StateRecord` also keeps everything that has a state as
a `Fact` in an append-only list, of which `/state` is a fold.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from posixpath import basename
from typing import TYPE_CHECKING, NamedTuple, Self

from clew.facts.outcomes import Outcome, read_outcome
from clew.facts.speech import (
    RULE,
    announces,
    cancels,
    chosen_option,
    confirms,
    continues,
    forbids,
    is_thanks,
    person_in_result,
    person_text,
    replaces_rule,
    rules_in,
)
from clew.facts.text import Terms, flatten
from clew.facts.tools import (
    CallReading,
    FileEffect,
    PlanEntry,
    edits_in,
    file_effects,
    plan_in,
    questions_in,
    read_call,
    says_it_existed,
)
from clew.lazy import lazy_pattern
from clew.messages import Message, ToolCall, calls_of, text_of

if TYPE_CHECKING:
    from clew.facts.settings import SettingValue
    from clew.facts.state import FactLog

_CHECKBOX = lazy_pattern(r"^[ \t]*[-*] \[([ xX~-])\] (.+)$", re.MULTILINE)
_FEWEST_CHECKBOXES = 2
_SHORT_ANSWER_CHARS = 40
_LOADING_CHARS = 200
_SHORTEST_REPLAY_CHARS = 60
_MOST_OPEN_CALLS = 500
_MOST_OPEN_REQUESTS = 3
_MOST_RULES_COMPARED, _FEW_TOPICS = 100, 4


@dataclass(slots=True)
class Action:
    """A tool call, with how it ended once its result is there."""

    number: int
    index: int
    reading: CallReading
    effects: Sequence[FileEffect] = ()
    settings: Sequence[tuple[str, Sequence[SettingValue]]] = ()
    """Settings that the call gives a value, with the file that they are in; in a `StateRecord` only."""
    result: int | None = None
    outcome: Outcome | None = None

    @property
    def failed(self) -> bool:
        return bool(self.outcome and self.outcome.failed)


@dataclass(slots=True)
class Exchange:
    """A request of a person with everything up to the next one."""

    number: int
    """Of the message with the request; -1 before the first request."""
    request: str
    chosen: str = ""
    """What a short answer chose, in the agent's words."""
    offered: int | None = None
    repeats: int | None = None
    """The message whose request this one repeats word for word."""
    texts: list[int] = field(default_factory=list)
    """Messages in which the agent wrote something."""
    actions: list[Action] = field(default_factory=list)
    closing: int | None = None
    """The message with the agent's last words, if it ended its work with words."""
    cancelled: bool = False

    @property
    def is_answered(self) -> bool:
        return self.closing is not None


@dataclass(slots=True)
class FileFact:
    """A file that the conversation changed."""

    path: str
    fate: str
    added: int
    removed: int
    first: int
    last: int


class Rule(NamedTuple):
    text: str
    number: int


class StateLine(NamedTuple):
    """A line that states what the work is on, and the message it is from."""

    text: str
    number: int


class Record:
    """What happened in a conversation so far."""

    _log: FactLog | None = None

    def __init__(self, redact: Callable[[Message, int], Message] | None = None) -> None:
        """`redact` is called with a tool result and its number before a text is taken from the result. Without it,
        the messages are redacted already, or the reader of the record redacts its texts."""
        self._redact = redact
        self.exchanges: list[Exchange] = []
        self.files: dict[str, FileFact] = {}
        self.plan: list[PlanEntry] = []
        self.plan_number: int | None = None
        self.is_checklist = False
        """Whether the plan was written as a list in a text, and not with a tool for plans."""
        self.rules: list[Rule] = []
        self.states: dict[str, StateLine] = {}
        self.commits: list[StateLine] = []
        self.tests: dict[str, Action] = {}
        """The newest run of each test command."""
        self.program_messages: set[int] = set()
        """Messages in the user role that no person wrote."""
        self.first_number = 0
        self.next_number = 0
        self._read_files: set[str] = set()
        self._open: dict[str, Action] = {}
        self._requests: dict[str, int] = {}
        self._loading = False
        self._terms = Terms()
        self._last_text = ""
        self._last_text_number = -1

    @classmethod
    def of(cls, messages: Sequence[Message], numbers: Iterable[int] | None = None) -> Self:
        record = cls()
        for number, message in zip(range(len(messages)) if numbers is None else numbers, messages, strict=True):
            record.add(message, number)
        return record

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.add(message, self.next_number)

    def add(self, message: Message, number: int) -> None:
        if not self.next_number:
            self.first_number = number
        self.next_number = max(self.next_number, number + 1)
        role = message["role"]
        if role == "user":
            self._add_user(message, number)
        elif role == "assistant":
            self._add_assistant(message, number)
        elif role == "tool":
            self._add_result(message, number)

    @property
    def newest(self) -> Exchange | None:
        return self.exchanges[-1] if self.exchanges else None

    def actions(self) -> Iterator[Action]:
        return (action for exchange in self.exchanges for action in exchange.actions)

    def exchange_of(self, number: int) -> int:
        """The index of the exchange that a message belongs to."""
        return max(0, bisect_right(self.exchanges, number, key=lambda exchange: exchange.number) - 1)

    # -- people --------------------------------------------------------------------------------------------------------

    def _add_user(self, message: Message, number: int) -> None:
        said = self._person_text(message)
        if not said:
            self.program_messages.add(number)
            return
        self._add_request(said, number)

    def _add_request(self, said: str, number: int) -> None:
        if self.exchanges and self.exchanges[-1].request and not self.exchanges[-1].is_answered and continues(said):
            # A word to continue with a request that waits for its answer is not a separate request.
            return
        exchange = Exchange(number, said, repeats=self._requests.get(said))
        if len(said) <= _SHORT_ANSWER_CHARS and self._last_text and (confirms(said) or not is_thanks(said)):
            exchange.chosen = chosen_option(said, self._last_text)
            exchange.offered = self._last_text_number if exchange.chosen else None
        # "Leave it" cancels nothing where the agent asked whether to leave it.
        is_cancellation = (
            bool(self.exchanges) and cancels(said) and said.lower().strip(" .!") not in exchange.chosen.lower()
        )
        if is_cancellation:
            self.exchanges[-1].cancelled = True
        if len(said) >= _SHORTEST_REPLAY_CHARS:
            self._requests.setdefault(said, number)
        self.exchanges.append(exchange)
        if self._log is not None:
            self._log.add_request(said, number, chosen=exchange.chosen, cancels=is_cancellation)
        for rule in rules_in(said) if exchange.repeats is None else ():
            self._add_rule(Rule(rule, number))
        self._last_text = ""

    def _add_rule(self, rule: Rule) -> None:
        """Add a rule; one that takes back the newest rule about the same things replaces it."""
        replaced = self._replaced_by(rule) if replaces_rule(rule.text) else None
        if replaced is not None:
            self.rules = [one for one in self.rules if one is not replaced]
        self.rules.append(rule)
        if self._log is not None:
            self._log.add_rule(rule.text, rule.number, replaced.text if replaced else "")

    def _replaced_by(self, rule: Rule) -> Rule | None:
        topics = self._terms.of(rule.text) - RULE.words
        for other in self.rules[: -_MOST_RULES_COMPARED - 1 : -1]:
            about = self._terms.of(other.text) - RULE.words
            if len(about & topics) >= (1 if len(about) <= _FEW_TOPICS else 2):
                return other
        return None

    def _person_text(self, message: Message) -> str:
        """What a person says in a message; nothing where a program wrote it, by its sender, structure or opening."""
        said = person_text(text_of(message), message.get("name", ""))
        if not said or self._loading:
            # A text that follows the call of a skill was loaded by it.
            self._loading = False
            return ""
        if said.startswith("/") and not any(map(str.isspace, said)):
            # A command for the harness itself, such as /model.
            return ""
        return said

    # -- the agent -----------------------------------------------------------------------------------------------------

    def _current(self) -> Exchange:
        if not self.exchanges:
            self.exchanges.append(Exchange(-1, ""))
        return self.exchanges[-1]

    def _add_assistant(self, message: Message, number: int) -> None:
        exchange = self._current()
        text, calls = text_of(message), calls_of(message)
        if text.strip():
            exchange.texts.append(number)
            self._last_text, self._last_text_number = text, number
            if "- [" in text or "* [" in text:
                self._read_checklist(text, number)
        exchange.closing = number if text.strip() and not calls and not announces(text) else None
        if self._log is not None:
            self._log.add_reply(text, number, is_last=exchange.is_answered)
        for index, call in enumerate(calls):
            self._add_call(exchange, call, number, index)

    def _add_call(self, exchange: Exchange, call: ToolCall, number: int, index: int) -> None:
        reading = read_call(call)
        edits = edits_in(reading)
        action = Action(number, index, reading, file_effects(reading, edits))
        if self._log is not None:
            action.settings = self._log.settings_in(edits)
        exchange.actions.append(action)
        if reading.verb == "PLANNED":
            self._read_plan(plan_in(reading.arguments), number)
        elif reading.verb == "ASKED":
            asked = questions_in(reading.arguments)
            self._last_text = "\n".join(
                line for text, options in asked for line in (text, *(f"{at}. {o}" for at, o in enumerate(options, 1)))
            )
            self._last_text_number = number
        elif reading.verb == "LOADED":
            self._loading = True
        elif reading.verb == "SAID" and reading.target:
            exchange.texts.append(number)
            exchange.closing = number
            self._last_text, self._last_text_number = reading.target, number
            if self._log is not None:
                self._log.add_reply(reading.target, number, is_last=True)
        if len(self._open) >= _MOST_OPEN_CALLS:
            self._open.clear()
        if identity := call.get("id"):
            self._open[identity] = action

    def _read_checklist(self, text: str, number: int) -> None:
        boxes = _CHECKBOX.findall(text)
        if len(boxes) >= _FEWEST_CHECKBOXES:
            self.plan = [PlanEntry(flatten(entry), "done" if mark in "xX" else "") for mark, entry in boxes]
            self.plan_number, self.is_checklist = number, True
            self._log_plan()

    def _read_plan(self, entries: Sequence[PlanEntry], number: int) -> None:
        if not entries:
            return
        keyed = {entry.key: entry for entry in entries if entry.key}
        known = {entry.key for entry in self.plan if entry.key}
        if keyed and len(keyed) < len(known) and known.issuperset(keyed):
            # Only some entries are written: the others keep their status.
            self.plan = [keyed.get(entry.key, entry) for entry in self.plan]
        else:
            self.plan = list(entries)
        self.plan_number, self.is_checklist = number, False
        self._log_plan()

    def _log_plan(self) -> None:
        if self._log is not None and self.plan_number is not None:
            self._log.add_plan(self.plan, self.plan_number)

    # -- results -------------------------------------------------------------------------------------------------------

    def _add_result(self, message: Message, number: int) -> None:
        call: object = message.get("tool_call_id")  # of a report's messages, anything
        action = self._open.pop(call, None) if isinstance(call, str) else None
        text = text_of(message)
        # The text of a skill follows the result that says it is being loaded.
        self._loading = action is not None and action.reading.verb == "LOADED" and len(text) <= _LOADING_CHARS
        if action is None:
            return
        reading = action.reading
        command = reading.target if reading.verb == "RAN" else ""
        is_error = message.get("is_error", False)
        outcome, said = read_outcome(text, reading.verb, command, is_error=is_error), person_in_result(text)
        if self._redact is not None and (outcome.quotes or said):
            clean = text_of(self._redact(message, number))
            if clean != text:
                text = clean
                outcome, said = read_outcome(text, reading.verb, command, is_error=is_error), person_in_result(text)
        action.result, action.outcome = number, outcome
        for name, line in outcome.states:
            self.states[name] = StateLine(line, number)
            if name == "commit":
                if "--amend" in command:
                    del self.commits[-1:]
                self.commits.append(self.states[name])
        if outcome.tests and reading.verb == "RAN":
            self.tests[flatten(command)] = action
        if reading.verb == "READ" and not outcome.failed:
            self._read_files.add(reading.target)
        for effect in action.effects:
            if effect.fate == "created" and (effect.path in self._read_files or says_it_existed(text)):
                effect = effect._replace(fate="changed")
            # A command line that failed changed its files, unless its error is about them.
            if not outcome.failed or (reading.verb == "RAN" and basename(effect.path) not in outcome.error):
                self._change_file(effect, action.number)
                if self._log is not None:
                    self._log.add_file(effect, number, by_command=reading.verb == "RAN")
        if self._log is not None:
            self._log_result(self._log, action, outcome, text, number)
        if said:
            self._add_request(said, number)

    @staticmethod
    def _log_result(log: FactLog, action: Action, outcome: Outcome, text: str, number: int) -> None:
        if action.reading.verb == "RAN":
            log.add_run(action.reading.target, outcome, text, number)
        elif not outcome.failed:
            for path, settings in action.settings:
                log.add_settings(settings, number, path)

    def _change_file(self, effect: FileEffect, number: int) -> None:
        known = self.files.pop(effect.path, None)
        if known is None:
            self.files[effect.path] = FileFact(effect.path, effect.fate, effect.added, effect.removed, number, number)
            return
        if effect.fate in ("deleted", "moved") or known.fate in ("deleted", "moved"):
            known.fate = effect.fate
        known.added, known.removed, known.last = known.added + effect.added, known.removed + effect.removed, number
        # The file that was changed last is last.
        self.files[effect.path] = known

    @property
    def has_current_plan(self) -> bool:
        """Whether the plan is current: it has open entries, or it belongs to the newest request.

        A checklist in a text is not brought up to date like a plan, so that it counts for its own request and the next.
        """
        if not self.plan or self.plan_number is None:
            return False
        back = len(self.exchanges) - 1 - self.exchange_of(self.plan_number)
        return back <= 1 if self.is_checklist else back == 0 or any(not entry.is_done for entry in self.plan)

    def open_requests(self) -> list[Exchange]:
        """The newest request, and those that it interrupted before they were answered; the newest first."""
        found: list[Exchange] = []
        for exchange in reversed(self.exchanges):
            is_waiting = exchange.request and not exchange.is_answered and not exchange.cancelled
            if found and (not is_waiting or len(found) >= _MOST_OPEN_REQUESTS):
                break
            if exchange.request:
                found.append(exchange)
        return found


def needs_request_before(exchange: Exchange) -> bool:
    """Whether a request only forbids, agrees or says to continue: what to do is in a request before it."""
    said = exchange.request
    return is_thanks(said) or continues(said) or confirms(said) or forbids(said)
