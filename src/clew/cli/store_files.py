"""The files of a SQLite store, and whether others may look into them. Knows modes, and nothing of what is inside."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from clew.cli.backup import backups_of

_OTHERS = 0o077
_OTHERS_WRITE = 0o022


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that others may read, or a folder that others may write to."""

    path: Path
    mode: int
    allowed: int
    """The mode without what is too much."""

    @property
    def what(self) -> str:
        may = "write to" if stat.S_ISDIR(self.mode) else "read"
        return f"{self.path} has mode {stat.S_IMODE(self.mode):04o}, so that others may {may} it"

    @property
    def mended(self) -> str:
        return f"{self.path} had mode {stat.S_IMODE(self.mode):04o}, and now has {self.allowed:04o}"


def problems_of_files(path: Path) -> tuple[FileProblem, ...]:
    """What others may do that they should not, with a database, its log, its copies and its folder."""
    if os.name != "posix":
        return ()
    files = [path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm")), *backups_of(path)]
    problems = []
    for each in (*files, path.parent):
        with contextlib.suppress(OSError):
            mode = each.stat().st_mode
            # In a sticky folder (/tmp) others can add files, but not replace ours.
            too_much = (0 if mode & stat.S_ISVTX else _OTHERS_WRITE) if stat.S_ISDIR(mode) else _OTHERS
            if mode & too_much:
                problems.append(FileProblem(each, mode, stat.S_IMODE(mode) & ~too_much))
    return tuple(problems)


def make_private(problem: FileProblem) -> None:
    """Take away what is too much; where we may not, the next look says so."""
    with contextlib.suppress(OSError):
        problem.path.chmod(problem.allowed)
