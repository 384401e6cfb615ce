"""The files of a database: who may read them, and copies made before a repair."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from clew.errors import StoreError

_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_BACKUP_MARK = ".backup-"


@dataclass(frozen=True, slots=True)
class FileModeProblem:
    """A file that others may read, or a folder that others may write to."""

    path: Path
    mode: int
    allowed: int
    """The mode without what others should not have."""

    @property
    def what(self) -> str:
        may = "write to" if stat.S_ISDIR(self.mode) else "read"
        return f"{self.path} has mode {stat.S_IMODE(self.mode):04o}, so that others may {may} it"

    @property
    def repaired(self) -> str:
        return f"{self.path} had mode {stat.S_IMODE(self.mode):04o}, and now has {self.allowed:04o}"


def check_file_modes(path: Path) -> tuple[FileModeProblem, ...]:
    """Which of a database, its log, its backups and its folder others may read or write, and should not."""
    if os.name != "posix":
        return ()
    files = [path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm")), *list_backups(path)]
    problems = []
    for each in (*files, path.parent):
        with contextlib.suppress(OSError):
            mode = each.stat().st_mode
            # In a sticky folder (/tmp) others can add files, but not replace ours.
            too_much = (0 if mode & stat.S_ISVTX else _OTHERS_WRITE) if stat.S_ISDIR(mode) else _OTHERS
            if mode & too_much:
                problems.append(FileModeProblem(each, mode, stat.S_IMODE(mode) & ~too_much))
    return tuple(problems)


def make_private(problem: FileModeProblem) -> None:
    """Change the mode; where that is not allowed, the next diagnosis says so."""
    with contextlib.suppress(OSError):
        problem.path.chmod(problem.allowed)


def back_up_database(path: Path) -> Path:
    """Copy the database as it is now, its log included, to a file beside it that only its owner reads."""
    target = _free_name(path)
    try:
        with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            # One file alone is easier to put back than one with a log.
            copy.execute("PRAGMA journal_mode = DELETE")
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        with contextlib.suppress(OSError):
            target.unlink(missing_ok=True)
        raise StoreError(
            f"{path} could not be copied to {target} ({error}), so nothing was repaired",
            remedy="make room, or copy the file by hand while no Clew is running",
        ) from error
    return target


def list_backups(path: Path) -> Iterator[Path]:
    """Backups that were made before, the newest first."""
    with contextlib.suppress(OSError):
        yield from sorted(
            (it for it in path.parent.iterdir() if it.name.startswith(path.name + _BACKUP_MARK)), reverse=True
        )


def _free_name(path: Path) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        target = path.with_name(f"{path.name}{_BACKUP_MARK}{stamp}{f'-{number}' if number > 1 else ''}")
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(
                f"{target} cannot be made ({error.strerror}), so nothing was repaired",
                remedy=f"check the folder {path.parent}",
            ) from error
        return target
    raise StoreError(f"{path.parent} is full of copies of {path.name}", remedy="remove some, then repair again")
