"""A result that was pruned to one line says how its call ended: `[make] ran "x" -> exit 1, 64 lines: why (whole: m9)`.

Where the original is no longer there, as in a conversation that was compacted elsewhere, this line is all there is.
"""

from __future__ import annotations

import re

from clew.ledger.outcomes import Outcome, read_outcome, read_size
from clew.ledger.tools import Verb

_LONGEST = 600
_LINE = re.compile(r"\[[^\]\n]+\] (?:[a-z ]+(?: \"(?:[^\"\\\n]|\\.)*\")? -> )?(?P<how>[^\n]+?) \(whole: m\d+\)\Z")
_HOW = re.compile(
    r"(?:exit (?P<exit>-?\d+)(?:, )?)?(?P<failed>failed)?(?:, )?(?P<tests>(?:\d+ [a-z ]+(?:, )?)*?)"
    r"(?P<size>[\d,]+ (?:lines|chars))?(?:: (?P<error>.+))?\Z"
)


def outcome_of(verb: Verb, text: str, *, is_error: bool = False) -> Outcome:
    """How a call ended, by its result: whole or pruned; the text of a file is not about its own end."""
    pruned = read_pruned(text)
    if pruned is not None:
        return pruned
    read = read_size if verb in ("READ", "SEARCHED", "LISTED", "FETCHED") else read_outcome
    return read(text, is_error=is_error)


def read_pruned(text: str) -> Outcome | None:
    """How the call ended, by the line that its result was pruned to; None for any other text."""
    if not text.startswith("[") or not text.endswith(")") or len(text) > _LONGEST:
        return None
    line = _LINE.match(text)
    how = _HOW.match(line["how"]) if line else None
    if how is None:
        return None
    exit_code, tests, error = how["exit"], how["tests"].rstrip(", "), how["error"] or ""
    failed = bool(how["failed"]) or exit_code not in (None, "0") or bool(error) or "failed" in tests or "error" in tests
    says_how = failed or exit_code is not None or bool(tests)
    lines, chars = _size(how["size"] or "")
    code = None if exit_code is None else int(exit_code)
    return Outcome(code, tests, error, lines, chars, failed if says_how else None)


def _size(told: str) -> tuple[int, int]:
    number = int(told.split()[0].replace(",", "")) if told else 0
    return (number, 0) if told.endswith("lines") else (1, number)
