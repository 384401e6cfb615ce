"""Plugins of Clew inside other agents: which there are, where they go, and how they are put there and taken out.

A plugin is a few files in the program's language, shipped in this package. Most programs find plugins by their folder.
Where the config must name the plugin, its earlier text is kept, so that the undo restores it byte for byte.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from clew.config import clew_home, program_folder, replace_file
from clew.errors import ConfigProblem, InvalidConfig

_MARK = "Clew inside"
"""Marks every plugin file of Clew; a file without it is not ours."""
_BACKUP = "inside-setup-{}.json"


@dataclass(frozen=True, slots=True)
class InsideProgram:
    """A program that a plugin replaces the compaction of."""

    name: str
    title: str
    variable: str
    """The environment variable that names its folder."""
    folder: str
    """That folder without the variable, below the home folder."""
    place: str
    """The folder of the plugin in it."""
    config: str = ""
    """The JSON config in it, of a program that must name the plugin."""
    values: tuple[tuple[tuple[str, ...], Any], ...] = ()
    """What is set in the config: keys and value."""

    def path(self, environ: Mapping[str, str], name: str) -> Path:
        """A path in the folder of the program."""
        return program_folder(environ, self.variable, self.folder) / name


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after; None if it does not exist."""

    path: Path
    before: str | None
    after: str | None
    is_config: bool = False
    """Whether it is the config of the program, and no file of Clew."""

    @property
    def is_change(self) -> bool:
        return self.before != self.after


INSIDE_PROGRAMS = (
    InsideProgram("claude-code", "Claude Code", "CLAUDE_CONFIG_DIR", ".claude", "skills/clew"),
    InsideProgram("opencode", "opencode", "XDG_CONFIG_HOME", ".config", "opencode/plugin"),
    InsideProgram("pi", "pi", "PI_CODING_AGENT_DIR", ".pi/agent", "extensions"),
    InsideProgram(
        "openclaw",
        "OpenClaw",
        "OPENCLAW_STATE_DIR",
        ".openclaw",
        "extensions/clew",
        "openclaw.json",
        (
            (("agents", "defaults", "compaction", "provider"), "clew"),
            (("plugins", "entries", "clew", "enabled"), True),
        ),
    ),
)


def inside_program(name: str) -> InsideProgram:
    return next(each for each in INSIDE_PROGRAMS if each.name == name)


def planned_changes(program: InsideProgram, environ: Mapping[str, str], *, undo: bool = False) -> list[FileChange]:
    """The changes of a setup, or with `undo` of its undo; raises `InvalidConfig` if it cannot be done."""
    if not (environ.get("HOME") or environ.get("USERPROFILE")):
        raise InvalidConfig([ConfigProblem("environment", "HOME", "is not set", "set it to your home folder")])
    folder = program.path(environ, program.place)
    changes = []
    for name, text in _shipped(program.name):
        path = folder / name
        before = _read(path)
        if before is not None and before != text and _MARK not in before:
            raise InvalidConfig([ConfigProblem(str(path), "", "is no file of Clew", "move it away, and set up again")])
        changes.append(FileChange(path, before, None if undo else text))
    if program.config:
        changes.append(_config_change(program, program.path(environ, program.config), environ, undo=undo))
    return changes


def apply_changes(
    program: InsideProgram, changes: list[FileChange], environ: Mapping[str, str], *, undo: bool = False
) -> list[FileChange]:
    """Write the changes; returns those that were needed."""
    needed = [change for change in changes if change.is_change]
    backup = clew_home(environ) / _BACKUP.format(program.name)
    for change in needed:
        if change.is_config and not undo:
            noted = {"config": str(change.path), "before": change.before, "after": change.after}
            replace_file(backup, json.dumps(noted))
        if change.after is None:
            change.path.unlink(missing_ok=True)
            _remove_empty(change.path.parent, program.path(environ, program.place))
            continue
        mode = change.path.stat().st_mode & 0o777 if change.path.exists() else 0o644
        replace_file(change.path, change.after)
        change.path.chmod(mode)
    if undo:
        backup.unlink(missing_ok=True)
    return needed


def is_installed(program: InsideProgram, environ: Mapping[str, str]) -> bool:
    """Whether every file is there as this version ships it, and the config names the plugin."""
    return not any(change.is_change for change in planned_changes(program, environ))


def _shipped(name: str) -> Iterator[tuple[str, str]]:
    """The files of a plugin, by their path below its folder."""
    root = files("clew.integrations") / "inside" / name

    def below(folder: Any, prefix: str) -> Iterator[tuple[str, str]]:
        for each in sorted(folder.iterdir(), key=lambda it: it.name):
            if each.is_dir():
                yield from below(each, f"{prefix}{each.name}/")
            else:
                yield f"{prefix}{each.name}", each.read_text(encoding="utf-8")

    return below(root, "")


def _config_change(program: InsideProgram, path: Path, environ: Mapping[str, str], *, undo: bool) -> FileChange:
    text = _read(path)
    if undo:
        return FileChange(path, text, _undone(program, path, text, environ), is_config=True)
    read = _json(path, text)
    changed = False
    for keys, value in program.values:
        inner = read
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise InvalidConfig([ConfigProblem(str(path), ".".join(keys), "is no object", "set it by hand")])
        if inner.get(keys[-1]) != value:
            inner[keys[-1]], changed = value, True
    return FileChange(path, text, _dumped(read) if changed else text, is_config=True)


def _undone(program: InsideProgram, path: Path, text: str | None, environ: Mapping[str, str]) -> str | None:
    before: str | None = None
    with contextlib.suppress(OSError, ValueError, KeyError):
        noted = json.loads((clew_home(environ) / _BACKUP.format(program.name)).read_text("utf-8"))
        if noted["config"] == str(path):
            before = noted["before"]
            if noted["after"] == text:
                return before
    if text is None:
        return None
    # The file was edited since: only our values are set back to the earlier ones, or removed.
    read, former = _json(path, text), _json(path, before)
    changed = False
    for keys, value in program.values:
        inner, was = _object_at(read, keys[:-1]), _object_at(former, keys[:-1])
        if inner.get(keys[-1]) == value and was.get(keys[-1]) != value:
            del inner[keys[-1]]
            inner |= {keys[-1]: was[keys[-1]]} if keys[-1] in was else {}
            changed = True
    return _dumped(read) if changed else text


def _object_at(value: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _dumped(config: dict[str, Any]) -> str:
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def _json(path: Path, text: str | None) -> dict[str, Any]:
    try:
        read = json.loads(text or "{}")
    except ValueError as error:
        remedy = "it is no plain JSON (comments?); set agents.defaults.compaction.provider by hand"
        raise InvalidConfig([ConfigProblem(str(path), "", "cannot be read", remedy)]) from error
    if not isinstance(read, dict):
        raise InvalidConfig([ConfigProblem(str(path), "", "is no object", "is it the right file?")])
    return read


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig([ConfigProblem(str(path), "", "cannot be read", str(error))]) from error


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove empty folders of a plugin, and its own folder if that is called `clew`."""
    last = top if top.name == "clew" else None
    while folder.is_dir() and not any(folder.iterdir()) and (folder == last or (top in folder.parents)):
        folder.rmdir()
        folder = folder.parent
