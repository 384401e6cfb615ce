"""The state of a conversation: what it is about (files, branch, commits, tests, services, settings, rules, decisions,
tasks), each with its values in order and the message that says so.

An `EntityReader` reads message by message. It goes on from what an earlier one had read: its `context` and the changes
so far are all that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, get_args

from clew.ledger.assignments import (
    Assignment,
    assignments_in_command,
    assignments_in_edit,
    files_written_by_scripts,
)
from clew.ledger.extract import LedgerStatement, decisions_in, first_sentence, rule_replaced_by, rules_in, shorten
from clew.ledger.outcomes import CallOutcome, branch_in, commit_in, outcome_of, serving_in
from clew.ledger.requests import person_said, repetition_key, takes_back_task
from clew.ledger.tools import (
    PlanItem,
    Verb,
    ended_in_folder,
    files_changed_by,
    files_edited,
    in_folder_of,
    plan_in,
    size_of_edit,
    target_of,
    updated_plan,
    verb_of,
)
from clew.messages import Message, ToolCall, arguments_of_call, calls_of, name_of_call, text_of

EntityKind: TypeAlias = Literal["task", "branch", "commit", "tests", "service", "setting", "file", "rule", "decision"]
ENTITY_KINDS: tuple[EntityKind, ...] = get_args(EntityKind)
IN_FORCE, REPLACED = "in force", "replaced"
ASKED, ANSWERED, TAKEN_BACK, INTERRUPTED = "asked", "answered", "taken back", "interrupted"
RUNNING, STOPPED = "running", "stopped"
_ENDED = frozenset({REPLACED, ANSWERED, TAKEN_BACK, INTERRUPTED, STOPPED, "done", "dropped", "deleted", "reverted"})

_NAME_CHARS = 200
_DETAIL_CHARS = 160
_SHORTEST_TASK = 12
_MOST_KEYS = 500
_MOST_RULES_COMPARED = 400
_MOST_OPEN_CALLS = 200
_MOST_SCRIPTS = 50
_ADDRESS = re.compile(
    r"(?:\w+://)?(?P<host>[\w.-]+|\[[\da-f:]+\]):(?P<port>\d{2,5})\b|\bport (?P<alone>\d{2,5})\b", re.I
)
_PROCESS = re.compile(r"\bpid[ :=]+(\d{2,7})\b|^\[\d+\] (\d{2,7})$", re.I | re.MULTILINE)
_STOPS = re.compile(r"\b(?:kill|pkill|killall|fuser -k|kill-port|stop|down)\b")
_UNIT = re.compile(
    r"\b(?:systemctl(?: --user)?|service|docker(?:[ -]compose)?|podman|pm2|brew services)"
    r" (?P<what>start|restart|stop|rm|kill|up|down|run)\b(?P<rest>[^;&|\n]*)"
)
_TEST_RUNNER = re.compile(
    r"\b(?:pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|ava|playwright|rspec|phpunit|ctest|nextest"
    r"|(?:npm|yarn|pnpm|bun|deno|go|cargo|dotnet|mix|swift|flutter|zig|make|just|mvn|gradle|gradlew)\b[\w \t:./-]*?\b"
    r"(?:test|tests|check|verify)\w*)"
)
_QUIET_FLAG = re.compile(
    r"(?:-(?:q+|v+|x|s|qq|sv|vs|xq|qx|xvs|n ?\w+)|--(?:tb|color|maxfail|timeout)[= ]\S+|--no-header)$"
)
_FLAG_WITH_VALUE = re.compile(r" (?:-n|--tb|--maxfail|--timeout|--color)[ =]\S+")
_PASTED_LINE = re.compile(r"[+-] ?\d+ |Error\b|.*\\n")
_COMMIT_COMMAND = re.compile(
    r"\bgit (?:-\S+ )*commit\b[^\n;&|]*? -\w*m ?(?:'(?P<a>[^']+)'|\"(?P<b>(?:[^\"\\]|\\.)+)\")"
    r"|\bgit (?:-\S+ )*commit\b[^\n;&|]*?<<-?\s*['\"]?\w+['\"]?\n\s*(?P<c>[^\n]+)"
)
_HERE_SUBJECT = re.compile(r"\$\(cat <<-?\s*['\\\"]*\w+['\\\"]*\n\s*([^\n]+)")
_STATUS_BRANCH = re.compile(r"^## ([\w./-]+?)(?:\.\.\.\S+)?(?: \[.*\])?$", re.MULTILINE)
_COMMANDS = re.compile(r"&&|\|\||[;\n]")


@dataclass(frozen=True, slots=True)
class EntityChange:
    """An entity has a value, says a message."""

    kind: EntityKind
    name: str
    value: str
    number: int
    detail: str = ""
    """More about it: the size of an edit, the subject of a commit, the first error."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing of the conversation with its values, oldest first."""

    kind: EntityKind
    name: str
    changes: tuple[EntityChange, ...]

    @property
    def now(self) -> EntityChange:
        """The newest message about it, with its value."""
        return self.changes[-1]

    @property
    def value(self) -> str:
        return self.now.value

    @property
    def since(self) -> int:
        """The message from which on it has its value."""
        return next(iter(self._run())).number

    @property
    def times(self) -> int:
        """How often the value was said in a row."""
        return len(self._run())

    @property
    def before(self) -> EntityChange | None:
        """The newest change to another value than the present one."""
        run = len(self._run())
        return self.changes[-run - 1] if run < len(self.changes) else None

    @property
    def is_ended(self) -> bool:
        """Whether nothing is to be expected of it any more: a task that is done, a file that is gone."""
        return self.value in _ENDED or self.value.startswith("moved to ")

    def _run(self) -> Sequence[EntityChange]:
        at = len(self.changes)
        while at and self.changes[at - 1].value == self.value:
            at -= 1
        return self.changes[at:]


def entities_of(changes: Iterable[EntityChange], at: int | None = None) -> list[Entity]:
    """The entities by kind, in each what changed last first; with `at`, as they were behind that message."""
    by: dict[tuple[EntityKind, str], list[EntityChange]] = {}
    for change in changes:
        if at is None or change.number <= at:
            by.setdefault((change.kind, change.name), []).append(change)
    found = [Entity(kind, name, tuple(said)) for (kind, name), said in by.items()]
    return sorted(found, key=lambda entity: (ENTITY_KINDS.index(entity.kind), entity.is_ended, -entity.now.number))


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OpenCall:
    """A call whose result has not come, and what it will have changed if it succeeds."""

    verb: Verb
    target: str
    files: Mapping[str, str]
    size: str
    settings: tuple[Assignment, ...]

    def as_json(self) -> list[Any]:
        settings = [[each.key, each.value, each.before, each.file] for each in self.settings]
        return [self.verb, self.target[:2_000], dict(self.files), self.size, settings]

    @classmethod
    def of_json(cls, values: list[Any]) -> _OpenCall:
        verb, target, files, size, settings = values
        return cls(verb, target, files, size, tuple(Assignment(*each) for each in settings))


class EntityReader:
    """Reads the changes of entities out of messages, one after the other, at the cost of each message alone."""

    def __init__(self, changes: Iterable[EntityChange] = (), context: Mapping[str, Any] | None = None) -> None:
        self.changes: list[EntityChange] = list(changes)
        self._values: dict[tuple[EntityKind, str], EntityChange] = {}
        self._rules: list[LedgerStatement] = []
        self._files: dict[str, list[str]] = {}
        for change in self.changes:
            self._remember(change)
        self._read_context(context or {})

    def _read_context(self, context: Mapping[str, Any]) -> None:
        self.next_number: int = context.get("next", 0)
        self._open = {id: _OpenCall.of_json(call) for id, call in context.get("open", {}).items()}
        self._plan: list[PlanItem] = [PlanItem(*item) for item in context.get("plan", ())]
        self._request: str = context.get("request", "")
        self._keys: dict[str, None] = dict.fromkeys(context.get("keys", ()))
        self._started: dict[str, str] = dict(context.get("started", {}))
        self._scripts: dict[str, Sequence[str]] = dict(context.get("scripts", {}))

    @property
    def context(self) -> dict[str, Any]:
        """What the next reader needs beside the changes, as JSON."""
        return {
            "next": self.next_number,
            "open": {id: call.as_json() for id, call in list(self._open.items())[-_MOST_OPEN_CALLS:]},
            "plan": [[item.text, item.progress, item.id] for item in self._plan],
            "request": self._request,
            "keys": list(self._keys)[-_MOST_KEYS:],
            "started": self._started,
            "scripts": dict(list(self._scripts.items())[-_MOST_SCRIPTS:]),
        }

    def add(self, message: Message, number: int) -> None:
        """Read the message with this number."""
        self.next_number = number + 1
        role = message["role"]
        if role == "user":
            self._add_request(text_of(message), number)
        elif role == "assistant":
            self._add_reply(message, number)
        elif role == "tool":
            self._add_result(message, number)

    def _note(self, kind: EntityKind, name: str, value: str, number: int, detail: str = "") -> None:
        shown = shorten(name, _NAME_CHARS)
        if not shown or not value:
            return
        change = EntityChange(kind, shown, shorten(value, _NAME_CHARS), number, shorten(detail, _DETAIL_CHARS))
        self.changes.append(change)
        self._remember(change)

    def _remember(self, change: EntityChange) -> None:
        self._values[change.kind, change.name] = change
        if change.kind == "rule":
            self._rules = [rule for rule in self._rules if rule.text != change.name][-_MOST_RULES_COMPARED:]
            if change.value == IN_FORCE:
                self._rules.append(LedgerStatement(change.name, change.number))
        elif change.kind == "file":
            names = self._files.setdefault(change.name.rsplit("/", 1)[-1], [])
            if change.name not in names:
                names.append(change.name)

    # -- people --------------------------------------------------------------------------------------------------------

    def _add_request(self, text: str, number: int) -> None:
        said = person_said(text)
        if not said or self._is_said_again(said):
            return
        if self._request:
            self._note("task", self._request, TAKEN_BACK if takes_back_task(said) else INTERRUPTED, number)
            self._request = ""
        for rule in rules_in(said, number):
            if _PASTED_LINE.match(rule.text):
                continue
            replaced = rule_replaced_by(rule, self._rules)
            if replaced is not None:
                self._note("rule", replaced.text, REPLACED, number, f"by: {rule.text}")
            self._note("rule", rule.text, IN_FORCE, number)
        if len(said) >= _SHORTEST_TASK:
            self._request = shorten(said, _NAME_CHARS)
            self._note("task", self._request, ASKED, number)

    def _is_said_again(self, said: str) -> bool:
        """Whether it came before word for word: a program repeats itself so, a person does not."""
        key = repetition_key(said)
        if key is None:
            return False
        mark = blake2b(key.encode("utf-8", "replace"), digest_size=6).hexdigest()
        is_known = mark in self._keys
        self._keys[mark] = None
        return is_known

    # -- the agent -----------------------------------------------------------------------------------------------------

    def _add_reply(self, message: Message, number: int) -> None:
        text, calls = text_of(message), calls_of(message)
        if text.strip():
            for decision in decisions_in(text, number):
                if decision.text.endswith((":", "：")):
                    continue  # what was decided comes behind it
                self._note("decision", decision.text, "decided", number)
            if not calls and self._request:
                self._note("task", self._request, ANSWERED, number, first_sentence(text))
                self._request = ""
        for call in calls:
            self._add_call(call, number)

    def _add_call(self, call: ToolCall, number: int) -> None:
        name, arguments = name_of_call(call), arguments_of_call(call)
        verb, target = verb_of(name, arguments), target_of(name, arguments)
        files: Mapping[str, str] = {}
        size, settings = "", list[Assignment]()
        if verb == "RAN":
            written = files_changed_by(target)
            changed = written | dict.fromkeys(files_written_by_scripts(target, written, self._scripts), "")
            files = {in_folder_of(target, path): ended_in_folder(target, how) for path, how in changed.items()}
            settings = assignments_in_command(target)
        elif verb in ("WROTE", "CHANGED"):
            files, size = files_edited(name, arguments), size_of_edit(arguments)
            files_written_by_scripts(str(arguments.get("content", "")), files, self._scripts)
            settings = assignments_in_edit(arguments, next(iter(files), ""))
        elif verb == "PLANNED" and (items := plan_in(arguments)):
            self._follow_plan(updated_plan(self._plan, items, arguments), number)
        if verb in ("RAN", "WROTE", "CHANGED"):
            self._open[call.get("id", "")] = _OpenCall(verb, target, files, size, tuple(settings))

    def _follow_plan(self, plan: Sequence[PlanItem], number: int) -> None:
        for item in plan:
            known = self._values.get(("task", shorten(item.text, _NAME_CHARS)))
            if known is None or known.value != item.progress:
                self._note("task", item.text, item.progress, number)
        listed = {item.text for item in plan}
        for item in self._plan:
            if item.text not in listed and item.progress != "done":
                self._note("task", item.text, "dropped", number)
        self._plan = list(plan)

    # -- results -------------------------------------------------------------------------------------------------------

    def _add_result(self, message: Message, number: int) -> None:
        call = self._open.pop(message.get("tool_call_id", ""), None)
        if call is None:
            return
        text = text_of(message)
        outcome = outcome_of(call.verb, text, is_error=bool(message.get("is_error")), command=call.target)
        if call.verb == "RAN":
            self._add_run(call, text, outcome, number)
        if outcome.failed:
            return
        for path, ended in call.files.items():
            self._add_file(path, ended or ("written" if call.verb == "WROTE" else "changed"), call, number)
        for each in call.settings:
            name = f"{each.key} in {self._known_file(each.file)}" if each.file else each.key
            if each.before and ("setting", shorten(name, _NAME_CHARS)) not in self._values:
                self._note("setting", name, each.before, number, "as it was found")
            self._note("setting", name, each.value, number)

    def _add_file(self, path: str, value: str, call: _OpenCall, number: int) -> None:
        name = self._known_file(path)
        if value == "changed" and call.verb == "RAN":
            self._note("file", name, value, number, "by a command")
        else:
            self._note("file", name, value, number, call.size if value in ("changed", "written") else "")
        if value == "deleted":
            inside = f"{name.rstrip('/')}/"
            gone = [it for names in self._files.values() for it in names if it.startswith(inside)]
            for each in gone:
                self._note("file", each, value, number)

    def _known_file(self, path: str) -> str:
        """The name under which a file is known: an agent calls one file by its whole path and by a part of it."""
        plain = path.removeprefix("./")
        for known in self._files.get(plain.rsplit("/", 1)[-1], ()):
            if known == plain or known.endswith(f"/{plain}") or plain.endswith(f"/{known}"):
                return known
        return plain

    def _add_run(self, call: _OpenCall, text: str, outcome: CallOutcome, number: int) -> None:
        if outcome.tests:
            self._add_tests(tests_named(call.target), outcome, number)
        self._add_git(call.target, text, outcome, number)
        if not outcome.failed and _STOPS.search(call.target):
            self._stop_services(call.target, number)
        for name, value in _units(call.target) if not outcome.failed else ():
            self._note("service", name, value, number, call.target)
        if serving := serving_in(text):
            self._start_service(call.target, text, serving, number)

    def _add_tests(self, name: str, outcome: CallOutcome, number: int) -> None:
        self._note("tests", name, outcome.tests, number, outcome.error if outcome.failed else "")
        if outcome.failed:
            return
        # Where all pass together, a part of them that failed before passes as well.
        parts = [part for kind, part in self._values if kind == "tests" and part.startswith(f"{name} ")]
        for part in parts:
            if "failed" in self._values["tests", part].value or "error" in self._values["tests", part].value:
                self._note("tests", part, "passed", number, f"with {name}")

    def _add_git(self, command: str, text: str, outcome: CallOutcome, number: int) -> None:
        commit, branch = commit_in(text), branch_in(text)
        if "git status" in command and (found := _STATUS_BRANCH.search(text)):
            branch = found[1]
        if commit is not None:
            branch = commit.branch
        if branch:
            self._note("branch", "branch", branch, number)
        if commit is not None:
            self._note("commit", f"on {branch}", commit.hash, number, commit.subject)
        elif "commit" in command and not outcome.failed and (subject := _committed_subject(command)):
            # Made quietly: where the log is shown behind it, that has the hash.
            known = self._values.get(("branch", "branch"))
            logged = re.search(rf"\b([0-9a-f]{{7,40}}) {re.escape(subject[:60])}", text)
            where = f"on {known.value}" if known else "newest"
            self._note("commit", where, logged[1] if logged else "made", number, subject)

    def _start_service(self, command: str, text: str, line: str, number: int) -> None:
        found = _ADDRESS.search(line)
        name = f"port {found['port'] or found['alone']}" if found else line
        process = _PROCESS.search(text)
        self._started[name] = f"{shorten(command, 300)} {(process[1] or process[2]) if process else ''}"
        self._note("service", name, RUNNING, number, _last_command(command))

    def _stop_services(self, command: str, number: int) -> None:
        words = {word for word in re.findall(r"[\w./-]{3,}", command) if not word.startswith("-")}
        for name, started in list(self._started.items()):
            of_it = {*started.split(), name.removeprefix("port ")}
            stops = words - {"kill", "pkill", "killall", "stop", "down", "docker", "compose", "sleep", "echo"}
            if stops & of_it and self._values["service", name].value == RUNNING:
                self._note("service", name, STOPPED, number, command)
                del self._started[name]


