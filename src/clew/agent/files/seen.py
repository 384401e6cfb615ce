"""Which files the agent knows, and as of when: nobody's work is written over unseen.

One object for a whole process, shared by the tools that read and write. Knows stamps, not contents.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes when a file does."""

    mtime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)


class FilesSeen:
    """The stamp that each file had when the agent last read or wrote it."""

    def __init__(self) -> None:
        self._stamps: dict[Path, Stamp] = {}

    def saw(self, path: Path, stamp: Stamp) -> None:
        self._stamps[path] = stamp

    def is_current(self, path: Path, stamp: Stamp) -> bool:
        return self._stamps.get(path) == stamp

    def overwrite_problem(self, path: Path, shown: str, stamp: Stamp) -> str | None:
        """Why an existing file must not be written over; None where the agent knows what it holds."""
        if path not in self._stamps:
            return f"{shown} exists, and you have not read it; read it first, or choose another name"
        if self._stamps[path] != stamp:
            return f"{shown} has changed on disk since you last read it; read it again first"
        return None
