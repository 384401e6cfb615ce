"""Context files: AGENTS.md and CLAUDE.md, the person's own and those from the repository's root to the project.

They are read and bounded. Imports in them are not followed, nor links that lead out of the repository.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clew.agent.files.disk import read_prefix

NAMES = ("AGENTS.md", "CLAUDE.md")
FILE_CHARS = 20_000
ALL_CHARS = 40_000
MAX_SUBFOLDER_FILES = 20
_MIN_CHARS = 200
"""A shorter excerpt is not worth showing."""
_READ_BYTES = 4 * FILE_CHARS
_MAX_FOLDERS = 2_000
"""Looked into in the search for files further down."""
_SKIPPED_FOLDERS = frozenset({"node_modules", "vendor", "venv", "target", "dist", "build", "__pycache__"})


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A context file, as far as it is shown."""

    path: Path
    text: str
    is_cut: bool = False
    problem: str | None = None
    """Why it is not shown."""


def context_files(project: Path, home: Path) -> tuple[ContextFile, ...]:
    """The person's own, then from the root of the repository down to the project: the nearest is the last."""
    project, home = project.expanduser().resolve(), home.expanduser().resolve()
    root = repository_root(project)
    found = [*_in_folder(home, home, NAMES[:1])]
    folders = [folder for folder in (project, *project.parents) if folder.is_relative_to(root)]
    for folder in reversed(folders):
        found += _in_folder(folder, root, NAMES)
    return _fitted(_without_repeats(found))


def repository_root(project: Path) -> Path:
    """The nearest folder above, or this one, that is a repository; the project itself where there is none."""
    return next((folder for folder in (project, *project.parents) if (folder / ".git").exists()), project)


def subfolder_context_files(project: Path) -> tuple[str, ...]:
    """Paths of context files below the project, relative to it: the first few, the nearest first."""
    project = project.expanduser().resolve()
    found: list[str] = []
    waiting, looked_at = deque([project]), 0
    while waiting and looked_at < _MAX_FOLDERS and len(found) < MAX_SUBFOLDER_FILES:
        folder = waiting.popleft()
        looked_at += 1
        names = {entry.name: entry for entry in _entries(folder)}
        if folder != project:
            found += [(folder / name).relative_to(project).as_posix() for name in NAMES if name in names]
        inside = (name for name in sorted(names) if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        waiting += [folder / name for name in inside if names[name].is_dir(follow_symlinks=False)]
    return tuple(found[:MAX_SUBFOLDER_FILES])


def _in_folder(folder: Path, within: Path, names: Sequence[str]) -> Iterator[ContextFile]:
    for name in names:
        path = folder / name
        if os.path.lexists(path):
            yield _read(path, within)


def _read(path: Path, within: Path) -> ContextFile:
    """A file's text. A stranger's repository must not make us read, and send away, what lies elsewhere."""
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(within):
            return ContextFile(path, "", problem="it is a link that leads out of the project")
        content, _ = read_prefix(real, _READ_BYTES + 1)
    except (OSError, RuntimeError) as problem:
        words = problem.strerror if isinstance(problem, OSError) else "links in a circle"
        return ContextFile(path, "", problem=f"it cannot be read: {words}")
    text = content[:_READ_BYTES].decode("utf-8-sig", "replace").replace("\r\n", "\n").strip()
    return ContextFile(path, text, is_cut=len(content) > _READ_BYTES)


def _without_repeats(files: Sequence[ContextFile]) -> list[ContextFile]:
    """Each text once, at its first place: often one file is a copy of the other, or a link to it."""
    seen: set[str] = {""}
    kept: list[ContextFile] = []
    for file in files:
        if file.problem is not None or file.text not in seen:
            kept.append(file)
            seen.add(file.text)
    return kept


def _fitted(files: Sequence[ContextFile]) -> tuple[ContextFile, ...]:
    """Cut each to `FILE_CHARS` and all to `ALL_CHARS`: the first, the person's own, has priority, then the nearest."""
    left = ALL_CHARS
    fitted: dict[int, ContextFile] = {}
    for index in sorted(range(len(files)), key=lambda index: (index > 0, -index)):
        fitted[index] = _cut(files[index], min(FILE_CHARS, left))
        left -= len(fitted[index].text)
    return tuple(fitted[index] for index in range(len(files)))


def _cut(file: ContextFile, max_chars: int) -> ContextFile:
    if len(file.text) <= max_chars and not file.is_cut:
        return file
    shown = file.text[:max_chars] if max_chars >= _MIN_CHARS else ""
    whole_lines = shown.rpartition("\n")[0]
    return replace(file, text=whole_lines if len(whole_lines) > max_chars // 2 else shown, is_cut=True)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []
