"""The state of a conversation: tasks, branch, commits, tests, services, settings, files, rules and decisions over time.

A `StateRecord` appends facts to a `FactLog` while it reads; `entities_of` folds them into things with values, now or as
they were behind any message. What a message costs does not depend on how many precede it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from posixpath import basename
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from clew.facts.commands import (
    commit_subject,
    may_change_state,
    parts_of,
    tests_named,
    unit_changed,
    words_ended,
)
from clew.facts.data import load_table
from clew.facts.outcomes import Detector, Outcome, state_values
from clew.facts.record import Record
from clew.facts.settings import SettingValue, settings_in_command, settings_in_edit
from clew.facts.speech import continues, decisions_in, is_question, is_thanks
from clew.facts.text import prose_pieces, shorten
from clew.facts.tools import Edit, FileEffect, PlanEntry, commands_in

FactKind: TypeAlias = Literal["task", "branch", "commit", "tests", "service", "setting", "file", "rule", "decision"]
FACT_KINDS: tuple[FactKind, ...] = get_args(FactKind)
ASKED, ANSWERED, CANCELLED, INTERRUPTED = "asked", "answered", "cancelled", "interrupted"
_ENDED = frozenset(
    {ANSWERED, CANCELLED, INTERRUPTED, "done", "dropped", "replaced", "stopped", "deleted", "moved", "reverted"}
)
_LINES = {row["name"]: Detector.of(row) for row in load_table("state.toml")["line"]}
_NAME_CHARS, _DETAIL_CHARS = 200, 160
_SHORTEST_TASK_CHARS, _SHORTEST_TASK_OF_CANCELLATION = 12, 40
_MOST_COMPARED = 100
"""Rules, failing tests, services and files of one name that a new fact is compared with: the newest ones."""
_SHORTEST_HASH, _HEX = 7, frozenset("0123456789abcdef")


class Fact(NamedTuple):
    """A thing has a value, says a message."""

    kind: FactKind
    name: str
    value: str
    number: int
    detail: str = ""
    """More about it: the size of an edit, the subject of a commit, the first error."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing with its facts, oldest first."""

    kind: FactKind
    name: str
    facts: tuple[Fact, ...]

    @property
    def now(self) -> Fact:
        return self.facts[-1]

    @property
    def value(self) -> str:
        return self.now.value

    @property
    def since(self) -> int:
        """The message from which on it has its value."""
        return self.facts[-self.times].number

    @property
    def times(self) -> int:
        """How many of the newest facts in a row have the present value."""
        other = (at for at, fact in enumerate(reversed(self.facts)) if fact.value != self.value)
        return next(other, len(self.facts))

    @property
    def before(self) -> Fact | None:
        """The newest fact with another value than the present one."""
        return self.facts[-self.times - 1] if self.times < len(self.facts) else None

    @property
    def is_ended(self) -> bool:
        """Whether it is over: a task that is done, a file that is gone."""
        return self.value in _ENDED


def entities_of(facts: Iterable[Fact], at: int | None = None) -> list[Entity]:
    """The entities by kind, open ones first, then by their newest fact; with `at`, as they were behind that message."""
    by: dict[tuple[FactKind, str], list[Fact]] = {}
    for fact in facts:
        if at is None or fact.number <= at:
            by.setdefault((fact.kind, fact.name), []).append(fact)
    found = [Entity(kind, name, tuple(said)) for (kind, name), said in by.items()]
    return sorted(found, key=lambda entity: (FACT_KINDS.index(entity.kind), entity.is_ended, -entity.now.number))


