"""What files held before the tools of a turn changed them, so that `/undo` can put it back, inside git or not.

A checkpoint is one JSON file, made with the first edit of a turn. Files that commands change are not in it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from clew.agent.files.disk import read_all, write_atomically
from clew.errors import ClewError, InvalidArgument

MAX_FILE_BYTES = 4 << 20
"""A larger file is changed without a way back, and `/undo` says so."""
MAX_CHECKPOINTS = 200
"""Of more, the oldest are removed."""


@dataclass(slots=True)
class RestoredFiles:
    """What putting a checkpoint back did."""

    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Created by the turn, and gone again."""
    changed_since: list[str] = field(default_factory=list)
    """Not restored: they were changed again after the turn."""
    impossible: list[str] = field(default_factory=list)
    """Too large to have been kept, or they could not be written."""


class Checkpoints:
    """The checkpoints in a folder that only its owner can read, and the one of the turn that runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, dict[str, str | bool | None]] = {}
        self.id: str | None = None
        """The checkpoint of this turn; None while nothing was changed."""

    def begin(self) -> None:
        """A turn begins."""
        self.id, self._files = None, {}

    def record(self, path: Path, after: bytes) -> None:
        """Keep what a file holds before it is written; call it right before. Raises OSError."""
        known = self._files.get(str(path))
        if known is None:
            before = _content(path)
            is_kept = before is None or len(before) <= MAX_FILE_BYTES
            packed = base64.b64encode(zlib.compress(before)).decode() if before is not None and is_kept else None
            known = self._files[str(path)] = {"before": packed, "is_new": before is None, "is_kept": is_kept}
        known["after"] = _digest(after)
        self._write()

    def restore(self, *checkpoints: str, also: Collection[str] = ()) -> RestoredFiles:
        """Put the files of checkpoints back, newest first. Those that others changed stay, unless `also` has them."""
        done = RestoredFiles()
        for checkpoint in checkpoints:
            for path, kept in self._files_of(checkpoint).items():
                try:
                    self._restore_file(Path(path), kept, done, is_forced=path in also)
                except (OSError, InvalidArgument):
                    done.impossible.append(path)
        return done

    def _files_of(self, checkpoint: str) -> dict[str, dict[str, str | None]]:
        try:
            files: dict[str, dict[str, str | None]] = json.loads(self._path(checkpoint).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as problem:
            raise ClewError(f"the checkpoint {self._path(checkpoint)} cannot be read: {problem}") from problem
        return files

    def _restore_file(self, path: Path, kept: dict[str, str | None], done: RestoredFiles, *, is_forced: bool) -> None:
        if not kept["is_kept"]:
            done.impossible.append(str(path))
            return
        before = None if kept["is_new"] else zlib.decompress(base64.b64decode(kept["before"] or ""))
        now = _content(path)
        if now == before:
            return
        if not is_forced and (now is None or _digest(now) != kept["after"]):
            done.changed_since.append(str(path))
        elif before is None:
            path.unlink()
            done.removed.append(str(path))
        else:
            write_atomically(path, before, None if now is None else read_all(path)[1])
            done.restored.append(str(path))

    def _write(self) -> None:
        if self.id is None:
            self.id = secrets.token_hex(8)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            oldest_first = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
            for old in oldest_first[: max(0, len(oldest_first) - MAX_CHECKPOINTS + 1)]:
                old.unlink(missing_ok=True)
        part = self._folder / f"{self.id}.part"
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
            json.dump(self._files, file)
        part.replace(self._path(self.id))

    def _path(self, checkpoint: str) -> Path:
        return self._folder / f"{checkpoint}.json"


def _content(path: Path) -> bytes | None:
    try:
        return read_all(path)[0]
    except FileNotFoundError:
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
