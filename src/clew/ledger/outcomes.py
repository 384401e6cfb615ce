"""How a tool call ended, read off its result: exit code, test counts, the error line, the size.

Looks at both ends of a long result only: that is where programs say how they ended.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_START_CHARS = 400
_END_CHARS = 1_600
_LONGEST_ERROR = 300

_EXIT_WORDS = ("exit", "Exit", "returncode", "return code", "Return code")
_EXIT = re.compile(
    r"<returncode>(-?\d+)"
    r"|\"?\b[Ee]xit[_ ]?(?:[Cc]ode|status)\"?\s*[:=]?\s*(-?\d+)"
    r"|\b[Ee]xited with (?:code |status )?(-?\d+)"
    r"|\b[Rr]eturn ?code[:= ]+(-?\d+)"
    r"|\[exit (-?\d+)\]"
)
# A line that says how a command ended and nothing else; the number beside it says it better.
_ONLY_EXIT = re.compile(
    r"[\[(<\s]*(?:(?:the )?(?:command|process|shell|program|script|error)[: ]+)?"
    rf"(?:(?:has )?(?:failed|finished|completed) +)?(?:with +)?(?:{_EXIT.pattern})[\])>.\s]*(?:</returncode>)?\s*$",
    re.IGNORECASE,
)
_COUNT = re.compile(r"\b(\d+) (?:tests? )?(passed|failed|errors?|failures?|skipped|xfailed|xpassed)\b")
_TIMED = re.compile(r" in \d[\d.]*\s?m?s\b")
_CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)
_JEST = re.compile(r"^\s*Tests:?\s+(?=\d)(.*)$", re.MULTILINE)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
_UNITTEST_BAD = re.compile(r"^FAILED \(((?:failures|errors)=[^)]*)\)", re.MULTILINE)
_GO_TEST = re.compile(r"^\s*--- (PASS|FAIL): ", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^(ok|FAIL)[ ]*\t\S+\s+(?:[\d.]+s|\(cached\)|\[build failed\])", re.MULTILINE)
_MOCHA = re.compile(r"^\s*(\d+) (passing|failing)\b", re.MULTILINE)
_SUREFIRE = re.compile(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+)")
# The words are looked for one by one first: a search for a plain string is many times quicker than any pattern.
_ERROR_WORDS = (
    "Error",
    "Exception",
    "error:",
    "error[",
    "fatal:",
    "FATAL",
    "ERROR:",
    "panic:",
    "npm ERR!",
    "FAILED",
    "--- FAIL",
    " error ",
    "panicked",
    "\nE  ",
)
_ERROR_PHRASES = (
    "command not found", "No such file", "Permission denied", "not recognized as", "timed out", "Segmentation fault",
)  # fmt: skip
_ERROR_LINE = re.compile(
    r"[ \t>E]*(?:[\w.]*(?:Error|Exception|DID NOT RAISE)\b|error(?:\[\w+\])?|fatal|FATAL|ERROR|panic|npm ERR!)\s?[:!]"
    r"|FAILED [^\s(]+|E +(?:[\w.]*(?:Error|Exception)\b|assert|Failed: )"
    r"|[^\s:]+[:(]\d+(?:[:,]\d+)?[:)]*\s+(?:fatal )?error\b"  # file:line:column: error, as compilers say it
    r"|\s*--- FAIL: |test \S+ \.\.\. FAILED|thread '.*' panicked"
)
_LEAD = re.compile(r"^E\s+")
_WHOLE_ERROR = re.compile(
    r"\s*(?:<tool_use_error>|Error(?:[:!]| \w+ing\b|$)|error:|ERROR\b|Failed(?:[:!]| to\b)|failed to|Exception\b"
    r"|Traceback)"
)
# Some programs give the result of a command as one JSON object.
_LONGEST_OBJECT = 200_000
_OBJECT_TEXTS = ("output", "stdout", "stderr", "error")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended. `failed` is None when the result does not say."""

    exit_code: int | None
    tests: str
    error: str
    lines: int
    chars: int
    failed: bool | None

    def phrase(self) -> str:
        """In a few words: `exit 1, 2 failed, 14 passed`."""
        ended = self.ended() or ("failed" if self.failed else "")
        if self.lines > 1 and not self.tests:
            return f"{ended}, {self.lines:,} lines" if ended else f"{self.lines:,} lines"
        return ended

    def ended(self) -> str:
        """What the result itself says of its end."""
        code = f"exit {self.exit_code}" if self.exit_code is not None else ""
        return ", ".join(filter(None, (code, self.tests)))


def read_outcome(result: str, *, is_error: bool = False) -> Outcome:
    """What the result of a call says about its end."""
    ends = _both_ends(_as_printed(result))
    exit_code = _exit_code(_both_ends(result))
    tests = _tests(ends)
    failed: bool | None = None
    if is_error or exit_code or _FAILING.search(tests) or (exit_code is None and _WHOLE_ERROR.match(result)):
        failed = True
    elif exit_code == 0 or tests:
        failed = False
    error = "" if failed is False else _error_line(ends, surely=bool(failed))
    return Outcome(exit_code, tests, error, result.count("\n") + 1 if result else 0, len(result), failed)


