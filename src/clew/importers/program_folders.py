"""Where other programs keep their sessions, and which of these files were imported as they are now.

A file is recognised by its size and the time of its last change: a start that finds nothing new reads no file. The
note of imported files is beside the config, for each store; it is dropped where the store has none of their sessions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from clew.config import clew_home, program_folder, replace_file
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


_PLACES = (
    ("claude-code", "CLAUDE_CONFIG_DIR", ".claude", "projects"),
    ("codex", "CODEX_HOME", ".codex", "sessions"),
    ("gemini-cli", "", ".gemini", "tmp"),
    ("opencode", "XDG_DATA_HOME", ".local/share", "opencode/opencode.db"),
    ("opencode", "XDG_DATA_HOME", ".local/share", "opencode/storage"),
    ("pi", "PI_CODING_AGENT_DIR", ".pi/agent", "sessions"),
    ("hermes", "HERMES_HOME", ".hermes", "state.db"),
)
"""The program, the variable that names its folder, that folder below the home folder, and the place in it."""


def program_folders(environ: Mapping[str, str]) -> tuple[ProgramFolder, ...]:
    """The usual places of the known programs that are there. opencode's old folder counts where it has no database."""
    # Of this environment alone: a command that runs for another user means the files of that user.
    if not (environ.get("HOME") or environ.get("USERPROFILE")):
        return ()
    found: dict[str, ProgramFolder] = {}
    for program, variable, default, place in _PLACES:
        windows = program if program == "hermes" else ""
        path = program_folder(environ, variable, default, windows=windows) / place
        if program not in found and _is_there(path):
            found[program] = ProgramFolder(program, path)
    return tuple(found.values())


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def fingerprint(path: Path) -> Fingerprint | None:
    """What identifies the content of a file; None where it is gone or cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    parts = [status.st_size, status.st_mtime_ns]
    if path.suffix in (".db", ".sqlite"):
        # The newest writes are in the log until they are copied into the database.
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
        """Read the note for a store; empty if there is none or it cannot be read."""
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
