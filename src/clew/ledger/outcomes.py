"""How a tool call ended, read from its result: exit code, test counts, the error line, the size.

Only both ends of a long result are read, since that is where programs say how they ended. A pruned result is one line,
such as `[make] ran "x" -> exit 1, 64 lines: why (whole: m9)`: this file writes that line and reads it back.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from clew.ledger.extract import COLOUR, shorten
from clew.ledger.readable import lines_shown
from clew.ledger.requests import GroupedWords, has_one
from clew.ledger.spans import ROUTINE_LINE
from clew.ledger.tools import Verb, found_by_exit_code, target_of, verb_of
from clew.messages import ToolCall, arguments_of_call, name_of_call

_START_CHARS = 400
_END_CHARS = 1_600
_LONGEST_ERROR = 300

_EXIT = re.compile(
    r"<returncode>(-?\d+)"
    r"|\"?\b[Ee]xit[_ ]?(?:[Cc]ode|status)\"?\s*[:=]?\s*(-?\d+)"
    r"|\b[Ee]xited with (?:code |status )?(-?\d+)"
    r"|\b[Rr]eturn ?code[:= ]+(-?\d+)"
    r"|\[exit (-?\d+)\]"
)
# The same, each beginning with a literal, which makes it as fast as a search for that literal.
_EXITS_ANYWHERE = (
    re.compile(
        r"xit(?<=\b[Ee]xit)(?:[_ ]?(?:[Cc]ode|status)[\">]?\s*[:=]?\s*(-?\d+)\b|ed with (?:code |status )?(-?\d+)\b)"
        r"|xit(?<=\[exit) (-?\d+)\]"
    ),
    re.compile(r"eturn(?:(?<=<return)code>(-?\d+)|(?<=\b[Rr]eturn) ?code[:= ]+(-?\d+))"),
)
# A line that says only how a command ended, which the exit code says already.
_ONLY_EXIT = re.compile(
    r"[\[(<\s]*(?:(?:the )?(?:command|process|shell|program|script|error)[: ]+)?"
    rf"(?:(?:has )?(?:failed|finished|completed) +)?(?:with +)?(?:{_EXIT.pattern})[\])>.\s]*(?:</returncode>)?\s*$",
    re.IGNORECASE,
)
_COUNT = re.compile(r"\b(\d+) (?:tests? )?(passed|failed|errors?|failures?|skipped|xfailed|xpassed)\b")
# A line that holds nothing but counts, as runners end with one: between rules, with the time, or with a known opening.
_COUNTED = (
    r"\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|expected to fail|exceptions?|flaky)"
)
_TOOK = r"(?: in |\()\d[\d.:]* ?(?:ms|m|s|seconds|minutes)\b\)?(?: \([\d:]+\))?"
_COUNTS_LINE = re.compile(
    rf"(?P<opening>=+ |(?:=+ )?tests finished: |(?:ok|FAILED) \| |Summary \[ *[\d.]+s\] +\d+ tests? run: )?"
    rf"(?P<counts>{_COUNTED}(?:(?:, | \| |; ){_COUNTED})*),?(?P<took> ?{_TOOK})?[ =]*\Z"
)
_COUNTED_APART = re.compile(r"(\d+) ([a-z ]+)")
_CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)
_JEST = re.compile(r"^[ \t]*Tests:?\s+(?=\d)(.*)$", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
_UNITTEST_BAD = re.compile(r"^FAILED \(((?:failures|errors)=[^)]*)\)", re.MULTILINE)
_GO_TEST = re.compile(r"^[ \t]*--- (PASS|FAIL): ", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^(ok|FAIL)[ ]*\t\S+\s+(?:[\d.]+s|\(cached\)|\[build failed\])", re.MULTILINE)
_MOCHA = re.compile(r"^[ \t]*(\d+) (passing|failing)(?: \([\d.]+m?s?\))?\s*$", re.MULTILINE)
_RSPEC = re.compile(r"^(\d+) examples?, (\d+) failures?\b", re.MULTILINE)
_SUREFIRE = re.compile(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+)")
# Plain strings are looked for first, which is many times as fast as a pattern; before several of them what they share.
_ERROR_WORDS = (
    ("rror", ("Error", "error:", "error[", " error ")),
    ("Exception", ()),
    ("fatal:", ()),
    ("FATAL", ()),
    ("ERR", ("ERROR:", "npm ERR!")),
    ("panic", ("panic:", "panicked")),
    ("FAIL", ("FAILED", "--- FAIL")),
    ("\nE  ", ()),
)
ERROR_PHRASES = (
    "command not found", "No such file", "Permission denied", "not recognized as", "timed out", "Segmentation fault",
)  # fmt: skip
_ERROR_LINE = re.compile(
    r"[ \t>E]*(?:[\w.]*(?:Error|Exception|DID NOT RAISE)\b|error(?:\[\w+\])?|fatal|FATAL|ERROR|panic|npm ERR!)\s?[:!]"
    r"|FAILED [^\s(]+|E +(?:[\w.]*(?:Error|Exception)\b|assert|Failed: )"
    r"|[^\s:]+[:(]\d+(?:[:,]\d+)?[:)]*\s+(?:fatal )?error\b"  # file:line:column: error, as compilers say it
    r"|\s*--- FAIL: |test \S+ \.\.\. FAILED|thread '.*' panicked"
)
_PYTEST_MARK = re.compile(r"^E\s+")
_WHOLE_ERROR = re.compile(
    r"\s*(?:<tool_use_error>|Error(?:[:!]| \w+ing\b|$)|error:|ERROR\b|Failed(?:[:!]| to\b)|failed to|Exception\b"
    r"|Traceback|File (?:does not exist|not found|content \(\d+ tokens\) exceeds)\b|ENOENT: |No such file\b)"
)
# Some tools give the result of a command as one JSON object.
_LONGEST_OBJECT, _OBJECT_TEXTS = 200_000, ("output", "stdout", "stderr", "error")


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a tool call ended. `failed` is None when the result does not say."""

    exit_code: int | None
    tests: str
    error: str
    lines: int
    chars: int
    failed: bool | None

    def describe(self) -> str:
        """In a few words: `exit 1, 2 failed, 14 passed`, or with the number of lines where no tests were counted."""
        ended = self.exit_and_tests() or ("failed" if self.failed else "")
        if self.lines > 1 and not self.tests:
            return f"{ended}, {self.lines:,} lines" if ended else f"{self.lines:,} lines"
        return ended

    def exit_and_tests(self) -> str:
        """The exit code and the test counts, as far as the result says them."""
        code = f"exit {self.exit_code}" if self.exit_code is not None else ""
        return ", ".join(filter(None, (code, self.tests)))


