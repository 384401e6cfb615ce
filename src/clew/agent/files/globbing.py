"""Patterns for file names, as .gitignore and ripgrep's globs spell them, as regular expressions.

Pure, and only of the standard library: the search of our own (`own_search`) runs this file on its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file."""

    pattern: re.Pattern[str]
    is_exception: bool
    only_folders: bool

    def fits(self, path: str, is_folder: bool) -> bool:
        return (is_folder or not self.only_folders) and self.pattern.fullmatch(path) is not None


def rules_of(lines: Iterable[str]) -> list[Rule]:
    """The rules of an ignore file; a line that means nothing is none."""
    rules = []
    for raw in lines:
        line = raw.rstrip("\r\n")
        line = line if line.endswith("\\ ") else line.rstrip()
        if not line or line.startswith("#"):
            continue
        is_exception = line.startswith("!")
        body = line[1:] if is_exception else line.removeprefix("\\")
        pattern = _compiled(body.rstrip("/"), braces=False)
        if pattern is not None:
            rules.append(Rule(pattern, is_exception, body.endswith("/")))
    return rules


def is_ignored(rules: Sequence[Rule], path: str, is_folder: bool) -> bool | None:
    """What the last rule that fits says; None where none does."""
    for rule in reversed(rules):
        if rule.fits(path, is_folder):
            return not rule.is_exception
    return None


def glob_fits(glob: str, path: str) -> bool:
    """Whether a path, from the searched folder on, fits a glob; a leading `!` turns it round."""
    pattern = _compiled(glob.removeprefix("!").rstrip("/"), braces=True)
    return (pattern is not None and pattern.fullmatch(path) is not None) != glob.startswith("!")


def _compiled(body: str, *, braces: bool) -> re.Pattern[str] | None:
    """A pattern without a slash inside fits a name at any depth."""
    anchored = "/" in body
    text = body.removeprefix("/").removeprefix("./")
    if not text:
        return None
    try:
        return re.compile(("" if anchored else "(?:.*/)?") + _translated(text, braces), re.DOTALL)
    except re.error:
        return None


_PIECE = re.compile(
    r"(?P<above>(?:(?<=/)|^)\*\*/)|(?P<below>/\*\*$)|(?P<stars>\*+)|(?P<one>\?)|(?P<set>\[[!^]?\]?[^\]]*\])|"
    r"(?P<open>\{)|(?P<close>\})|(?P<comma>,)|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_FIXED = {"above": "(?:.*/)?", "below": "/.+", "stars": "[^/]*", "one": "[^/]"}
_BRACES = {"open": "(?:", "close": ")", "comma": "|"}


def _translated(text: str, braces: bool) -> str:
    has_braces = braces and text.count("{") == text.count("}")
    depth, out = 0, []
    for found in _PIECE.finditer(text):
        kind = str(found.lastgroup)
        if kind in _FIXED:
            out.append(_FIXED[kind] if found[0] != "**" or text != "**" else ".*")
        elif kind == "set":
            out.append(_set(found[0]))
        elif has_braces and kind in _BRACES and (kind != "comma" or depth):
            depth += {"open": 1, "close": -1, "comma": 0}[kind]
            out.append(_BRACES[kind])
        else:
            out.append(re.escape(found["escaped"] or found[0]))
    return "".join(out)


def _set(text: str) -> str:
    inner = text[1:-1].replace("\\", "\\\\").replace("[", "\\[")
    is_not = inner[:1] in ("!", "^")
    return f"[{'^/' if is_not else ''}{inner[1:] if is_not else inner}]"
