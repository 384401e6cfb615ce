"""The ledger: a record of the facts of a conversation, updated message by message.

Exchanges (a person's request and the agent's last words on it), actions with their outcomes, rules, decisions, files,
the plan, the state of the work and an index of the exact strings, each with the number of the message it came from.
Adding a message costs what that message costs, however long the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clew.ledger.assignments import MAY_WRITE, files_written_by_scripts
from clew.ledger.atoms import AtomIndex
from clew.ledger.extract import (
    LedgerStatement,
    arguments_of,
    decisions_in,
    first_sentence,
    is_question,
    rules_in,
)
from clew.ledger.failures import HarmlessErrors, only_looks
from clew.ledger.outcomes import (
    PRINTED_COMMIT,
    CallOutcome,
    branch_in,
    commit_in,
    head_in,
    outcome_of,
    serving_in,
)  # fmt: skip
from clew.ledger.requests import (
    answers_in,
    chosen_by,
    is_about_topic,
    is_acknowledgement,
    is_client_notice,
    is_only_pleased,
    person_said,
    quotes_issue,
    repetition_key,
    says_it_said_so,
    shows_command,
    starts_over,
    takes_back_task,
    topic_taken_back,
)
from clew.ledger.tools import (
    DELETED,
    PlanItem,
    Verb,
    ended_in_folder,
    file_shown_by,
    files_changed_by,
    files_edited,
    files_written_by,
    in_folder_of,
    offered_by,
    plan_in,
    size_of_edit,
    target_of,
    unwrapped,
    updated_plan,
    verb_of,
    without_folder,
)
from clew.messages import Message, ToolCall, calls_of, name_of_call, text_of

# When a long history is read at once, what lies further back than this is read in outline: rules and actions only. Its
# atoms would have to outrank all later ones to be quoted.
_READ_IN_FULL_CHARS = 3_000_000

_SHORTEST_PASTED = 24
_NO_FILES: Mapping[str, str] = {}


@dataclass(slots=True)
class Action:
    """One tool call, and its outcome once its result has come. `result` is the number of the result's message."""

    number: int
    call_index: int
    """Which call of its message it is, from 0."""
    tool: str
    verb: Verb
    target: str
    files: Mapping[str, str] = field(default_factory=dict)
    """The files it changed, each with how it ended: `deleted`, `reverted`, `moved to b.py`; empty where it is there."""
    by_code: Collection[str] = ()
    """Those of them that only code which it ran writes: not where that failed."""
    change: str = ""
    result: int | None = None
    outcome: CallOutcome | None = None
    commit: tuple[str, str] | None = None
    """The hash and the subject of the commit that it made."""
    creates: bool = False
    """Whether its result says that the file is a new one."""
    answers: Sequence[tuple[str, str]] = ()
    """What a person answered to it, each with its question."""

    @property
    def failed(self) -> bool:
        return bool(self.outcome and self.outcome.failed)


@dataclass(frozen=True, slots=True)
class UserRequest:
    """The text of a user message and, where it is a question, the first sentence of the reply."""

    number: int
    text: str
    answer: str = ""
    answer_number: int | None = None


@dataclass(slots=True)
class LedgerExchange:
    """A person's request and what came of it, up to the next request."""

    number: int
    """Of the message that asks; of the first message where the agent began without being asked."""
    request: str = ""
    chosen: str = ""
    """What a short answer chose of what the agent had offered."""
    offered_in: int = -1
    """The message that had offered it."""
    closing: str = ""
    """The agent's last words so far."""
    closing_number: int | None = None
    is_ended: bool = False
    """Whether the agent called nothing with its last words; else they are a thought in the middle of the work."""
    said: list[int] = field(default_factory=list)
    """The messages in which the agent said something."""
    cancelled_by: int | None = None
    """The request that took this one back."""
    is_screen: bool = False
    """Whether the person only showed what a command printed."""

    @property
    def asks(self) -> bool:
        """Whether it may be what is to be done: not where a person only showed something, greeted or agreed."""
        return bool(self.request) and not self.is_screen and (bool(self.chosen) or not is_only_pleased(self.request))


