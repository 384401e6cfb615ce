"""Keeps the keys of this process from the commands that it starts: they run as the same user.

On Linux any process of a user can read another's start environment and memory under /proc. Here the keys are erased
from the former, and the latter is closed. Root can read the memory of every process, and no program can prevent it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from clew.agent.processes import withheld_variables

_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48
"""Fields of /proc/self/stat, counted behind the name."""


def hide_keys_of_process(environ: Mapping[str, str], withhold: Collection[str] = ()) -> None:
    """Keep other processes of this user from reading the keys in `environ`, where it is this process's own.

    The process itself still has them, and so have programs that it starts with its whole environment. Does nothing
    where the system is not Linux.
    """
    if environ is not os.environ or sys.platform != "linux":
        return
    _close_memory()
    names = withheld_variables(environ, withhold=withhold)
    for name in names:
        os.environ[name] = environ[name]  # a copy elsewhere, to which `getenv` leads from now on
    _erase_start_values(frozenset(map(os.fsencode, names)))


def _close_memory() -> None:
    """No core dumps, no debugger, and /proc/PID/environ and mem belong to root."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _erase_start_values(names: Collection[bytes]) -> None:
    """Overwrite the values of these variables in the block that the kernel shows as /proc/PID/environ."""
    try:
        fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    except (OSError, ValueError, IndexError):
        return
    if not 0 < start < end:  # where the kernel does not tell
        return
    for offset, size in _values_of(ctypes.string_at(start, end - start), names):
        ctypes.memset(start + offset, 0, size)


def _values_of(block: bytes, names: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Where the values of these variables are in an environment block."""
    at = 0
    for entry in block.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name in names:
            yield at + len(name) + 1, len(value)
        at += len(entry) + 1
