"""The search where ripgrep is missing: a program that prints what it finds as ripgrep does with --json.

It runs as a child process with the standard library alone, so that a regular expression that takes for ever can be
ended from outside. It skips what .gitignore names, binary files and links.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_PIECE_BYTES = 1 << 20
_SNIFFED_BYTES = 8_192


FolderRules = list[tuple[str, list["IgnoreRule"]]]


def walk_files(folder: str, skipped: frozenset[str], above: FolderRules | None = None) -> Iterator[str]:
    """The files below a folder, in the order of their names, without those that are ignored."""
    rules = [*(_rules_above(folder) if above is None else above), (folder, _rules_in(folder))]
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in skipped or _ignored(rules, entry.path, is_folder):
            continue
        if is_folder:
            yield from walk_files(entry.path, skipped, rules)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def _ignored(rules: FolderRules, path: str, is_folder: bool) -> bool:
    for folder, folder_rules in reversed(rules):
        answer = is_ignored(folder_rules, os.path.relpath(path, folder), is_folder) if folder_rules else None
        if answer is not None:
            return answer
    return False


def _rules_in(folder: str) -> list[IgnoreRule]:
    try:
        return parse_ignore_rules(Path(folder, ".gitignore").read_text("utf-8", "replace").splitlines())
    except OSError:
        return []


def _rules_above(start: str) -> FolderRules:
    return [(str(folder), _rules_in(str(folder))) for folder in reversed(Path(start).parents)]


def numbered_lines(file: BinaryIO, is_named: bool) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file, very long ones in pieces. A binary file is searched only if it was named."""
    head = file.read(_SNIFFED_BYTES)
    file.seek(0)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from enumerate(file.read().decode("utf-16", "replace").split("\n"), 1)
    elif b"\0" not in head or is_named:
        number = 1
        while piece := file.readline(_PIECE_BYTES):
            yield number, piece.decode("utf-8", "replace")
            number += piece.endswith(b"\n")


def matches_in(path: str, pattern: re.Pattern[str], request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What ripgrep prints about a file: matching lines, with lines around them."""
    before: deque[tuple[int, str]] = deque(maxlen=request["context"])
    after = 0
    with Path(path).open("rb") as file:
        for number, line in numbered_lines(file, request["is_file"]):
            found = pattern.search(line.rstrip("\r\n"))
            if found is None and not after:
                before.append((number, line))
                continue
            if found is None:
                after -= 1
                yield _event("context", path, number, line)
                continue
            yield from (_event("context", path, *earlier) for earlier in before)
            before.clear()
            yield _event("match", path, number, line, len(line[: found.start()].encode()))
            after = request["context"]
            if request["first_only"]:
                return


def _event(kind: str, path: str, number: int, line: str, start: int | None = None) -> dict[str, Any]:
    submatches = [] if start is None else [{"start": start}]
    data = {"path": {"text": path}, "line_number": number, "lines": {"text": line}, "submatches": submatches}
    return {"type": kind, "data": data}


@dataclass(frozen=True)
class IgnoreRule:
    """One line of an ignore file."""

    pattern: re.Pattern[str]
    is_exception: bool
    only_folders: bool

    def matches(self, path: str, is_folder: bool) -> bool:
        return (is_folder or not self.only_folders) and self.pattern.fullmatch(path) is not None


def parse_ignore_rules(lines: Iterable[str]) -> list[IgnoreRule]:
    """The rules of an ignore file; lines that mean nothing are skipped."""
    rules = []
    for raw in lines:
        line = raw.rstrip("\r\n")
        line = line if line.endswith("\\ ") else line.rstrip()
        if not line or line.startswith("#"):
            continue
        is_exception = line.startswith("!")
        body = line.removeprefix("!")
        pattern = _compiled(body.removesuffix("/"), braces=False)
        if pattern is not None:
            rules.append(IgnoreRule(pattern, is_exception, body.endswith("/")))
    return rules


def is_ignored(rules: Sequence[IgnoreRule], path: str, is_folder: bool) -> bool | None:
    """What the last rule that matches says; None where none does."""
    for rule in reversed(rules):
        if rule.matches(path, is_folder):
            return not rule.is_exception
    return None


def glob_matches(glob: str, path: str) -> bool:
    """Whether a path, relative to the searched folder, matches a glob; a leading `!` negates it."""
    pattern = _compiled(glob.removeprefix("!").rstrip("/"), braces=True)
    return (pattern is not None and pattern.fullmatch(path) is not None) != glob.startswith("!")


def _compiled(body: str, *, braces: bool) -> re.Pattern[str] | None:
    """A pattern without a slash inside matches a name at any depth."""
    anchored = "/" in body
    text = body.removeprefix("/").removeprefix("./")
    if not text:
        return None
    try:
        return re.compile(("" if anchored else "(?:.*/)?") + _translated(text, braces), re.DOTALL)
    except re.error:
        return None


_PATTERN_PIECE = re.compile(
    r"(?P<above>(?:(?<=/)|^)\*\*/)|(?P<below>/\*\*$)|(?P<stars>\*+)|(?P<one>\?)|(?P<set>\[[!^]?\]?[^\]]*\])|"
    r"(?P<open>\{)|(?P<close>\})|(?P<comma>,)|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_FIXED = {"above": "(?:.*/)?", "below": "/.+", "stars": "[^/]*", "one": "[^/]"}
_BRACES = {"open": "(?:", "close": ")", "comma": "|"}


def _translated(text: str, braces: bool) -> str:
    has_braces = braces and text.count("{") == text.count("}")
    depth, out = 0, []
    for found in _PATTERN_PIECE.finditer(text):
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


def main(request: dict[str, Any]) -> None:
    write = sys.stdout.write
    paths: Iterator[str] = (
        iter([request["path"]]) if request["is_file"] else walk_files(request["path"], frozenset(request["skipped"]))
    )
    if request["glob"] and not request["is_file"]:
        paths = (path for path in paths if glob_matches(request["glob"], os.path.relpath(path, request["path"])))
    if request["names"]:
        for path in paths:
            write(path + "\0")
        return
    pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    for path in paths:
        try:
            for event in matches_in(path, pattern, request):
                write(json.dumps(event) + "\n")
        except OSError:
            continue
    write(json.dumps({"type": "summary", "data": {}}) + "\n")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    main(json.loads(sys.argv[1]))