@dataclass(slots=True)
class FileFact:
    """What was done to a file, from the first message that names it to the last."""

    path: str
    first: int
    last: int
    changes: list[int] = field(default_factory=list)
    """The messages that changed it."""
    reads: int = 0
    is_written: bool = False
    """Whether each change wrote the whole file."""
    is_new: bool = False
    """Whether a result says that it was created."""
    ended: str = ""
    """`deleted`, `reverted`, `moved to b.py`; empty while it is there."""


@dataclass(slots=True)
class WorkState:
    """The state of the work as tool results told it last, each value with its message."""

    branch: tuple[str, int] | None = None
    commit: tuple[str, int] | None = None
    tests: tuple[str, int] | None = None
    serving: tuple[str, int] | None = None
    uncommitted: tuple[str, int] | None = None
    """What git says is changed and not committed, by kind; empty where that is nothing."""


class Ledger:
    """The facts of the messages so far."""

    def __init__(self, first: int = 0) -> None:
        self.next_number = first
        self.index = AtomIndex()
        self.actions: list[Action] = []
        self.requests: list[UserRequest] = []
        self.exchanges: list[LedgerExchange] = []
        self._gone: set[str] = set()
        """What was deleted, as a folder."""
        self.program_messages: set[int] = set()
        """Messages that a program wrote into the place of the person or of the agent."""
        self.rules: list[LedgerStatement] = []
        self.decisions: list[LedgerStatement] = []
        self.files: dict[str, FileFact] = {}
        self.state = WorkState()
        self.plan: tuple[Sequence[PlanItem], int] = ((), first)
        self._open_calls: dict[str, int] = {}
        self._said_before: dict[str, int] = {}
        self._agent_lines: set[int] = set()
        self._wrappers: dict[str, set[str]] = {}
        self._scripts: dict[str, Sequence[str]] = {}
        self._offered: tuple[str, int] = ("", -1)
        self._harmless = HarmlessErrors()

    @classmethod
    def of(cls, messages: Sequence[Message], numbers: Sequence[int] | None = None) -> Ledger:
        """The ledger of a whole history, read at once; without `numbers` it is numbered from 0."""
        ledger = cls()
        in_full = _start_of_last_chars(messages, _READ_IN_FULL_CHARS)
        for position, message in enumerate(messages):
            if numbers is not None:
                ledger.next_number = numbers[position]
            ledger.add(message, outline=position < in_full)
        return ledger

    def extend(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.add(message)

    def add(self, message: Message, *, outline: bool = False) -> None:
        """Record the next message; in outline, only user requests, rules, actions and outcomes."""
        number, self.next_number = self.next_number, self.next_number + 1
        role = message["role"]
        if role in ("system", "developer"):
            return
        arguments = arguments_of(message)
        if not outline:
            self.index.add(message, number, arguments)
        if role == "user":
            self._add_request(text_of(message), number)
        elif role == "assistant":
            self._add_reply(text_of(message), number, is_last=not arguments, outline=outline)
            for index, (call, own) in enumerate(zip(calls_of(message), arguments, strict=True)):
                self._add_call(call, own, number, index)
        else:
            self._add_result(message, number)

    def _add_request(self, text: str, number: int) -> None:
        if starts_over(text) and not self.actions:
            self._forget_examples()
        said = person_said(text)
        key = repetition_key(said)
        before = self._said_before.setdefault(key, number) if key else number
        if not said or before != number:
            self.program_messages.add(number)
            if before != number:
                self._take_back_request(before)
            return
        own_words = self._own_words(said)
        self.requests.append(UserRequest(number, said))
        self.rules += rules_in(own_words, number) if not quotes_issue(text) else ()
        offered, offered_in = self._offered
        self._cancel(own_words, number)
        self.exchanges.append(
            LedgerExchange(number, said, chosen_by(said, offered), offered_in, is_screen=shows_command(said))
        )

    def _cancel(self, said: str, number: int) -> None:
        """Mark what a request takes back: all that was asked and chosen about the thing it names, else the last one."""
        topic = topic_taken_back(said)
        before = zip(self.exchanges, ["", *(one.closing for one in self.exchanges)], strict=False) if topic else ()
        taken = [one for one, offered in before if is_about_topic(topic, one.request, one.chosen, offered)]
        for one in taken or (self.exchanges[-1:] if takes_back_task(said) else ()):
            one.cancelled_by = number

    def _own_words(self, said: str) -> str:
        """A request without the lines that were pasted from what the agent had said."""
        lines = said.split("\n")
        own = [line for line in lines if len(line) < _SHORTEST_PASTED or hash(line.strip()) not in self._agent_lines]
        return said if len(own) == len(lines) else "\n".join(own)

    def _take_back_request(self, number: int) -> None:
        """What comes again word for word is from a program, also the first time."""
        self.program_messages.add(number)
        self.requests = [request for request in self.requests if request.number != number]
        self.rules = [rule for rule in self.rules if rule.number != number]
        at = next((at for at, exchange in enumerate(self.exchanges) if exchange.number == number), 0)
        if at:
            former, taken = self.exchanges[at - 1], self.exchanges.pop(at)
            former.said += taken.said
            if taken.closing_number is not None:
                former.closing, former.closing_number = taken.closing, taken.closing_number
                former.is_ended = taken.is_ended

    def _forget_examples(self) -> None:
        """What was asked and decided so far was an example of a conversation."""
        self.program_messages.update(request.number for request in self.requests)
        self.requests, self.exchanges, self.rules, self.decisions = [], [], [], []

    def _add_reply(self, text: str, number: int, *, is_last: bool, outline: bool) -> None:
        if is_client_notice(text):
            self.program_messages.add(number)
            return
        if not text.strip():
            return
        if number - 1 in self.program_messages and self._adds_nothing(text):
            return
        if not self.exchanges:
            self.exchanges.append(LedgerExchange(number))
        exchange = self.exchanges[-1]
        exchange.closing, exchange.closing_number, exchange.is_ended = text, number, is_last
        self._offered = (text, number)
        exchange.said.append(number)
        self._agent_lines.update(hash(line.strip()) for line in text.split("\n") if len(line) >= _SHORTEST_PASTED)
        if outline:
            return
        self.decisions += decisions_in(text, number)
        if self.requests and self.requests[-1].answer_number is None and is_question(self.requests[-1].text):
            self.requests[-1] = replace(self.requests[-1], answer=first_sentence(text), answer_number=number)

    def _adds_nothing(self, text: str) -> bool:
        """Whether a reply to what a program wrote says nothing that was not said before."""
        is_answered = bool(self.exchanges) and self.exchanges[-1].is_ended
        return is_acknowledgement(text) or (is_answered and says_it_said_so(text))

    def _add_call(self, call: ToolCall, arguments: Mapping[str, Any], number: int, index: int) -> None:
        name = name_of_call(call)
        verb, target = verb_of(name, arguments), target_of(name, arguments)
        target = unwrapped(target, self._wrappers) if verb == "RAN" else target
        files, change = _NO_FILES, ""
        written: Collection[str] = ()
        by_code: Collection[str] = ()
        if verb == "RAN":
            if shown := file_shown_by(without_folder(target)):
                verb, target = "READ", in_folder_of(target, shown)
            elif changed := (direct := files_changed_by(target)) | (code := self._run_by(target, direct)):
                files = {in_folder_of(target, path): ended_in_folder(target, how) for path, how in changed.items()}
                by_code = {in_folder_of(target, path) for path in code.keys() - direct.keys()}
                written = {in_folder_of(target, path) for path in files_written_by(target)}
        elif verb in ("WROTE", "CHANGED"):
            files = files_edited(name, arguments)
            written = files if verb == "WROTE" else ()
            self._run_by(str(arguments.get("content", "")), written)
            change = size_of_edit(arguments)
        elif verb == "PLANNED" and (items := plan_in(arguments)):
            self.plan = (updated_plan(self.plan[0], items, arguments), number)
        elif verb == "ASKED":
            self._offered = (offered_by(arguments), number)
        for path in files:
            fact = self._touched(path, number)
            fact.is_written = path in written and (fact.is_written or not fact.changes)
            fact.changes.append(number)
            fact.ended = ""
        self._open_calls[call.get("id", "")] = len(self.actions)
        self.actions.append(Action(number, index, name, verb, target, files, by_code, change))

    def _run_by(self, text: str, written: Collection[str]) -> dict[str, str]:
        """The files that code changes which a text runs; what the scripts among `written` would change is noted."""
        if not self._scripts and not any(map(text.__contains__, MAY_WRITE)):
            return {}
        return dict.fromkeys(files_written_by_scripts(text, written, self._scripts), "")

    def _touched(self, path: str, number: int) -> FileFact:
        for folder in [gone for gone in self._gone if path.startswith(gone)]:
            # What is in it now shows that it was made anew.
            self._gone.discard(folder)
            self.files.pop(folder.rstrip("/"), None)
        fact = self.files.setdefault(path, FileFact(path, number, number))
        fact.last = number
        return fact

    def _add_result(self, message: Message, number: int) -> None:
        position = self._open_calls.pop(message.get("tool_call_id", ""), None)
        if position is None:
            return
        text = text_of(message)
        action = self.actions[position]
        action.result = number
        action.outcome = outcome_of(action.verb, text, is_error=bool(message.get("is_error")), command=action.target)
        # What a call never gave back, or failed to, was not read.
        if action.verb == "READ" and action.target and not action.failed and number != action.number:
            self._touched(action.target, action.number).reads += 1
        if action.verb == "ASKED" and not action.failed:
            action.answers = answers_in(text, action.target)
            self.rules += [rule for _, answer in action.answers for rule in rules_in(answer, number)]
        for path, ended in action.files.items():
            if (fact := self.files.get(path)) is None or action.number not in fact.changes:
                continue  # a call beside this one made the folder anew
            if not action.failed and ended:
                self._end_file(fact, ended)
            elif action.failed and (action.verb in ("WROTE", "CHANGED") or path in action.by_code):
                fact.changes.remove(action.number)
            elif action.verb == "WROTE" and _says_created(text):
                action.creates = fact.is_new = True
        if action.verb == "RAN":
            self._add_state(text, action.outcome, number)
            if "commit" in action.target and (committed := PRINTED_COMMIT.search(text)):
                action.commit = (committed["commit"], committed["subject"].strip())
                # Much may be printed behind it.
                self.state.branch, self.state.commit = (committed["branch"], number), (committed["commit"], number)
            if "git " in action.target and not action.failed:
                self._add_git_status(action.target, text, number)
            if action.failed:
                self._harmless.add_failure(action, text)
            elif (action.outcome.failed is False or action.outcome.error) and not only_looks(action):
                self._harmless.add_good_run(action.target, text)

    def _end_file(self, fact: FileFact, ended: str) -> None:
        """Record how a file ended, and what was in it where it is a folder."""
        fact.ended = ended
        inside = f"{fact.path.rstrip('/')}/"
        if ended == DELETED:
            self._gone.add(inside)
        for other in filter(lambda one: one.path.startswith(inside), self.files.values()):
            other.ended = ended

    def _add_git_status(self, command: str, printed: str, number: int) -> None:
        if _CHANGES_STATUS.search(command):
            self.state.uncommitted = None
        if "git status" in command:
            told = uncommitted_in(printed)
            if told is None and _SHORT_STATUS.search(command) and _BRANCH_LINE.fullmatch(printed.strip()):
                told = ""
            if told is not None:
                self.state.uncommitted = (told, number)

    def _add_state(self, text: str, outcome: CallOutcome, number: int) -> None:
        if outcome.tests:
            self.state.tests = (outcome.tests, number)
        if (committed := commit_in(text)) is not None:
            self.state.branch = (committed.branch, number)
            self.state.commit = (committed.hash, number)
        elif self.state.branch and (head := head_in(text)):
            self.state.commit = (head, number)
        elif branch := branch_in(text):
            if self.state.branch and self.state.branch[0] != branch:
                self.state.commit = None  # it was made on the other branch
            self.state.branch = (branch, number)
        if serving := serving_in(text):
            self.state.serving = (serving, number)


# What it leaves may be told by nothing, where it is asked to be quiet.
_CHANGES_STATUS = re.compile(r"\bgit (?:-\S+ \S+ )*(?:commit|stash|reset|checkout|restore|merge|pull|rebase)\b")
_SHORT_STATUS = re.compile(r"\bgit status (?:-s|-sb|--short|--porcelain)\b(?! [\w./])")
_BRANCH_LINE = re.compile(r"(?:##[^\n]*\s*)?(?:[\[(<]?\W*exit (?:code )?0\W*)?")
_STATUS = re.compile(
    r"^(?:\t(?:(?P<word>modified|new file|deleted|renamed|both modified|typechange):\s+)?"
    r"|(?P<code>[MADRU?][ MADRU?]| [MD]) )(?P<path>\S.*)",
    re.MULTILINE,
)
_CLEAN = "nothing to commit, working tree clean"
_STATUS_WORDS = {"new file": "new", "M": "modified", "A": "new", "D": "deleted", "R": "renamed", "?": "untracked"}
_MOST_NAMED = 6


def uncommitted_in(text: str) -> str | None:
    """What git says is changed, by kind: `modified src/a.py; untracked notes.txt`; None where it does not say."""
    by_kind: dict[str, list[str]] = {}
    for found in _STATUS.finditer(text):
        word = found["word"] or (found["code"].strip()[:1] if found["code"] else "?")
        by_kind.setdefault(_STATUS_WORDS.get(word, word), []).append(found["path"].rstrip())
    if not by_kind:
        return "" if _CLEAN in text else None
    more = {
        kind: f" and {len(paths) - _MOST_NAMED} more" for kind, paths in by_kind.items() if len(paths) > _MOST_NAMED
    }
    return "; ".join(f"{kind} {', '.join(paths[:_MOST_NAMED])}{more.get(kind, '')}" for kind, paths in by_kind.items())


def actions_by_exchange(exchanges: Sequence[LedgerExchange], actions: Iterable[Action]) -> dict[int, list[Action]]:
    """The actions of each exchange, by its position."""
    by: dict[int, list[Action]] = {}
    n = 0
    for action in actions:
        while n + 1 < len(exchanges) and action.number >= exchanges[n + 1].number:
            n += 1
        by.setdefault(n, []).append(action)
    return by


def owners_of(actions: Iterable[Action]) -> dict[tuple[int, int], Action]:
    """The action that a part of a message belongs to: its call, or its result."""
    owners: dict[tuple[int, int], Action] = {}
    for action in actions:
        owners[action.number, action.call_index + 1] = action
        # The stub for a result that never came has the number of the call.
        if action.result is not None and action.result != action.number:
            owners[action.result, 0] = action
    return owners


def _start_of_last_chars(messages: Sequence[Message], most: int) -> int:
    """The position from which on the messages hold at most `most` chars."""
    chars = 0
    for position in range(len(messages) - 1, -1, -1):
        chars += len(text_of(messages[position]))
        if chars > most:
            return position + 1
    return 0


_FIRST_CHARS = 400
_CREATED = re.compile(
    r"(?:file |successfully |^)created\b|\bnew file\b|\bcreated (?:a )?(?:new )?file\b", re.IGNORECASE
)


def _says_created(text: str) -> bool:
    """Whether the result of writing a file says that there was none before."""
    return bool(_CREATED.search(text[:_FIRST_CHARS]))
