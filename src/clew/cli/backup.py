"""A copy of a SQLite database, taken while others may write to it: beside it, private, under a name of its own."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from clew.errors import StoreError

_MARK = ".backup-"


def back_up(path: Path) -> Path:
    """Copy the database as it is now, what is still in its log included; where the copy is."""
    target = _free_name(path)
    try:
        with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            # One file alone is easier to put back than one with a log.
            copy.execute("PRAGMA journal_mode = DELETE")
    except (sqlite3.Error, OSError) as error:
        with contextlib.suppress(OSError):
            target.unlink(missing_ok=True)
        raise StoreError(
            f"{path} could not be copied to {target} ({error}), so nothing was repaired; "
            "make room, or copy the file by hand while no Clew is running"
        ) from error
    return target


def backups_of(path: Path) -> Iterator[Path]:
    """Copies that were made before, the newest first."""
    with contextlib.suppress(OSError):
        yield from sorted((it for it in path.parent.iterdir() if it.name.startswith(path.name + _MARK)), reverse=True)


def _free_name(path: Path) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        target = path.with_name(f"{path.name}{_MARK}{stamp}{f'-{number}' if number > 1 else ''}")
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(
                f"{target} cannot be made ({error.strerror}), so nothing was repaired; check the folder {path.parent}"
            ) from error
        return target
    raise StoreError(f"{path.parent} is full of copies of {path.name}; remove some, then repair again")
