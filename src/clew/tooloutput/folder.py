"""The private folder of spilled results: files with random ids, a quota and an age limit.

A file gets its name when it is completely written. A write that fails returns a value instead of raising, because the
caller still has the result and the turn continues.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from clew.errors import InvalidArgument
from clew.portable import (
    BINARY,
    CLOSE_ON_EXEC,
    IS_POSIX,
    NO_FOLLOW,
    flush_folder,
    is_own,
    lock_file,
    make_private,
)

QUOTA_BYTES = 1 << 30
MAX_AGE_SECONDS = 30 * 24 * 3600.0
PART_CHARS = 20_000

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY | NO_FOLLOW | CLOSE_ON_EXEC
_ID = re.compile(r"[0-9a-f]{32}")
_FILE = re.compile(r"([0-9a-f]{32})\.txt")
_PARTIAL = re.compile(r"\.[0-9a-f]{32}\.part")


@dataclass(frozen=True, slots=True)
class Spilled:
    """A text that was written to a file."""

    id: str
    path: Path
    chars: int
    lines: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SpillRefused:
    """Why a text could not be written or read."""

    reason: str


@dataclass(frozen=True, slots=True)
class SpillPart:
    """A part of a spilled text."""

    text: str
    offset_chars: int
    total_chars: int

    @property
    def next_offset_chars(self) -> int | None:
        """Where to read on; None at the end."""
        end = self.offset_chars + len(self.text)
        return end if end < self.total_chars else None


@dataclass(frozen=True, slots=True)
class _SpillFile:
    id: str
    path: Path
    modified: float
    size_bytes: int


class SpillFolder:
    """Spilled texts of one owner in one folder, which several processes may share.

    Several writers at the same moment may exceed the quota by what they write; the next write removes files again.
    """

    def __init__(
        self,
        folder: Path,
        quota_bytes: int = QUOTA_BYTES,
        max_age_seconds: float = MAX_AGE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if quota_bytes < 1 or max_age_seconds <= 0:
            raise InvalidArgument(
                f"quota_bytes = {quota_bytes}, max_age_seconds = {max_age_seconds}: both have to be above 0"
            )
        self.folder = folder.expanduser().absolute()
        self.quota_bytes = quota_bytes
        self.max_age_seconds = max_age_seconds
        self._clock = clock
        with contextlib.suppress(OSError):  # a folder that cannot be had is reported by the first write
            self.clean_up()

    def write(self, text: str, keep: Collection[str] = ()) -> Spilled | SpillRefused:
        """Write a text to a file; the oldest files are removed to make room, but never those in `keep`."""
        # Lone surrogates come back from disk as they were.
        content = text.encode("utf-8", "surrogatepass")
        if len(content) > self.quota_bytes:
            return SpillRefused(f"its {len(content):,} bytes are more than the quota of {self.quota_bytes:,} bytes")
        spill_id = secrets.token_hex(16)
        try:
            self._make_private()
            if not self._make_room(len(content), keep):
                return SpillRefused(f"the quota of {self.quota_bytes:,} bytes is full of results still in use")
            self._write_file(spill_id, content)
        except OSError as problem:
            return SpillRefused(f"{self.folder} cannot be written: {problem.strerror or problem}")
        return Spilled(spill_id, self.path(spill_id), len(text), line_count(text), len(content))

    def read(self, spill_id: str, offset_chars: int = 0, limit_chars: int = PART_CHARS) -> SpillPart | SpillRefused:
        """A part of a spilled text, by chars and not by lines, which may be very long."""
        if not _ID.fullmatch(spill_id):
            return SpillRefused(f"{spill_id!r} is no id of persisted output; ids are 32 hexadecimal digits")
        if offset_chars < 0 or limit_chars < 1:
            return SpillRefused(f"offset {offset_chars}, limit {limit_chars}: pass 0 or more, and 1 or more")
        try:
            descriptor = os.open(self.path(spill_id), os.O_RDONLY | BINARY | NO_FOLLOW | CLOSE_ON_EXEC)
            with os.fdopen(descriptor, "rb") as file:
                text = file.read().decode("utf-8", "surrogatepass")
        except FileNotFoundError:
            return SpillRefused(f"{spill_id} is not there any more: quota or age limit removed it")
        except OSError as problem:
            return SpillRefused(f"{spill_id} cannot be read: {problem.strerror or problem}")
        return SpillPart(text[offset_chars : offset_chars + limit_chars], offset_chars, len(text))

    def path(self, spill_id: str) -> Path:
        """Where the text of this id is, or would be."""
        if not _ID.fullmatch(spill_id):
            raise InvalidArgument(f"{spill_id!r} is no id of persisted output", remedy="ids are 32 hexadecimal digits")
        return self.folder / f"{spill_id}.txt"

    def remove(self, spill_id: str) -> bool:
        """Remove one text; False if it was not there."""
        path = self.path(spill_id)
        return path.exists() and _removed(path)

    def clean_up(self) -> list[str]:
        """Remove what is too old or over the quota, and partial files of killed writers; returns the removed ids."""
        if not self.folder.is_dir():
            return []
        for path in self.folder.iterdir():
            if _PARTIAL.fullmatch(path.name):
                _remove_if_abandoned(path)
        before = {entry.id for entry in self._files()}
        self._make_room(0, ())
        return sorted(before - {entry.id for entry in self._files()})

    def _make_private(self) -> None:
        _make_private_folder(self.folder)
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or not is_own(found):
            raise PermissionError(errno.EPERM, "it is a link, or belongs to another user")
        if IS_POSIX and stat.S_IMODE(found.st_mode) != 0o700:
            self.folder.chmod(0o700)

    def _make_room(self, size_bytes: int, keep: Collection[str]) -> bool:
        """Remove what is too old, then the oldest until `size_bytes` more fit; whether they do."""
        oldest_first = sorted(self._files(), key=lambda entry: (entry.modified, entry.id))
        used = sum(entry.size_bytes for entry in oldest_first)
        expired = self._clock() - self.max_age_seconds
        for entry in oldest_first:
            if entry.modified >= expired and used + size_bytes <= self.quota_bytes:
                break
            if entry.id not in keep and _removed(entry.path):
                used -= entry.size_bytes
        return used + size_bytes <= self.quota_bytes

    def _files(self) -> Iterator[_SpillFile]:
        with os.scandir(self.folder) as found:
            for item in found:
                named = _FILE.fullmatch(item.name)
                if named is None:
                    continue
                with contextlib.suppress(FileNotFoundError):  # another process removed it
                    status = item.stat(follow_symlinks=False)
                    yield _SpillFile(named[1], Path(item.path), status.st_mtime, status.st_size)

    def _write_file(self, spill_id: str, content: bytes) -> None:
        partial = self.folder / f".{spill_id}.part"
        try:
            with os.fdopen(_open_locked(partial), "wb") as file:
                make_private(file.fileno())
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                partial.rename(self.path(spill_id))
        except OSError:
            _removed(partial)
            raise
        flush_folder(self.folder)


def line_count(text: str) -> int:
    """Lines as an editor counts them: a line end at the very end starts no further line."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def _open_locked(partial: Path) -> int:
    """A new private file, locked while this process lives: a partial file without a lock was left by a killed one."""
    while True:
        descriptor = os.open(partial, _CREATE, 0o600)
        with contextlib.suppress(OSError):  # a file system without locks
            lock_file(descriptor, wait=True)
        # Another process removed it between the two calls: try again.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _remove_if_abandoned(partial: Path) -> None:
    try:
        descriptor = os.open(partial, os.O_RDONLY | BINARY | NO_FOLLOW | CLOSE_ON_EXEC)
    except OSError:
        return
    try:
        lock_file(descriptor, wait=False)
        # While we hold the lock, so that its writer cannot have begun since.
        _removed(partial)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _removed(path: Path) -> bool:
    """Remove a file; True where it is not there afterwards."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _make_private_folder(folder: Path) -> None:
    if not folder.parent.exists():
        _make_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
