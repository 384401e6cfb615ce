"""Searches of whole folders: what `grep -r` and its like look at, and whether they would show a line of a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from clew.agent.files.file_types import secret_kind
from clew.shell import UNKNOWN

_MAX_ENTRIES = 20_000
_MAX_CHARS = 65_536
_MAX_PATTERN = 500
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", "site-packages", ".tox", ".nox"})
_VALUED = frozenset(
    "-A -B -C -m -e -f -g -t -T -d -D -M --include --exclude --exclude-dir --glob --iglob --type --regexp".split()
)
_REPEATED = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+][^)]*\)[*+{]")
"""A repetition inside a repetition may take for ever to match."""
_CREDENTIAL = re.compile(
    r"AKIA|\bsk-|ghp_|xox[bp]-|PRIVATE KEY|AWS_SECRET|_authToken|(?:password|passwd|secret|token|api.?key)\W{0,6}[=:]"
    r"|(?:password|passwd|secret|token|api.?key|credential)s?\)?\\?\|\(?(?:password|passwd|secret|token|api.?key|credential)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Search:
    """A command that searches files, by its arguments."""

    name: str
    flags: frozenset[str]
    """Long ones, and each letter of short ones: `-rn` is -r and -n."""
    patterns: tuple[str, ...]
    roots: tuple[str, ...]
    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, name: str, texts: list[str]) -> Search:
        flags: set[str] = set()
        values: dict[str, list[str]] = {}
        plain: list[str] = []
        at = 0
        while at < len(texts):
            text = texts[at]
            flag, equals, value = text.partition("=")
            if text == "--":
                plain += texts[at + 1 :]
                break
            if text.startswith("--"):
                flags.add(flag)
                if equals:
                    values.setdefault(flag, []).append(value)
            elif text.startswith("-") and len(text) > 1:
                flags.update(f"-{letter}" for letter in text[1:])
                flag = f"-{text[-1]}"
                if name == "rg" and re.fullmatch(r"-u{2,3}", text):
                    flags.add("--hidden")
            else:
                plain.append(text)
            if not equals and text.startswith("-") and flag in _VALUED and at + 1 < len(texts):
                at += 1
                values.setdefault(flag, []).append(texts[at])
            at += 1
        patterns = [*values.get("-e", []), *values.get("--regexp", [])]
        if not patterns and not flags & {"-f", "--file", "--files"}:
            patterns, plain = plain[:1], plain[1:]
        globs = [
            *values.get("--include", []),
            *values.get("-g", []),
            *values.get("--glob", []),
            *values.get("--iglob", []),
        ]
        left_out = [*values.get("--exclude", []), *values.get("--exclude-dir", [])]
        included = [glob for glob in globs if not glob.startswith("!")]
        if values.get("-t") or values.get("--type"):
            included.append("*.of-a-type")
        return cls(
            name,
            frozenset(flags),
            tuple(patterns),
            tuple(plain) or (".",),
            tuple(included),
            (*left_out, *(glob[1:] for glob in globs if glob.startswith("!"))),
        )

    @property
    def is_recursive(self) -> bool:
        if self.name in {"rg", "ag", "ack", "ugrep"}:
            return True
        return bool(self.flags & {"-r", "-R", "--recursive", "--dereference-recursive"})

    @property
    def sees_hidden(self) -> bool:
        """`rg` and its like leave out files that begin with a dot, unless told otherwise."""
        if self.name in {"rg", "ag"}:
            return bool(self.flags & {"--hidden", "-.", "-u"} - ({"-u"} if self.name == "rg" else set()))
        return self.name != "ack"

    @property
    def only_names(self) -> bool:
        return bool(self.flags & {"-l", "-L", "-c", "-q", "--files", "--quiet", "--count", "--files-with-matches"})

    @property
    def hunts_credentials(self) -> bool:
        return any(_CREDENTIAL.search(pattern) for pattern in self.patterns)

    def leaves_out(self, name: str) -> bool:
        parts = [name, *name.split("/")]
        return any(fnmatchcase(part, glob.rstrip("/")) for part in parts for glob in self.excluded)


def secret_files_below(folder: str) -> Iterator[str]:
    """Files below a folder that usually hold secrets, nearest first; folders of others' code are left out."""
    looked_at = 0
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        looked_at += len(files) + len(folders)
        for name in files:
            path = os.path.join(here, name)  # noqa: PTH118
            if secret_kind(os.path.relpath(path, folder)):
                yield path
        if looked_at > _MAX_ENTRIES:
            return


def shows_a_line_of(search: Search, path: str) -> bool:
    """Whether a search would print a line of a file; where that cannot be told, it would."""
    if "-v" in search.flags or "--invert-match" in search.flags:
        return True
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_CHARS)
        found = [_compiled(search, pattern) for pattern in search.patterns]
    except (OSError, re.error, ValueError):
        return True
    return not found or any(pattern.search(line) for pattern in found for line in text.splitlines())


def _compiled(search: Search, pattern: str) -> re.Pattern[str]:
    """The pattern as Python reads it. Raises re.error or ValueError where it cannot be told what it matches."""
    is_fixed = search.name == "fgrep" or bool(search.flags & {"-F", "--fixed-strings"})
    if UNKNOWN in pattern or len(pattern) > _MAX_PATTERN:
        raise ValueError("not known")
    if is_fixed:
        pattern = re.escape(pattern)
    else:
        if search.name == "grep" and not search.flags & {"-E", "-P", "--extended-regexp", "--perl-regexp"}:
            # In a basic expression the brackets and signs mean themselves, unless escaped.
            pattern = re.sub(
                r"\\?[(){}|+?]", lambda found: found[0][1:] if len(found[0]) == 2 else f"\\{found[0]}", pattern
            )
        if _REPEATED.search(pattern):
            raise ValueError("may take long")
        pattern = pattern.replace("[[:space:]]", r"\s").replace("[:space:]", r"\s").replace("[:alnum:]", r"\w")
    ignores_case = bool(search.flags & {"-i", "--ignore-case", "-S", "--smart-case"})
    return re.compile(pattern, re.IGNORECASE if ignores_case else 0)
