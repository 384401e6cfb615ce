"""Which files of a folder may be session files: told by name alone, before any is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".db", ".sqlite")
_NEVER = frozenset(
    {".git", "node_modules", "__pycache__", "file-history", "tool-results", "todos", "plugins", "skills"}
)
# The storage folder of opencode holds a session in pieces; the file under `session` leads to the others.
_PIECES = frozenset({"message", "part", "session_diff", "session_message", "todo", "project"})


def session_files(folder: Path) -> list[Path]:
    """Candidates in a folder and below, in an order in which sessions come before their subagents."""
    return sorted(_candidates(folder), key=lambda path: (_is_subagent(path), str(path)))


def _candidates(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        left = _NEVER | _PIECES if "session" in folders else _NEVER
        folders[:] = [name for name in folders if name not in left]
        for name in names:
            # Some archives hold a second file for each, with what macOS knows of it.
            if name.endswith(_ENDINGS) and not name.startswith("._") and not name.endswith(".meta.json"):
                yield Path(where) / name


def _is_subagent(path: Path) -> bool:
    """As Claude Code names them."""
    return path.name.startswith("agent-") or path.parent.name == "subagents"
