"""The search where ripgrep is missing: a program of its own, which says what it finds as ripgrep does with --json.

It runs as a child, on the standard library alone, so that a pattern that never ends can be ended from outside: a
regular expression of Python holds its whole process. Skips what .gitignore names, binary files and links.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

try:
    from clew.agent.files.globbing import Rule, glob_fits, is_ignored, rules_of
except ImportError:  # run as a program, beside its neighbour
    sys.path.insert(0, str(Path(__file__).parent))
    from globbing import Rule, glob_fits, is_ignored, rules_of  # type: ignore[import-not-found,no-redef]

_PIECE_BYTES = 1 << 20
_SNIFFED_BYTES = 8_192


def walked(start: str, skipped: frozenset[str]) -> Iterator[str]:
    """The files below a folder, in the order of their names, without those that are ignored."""
    yield from _walk(start, skipped, _rules_above(start))


def _walk(folder: str, skipped: frozenset[str], above: list[tuple[str, list[Rule]]]) -> Iterator[str]:
    rules = [*above, (folder, _rules_in(folder))]
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
            yield from _walk(entry.path, skipped, rules)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def _ignored(rules: list[tuple[str, list[Rule]]], path: str, is_folder: bool) -> bool:
    for folder, mine in reversed(rules):
        answer = is_ignored(mine, os.path.relpath(path, folder), is_folder) if mine else None
        if answer is not None:
            return answer
    return False


def _rules_in(folder: str) -> list[Rule]:
    try:
        return rules_of(Path(folder, ".gitignore").read_text("utf-8", "replace").splitlines())
    except OSError:
        return []


def _rules_above(start: str) -> list[tuple[str, list[Rule]]]:
    return [(str(folder), _rules_in(str(folder))) for folder in reversed(Path(start).parents)]


def lines_of(file: BinaryIO, is_named: bool) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file, endless ones in pieces. A file that was named is searched whatever it holds."""
    head = file.read(_SNIFFED_BYTES)
    file.seek(0)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from enumerate(file.read().decode("utf-16", "replace").split("\n"), 1)
    elif b"\0" not in head or is_named:
        number = 1
        while piece := file.readline(_PIECE_BYTES):
            yield number, piece.decode("utf-8", "replace")
            number += piece.endswith(b"\n")


def matches_in(path: str, pattern: re.Pattern[str], ask: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What ripgrep would say about a file: matching lines, with lines around them."""
    before: deque[tuple[int, str]] = deque(maxlen=ask["context"])
    after = 0
    with Path(path).open("rb") as file:
        for number, line in lines_of(file, ask["is_file"]):
            found = pattern.search(line.rstrip("\r\n"))
            if found is None and not after:
                before.append((number, line))
                continue
            if found is None:
                after -= 1
                yield _said("context", path, number, line)
                continue
            yield from (_said("context", path, *earlier) for earlier in before)
            before.clear()
            yield _said("match", path, number, line, len(line[: found.start()].encode()))
            after = ask["context"]
            if ask["first_only"]:
                return


def _said(kind: str, path: str, number: int, line: str, start: int | None = None) -> dict[str, Any]:
    submatches = [] if start is None else [{"start": start}]
    told = {"path": {"text": path}, "line_number": number, "lines": {"text": line}, "submatches": submatches}
    return {"type": kind, "data": told}


def main(ask: dict[str, Any]) -> None:
    say = sys.stdout.write
    paths: Iterator[str] = iter([ask["path"]]) if ask["is_file"] else walked(ask["path"], frozenset(ask["skipped"]))
    if ask["glob"] and not ask["is_file"]:
        paths = (path for path in paths if glob_fits(ask["glob"], os.path.relpath(path, ask["path"])))
    if ask["names"]:
        for path in paths:
            say(path + "\0")
        return
    pattern = re.compile(ask["pattern"], re.IGNORECASE if ask["ignore_case"] else 0)
    for path in paths:
        try:
            for said in matches_in(path, pattern, ask):
                say(json.dumps(said) + "\n")
        except OSError:
            continue
    say(json.dumps({"type": "summary", "data": {}}) + "\n")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    main(json.loads(sys.argv[1]))
