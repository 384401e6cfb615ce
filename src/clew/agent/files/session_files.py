"""Files that this session wrote: running one is asked for once, with its text, and again when the text has changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WrittenScript:
    """A file that the session wrote, as it is now."""

    path: str
    text: str
    digest: str


class SessionFiles:
    """Which files a session wrote, and which contents a person agreed to run."""

    def __init__(self) -> None:
        self._written: set[str] = set()
        self._agreed: set[str] = set()

    def record(self, path: Path | str) -> None:
        """The session wrote this file, or is about to."""
        self._written.add(os.path.realpath(path))

    def has_written(self, path: str) -> bool:
        return os.path.realpath(path) in self._written

    def unagreed(self, path: str) -> WrittenScript | None:
        """The file as it is now, where the session wrote it and no person agreed to run that text."""
        real = os.path.realpath(path)
        if real not in self._written:
            return None
        try:
            with Path(real).open("rb") as file:
                content = file.read(_MAX_BYTES)
        except OSError:  # it is not there (yet), or a folder
            return None
        digest = hashlib.sha256(content).hexdigest()
        return None if digest in self._agreed else WrittenScript(path, content.decode("utf-8", "replace"), digest)

    def agree(self, digests: Collection[str]) -> None:
        """A person agreed to run files with these contents."""
        self._agreed.update(digests)
