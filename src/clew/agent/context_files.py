"""What people wrote for agents: AGENTS.md and CLAUDE.md, from the person's own down to the project's folder.

Reads and bounds; obeys nothing in them, follows no imports, and no link that leads out of the repository.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clew.agent.files.plain_files import read_plain

NAMES = ("AGENTS.md", "CLAUDE.md")
FILE_CHARS = 20_000
ALL_CHARS = 40_000
MOST_SUBFOLDERS = 20
_LEAST_CHARS = 200
"""Less of a file says nothing."""
_READ_BYTES = 4 * FILE_CHARS
_MOST_LOOKED_AT = 2_000
"""Folders, while looking for files further down."""
_NOT_LOOKED_INTO = frozenset({"node_modules", "vendor", "venv", "target", "dist", "build", "__pycache__"})


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file for agents, as far as it is shown."""

    path: Path
    text: str
    is_cut: bool = False
    problem: str | None = None
    """Why nothing of it is shown."""


def context_files(project: Path, home: Path) -> tuple[ContextFile, ...]:
    """The person's own, then from the root of the repository down to the project: the nearest is the last."""
    project, home = project.expanduser().resolve(), home.expanduser().resolve()
    root = repository_of(project)
    found = [*_in_folder(home, home, NAMES[:1])]
    for folder in _folders(root, project):
        found += _in_folder(folder, root, NAMES)
    return _fitted(_without_repeats(found))


def repository_of(project: Path) -> Path:
    """The nearest folder above, or this one, that is a repository; the project itself where there is none."""
    return next((folder for folder in (project, *project.parents) if (folder / ".git").exists()), project)


def subfolder_files(project: Path) -> tuple[str, ...]:
    """Where files for agents stand further down, relative to the project: the first few, the nearest first."""
    project = project.expanduser().resolve()
    found: list[str] = []
    waiting, looked_at = deque([project]), 0
    while waiting and looked_at < _MOST_LOOKED_AT and len(found) < MOST_SUBFOLDERS:
        folder = waiting.popleft()
        looked_at += 1
        names = {entry.name: entry for entry in _entries(folder)}
        if folder != project:
            found += [(folder / name).relative_to(project).as_posix() for name in NAMES if name in names]
        inside = (name for name in sorted(names) if not name.startswith(".") and name not in _NOT_LOOKED_INTO)
        waiting += [folder / name for name in inside if names[name].is_dir(follow_symlinks=False)]
    return tuple(found[:MOST_SUBFOLDERS])


def _folders(root: Path, project: Path) -> Iterator[Path]:
    yield root
    at = root
    for name in project.relative_to(root).parts:
        at = at / name
        yield at


def _in_folder(folder: Path, within: Path, names: Sequence[str]) -> Iterator[ContextFile]:
    for name in names:
        path = folder / name
        if os.path.lexists(path):
            yield _read(path, within)


def _read(path: Path, within: Path) -> ContextFile:
    """What a file says. A repository of strangers must not make us read, and send away, what lies elsewhere."""
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(within):
            return ContextFile(path, "", problem="it is a link that leads out of the project")
        content, _ = read_plain(real, _READ_BYTES + 1)
    except (OSError, RuntimeError) as problem:
        words = problem.strerror if isinstance(problem, OSError) else "links in a circle"
        return ContextFile(path, "", problem=f"it cannot be read: {words}")
    text = content[:_READ_BYTES].decode("utf-8-sig", "replace").replace("\r\n", "\n").strip()
    return ContextFile(path, text, is_cut=len(content) > _READ_BYTES)


def _without_repeats(files: Sequence[ContextFile]) -> list[ContextFile]:
    """Each text once, at its first place: often one file is a copy of the other, or a link to it."""
    told: set[str] = {""}
    kept: list[ContextFile] = []
    for file in files:
        if file.problem is not None or file.text not in told:
            kept.append(file)
            told.add(file.text)
    return kept


def _fitted(files: Sequence[ContextFile]) -> tuple[ContextFile, ...]:
    """Each within its bound, and all within theirs: room goes to the first, the person's own, then to the nearest."""
    left = ALL_CHARS
    fitted: dict[int, ContextFile] = {}
    for at in sorted(range(len(files)), key=lambda at: (at > 0, -at)):
        fitted[at] = _cut(files[at], min(FILE_CHARS, left))
        left -= len(fitted[at].text)
    return tuple(fitted[at] for at in range(len(files)))


def _cut(file: ContextFile, most: int) -> ContextFile:
    if len(file.text) <= most and not file.is_cut:
        return file
    shown = file.text[:most] if most >= _LEAST_CHARS else ""
    whole_lines = shown.rpartition("\n")[0]
    return replace(file, text=whole_lines if len(whole_lines) > most // 2 else shown, is_cut=True)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []
