"""How a tool call ended, read off its result: exit code, test counts, the error line, the size.

Looks at both ends of a long result only: that is where programs say how they ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_START_CHARS = 400
_END_CHARS = 1_600
_LONGEST_ERROR = 300

_EXIT_WORDS = ("exit", "Exit", "returncode", "return code", "Return code")
_EXIT = re.compile(
    r"<returncode>(-?\d+)"
    r"|\"?\b[Ee]xit[_ ]?(?:[Cc]ode|status)\"?\s*[:=]?\s*(-?\d+)"
    r"|\b[Ee]xited with (?:code )?(-?\d+)"
    r"|\b[Rr]eturn ?code[:= ]+(-?\d+)"
    r"|\[exit (-?\d+)\]"
)
_COUNT = re.compile(r"\b(\d+) (passed|failed|errors?|failures?|skipped|xfailed|tests? passed|tests? failed)\b")
_UNITTEST = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
_UNITTEST_BAD = re.compile(r"^FAILED \(((?:failures|errors)=[^)]*)\)", re.MULTILINE)
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
    "FAILED ",
    "\nE  ",
)
_ERROR_PHRASES = (
    "command not found", "No such file", "Permission denied", "not recognized as", "timed out", "Segmentation fault",
)  # fmt: skip
_ERROR_LINE = re.compile(
    r"[ \t>E]*(?:[\w.]*(?:Error|Exception|DID NOT RAISE)\b|error(?:\[\w+\])?|fatal|FATAL|ERROR|panic|npm ERR!)\s?[:!]"
    r"|FAILED \S+|E +(?:[\w.]*(?:Error|Exception)\b|assert|Failed: )"
)
_LEAD = re.compile(r"^E\s+")
_SAYS_LITTLE = re.compile(r"<|\[exit|[=\-_\s]+$|Exit code")
_WHOLE_ERROR = re.compile(r"\s*(?:<tool_use_error>|Error\b|error:|ERROR|Failed|failed to|Exception|Traceback)")


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
        parts = [f"exit {self.exit_code}"] if self.exit_code is not None else []
        if self.tests:
            parts.append(self.tests)
        if not parts and self.failed:
            parts.append("failed")
        if self.lines > 1 and not self.tests:
            parts.append(f"{self.lines:,} lines")
        return ", ".join(parts)


def read_outcome(result: str, *, is_error: bool = False) -> Outcome:
    """What the result of a call says about its end."""
    ends = result
    if len(result) > _START_CHARS + _END_CHARS:
        ends = f"{result[:_START_CHARS]}\n{result[-_END_CHARS:]}"
    exit_code = _exit_code(ends)
    tests = _tests(ends)
    error = ""
    failed: bool | None = None
    if is_error or exit_code not in (None, 0) or "failed" in tests or "error" in tests or _WHOLE_ERROR.match(result):
        failed = True
    elif exit_code == 0 or tests:
        failed = False
    if failed is not False:
        error = _error_line(ends, surely=bool(failed))
    return Outcome(exit_code, tests, error, result.count("\n") + 1 if result else 0, len(result), failed)


def read_size(result: str, *, is_error: bool = False) -> Outcome:
    """The same for a result whose text is not about its own end, such as a file: whether it failed, and its size."""
    failed = is_error or bool(_WHOLE_ERROR.match(result[:_START_CHARS]))
    error = _error_line(result[:_START_CHARS], surely=True) if failed else ""
    return Outcome(None, "", error, result.count("\n") + 1 if result else 0, len(result), failed or None)


def _exit_code(ends: str) -> int | None:
    found = _EXIT.search(ends) if any(word in ends for word in _EXIT_WORDS) else None
    return int(next(group for group in found.groups() if group is not None)) if found else None


def _tests(ends: str) -> str:
    if not any(word in ends for word in (" passed", " failed", "Ran ", " error", " failure")):
        return ""
    last = ""
    for line in ends.splitlines():
        counts = _COUNT.findall(line)
        if counts and ("passed" in line or "failed" in line or " in " in line):
            last = ", ".join(f"{number} {word.removeprefix('tests ').removeprefix('test ')}" for number, word in counts)
    if last:
        return last
    ran, bad = _UNITTEST.search(ends), _UNITTEST_BAD.search(ends)
    if not ran:
        return ""
    return f"{ran[1]} tests, {bad[1].replace('=', ' ')} failed" if bad else f"{ran[1]} tests passed"


def _error_line(ends: str, *, surely: bool) -> str:
    """The last line that names an error; where the call surely failed and none does, its last line that says much."""
    phrases = [phrase for phrase in _ERROR_PHRASES if phrase in ends]
    if phrases or any(word in ends for word in _ERROR_WORDS):
        for line in reversed(ends.splitlines()):
            if _ERROR_LINE.match(line) or any(phrase in line for phrase in phrases):
                return _LEAD.sub("", line).strip()[:_LONGEST_ERROR]
    if not surely:
        return ""
    said = (line.strip() for line in reversed(ends.splitlines()))
    return next((line[:_LONGEST_ERROR] for line in said if len(line) > 3 and not _SAYS_LITTLE.match(line)), "")
