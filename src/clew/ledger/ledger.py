"""The ledger: a mechanical record of a conversation, kept up to date message by message.

Facts only, each with the number of the message it came from. Adding a message costs what that message costs, however
long the conversation is. Knows nothing of budgets, headings or models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clew.ledger.commands import files_changed_by
from clew.ledger.index import AtomIndex
from clew.ledger.outcomes import Outcome
from clew.ledger.plans import PlanItem, plan_in, updated_plan
from clew.ledger.pruned import outcome_of
from clew.ledger.statements import Statement, decisions_in, first_sentence, is_question, rules_in, spoken
from clew.ledger.tools import Verb, arguments_of, files_written, target_of, verb_of
from clew.messages import Message, ToolCall, calls_of, name_of_call, text_of

# Of a long history that is read for the first time, what lies further back than this is read in outline: the rules that
# people stated, the actions and how they ended. Its atoms would have to outrank all later ones to be shown.
_READ_IN_FULL_CHARS = 3_000_000

_STATE_CHARS = 2_000
_OLD_TEXT = ("old_string", "oldString", "old_str", "oldText", "old_text", "old")
_NEW_TEXT = ("new_string", "newString", "new_str", "newText", "new_text", "new", "content", "file_text")
_COMMIT = re.compile(r"^\[(?P<branch>detached HEAD|[\w./-]+)(?: \([^)]*\))? (?P<commit>[0-9a-f]{7,40})\]", re.MULTILINE)
_ON_BRANCH = re.compile(r"^(?:On branch|Switched to (?:a new )?branch) '?([^\s']+)", re.MULTILINE)
_SERVING_WORDS = ("istening on", "istening at", "unning on", "unning at", "erving on", "erving at", "tarted server on")
_SERVING = re.compile(
    r"^.*(?:listening on|running (?:at|on)|serving (?:at|on)|started server on).*$", re.I | re.MULTILINE
)


@dataclass(slots=True)
class Action:
    """One tool call with its end, which comes later. `result` is the number of the message that holds it."""

    number: int
    place: int
    """Which call of its message it is, from 0."""
    tool: str
    verb: Verb
    target: str
    files: tuple[str, ...] = ()
    change: str = ""
    result: int | None = None
    outcome: Outcome | None = None

    @property
    def failed(self) -> bool:
        return bool(self.outcome and self.outcome.failed)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a person said, and the first words of the reply that followed."""

    number: int
    text: str
    answer: str = ""
    answered_at: int | None = None


@dataclass(slots=True)
class FileFact:
    """What was done to a file: by which tools how often, and from when to when."""

    path: str
    first: int
    last: int
    changes: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    argument: str = ""
    """What the tools call the path, such as `file_path`."""


@dataclass(slots=True)
class State:
    """Where the work stands, as far as results said so; each with its message."""

    branch: tuple[str, int] | None = None
    commit: tuple[str, int] | None = None
    tests: tuple[str, int] | None = None
    serving: tuple[str, int] | None = None