def read_outcome(result: str, *, is_error: bool = False, command: str = "") -> CallOutcome:
    """How a command or an unknown tool ended, by its result."""
    ends = both_ends(_printed_text(result))
    if "[0m" in ends:
        ends = COLOUR.sub("", ends)
    exit_code = _exit_code(both_ends(result))
    tests = _tests(ends)
    failed: bool | None = None
    if exit_code and command and found_by_exit_code(command, exit_code) and _shows_something(ends):
        failed = False
    elif is_error or exit_code or _FAILING.search(tests) or (exit_code is None and _WHOLE_ERROR.match(result)):
        failed = True
    elif exit_code == 0 or tests:
        failed = False
    error = "" if failed is False else error_line(ends, surely=bool(failed))
    return CallOutcome(exit_code, tests, error, lines_shown(result), len(result), failed)


def read_content_outcome(result: str, *, is_error: bool = False) -> CallOutcome:
    """How a call ended whose result is content, such as a file: whether it failed, and its size."""
    failed = is_error or bool(_WHOLE_ERROR.match(result[:_START_CHARS]))
    error = error_line(result[:_START_CHARS], surely=True) if failed else ""
    return CallOutcome(None, "", error, lines_shown(result), len(result), failed or None)


def _shows_something(ends: str) -> bool:
    """Whether a program printed what it found, and not only what it complains about."""
    return any(not COMPLAINS.search(line) for line in _contents(ends))