def read_size(result: str, *, is_error: bool = False) -> Outcome:
    """The same for a result whose text is not about its own end, such as a file: whether it failed, and its size."""
    failed = is_error or bool(_WHOLE_ERROR.match(result[:_START_CHARS]))
    error = _error_line(result[:_START_CHARS], surely=True) if failed else ""
    return Outcome(None, "", error, result.count("\n") + 1 if result else 0, len(result), failed or None)


def _both_ends(text: str) -> str:
    if len(text) <= _START_CHARS + _END_CHARS:
        return text
    return f"{text[:_START_CHARS]}\n{text[-_END_CHARS:]}"


def _as_printed(result: str) -> str:
    """What the command printed, where its result is an object with that in it."""
    if not result.startswith("{") or len(result) > _LONGEST_OBJECT:
        return result
    try:
        found = json.loads(result)
    except (ValueError, RecursionError):
        return result
    texts = [found[key] for key in _OBJECT_TEXTS if isinstance(found.get(key), str) and found[key]]
    return "\n".join(texts) or result


def _exit_code(ends: str) -> int | None:
    """As said on the first line or, since a program may print of exit codes too, as said last."""
    if not any(word in ends for word in _EXIT_WORDS):
        return None
    found = list(_EXIT.finditer(ends))
    if not found:
        return None
    said = found[0 if _ONLY_EXIT.match(ends.split("\n", 1)[0]) else -1]
    return int(next(group for group in said.groups() if group is not None))


def _tests(ends: str) -> str:
    """`2 failed, 14 passed`, by whichever runner counted."""
    for words, count in _RUNNERS:
        for word in words:
            if word in ends:
                if told := count(ends):
                    return told
                break
    return ""


def _told(counts: Iterable[tuple[str, int]]) -> str:
    """Failures are told where there are some; what passed also when it is nothing."""
    return ", ".join(f"{number} {word}" for word, number in counts if number or word == "passed")


def _cargo(ends: str) -> str:
    counts = _CARGO.findall(ends)
    passed, failed = (sum(int(one[place]) for one in counts) for place in (0, 1))
    return _told([("failed", failed), ("passed", passed)]) if counts else ""


def _jest(ends: str) -> str:
    found = _JEST.search(ends)
    return _told((word, int(number)) for number, word in _COUNT.findall(found[1])) if found else ""


def _by_line(ends: str) -> str:
    last = ""
    for line in ends.splitlines():
        counts = _COUNT.findall(line)
        if counts and ("passed" in line or "failed" in line or _TIMED.search(line)):
            last = _told((word, int(number)) for number, word in counts if int(number)) or last
    return last


def _unittest(ends: str) -> str:
    ran, bad = _UNITTEST.search(ends), _UNITTEST_BAD.search(ends)
    if not ran:
        return ""
    failed = sum(int(number) for number in re.findall(r"(?:failures|errors)=(\d+)", bad[1])) if bad else 0
    return _told([("failed", failed), ("passed", max(0, int(ran[1]) - failed))])


def _go(ends: str) -> str:
    tests, packages = Counter(_GO_TEST.findall(ends)), Counter(_GO_PACKAGE.findall(ends))
    counts = [("failed", tests["FAIL"]), ("passed", tests["PASS"])]
    for word, number in (("failed", packages["FAIL"]), ("passed", packages["ok"])):
        counts.append((f"package{'s' if number > 1 else ''} {word}", number))
    return ", ".join(f"{number} {word}" for word, number in counts if number)


def _mocha(ends: str) -> str:
    words = {"passing": "passed", "failing": "failed"}
    return _told((words[word], int(number)) for number, word in reversed(_MOCHA.findall(ends)))


def _surefire(ends: str) -> str:
    counts = _SUREFIRE.findall(ends)
    if not counts:
        return ""
    ran, failures, errors = map(int, counts[-1])
    return _told([("failed", failures + errors), ("passed", max(0, ran - failures - errors))])


# A runner is asked where the text has one of its words.
_RUNNERS: tuple[tuple[tuple[str, ...], Callable[[str], str]], ...] = (
    (("test result: ",), _cargo),
    (("Tests:", "Tests  "), _jest),
    ((" passed", " failed", " error in ", " errors in "), _by_line),
    (("Ran ",), _unittest),
    (("--- FAIL", "--- PASS", "ok  \t", "FAIL\t"), _go),
    ((" passing", " failing"), _mocha),
    (("Tests run: ",), _surefire),
)
_FAILING = re.compile(r"\b(?:failed|failures?|errors?)\b")


def _error_line(ends: str, *, surely: bool) -> str:
    """The last line that names an error; where the call surely failed and none does, its last line that says much."""
    phrases = [phrase for phrase in _ERROR_PHRASES if phrase in ends]
    if phrases or any(word in ends for word in _ERROR_WORDS):
        for line in reversed(ends.splitlines()):
            if _ERROR_LINE.match(line) or any(phrase in line for phrase in phrases):
                return _LEAD.sub("", line).strip()[:_LONGEST_ERROR]
    if not surely:
        return ""
    for line in reversed(ends.splitlines()):
        said = line.strip()
        if len(said) > 3 and not any(pattern.match(said) for pattern in _SAY_LITTLE):
            return said[:_LONGEST_ERROR]
    return ""


_SAY_LITTLE = (re.compile(r"<|[=\-_\s]+$"), _ONLY_EXIT, re.compile(f".*{_COUNT.pattern}"), _GO_PACKAGE, _MOCHA)
