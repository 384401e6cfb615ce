"""What differs between systems: locks on files, flags of `open` that only POSIX has, flushing a folder, freed memory,
the end of a parent.

The one place that imports `fcntl`. Where there is none, as on Windows, no lock is taken, a flag is 0 and no folder is
flushed. The agent, which cannot do without, says so with `require_posix`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from clew.errors import ClewError

try:
    import fcntl
except ImportError:
    IS_POSIX = False
else:
    IS_POSIX = True

NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
CLOSE_ON_EXEC: int = getattr(os, "O_CLOEXEC", 0)
BINARY: int = getattr(os, "O_BINARY", 0)
"""Windows translates line ends without it."""


def lock_file(descriptor: int, *, wait: bool) -> None:
    """Lock a file until it is closed. Raises BlockingIOError where another has it, OSError where there are no locks."""
    if not IS_POSIX:
        raise OSError(errno.ENOTSUP, "this system has no locks that Clew uses")
    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def make_private(descriptor: int) -> None:
    """Let only its owner read and write a file; Windows does so by the folder it is in."""
    if IS_POSIX:
        os.fchmod(descriptor, 0o600)


def is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to who runs this."""
    return not IS_POSIX or status.st_uid == os.geteuid()


def flush_folder(folder: Path) -> None:
    """Write the names in a folder to the disk; Windows needs and allows no such thing."""
    if not IS_POSIX:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | CLOSE_ON_EXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def release_memory() -> None:
    """Return freed memory to the system. The allocator of GNU/Linux keeps it otherwise, for as long as anything behind
    it is in use; elsewhere there is nothing to do.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def require_posix(what: str) -> None:
    """Refuse, in one sentence, where a part of Clew cannot work."""
    if not IS_POSIX:
        raise ClewError(f"{what} works on Linux and macOS only", remedy="on Windows, run Clew in WSL")


_PR_SET_PDEATHSIG = 1


def ends_with_its_parent() -> Callable[[], None] | None:
    """What a new process calls first so that it is asked to end when its parent is killed; None where only Linux can.

    For `preexec_fn`. What it needs is looked up here, since little may be done between fork and exec.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it was killed already
            os.kill(os.getpid(), signal.SIGTERM)

    return ask
