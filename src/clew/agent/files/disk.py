"""Opening and replacing files at resolved paths, without following a link that appeared since they were resolved.

Every folder on the way is opened from the one before it, so nothing can be swapped in between. A file is replaced in
one step, by a whole new one: whoever reads it sees the old content or the new, never half.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from clew.agent.files.seen import Stamp
from clew.errors import InvalidArgument

# O_PATH (Linux) needs no right to list a folder that is only passed through.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a pipe that took the file's place must not make us wait for its writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)


def open_regular(path: Path) -> BinaryIO:
    """A regular file for reading; OSError for everything else."""
    with _folder(path.parent) as folder:
        descriptor = os.open(path.name, _READ, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_whole(path: Path, most_bytes: int) -> tuple[bytes, Stamp]:
    """All of a file, and its stamp as of then."""
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size > most_bytes:
            raise InvalidArgument(
                f"{path} has {status.st_size:,} bytes; more than {most_bytes:,} cannot be edited here, use a command"
            )
        return file.read(), Stamp.of(status)


def write_whole(path: Path, content: bytes, before: Stamp | None) -> Stamp:
    """Put a whole file in place of the one with the stamp `before`; None creates, and never overwrites.

    Missing folders are made. The mode of a file that is replaced stays.
    """
    with _folder(path.parent, create=True) as folder:
        _must_be(path, folder, before)
        part = f".{path.name[:80]}.{secrets.token_hex(6)}.part"
        try:
            stamp = _write_part(folder, part, path.name if before else None, content)
            if before is None:
                _name_new(folder, part, path)
            else:
                _must_be(path, folder, before)
                os.replace(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
    return stamp


def _write_part(folder: int, part: str, model: str | None, content: bytes) -> Stamp:
    """The new file under its passing name, with the mode of `model` or, without one, what the umask leaves."""
    with os.fdopen(os.open(part, _CREATE, 0o600 if model else 0o666, dir_fd=folder), "wb") as file:
        if model:
            _take_over(file.fileno(), os.stat(model, dir_fd=folder, follow_symlinks=False))
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        return Stamp.of(os.fstat(file.fileno()))


def _take_over(descriptor: int, status: os.stat_result) -> None:
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
        with contextlib.suppress(OSError):  # only root may give files away
            os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _name_new(folder: int, part: str, path: Path) -> None:
    """Give the new file its name, unless somebody took that meanwhile: a hard link fails where a rename overwrites."""
    try:
        os.link(part, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError as taken:
        raise InvalidArgument(f"{path} was created by somebody else meanwhile; read it first") from taken
    except OSError as problem:
        if problem.errno not in _NO_HARD_LINKS:
            raise
        _must_be(path, folder, None)
        os.rename(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(part, dir_fd=folder)


def _must_be(path: Path, folder: int, before: Stamp | None) -> None:
    try:
        status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if before is None:
            return
        raise InvalidArgument(f"{path} was removed meanwhile; nothing was written") from None
    if before is None:
        raise InvalidArgument(f"{path} exists already; read it first")
    if not stat.S_ISREG(status.st_mode) or Stamp.of(status) != before:
        raise InvalidArgument(f"{path} changed on disk meanwhile; read it again first, nothing was written")
    if not os.access(path.name, os.W_OK, dir_fd=folder):
        raise InvalidArgument(f"{path} is read-only (mode {stat.S_IMODE(status.st_mode):o}); nothing was written")


@contextlib.contextmanager
def _folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of a folder that was reached without following any link."""
    descriptor = os.open(path.anchor, _FOLDER)
    try:
        for name in path.parts[1:]:
            inner = _step(descriptor, name, create)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _step(folder: int, name: str, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)
