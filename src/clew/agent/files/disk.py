"""Reading and replacing files at resolved paths, without following a link that appeared since they were resolved.

Every folder on the way is opened from the one before it, so nothing can be swapped in between. A file is replaced
atomically: a reader sees the old content or the new. `FileTracker` remembers which versions the agent has seen,
so that changes of others are not overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from clew.agent.files.session_files import SessionFiles
from clew.errors import InvalidArgument
from clew.portable import require_posix

require_posix("the agent")

MAX_BYTES = 50 << 20
# O_PATH (Linux) needs no right to list a folder that is only passed through.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a pipe in the file's place must not make us wait for its writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; raises OSError for everything else."""
    with _open_folder(path.parent) as folder:
        descriptor = os.open(path.name, _READ, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_all(path: Path) -> tuple[bytes, FileStamp]:
    """All of a file, and its stamp as of then. Raises InvalidArgument above `MAX_BYTES`."""
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size > MAX_BYTES:
            raise InvalidArgument(
                f"{path} has {status.st_size:,} bytes; more than {MAX_BYTES:,} cannot be edited here, use a command"
            )
        return file.read(), FileStamp.of(status)


def write_atomically(path: Path, content: bytes, before: FileStamp | None) -> FileStamp:
    """Replace the file that has the stamp `before`; with None, create a new one and never overwrite.

    Missing folders are made; owner and mode of a replaced file are kept. Raises InvalidArgument where the file is
    not as `before` says. Returns the new stamp.
    """
    with _open_folder(path.parent, create=True) as folder:
        _check_unchanged(path, folder, before)
        part = f".{path.name[:80]}.{secrets.token_hex(6)}.part"
        try:
            stamp = _write_part(folder, part, path.name if before else None, content)
            if before is None:
                _publish_new(folder, part, path)
            else:
                _check_unchanged(path, folder, before)
                os.replace(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            # Where all went well it has its name by now, and there is nothing to take away.
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=folder)
    return stamp


def _write_part(folder: int, part: str, model: str | None, content: bytes) -> FileStamp:
    """Write the new file under a temporary name, with the mode of `model` or, without one, by the umask."""
    with os.fdopen(os.open(part, _CREATE, 0o600 if model else 0o666, dir_fd=folder), "wb") as file:
        if model:
            _copy_owner_and_mode(file.fileno(), os.stat(model, dir_fd=folder, follow_symlinks=False))
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        return FileStamp.of(os.fstat(file.fileno()))


def _copy_owner_and_mode(descriptor: int, status: os.stat_result) -> None:
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        with contextlib.suppress(OSError):  # only root may give files away
            os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _publish_new(folder: int, part: str, path: Path) -> None:
    """Give the new file its name, unless that exists by now: a hard link fails where a rename overwrites."""
    try:
        os.link(part, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError as taken:
        raise InvalidArgument(f"{path} was created by another program meanwhile; read it first") from taken
    except OSError as problem:
        if problem.errno not in _NO_HARD_LINKS:
            raise
        _check_unchanged(path, folder, None)
        os.rename(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(part, dir_fd=folder)


def _check_unchanged(path: Path, folder: int, before: FileStamp | None) -> None:
    try:
        status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if before is None:
            return
        raise InvalidArgument(f"{path} was removed meanwhile; nothing was written") from None
    if before is None:
        raise InvalidArgument(f"{path} exists already; read it first")
    if not stat.S_ISREG(status.st_mode) or FileStamp.of(status) != before:
        raise InvalidArgument(f"{path} changed on disk meanwhile; read it again first, nothing was written")
    if not os.access(path.name, os.W_OK, dir_fd=folder):
        raise InvalidArgument(f"{path} is read-only (mode {stat.S_IMODE(status.st_mode):o}); nothing was written")


@contextlib.contextmanager
def _open_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of a folder, reached without following any link."""
    descriptor = os.open(path.anchor, _FOLDER)
    try:
        for name in path.parts[1:]:
            inner = _open_subfolder(descriptor, name, create)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _open_subfolder(folder: int, name: str, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Identifies a version of a file: time of change, size and inode."""

    mtime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStamp:
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)


class FileTracker:
    """The stamp that each file had when the agent last read or wrote it.

    One for a whole process, shared by the tools that read and write.
    """

    def __init__(self, before_write: Callable[[Path, bytes], None] = lambda *_: None) -> None:
        self._stamps: dict[Path, FileStamp] = {}
        self._before_write = before_write
        """Called with a path and its new content, so that what it held can be kept."""
        self.session_files = SessionFiles()

    def write(self, path: Path, content: bytes, before: FileStamp | None) -> FileStamp:
        """Write a file for the agent: `write_atomically`, with a checkpoint before it."""
        self._before_write(path, content)
        stamp = write_atomically(path, content, before)
        self.session_files.record(path)
        return stamp

    def record(self, path: Path, stamp: FileStamp) -> None:
        self._stamps[path] = stamp

    def is_current(self, path: Path, stamp: FileStamp) -> bool:
        return self._stamps.get(path) == stamp

    def overwrite_problem(self, path: Path, display_name: str, stamp: FileStamp) -> str | None:
        """Why an existing file must not be overwritten; None where the agent knows its content."""
        if path not in self._stamps:
            return f"{display_name} exists, and you have not read it; read it first, or choose another name"
        if self._stamps[path] != stamp:
            return f"{display_name} has changed on disk since you last read it; read it again first"
        return None


def read_prefix(path: Path, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """The first bytes of a file that others may have put there, and its status; follows links, never waits for a pipe.

    Raises OSError where it is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        pieces = []
        while max_bytes > 0 and (piece := os.read(descriptor, max_bytes)):
            pieces.append(piece)
            max_bytes -= len(piece)
        return b"".join(pieces), found
    finally:
        os.close(descriptor)