class Ledger:
    """What happened so far."""

    def __init__(self, first: int = 0) -> None:
        self.next = first
        self.index = AtomIndex()
        self.actions: list[Action] = []
        self.asks: list[Ask] = []
        self.rules: list[Statement] = []
        self.decisions: list[Statement] = []
        self.files: dict[str, FileFact] = {}
        self.state = State()
        self.plan: tuple[Sequence[PlanItem], int] = ((), first)
        self._open: dict[str, int] = {}

    @classmethod
    def of(cls, messages: Sequence[Message], first: int = 0) -> Ledger:
        """The ledger of a whole history, read at once."""
        ledger = cls(first)
        in_full = _start_of_last_chars(messages, _READ_IN_FULL_CHARS)
        for position, message in enumerate(messages):
            ledger.add(message, outline=position < in_full)
        return ledger

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.add(message)

    def add(self, message: Message, *, outline: bool = False) -> None:
        """Take in the next message; in outline, only what was said by people, what was done and how it ended."""
        number, self.next = self.next, self.next + 1
        role = message["role"]
        if role in ("system", "developer"):
            return
        if not outline:
            self.index.add(message, number)
        if role == "user":
            self._add_said(text_of(message), number)
        elif role == "assistant":
            if not outline:
                self._add_prose(text_of(message), number)
            for place, call in enumerate(calls_of(message)):
                self._add_call(call, number, place)
        else:
            self._add_result(message, number)

    def _add_said(self, text: str, number: int) -> None:
        said = spoken(text)
        if said:
            self.asks.append(Ask(number, said))
            self.rules += rules_in(text, number)

    def _add_prose(self, text: str, number: int) -> None:
        if not text:
            return
        self.decisions += decisions_in(text, number)
        if self.asks and self.asks[-1].answered_at is None and is_question(self.asks[-1].text):
            self.asks[-1] = replace(self.asks[-1], answer=first_sentence(text), answered_at=number)

    def _add_call(self, call: ToolCall, number: int, place: int) -> None:
        name = name_of_call(call)
        arguments = arguments_of(call)
        verb, target = verb_of(name, arguments), target_of(name, arguments)
        files: tuple[str, ...] = ()
        change = ""
        if verb == "RAN":
            files = tuple(files_changed_by(target))
        elif verb in ("WROTE", "CHANGED"):
            files = tuple(files_written(name, arguments))
            change = _size_of_change(arguments)
        elif verb == "PLANNED" and (items := plan_in(arguments)):
            self.plan = (updated_plan(self.plan[0], items, arguments), number)
        for path in files:
            self._touch(path, number, name, changed=True)
        if verb == "READ" and target:
            self._touch(target, number, name)
        if verb in ("READ", "WROTE", "CHANGED") and target in self.files:
            self.files[target].argument = next((key for key, value in arguments.items() if value == target), "")
        self._open[call.get("id", "")] = len(self.actions)
        self.actions.append(Action(number, place, name, verb, target, files, change))

    def _touch(self, path: str, number: int, tool: str, *, changed: bool = False) -> None:
        fact = self.files.get(path)
        if fact is None:
            fact = self.files[path] = FileFact(path, number, number)
        fact.last = number
        fact.changes += changed
        fact.tools[tool] += 1

    def _add_result(self, message: Message, number: int) -> None:
        position = self._open.pop(message.get("tool_call_id", ""), None)
        if position is None:
            return
        text = text_of(message)
        action = self.actions[position]
        action.result = number
        action.outcome = outcome_of(action.verb, text, is_error=bool(message.get("is_error")))
        if action.failed and action.verb in ("WROTE", "CHANGED"):
            for path in action.files:
                self.files[path].changes -= 1
        if action.verb == "RAN":
            self._add_state(text[-_STATE_CHARS:], action.outcome, number)

    def _add_state(self, text: str, outcome: Outcome, number: int) -> None:
        if outcome.tests:
            self.state.tests = (outcome.tests, number)
        if ("\n[" in text or text.startswith("[")) and (committed := _COMMIT.search(text)):
            self.state.branch = (committed["branch"], number)
            self.state.commit = (committed["commit"], number)
        elif "branch " in text and (branch := _ON_BRANCH.search(text)):
            if self.state.branch and self.state.branch[0] != branch[1]:
                self.state.commit = None  # It was made on the branch before.
            self.state.branch = (branch[1], number)
        if any(word in text for word in _SERVING_WORDS) and (serving := _SERVING.search(text)):
            self.state.serving = (serving[0][:160], number)


def _start_of_last_chars(messages: Sequence[Message], most: int) -> int:
    """The position from which on the messages hold at most so many chars."""
    chars = 0
    for position in range(len(messages) - 1, -1, -1):
        chars += len(text_of(messages[position]))
        if chars > most:
            return position + 1
    return 0


def _size_of_change(arguments: Mapping[str, object]) -> str:
    """`+41 -17`, where the call shows what it replaced."""
    listed = arguments.get("edits")
    edits = listed if isinstance(listed, list) else [arguments]
    added = removed = 0
    for edit in edits:
        if not isinstance(edit, Mapping):
            continue
        added += _lines(edit, _NEW_TEXT)
        removed += _lines(edit, _OLD_TEXT)
    return f"+{added} -{removed}" if added or removed else ""


def _lines(edit: Mapping[str, object], keys: tuple[str, ...]) -> int:
    text = next((edit[key] for key in keys if isinstance(edit.get(key), str)), "")
    return str(text).count("\n") + 1 if text else 0