def both_ends(text: str) -> str:
    if len(text) <= _START_CHARS + _END_CHARS:
        return text
    # At the ends of lines, where there are some: a piece of a line would be taken for one.
    start, end = text.rfind("\n", _START_CHARS // 2, _START_CHARS), text.find("\n", -_END_CHARS, -_END_CHARS // 2)
    return f"{text[: start if start > 0 else _START_CHARS]}\n{text[end + 1 if end > 0 else -_END_CHARS :]}"


def _printed_text(result: str) -> str:
    """What the command printed, where its result is a JSON object that holds it."""
    if not result.startswith("{") or len(result) > _LONGEST_OBJECT:
        return result
    try:
        found = json.loads(result)
    except (ValueError, RecursionError):
        return result
    texts = [found[key] for key in _OBJECT_TEXTS if isinstance(found.get(key), str) and found[key]]
    return "\n".join(texts) or result


def _exit_code(ends: str) -> int | None:
    """From the first line where it says nothing else, or the last one named: programs may print exit codes too."""
    found = [match for expression in _EXITS_ANYWHERE for match in expression.finditer(ends)]
    if not found:
        return None
    found.sort(key=re.Match.start)
    chosen = found[0 if _ONLY_EXIT.match(ends.split("\n", 1)[0]) else -1]
    return int(next(group for group in chosen.groups() if group is not None))


def _tests(ends: str) -> str:
    """`2 failed, 14 passed`, by the first test runner that is recognised."""
    present = [shared for shared in _SHARED_BY_RUNNERS if shared in ends]
    for shared, words, count in _RUNNERS if present else ():
        if not shared.isdisjoint(present) and has_one(ends, words) and (counts := count(ends)):
            return counts
    return ""


def _counts_text(counts: Iterable[tuple[str, int]]) -> str:
    """`2 failed, 14 passed`; zeros are left out, except for what passed."""
    return ", ".join(f"{number} {word}" for word, number in counts if number or word == "passed")


def _cargo(ends: str) -> str:
    counts = _CARGO.findall(ends)
    passed, failed = (sum(int(count[group]) for count in counts) for group in (0, 1))
    return _counts_text([("failed", failed), ("passed", passed)]) if counts else ""


def _jest(ends: str) -> str:
    found = _JEST.search(ends)
    return _counts_text((word, int(number)) for number, word in _COUNT.findall(found[1])) if found else ""


def _by_line(ends: str) -> str:
    last = ""
    for raw in ends.splitlines():
        line = raw.strip()
        found = _COUNTS_LINE.match(line) if "ed" in line or "error" in line else None
        if found and (found["opening"] or found["took"]):
            counts = _COUNTED_APART.findall(found["counts"])
            told = [(word.strip(), int(number)) for number, word in counts if "warning" not in word and int(number)]
            last = ", ".join(f"{number} {word}" for word, number in told) or last
    return last


def _rspec(ends: str) -> str:
    found = _RSPEC.search(ends)
    ran, failed = (int(found[1]), int(found[2])) if found else (0, 0)
    return _counts_text([("failed", failed), ("passed", ran - failed)]) if found else ""


def _unittest(ends: str) -> str:
    ran, bad = _UNITTEST.search(ends), _UNITTEST_BAD.search(ends)
    if not ran:
        return ""
    failed = sum(int(number) for number in re.findall(r"(?:failures|errors)=(\d+)", bad[1])) if bad else 0
    return _counts_text([("failed", failed), ("passed", max(0, int(ran[1]) - failed))])


def _go(ends: str) -> str:
    tests, packages = Counter(_GO_TEST.findall(ends)), Counter(_GO_PACKAGE.findall(ends))
    counts = [("failed", tests["FAIL"]), ("passed", tests["PASS"])]
    for word, number in (("failed", packages["FAIL"]), ("passed", packages["ok"])):
        counts.append((f"package{'s' if number > 1 else ''} {word}", number))
    return ", ".join(f"{number} {word}" for word, number in counts if number)


def _mocha(ends: str) -> str:
    words = {"passing": "passed", "failing": "failed"}
    return _counts_text((words[word], int(number)) for number, word in reversed(_MOCHA.findall(ends)))


def _surefire(ends: str) -> str:
    counts = _SUREFIRE.findall(ends)
    if not counts:
        return ""
    ran, failures, errors = map(int, counts[-1])
    return _counts_text([("failed", failures + errors), ("passed", max(0, ran - failures - errors))])


# Each runner with the words that its output has, and with what of those others share: to look for one string in a
# result takes longer than all else that is asked here.
_RUNNERS: tuple[tuple[frozenset[str], GroupedWords, Callable[[str], str]], ...] = (
    (frozenset({"test result: "}), (("test result: ", ()),), _cargo),
    (frozenset({"Tests"}), (("Tests:", ()), ("Tests  ", ())), _jest),
    (
        frozenset({" pass", " fail", " error"}),
        ((" passed", ()), (" failed", ()), (" error", (" error in ", " errors in "))),
        _by_line,
    ),
    (frozenset({"Ran "}), (("Ran ", ()),), _unittest),
    (frozenset({"--- ", "\t"}), (("--- FAIL", ()), ("--- PASS", ()), ("ok  \t", ()), ("FAIL\t", ())), _go),
    (frozenset({" pass", " fail"}), ((" passing", ()), (" failing", ())), _mocha),
    (frozenset({" example"}), ((" examples, ", ()), (" example, ", ())), _rspec),
    (frozenset({"Tests"}), (("Tests run: ", ()),), _surefire),
)
_SHARED_BY_RUNNERS = tuple(dict.fromkeys(shared for own, _, _ in _RUNNERS for shared in sorted(own)))
_FAILING = re.compile(r"\b(?:failed|failures?|errors?|exceptions?)\b")


def error_line(ends: str, *, surely: bool, but: Collection[str] = ()) -> str:
    """The last line that names an error; else, where it has surely failed, the last with content; none of `but`."""
    if ends.startswith(_TOOL_ERROR):
        return next(iter(_contents(ends.removeprefix(_TOOL_ERROR).partition("</")[0])), "")[:_LONGEST_ERROR]
    phrases = [phrase for phrase in ERROR_PHRASES if phrase in ends]
    is_named = bool(phrases) or has_one(ends, _ERROR_WORDS)
    is_powershell = _POWERSHELL_MARK in ends
    if not is_named and not is_powershell and not surely:
        return ""
    lines = ends.splitlines()
    if is_powershell and (says := _powershell_error(lines)):
        return says[:_LONGEST_ERROR]
    for said in named_errors(lines, phrases) if is_named else ():
        if said not in but:
            return said
    if not surely:
        return ""
    last = ""
    for at in range(len(lines) - 1, -1, -1):
        if (not last or COMPLAINS.search(lines[at])) and (text := next(iter(_contents(lines[at])), "")) not in but:
            if COMPLAINS.search(text):
                return _with_next(text, lines[at + 1 :])[:_LONGEST_ERROR]
            last = last or text
    return last[:_LONGEST_ERROR]


def named_errors(lines: Sequence[str], phrases: Collection[str]) -> Iterator[str]:
    """The lines that name an error, the last first."""
    for at in range(len(lines) - 1, -1, -1):
        if _ERROR_LINE.match(lines[at]) or (phrases and any(phrase in lines[at] for phrase in phrases)):
            # Git says last what it could not do, and right before that why.
            if lines[at].startswith("fatal: ") and "error: " in (above := "\n".join(lines[max(0, at - 3) : at])):
                yield from named_errors(above.splitlines(), ())
            yield _with_next(_PYTEST_MARK.sub("", lines[at]).strip(), lines[at + 1 :])[:_LONGEST_ERROR]


def _contents(text: str) -> list[str]:
    """The lines that may say why something failed."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if len(line) > 3 and not any(pattern.match(line) for pattern in _NO_CONTENT)]


def _with_next(line: str, following: Sequence[str]) -> str:
    """The line; with the next one where it only announces that, and one more: `Collected errors:`, `ERRORS:`."""
    more = _contents("\n".join(following))[:2] if line.endswith(":") else []
    return " ".join([line, *(more if more and more[0].endswith(":") else more[:1])])


def _powershell_error(lines: Sequence[str]) -> str:
    """The first line of what PowerShell says before it tells where."""
    for at, line in enumerate(lines):
        if _POWERSHELL_PLACE.match(line):
            said = (text for text in lines[max(0, at - _POWERSHELL_LINES) : at] if _POWERSHELL_SAYS.match(text))
            return next(said, "").strip()
    return ""


_TOOL_ERROR = "<tool_use_error>"
# What a line says that tells why something failed, though it does not begin as an error does.
COMPLAINS = re.compile(
    r"\b(?:fail(?:s|ed|ure)?|errors?|cannot|can't|could not|couldn't|unable|denied|refused|invalid|missing|not found"
    r"|no such|unexpected|unknown|mismatch|abort(?:ed|ing)?)\b",
    re.IGNORECASE,
)
# Behind its message PowerShell tells where and of which category.
_POWERSHELL_MARK = "FullyQualifiedErrorId"
_POWERSHELL_PLACE = re.compile(r"At (?:line|\S+):\d+ char:\d+")
_POWERSHELL_SAYS = re.compile(r"[\w.-]+ : \S")
_POWERSHELL_LINES = 3
_POWERSHELL_TRAILER = re.compile(r"\+\s+(?:CategoryInfo|FullyQualifiedErrorId|[~&.$])|At \S+ char:\d+$|At line:\d+")
# What a program printed of its own source beside an error.
_SOURCE_LINE = re.compile(
    r"(?:print|console\.\w+|log(?:ger)?\.\w+|raise|throw|return|except|catch|if|elif)\b.*[(){};:]$"
)
# Rules and tags.
_NO_CONTENT = (
    re.compile(r"<|[=\-_\s]+$|\((?:no output|no content|empty)\)$"),
    ROUTINE_LINE,
    _POWERSHELL_TRAILER,
    _SOURCE_LINE,
    _ONLY_EXIT,
    re.compile(f".*{_COUNT.pattern}"),
    _GO_PACKAGE,
    _MOCHA,
)


# -- the state of the work ---------------------------------------------------------------------------------------------

_STATE_CHARS = 2_000
PRINTED_COMMIT = re.compile(
    r"^\[(?P<branch>detached HEAD|[\w./-]+)(?: \([^)]*\))? (?P<commit>[0-9a-f]{7,40})\] ?(?P<subject>.*)$", re.MULTILINE
)
_HEAD_IS = re.compile(r"HEAD is now at ([0-9a-f]{7,40})\b")
_ON_BRANCH = re.compile(r"^(?:On branch|Switched to (?:a new )?branch) '?([^\s']+)", re.MULTILINE)
_SERVING_WORDS = (
    ("ning ", ("ning on", "ning at")),
    ("erving ", ("erving HTTP on", "erving on", "erving at")),
    ("tarted server on", ()),
)
# Where it listens is said behind these words: an address or a port.
_SERVING = re.compile(
    r"^.*(?:listening (?:on|at)|running (?:at|on)|serving (?:HTTP )?(?:at|on)|started server on)\b.*?"
    r"(?:\w+://|localhost|\bport\b|:\d{2,5}\b|\.sock\b).*$",
    re.I | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class PrintedCommit:
    """A commit, as git tells of it when it is made."""

    branch: str
    hash: str
    subject: str


def commit_in(text: str) -> PrintedCommit | None:
    """The commit that the end of a result tells of."""
    end = text[-_STATE_CHARS:]
    found = PRINTED_COMMIT.search(end) if "\n[" in end or end.startswith("[") else None
    return PrintedCommit(found["branch"], found["commit"], found["subject"].strip()) if found else None


def head_in(text: str) -> str:
    """The commit that the end of a result says one is at now: after a reset, or where history was written anew."""
    end = text[-_STATE_CHARS:]
    found = _HEAD_IS.search(end) if "HEAD is now at " in end else None
    return found[1] if found else ""


def branch_in(text: str) -> str:
    """The branch that the end of a result says one is on; empty where it says none."""
    end = text[-_STATE_CHARS:]
    found = _ON_BRANCH.search(end) if "branch " in end else None
    return found[1] if found else ""


def serving_in(text: str) -> str:
    """The line at the end of a result that says where something listens; empty where there is none."""
    end = text[-_STATE_CHARS:]
    found = _SERVING.search(end) if has_one(end, _SERVING_WORDS) else None
    return found[0][:160] if found else ""


# -- pruned results ----------------------------------------------------------------------------------------------------

_LONGEST_PRUNED_CHARS = 600
_TARGET_CHARS = 120
_PATH_SEPARATOR = re.compile(r"[/\\](?=.)")
_ERROR_CHARS = 160
_VERB_PHRASES: dict[Verb, str] = {
    "READ": "read",
    "WROTE": "wrote",
    "CHANGED": "changed",
    "RAN": "ran",
    "SEARCHED": "searched for",
    "LISTED": "listed",
    "FETCHED": "fetched",
    "PLANNED": "updated the plan",
    "DELEGATED": "delegated",
    "ASKED": "asked",
    "CALLED": "was called with",
}
_PRUNED = re.compile(r"\[[^\]\n]+\] (?:[a-z ]+(?: \"(?:[^\"\\\n]|\\.)*\")? -> )?(?P<how>[^\n]+?) \(whole: m\d+\)\Z")
_HOW = re.compile(
    r"(?:exit (?P<exit>-?\d+)(?:, )?)?(?P<failed>failed)?(?:, )?(?P<tests>(?:\d+ [a-z ]+(?:, )?)*?)"
    r"(?P<size>[\d,]+ (?:lines|chars))?(?:: (?P<error>.+))?\Z"
)


def outcome_of(verb: Verb, text: str, *, is_error: bool = False, command: str = "") -> CallOutcome:
    """How a call ended, by its result, which may be pruned. `command`: what it ran."""
    pruned = read_pruned(text, command)
    if pruned is not None:
        return pruned
    if verb in ("READ", "SEARCHED", "LISTED", "FETCHED"):
        return read_content_outcome(text, is_error=is_error)
    return read_outcome(text, is_error=is_error, command=command if verb == "RAN" else "")


def result_line(text: str, call: ToolCall | None, number: int, *, is_error: bool = False) -> str:
    """The one line that a result is pruned to: `[terminal] ran "pytest tests/" -> exit 1, 3,000 lines (whole: m18)`."""
    name = name_of_call(call) if call else ""
    verb = verb_of(name)
    whole_target = target_of(name, arguments_of_call(call)) if call else ""
    outcome = outcome_of(verb, text, is_error=is_error, command=whole_target)
    how = outcome.describe() or f"{outcome.chars:,} chars"
    how += f": {shorten(outcome.error, _ERROR_CHARS)}" if outcome.failed and outcome.error else ""
    if call is None:
        return f"[tool] {how} (whole: m{number})"
    target = _shorter_target(whole_target)
    quoted = f" {json.dumps(target, ensure_ascii=False)}" if target else ""
    phrase = _VERB_PHRASES[verb] if target else _VERB_PHRASES[verb].removesuffix(" with")
    return f"[{name}] {phrase}{quoted} -> {how} (whole: m{number})"


def _shorter_target(target: str) -> str:
    """What a call was about in few chars; of a path its end, which is its name."""
    is_path = "://" not in target and not any(char.isspace() for char in target)
    folder = _PATH_SEPARATOR.search(target, len(target) - _TARGET_CHARS + 1) if is_path else None
    if folder is None or len(target) <= _TARGET_CHARS:
        return shorten(target, _TARGET_CHARS)
    return f"…{target[folder.start() :]}"


def read_pruned(text: str, command: str = "") -> CallOutcome | None:
    """How the call ended, by the line of `result_line`; None for any other text."""
    if not text.startswith("[") or not text.endswith(")") or len(text) > _LONGEST_PRUNED_CHARS:
        return None
    line = _PRUNED.match(text)
    how = _HOW.match(line["how"]) if line else None
    if how is None:
        return None
    exit_code, tests, error = how["exit"], how["tests"].rstrip(", "), how["error"] or ""
    failed = bool(how["failed"]) or exit_code not in (None, "0") or bool(error) or "failed" in tests or "error" in tests
    is_known = failed or exit_code is not None or bool(tests)
    lines, chars = _size(how["size"] or "")
    code = None if exit_code is None else int(exit_code)
    if code and not error and lines > 1 and found_by_exit_code(command, code):
        failed = False
    return CallOutcome(code, tests, error, lines, chars, failed if is_known else None)


def _size(text: str) -> tuple[int, int]:
    """Lines and chars."""
    number = int(text.split()[0].replace(",", "")) if text else 0
    return (number, 0) if text.endswith("lines") else (1, number)
