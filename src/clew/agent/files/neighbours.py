"""What lies around a path: a folder's entries, and the names that a mistaken path may have meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path

from clew.agent.files.paths import Place, Workplace

_LOOKED_AT = 20_000
"""Entries, at most, in the search for a file of the same name."""
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})


def listing_of(folder: Path, offset: int, limit: int) -> str:
    """The entries of a folder, folders first, with sizes."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))
    lines = [_entry_line(entry) for entry in entries[offset - 1 : offset - 1 + limit]]
    last = offset - 1 + len(lines)
    more = f"; go on with offset={last + 1}" if last < len(entries) else ""
    span = f"entries {offset}-{last} of {len(entries):,}" if lines else f"{len(entries):,} entries"
    return "\n".join([*lines, f"[folder, {span}{more}]"])


def similar_paths(workplace: Workplace, place: Place) -> list[str]:
    """Paths that may have been meant instead of one that is not there, the likeliest first."""
    parent = place.path.parent
    near: list[str] = []
    if parent.is_dir():
        names = [name for name, _ in zip(_names(parent), range(_LOOKED_AT), strict=False)]
        near = [workplace.shown(parent / name) for name in difflib.get_close_matches(place.path.name, names, 3, 0.6)]
    same = (workplace.shown(path) for path in _same_name(workplace.root, place.path.name))
    return list(dict.fromkeys([*near, *same]))[:5]


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except OSError:
        return


def _same_name(root: Path, name: str) -> Iterator[Path]:
    looked_at = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED)
        looked_at += len(files) + len(folders)
        if name in files:
            yield Path(folder, name)
        if looked_at > _LOOKED_AT:
            return


def _entry_line(entry: os.DirEntry[str]) -> str:
    name = entry.name.encode("utf-8", "backslashreplace").decode()
    if entry.is_symlink():
        return f"{name} -> {os.readlink(entry.path)}"  # noqa: PTH115 (a link may be broken)
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    try:
        return f"{name}  {entry.stat(follow_symlinks=False).st_size:,} bytes"
    except OSError:
        return name
