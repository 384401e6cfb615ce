"""How a tool call ended, read from its result: failed or not, the error, test counts, the lines that state the work.

Shapes are rows of `outcomes.toml`. Only both ends of a long result are read, since programs say there how they ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from clew.facts.data import load_table
from clew.facts.text import flatten, has_one, result_text, strip_colours
from clew.facts.tools import Verb
from clew.lazy import lazy_pattern

_START_CHARS, _END_CHARS = 1_500, 2_500
# Tags that a harness puts around a result.
_TAG_LINE = lazy_pattern(
    r"^\s*</?(?:output|output_head|output_tail|stdout|stderr|result|response|observation)>\s*$", re.M
)


# What a result is pruned to: how it ended, then the error.
_PRUNED = lazy_pattern(r"\[[^\]]+\] .* -> (?:exit \d+|failed), [^:]*: (?P<error>.*) \((?:shortened|whole: m\d+)\)")


class Detector(NamedTuple):
    """A pattern, and the literals of which one is in every text that it matches."""

    name: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    failed: re.Pattern[str] | None = None

    @classmethod
    def of(cls, row: dict[str, Any]) -> Detector:
        failed = lazy_pattern(row["failed"]) if "failed" in row else None
        return cls(row.get("name", ""), tuple(row["literal"]), lazy_pattern(row["pattern"], re.MULTILINE), failed)

    def matches(self, text: str) -> list[re.Match[str]]:
        return list(self.pattern.finditer(text)) if has_one(text, self.literals) else []

    def found_in(self, text: str) -> bool:
        return has_one(text, self.literals) and self.pattern.search(text) is not None


_TABLE = load_table("outcomes.toml")
_LIMITS = _TABLE["limits"]
_OPENING_CHARS = _LIMITS["opening_chars"]
_FEW_WORDS_CHARS = _LIMITS["few_words_chars"]
_LONGEST_STATUS = _LIMITS["longest_status"]
LONGEST_ERROR_CHARS = _LIMITS["longest_error_chars"]
_KEY_WORDS = _LIMITS["key_words"]
RUNNERS, ERRORS, FAILURES, STATES = (
    tuple(map(Detector.of, _TABLE[name])) for name in ("runner", "error", "failure", "state")
)
_RUNNER_MARKS = tuple(_TABLE["runners"]["marks"])
_SECTIONS: dict[str, str] = _TABLE["worktree"]["sections"]
_MOST_NAMES = _TABLE["worktree"]["most_names"]
_LONGEST_STATE = 240
EXIT = Detector.of(_TABLE["exit"])
_FINDING = frozenset(_TABLE["finding"]["programs"].split())
_LOOKING = _FINDING | frozenset(_TABLE["looking"]["programs"].split())
_LOOKING_COMMANDS = frozenset(_TABLE["looking"]["commands"])
SETTLED_BY_COMMIT = tuple(_TABLE["commit"]["settles"])


class Outcome(NamedTuple):
    """How a call ended. `failed` is None where the result does not say."""

    failed: bool | None
    exit_code: int | None
    error: str
    tests: str
    states: tuple[tuple[str, str], ...]
    """Lines that state what the work is on, each with the name of its detector."""
    lines: int

    @property
    def quotes(self) -> bool:
        """Whether it has text of the result, and not only how the call ended."""
        return bool(self.error or self.tests or self.states)

    def describe(self) -> str:
        """In a few words: test counts, the error, the exit code, the number of lines."""
        if self.tests:
            return self.tests
        if self.failed:
            return self.error or (f"exit {self.exit_code}" if self.exit_code else "failed")
        return f"{self.lines:,} lines" if self.lines > 1 else ""


def both_ends(text: str) -> str:
    if len(text) <= _START_CHARS + _END_CHARS:
        return text
    return f"{text[:_START_CHARS]}\n{text[-_END_CHARS:]}"


def read_outcome(text: str, verb: Verb = "CALLED", command: str = "", *, is_error: bool = False) -> Outcome:
    """How a call ended, by its result."""
    text = result_text(text)
    ends = strip_colours(both_ends(text))
    ends = _TAG_LINE.sub("", ends) if "<" in ends else ends
    lines = text.count("\n") + 1 if text.strip() else 0
    failed: bool | None = None
    if verb in ("READ", "SEARCHED", "LISTED", "FETCHED", "PLANNED", "DELEGATED", "LOADED") and not is_error:
        # What a file or a page says about errors is not how the call ended; a few words are no page.
        if verb == "FETCHED" and len(ends) <= _FEW_WORDS_CHARS:
            failed = _says_failed(ends) or any(row.found_in(ends) for row in ERRORS) or None
        else:
            failed = _begins_with_failure(ends) or None
        return Outcome(failed, None, _first_line(ends) if failed else "", "", (), lines)
    exit_code = _exit_code(ends)
    is_edit = verb in ("WROTE", "CHANGED")
    tests, tests_failed = ("", False) if is_edit else _tests(ends)
    if is_error or exit_code or tests_failed or _says_failed(ends):
        failed = True
    elif exit_code == 0 or tests:
        failed = False
    if failed and exit_code == 1 and not is_error and not tests_failed and _only_looks(command):
        failed = False
    error = _error_line(ends, surely=bool(failed), exit_code=exit_code) if failed else ""
    return Outcome(failed, exit_code, error, tests, () if is_edit else tuple(_state_lines(ends)), lines)


def _begins_with_failure(ends: str) -> bool:
    # The first row is about how a text begins.
    return FAILURES[0].found_in(ends[:_OPENING_CHARS])


def _says_failed(ends: str) -> bool:
    return _begins_with_failure(ends) or any(row.found_in(ends) for row in FAILURES[1:])


def _exit_code(ends: str) -> int | None:
    found = EXIT.matches(f"{ends[:300]}\n{ends[-300:]}")
    return int(next(group for group in found[-1].groups() if group)) if found else None


def _tests(ends: str) -> tuple[str, bool]:
    """The last line in which a runner counts, and whether it counts failures."""
    if not has_one(ends, _RUNNER_MARKS):
        return "", False
    for runner in RUNNERS:
        if found := runner.matches(ends):
            lines = [match[0] for match in found[-2:]] if runner.name in ("node", "mocha") else [found[-1][0]]
            line = flatten(" ".join(lines)).strip("= ")
            if any(map(str.isdigit, line)) or runner.name == "unittest":
                return line[:160], bool(runner.failed and runner.failed.search(line))
    return "", False


def _error_line(ends: str, *, surely: bool, exit_code: int | None = None) -> str:
    """The line that names the error; else, where the call surely failed, the last line with words."""
    if pruned := _PRUNED.fullmatch(ends):
        return pruned["error"]
    for detector in ERRORS:
        if found := detector.matches(ends):
            return flatten(_around(found[-1][0], detector.literals).removeprefix("E   "))[:LONGEST_ERROR_CHARS]
    if not surely:
        return ""
    # A line that says more than an exit status may name the error, such as the one a result was pruned to.
    lines = [
        line.strip()
        for line in ends.splitlines()
        if any(map(str.isalpha, line)) and (len(line) > _LONGEST_STATUS or not EXIT.matches(line))
    ]
    status = f"exit {exit_code}: " if exit_code else ""
    return status + flatten(lines[-1])[:LONGEST_ERROR_CHARS] if lines else ""


def _around(line: str, literals: Sequence[str]) -> str:
    """The line; of a very long one the part from the last word that names the error on."""
    line = line.strip()
    if len(line) <= LONGEST_ERROR_CHARS:
        return line
    start = max(line.rfind(literal) for literal in literals)
    start = max(line.rfind(mark, 0, start) + 1 for mark in ('"', ".", ">", "{")) if start > 0 else 0
    return line[start:].strip(' "\\')


def _first_line(text: str) -> str:
    return flatten(next((line for line in text.splitlines() if line.strip()), ""))[:LONGEST_ERROR_CHARS]


def _state_lines(ends: str) -> Iterable[tuple[str, str]]:
    for detector in STATES:
        if found := detector.matches(ends):
            # A repository may have several remotes, and one line of anything else is current.
            current = dict.fromkeys(match[0] for match in found) if detector.name == "remote" else (found[-1][0],)
            yield detector.name, flatten("; ".join(current))[:_LONGEST_STATE]
    if files := _worktree_files(ends):
        yield "worktree", files


def _worktree_files(ends: str) -> str:
    """The files that `git status` lists, by section."""
    names: dict[str, list[str]] = {}
    section = ""
    if not has_one(ends, _SECTIONS):
        return ""
    for line in ends.splitlines():
        if not line.strip():
            section = ""
        elif line.strip() in _SECTIONS:
            section = _SECTIONS[line.strip()]
        elif section and line[0] in "\t " and not line.lstrip().startswith("("):
            name = " ".join(line.split()).removeprefix("new file: ").removeprefix("modified: ")
            names.setdefault(section, []).append(name)
    shown = (
        f"{section}: {', '.join(found[:_MOST_NAMES])}"
        + (f" and {more} more" if (more := len(found) - _MOST_NAMES) > 0 else "")
        for section, found in names.items()
    )
    return "; ".join(shown)


def state_values(name: str, line: str) -> dict[str, str]:
    """What a line that states the work says, by the groups of its detector."""
    for detector in STATES:
        if detector.name == name and (found := detector.matches(line)):
            return {key: value for key, value in found[-1].groupdict().items() if value}
    return {}


def _only_looks(command: str) -> bool:
    """Whether the last program of a command line says "no" with exit code 1."""
    last = re_split_commands(command)[-1].split() if command else []
    name = last[0] if last else ""
    return name in _FINDING or (name == "git" and len(last) > 1 and last[1] in ("diff", "grep"))


def is_lookup(command: str) -> bool:
    """Whether a command line only looks something up: its failure is no failure of the work."""
    commands = [part.split() for part in re_split_commands(command)]
    return all(
        words[0].rsplit("/", 1)[-1] in _LOOKING or " ".join(words[:2]) in _LOOKING_COMMANDS
        for words in commands
        if words
    )


def makes_commit(command: str) -> bool:
    """Whether a command line makes a commit, if it succeeds."""
    return any(part.split()[:2] == ["git", "commit"] for part in re_split_commands(command))


def command_key(command: str) -> str:
    """The program of a command line with its first words: what was run, whatever its options are."""
    for part in re_split_commands(command):
        words = [word for word in part.split() if not word.startswith(("-", "2>", ">"))]
        if words and words[0] not in _LOOKING:
            return " ".join(words[:_KEY_WORDS])
    return flatten(command)


def re_split_commands(command: str) -> Sequence[str]:
    """The simple commands of a line, split at its operators; enough to find the last program."""
    parts = command.replace("&&", ";").replace("||", ";").replace("|", ";").replace("\n", ";").split(";")
    return [part for part in parts if part.strip()] or [""]