class FactLog:
    """Appends facts while a conversation is read."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._values: dict[tuple[FactKind, str], str] = {}
        self._task = self._answered = ""
        self._plan: list[str] = []
        self._failing: dict[str, None] = {}
        self._running: dict[str, set[str]] = {}
        self._files: dict[str, deque[str]] = {}
        self._inside: dict[str, dict[str, None]] = {}
        """The files of each folder, at any depth."""
        self._settings: dict[str, dict[str, None]] = {}

    def _note(self, kind: FactKind, name: str, value: str, number: int, detail: str = "") -> None:
        """Append a fact; names are on one line and not longer than `_NAME_CHARS`."""
        if name and value:
            self.facts.append(Fact(kind, name, value, number, detail and shorten(detail, _DETAIL_CHARS)))
            self._values[kind, name] = value

    def add_request(self, said: str, number: int, *, chosen: str, cancels: bool) -> None:
        before = self._task or (self._answered if cancels else "")
        if before:
            self._note("task", before, CANCELLED if cancels else INTERRUPTED, number)
        self._task = self._answered = ""
        if chosen:
            answer = said if is_question(chosen) else ""
            self._note("decision", shorten(chosen, _NAME_CHARS), "chosen", number, answer)
        shortest = _SHORTEST_TASK_OF_CANCELLATION if cancels else _SHORTEST_TASK_CHARS
        if len(said) >= shortest and not is_thanks(said) and not continues(said):
            self._task = shorten(said, _NAME_CHARS)
            self._note("task", self._task, ASKED, number)

    def add_rule(self, rule: str, number: int, replaced: str) -> None:
        name = shorten(rule, _NAME_CHARS)
        if replaced:
            self._note("rule", shorten(replaced, _NAME_CHARS), "replaced", number, f"by: {name}")
        self._note("rule", name, "in force", number)

    def add_reply(self, text: str, number: int, *, is_last: bool) -> None:
        for sentence in decisions_in(text) if text else ():
            self._note(
                "decision",
                sentence if len(sentence) <= _NAME_CHARS else shorten(sentence, _NAME_CHARS),
                "decided",
                number,
            )
        if is_last and self._task:
            self._note("task", self._task, ANSWERED, number, next(prose_pieces(text[:1_000]), "").lstrip("#* "))
            self._task, self._answered = "", self._task
        elif not is_last and self._answered:
            self._note("task", self._answered, ASKED, number)
            self._task, self._answered = self._answered, ""

    def add_plan(self, entries: Sequence[PlanEntry], number: int) -> None:
        names = [shorten(entry.text, _NAME_CHARS) for entry in entries]
        for name, entry in zip(names, entries, strict=True):
            value = "done" if entry.is_done else "doing" if entry.is_started else "open"
            value = "dropped" if entry.status.startswith("cancel") else value
            if self._values.get(("task", name)) != value:
                self._note("task", name, value, number)
        for name in self._plan:
            if name not in names and self._values.get(("task", name)) not in _ENDED:
                self._note("task", name, "dropped", number)
        self._plan = names

    def add_run(self, command: str, outcome: Outcome, text: str, number: int) -> None:
        """What a command line did beside the files that it changed."""
        if outcome.tests:
            self._add_tests(tests_named(command), outcome, number)
        for name, line in outcome.states:
            self._add_state(name, line, command, text, number)
        if outcome.failed or not may_change_state(command):
            return
        is_shown = any(name == "commit" for name, _ in outcome.states)
        for one in commands_in(command):
            self.add_settings(settings_in_command(one), number)
            if not is_shown and (subject := commit_subject(one)):
                self._add_quiet_commit(subject, text, number)
            if unit := unit_changed(one):
                self._note("service", *unit, number, one.source)
            if ends := words_ended(one):
                self._end_services(ends, one.source, number)

    def add_file(self, effect: FileEffect, number: int, *, by_command: bool) -> None:
        name = self._known_file(effect.path)
        value = "written" if effect.fate == "created" else effect.fate
        size = f"+{effect.added} -{effect.removed}" if effect.added or effect.removed else ""
        known = self._values.get(("file", name))
        self._note("file", name, value, number, "by a command" if by_command and value == "changed" else size)
        if value in ("deleted", "moved"):
            for gone in (name, *self._inside.pop(name.rstrip("/"), ())):
                if gone != name and self._values.get(("file", gone)) not in _ENDED:
                    self._note("file", gone, value, number)
                for setting in self._settings.pop(gone, ()):
                    self._note("setting", setting, value, number, "with its file")
        elif known is None or known in _ENDED:
            for at, char in enumerate(name):
                if char == "/" and at:
                    self._inside.setdefault(name[:at], {})[name] = None

    def _known_file(self, path: str) -> str:
        """The name under which a file is known: one file is called by its whole path and by the end of it."""
        plain = path.removeprefix("./")
        names = self._files.setdefault(basename(plain), deque(maxlen=_MOST_COMPARED))
        for known in names:
            if known == plain or known.endswith(f"/{plain}") or plain.endswith(f"/{known}"):
                return known
        names.append(plain)
        return plain

    def settings_in(self, edits: Sequence[Edit]) -> list[tuple[str, Sequence[SettingValue]]]:
        """The settings to which edits give another value, with their files; noted once the edits succeeded."""
        return [(edit.path, found) for edit in edits if (found := settings_in_edit(edit))]

    def add_settings(self, settings: Iterable[SettingValue], number: int, path: str = "") -> None:
        file = self._known_file(path) if path else ""
        for key, value, before in settings:
            name = shorten(f"{key} in {file}" if file else key, _NAME_CHARS)
            if before and ("setting", name) not in self._values:
                self._note("setting", name, before, number, "as it was found")
            self._note("setting", name, value, number)
            if file:
                self._settings.setdefault(file, {})[name] = None

    def _add_tests(self, name: str, outcome: Outcome, number: int) -> None:
        self._note("tests", name, outcome.tests.partition(" in ")[0], number, outcome.error if outcome.failed else "")
        if outcome.failed:
            _remember(self._failing, name)
            return
        for part in [part for part in self._failing if part == name or part.startswith(f"{name} ")]:
            del self._failing[part]
            if part != name:
                # All tests passed, so a part of them that failed before passes too.
                self._note("tests", part, "passed", number, f"with {name}")

    def _add_state(self, name: str, line: str, command: str, text: str, number: int) -> None:
        found = state_values(name, line)
        if name == "server":
            port = _LINES["port"].matches(line)
            service = f"port {port[0]['value']}" if port else line
            processes = {group for one in _LINES["process"].matches(text) for group in one.groups() if group}
            _remember(self._running, service, {*parts_of(command), *processes, service.removeprefix("port ")})
            commands = commands_in(command)
            self._note("service", service, "running", number, commands[-1].source if commands else command)
        elif branch := found.get("branch") or (found.get("value") if name == "branch" else ""):
            self._note("branch", "branch", branch, number)
            if name == "commit":
                self._note("commit", f"on {branch}", found["value"], number, found.get("detail", ""))

    def _add_quiet_commit(self, subject: str, text: str, number: int) -> None:
        """A commit of which git printed nothing: a log behind it shows the hash."""
        branch = self._values.get(("branch", "branch"))
        before = text.partition(f" {subject[:60]}")[0].split() if subject[:60] in text else []
        is_hash = bool(before) and len(before[-1]) >= _SHORTEST_HASH and set(before[-1]) <= _HEX
        self._note("commit", f"on {branch}" if branch else "newest", before[-1] if is_hash else "made", number, subject)

    def _end_services(self, words: set[str], command: str, number: int) -> None:
        for service, known in list(self._running.items()):
            if known & words:
                self._note("service", service, "stopped", number, command)
                del self._running[service]


class StateRecord(Record):
    """A record with a log of facts. A fold does not read them, and they take half of the time."""

    def __init__(self) -> None:
        super().__init__()
        self._log = FactLog()
        self.facts = self._log.facts
        """Append-only; `/state` is a fold over it."""


def _remember(known: dict[str, Any], name: str, value: Any = None) -> None:
    """Keep a name, and forget the oldest of too many."""
    known[name] = value
    if len(known) > _MOST_COMPARED:
        del known[next(iter(known))]
