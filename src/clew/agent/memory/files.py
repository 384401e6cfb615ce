"""The files of the memory: read whole, replaced in one step, one writer at a time; and the journal of their changes.

Knows files, not entries. A file is replaced only by one that is whole on disk, and its journal line is on disk before
that: what a change takes away can always be read there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from clew.agent.files.plain_files import read_plain
from clew.errors import ClewError

LOCK = ".memory.lock"
JOURNAL = "memory.log.jsonl"
JOURNAL_BYTES = 256 * 1024
"""Above it the older half goes."""
LARGEST_BYTES = 1 << 20
LOCK_SECONDS = 10.0

Stamp: TypeAlias = tuple[int, int, int] | None


class MemoryUnusable(ClewError):  # noqa: N818 (reads as what it says)
    """A file of the memory that cannot be read or written; nothing was changed."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """What a file holds, and by what a later look tells that it is still the same."""

    text: str
    stamp: Stamp
    problem: str | None = None
    """Why it cannot be changed; the text is then what can be made out of it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the journal."""

    at: str
    session: str
    file: str
    action: str
    entry: str
    old: str = ""


def read_memory_file(path: Path) -> MemoryFile:
    """The file; empty where there is none. Never raises."""
    try:
        content, found = read_plain(path, LARGEST_BYTES + 1)
    except FileNotFoundError:
        return MemoryFile("", None)
    except OSError as problem:
        return MemoryFile("", None, f"{path} cannot be read: {problem.strerror or problem}; move it away")
    if len(content) > LARGEST_BYTES:
        return MemoryFile("", None, f"{path} has {found.st_size:,} bytes, which is no memory; move it away")
    return _decoded(path, content, _stamp(found))


def replace_memory_file(path: Path, text: str, seen: Stamp, change: Change) -> bool:
    """Put a text in the place of what was seen there; False where something else stands there by now.

    The caller holds the lock. Raises OSError, and then the file is as it was.
    """
    target = path.resolve()  # a person may keep it elsewhere and link to it
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    _remove_abandoned(target)
    try:
        _write_new(partial, text.encode("utf-8"))
        if _stamp_at(path) != seen:
            # An editor knows nothing of our lock.
            return False
        _note(path.with_name(JOURNAL), change)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(target.parent)
    return True


def journal_of(folder: Path) -> list[Change]:
    """The changes that are still in the journal, oldest first; lines that cannot be read are left out."""
    try:
        lines = (folder / JOURNAL).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    changes = []
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):
            changes.append(Change(**json.loads(line)))
    return changes


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The right to change the files of a folder, over threads and processes."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _wait_for(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def make_durable(path: Path) -> None:
    """Flush a file, should somebody else have written it; nothing where there is none."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _decoded(path: Path, content: bytes, stamp: Stamp) -> MemoryFile:
    try:
        return MemoryFile(content.decode("utf-8-sig"), stamp)
    except UnicodeDecodeError as problem:
        told = f"{path} is not UTF-8 at byte {problem.start:,}; save it as UTF-8"
        return MemoryFile(content.decode("utf-8-sig", "replace"), stamp, told)


def _wait_for(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise MemoryUnusable(
                    f"another program has held {folder / LOCK} for {LOCK_SECONDS:.0f} seconds; try again later"
                ) from None
            time.sleep(0.005)
        except OSError as problem:
            if problem.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
                return
            raise
        else:
            return


def _write_new(partial: Path, content: bytes) -> None:
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove_abandoned(target: Path) -> None:
    """What a killed writer left: whoever holds the lock is the only writer there is."""
    for partial in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        partial.unlink(missing_ok=True)


def _note(journal: Path, change: Change) -> None:
    line = json.dumps(asdict(change), ensure_ascii=False) + "\n"
    _shorten(journal)
    descriptor = os.open(journal, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        os.fchmod(file.fileno(), 0o600)
        size = file.seek(0, os.SEEK_END)
        # A killed writer may have left half a line.
        is_torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
        file.write((("\n" if is_torn else "") + line).encode("utf-8"))
        os.fsync(file.fileno())


def _shorten(journal: Path) -> None:
    try:
        if journal.stat().st_size <= JOURNAL_BYTES:
            return
    except FileNotFoundError:
        return
    newest = journal.read_bytes()[-JOURNAL_BYTES // 2 :].partition(b"\n")[2]
    partial = journal.with_name(f".{journal.name}.{secrets.token_hex(8)}.part")
    try:
        _write_new(partial, newest)
        partial.replace(journal)
    finally:
        partial.unlink(missing_ok=True)


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _stamp_at(path: Path) -> Stamp:
    try:
        return _stamp(path.stat())
    except FileNotFoundError:
        return None
