"""Reads files that others may have put there: never waits for a pipe, never reads more than it was told to.

Knows bytes only.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_plain(path: Path, most_bytes: int) -> tuple[bytes, os.stat_result]:
    """The first bytes of a file and what is known of it; an OSError where it is no plain file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        pieces = []
        while most_bytes > 0 and (piece := os.read(descriptor, most_bytes)):
            pieces.append(piece)
            most_bytes -= len(piece)
        return b"".join(pieces), found
    finally:
        os.close(descriptor)
