"""Where other programs keep their sessions, and which of these files were imported as they are now.

A file is known again by its size and the time of its last change: a start that finds nothing new reads no file. The
note of that is a file beside the config, for each store; where the store has lost what it tells of, it counts no more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from clew.config import clew_home, replace_file
from clew.errors import InvalidConfig

Fingerprint: TypeAlias = tuple[int, ...]
"""Size and time of change of a file, and of the log beside a database."""
NOTE_NAME = "imported.json"
_MAX_NOTE_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class ProgramFolder:
    """A folder, or a database, in which a program keeps its sessions."""

    program: str
    path: Path


_Place: TypeAlias = Callable[[Path, Mapping[str, str]], Path]


def _below(variable: str, default: str, *names: str) -> _Place:
    """A place in the folder that an environment variable names, else in one below the home folder."""

    def place(home: Path, environ: Mapping[str, str]) -> Path:
        chosen = environ.get(variable, "").strip() if variable else ""
        folder = home / default if not chosen else home / chosen[2:] if chosen.startswith("~/") else Path(chosen)
        return folder.joinpath(*names)

    return place


def _hermes(home: Path, environ: Mapping[str, str]) -> Path:
    if sys.platform == "win32" and environ.get("LOCALAPPDATA") and not environ.get("HERMES_HOME"):
        return Path(environ["LOCALAPPDATA"]) / "hermes" / "state.db"
    return _below("HERMES_HOME", ".hermes", "state.db")(home, environ)


_PLACES: tuple[tuple[str, _Place], ...] = (
    ("claude-code", _below("CLAUDE_CONFIG_DIR", ".claude", "projects")),
    ("codex", _below("CODEX_HOME", ".codex", "sessions")),
    ("gemini-cli", _below("", ".gemini", "tmp")),
    ("opencode", _below("XDG_DATA_HOME", ".local/share", "opencode", "opencode.db")),
    ("opencode", _below("XDG_DATA_HOME", ".local/share", "opencode", "storage")),
    ("pi", _below("PI_CODING_AGENT_DIR", ".pi/agent", "sessions")),
    ("hermes", _hermes),
)


def program_folders(environ: Mapping[str, str]) -> tuple[ProgramFolder, ...]:
    """The usual places of the known programs that are there. opencode's old folder counts where it has no database."""
    # Of this environment alone: a command that runs for another user means the files of that user.
    named = environ.get("HOME") or environ.get("USERPROFILE")
    if not named:
        return ()
    found: dict[str, ProgramFolder] = {}
    for program, place in _PLACES:
        path = place(Path(named), environ)
        if program not in found and _is_there(path):
            found[program] = ProgramFolder(program, path)
    return tuple(found.values())


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def fingerprint(path: Path) -> Fingerprint | None:
    """By what a file is known again; None where it is gone or cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    parts = [status.st_size, status.st_mtime_ns]
    if path.suffix in (".db", ".sqlite"):
        # What was written last is in the log until that is copied into the database.
        log = fingerprint(path.with_name(f"{path.name}-wal"))
        parts += log or ()
    return tuple(parts)


class ImportedFiles:
    """Which files were imported as they are, each with a session that was made from it."""

    def __init__(self, path: Path | None, store: str) -> None:
        self._path = path
        self._store = store
        self._files: dict[str, tuple[Fingerprint, str]] = {}
        self._is_changed = False

    @classmethod
    def noted(cls, environ: Mapping[str, str], store: str) -> ImportedFiles:
        """What was noted for a store; nothing where there is no note, or one that cannot be read."""
        files = cls(clew_home(environ) / NOTE_NAME, store)
        files._files = dict(_entries(_read(files._path).get(store)))
        return files

    @property
    def sessions(self) -> set[str]:
        """Sessions that the store must have, or some of them, for the note to count."""
        return {session for _, session in self._files.values() if session}

    def is_known(self, path: Path, now: Fingerprint) -> bool:
        known = self._files.get(str(path))
        return known is not None and known[0] == now

    def add(self, path: Path, now: Fingerprint, session: str | None) -> None:
        self._files[str(path)] = (now, session or "")
        self._is_changed = True

    def forget(self) -> None:
        """Let every file be read again."""
        self._files.clear()
        self._is_changed = True

    def save(self) -> None:
        """Write the note, where it changed; where that fails, the next start reads the files again."""
        if self._path is None or not self._is_changed:
            return
        whole = _read(self._path)
        whole[self._store] = {name: [*known, session] for name, (known, session) in self._files.items()}
        try:
            replace_file(self._path, json.dumps(whole))
        except InvalidConfig:
            return
        self._is_changed = False


def _read(path: Path | None) -> dict[str, Any]:
    try:
        if path is None or path.stat().st_size > _MAX_NOTE_BYTES:
            return {}
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _entries(noted: Any) -> Iterable[tuple[str, tuple[Fingerprint, str]]]:
    for name, value in noted.items() if isinstance(noted, dict) else ():
        if isinstance(value, list) and value and isinstance(value[-1], str):
            numbers = tuple(part for part in value[:-1] if isinstance(part, int))
            yield name, (numbers, value[-1])