def tests_named(command: str) -> str:
    """A command that ran tests, without what stands around it and without how much it prints."""
    parts = [part.strip() for part in _COMMANDS.split(command) if part.strip()]
    chosen = next((part for part in parts if _TEST_RUNNER.search(part)), parts[-1] if parts else command)
    plain = _FLAG_WITH_VALUE.sub("", chosen.split("|")[0].replace("2>&1", " "))
    return shorten(" ".join(word for word in plain.split() if not _QUIET_FLAG.match(word)), 80)


def _committed_subject(command: str) -> str:
    """The subject of a commit that a command line makes; empty where it makes none, or names none."""
    if (here := _HERE_SUBJECT.search(command)) is not None:
        return here[1].strip()
    found = _COMMIT_COMMAND.search(command)
    return (found["a"] or found["b"] or found["c"]).strip().split("\n")[0] if found else ""


def _last_command(command: str) -> str:
    parts = [part.strip() for part in _COMMANDS.split(command) if part.strip()]
    return parts[-1] if parts else command


def _units(command: str) -> Iterator[tuple[str, str]]:
    """The services that a command line starts or stops by their names."""
    for found in _UNIT.finditer(command):
        named = re.search(r"--name[ =](\S+)", found["rest"])
        words = [word for word in found["rest"].split() if not word.startswith("-")]
        name = named[1] if named else words[0] if words and found["what"] != "run" else ""
        if name:
            yield name, STOPPED if found["what"] in ("stop", "rm", "kill", "down") else RUNNING
