"""Hermes' config: writing, removing and checking the two keys that make Hermes use Clew.

Hermes needs both `plugins.enabled` and `context.engine`; with only one it uses its built-in engine and says so in its
log only. Nothing else in the file changes, and the change is noted, so that the undo restores the file byte for byte.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from clew.config import clew_home, program_folder, replace_file
from clew.config.yaml_file import parse_yaml, with_key, with_list_item, without_key, without_list_item
from clew.errors import ConfigProblem, InvalidConfig
from clew.integrations.inside_setup import FileChange

NAME = "clew"
ENABLED, ENGINE, DISABLED = "plugins.enabled", "context.engine", "plugins.disabled"
BUILT_IN_ENGINE = "compressor"
_NOTES = "hermes-setup.json"
_IMPORT_SECONDS = 60
_IMPORTS = (
    "from importlib.metadata import entry_points\n"
    f"found = list(entry_points(group='hermes_agent.plugins', name='{NAME}'))\n"
    "assert found, 'clew is not installed there'\n"
    "found[0].load()\n"
)


@dataclass(frozen=True, slots=True)
class HermesConfig:
    """The parts of Hermes' config about Clew."""

    path: Path
    exists: bool
    is_enabled: bool
    is_disabled: bool
    """Named under `plugins.disabled`, which wins."""
    engine: str

    @property
    def is_complete(self) -> bool:
        return self.is_enabled and self.engine == NAME and not self.is_disabled

    @property
    def names_clew(self) -> bool:
        return self.is_enabled or self.engine == NAME


@dataclass(frozen=True, slots=True)
class HermesCheck:
    """Whether Hermes uses Clew, judged by its config and its interpreter."""

    config: str
    problems: tuple[str, ...]
    python: str | None
    """The interpreter that Hermes runs with; None where none was found."""

    @property
    def is_ok(self) -> bool:
        return not self.problems


def hermes_config_path(environ: Mapping[str, str]) -> Path:
    """Where Hermes' config is, or would be: HERMES_HOME, else .hermes in the home folder."""
    return program_folder(environ, "HERMES_HOME", ".hermes", windows="hermes") / "config.yaml"


def read_hermes_config(environ: Mapping[str, str]) -> HermesConfig:
    """Read Hermes' config; raises `InvalidConfig` if it cannot be read."""
    path = hermes_config_path(environ)
    text = _read(path)
    values = _plain_values(text or "", path)
    plugins, context = values.get("plugins"), values.get("context")
    enabled = plugins.get("enabled") if isinstance(plugins, dict) else None
    disabled = plugins.get("disabled") if isinstance(plugins, dict) else None
    engine = context.get("engine") if isinstance(context, dict) else None
    return HermesConfig(
        path,
        text is not None,
        isinstance(enabled, list) and NAME in enabled,
        isinstance(disabled, list) and NAME in disabled,
        str(engine or BUILT_IN_ENGINE),
    )


def planned_hermes_change(environ: Mapping[str, str], *, undo: bool = False) -> FileChange:
    """The change of a setup, or with `undo` of its undo."""
    config = read_hermes_config(environ)
    text = _read(config.path)
    after = _undone(config, text, environ) if undo else _with_both_keys(config, text)
    return FileChange(config.path, text, after, is_config=True)


def set_up_hermes(environ: Mapping[str, str]) -> tuple[HermesConfig, list[str]]:
    """Write both keys; the config as it is then, and the keys that were changed."""
    config = read_hermes_config(environ)
    change = planned_hermes_change(environ)
    if change.after is not None and change.is_change:
        _write(config.path, change.after)
        if not config.names_clew:
            noted = {"config": str(config.path), "before": change.before, "after": change.after}
            replace_file(_notes_path(environ), json.dumps(noted, indent=1))
    keys = ((ENABLED, config.is_enabled), (ENGINE, config.engine == NAME))
    return read_hermes_config(environ), [key for key, is_set in keys if not is_set]


def undo_hermes_setup(environ: Mapping[str, str]) -> tuple[HermesConfig, list[str]]:
    """Take both keys out again: the bytes from before, where nothing else has changed there since."""
    config = read_hermes_config(environ)
    change = planned_hermes_change(environ, undo=True)
    if change.is_change:
        if change.after is None:
            config.path.unlink()  # it was made by the setup
        else:
            _write(config.path, change.after)
    _notes_path(environ).unlink(missing_ok=True)
    keys = ((ENABLED, config.is_enabled), (ENGINE, config.engine == NAME))
    return read_hermes_config(environ), [key for key, is_set in keys if is_set]


def _with_both_keys(config: HermesConfig, text: str | None) -> str | None:
    if config.is_disabled:
        raise InvalidConfig(
            [ConfigProblem(str(config.path), DISABLED, f"names {NAME}", "take it out of that list, which wins")]
        )
    edited = with_list_item(text or "", config.path, ENABLED, NAME)
    edited = with_key(edited, config.path, ENGINE, NAME)
    return text if edited == (text or "") else edited


def _undone(config: HermesConfig, text: str | None, environ: Mapping[str, str]) -> str | None:
    """The config without both keys; None where the setup made it."""
    if text is None or not config.names_clew:
        return text
    noted = _noted(environ, config.path)
    restored: str | None
    if noted.get("after") == text:
        restored = noted["before"]
    elif (restored := _without_edits(text, noted)) is None:
        restored = without_list_item(text, config.path, ENABLED, NAME)
        restored = without_key(restored, config.path, ENGINE) if config.engine == NAME else restored
    return None if not restored and noted.get("before", "") is None else restored


def check_hermes(environ: Mapping[str, str]) -> HermesCheck | None:
    """Whether Hermes will use Clew; None where its config does not name it."""
    path = hermes_config_path(environ)
    try:
        config = read_hermes_config(environ)
    except InvalidConfig as problem:
        # Clew may be unwanted there; only a setup writes these keys.
        if not _notes_path(environ).exists():
            return None
        return HermesCheck(str(path), (str(problem),), None)
    if not config.names_clew:
        return None
    problems = []
    silent = "Hermes uses its built-in engine and says so in its log only; `clew setup hermes` sets both"
    if config.is_disabled:
        problems.append(f"{DISABLED} names {NAME}, which wins: take it out of that list")
    elif not config.is_enabled:
        problems.append(f"{ENGINE} is {NAME}, but {ENABLED} does not name it: {silent}")
    elif config.engine != NAME:
        problems.append(f"{ENABLED} names {NAME}, but {ENGINE} is {config.engine}: {silent}")
    python = find_hermes_python(environ)
    if python is not None and (failure := _import_failure(python, environ)):
        problems.append(f"the Python of Hermes, {python}, cannot load Clew ({failure}): install it there, too")
    return HermesCheck(str(config.path), tuple(problems), python)


def find_hermes_python(environ: Mapping[str, str]) -> str | None:
    """The interpreter in the first line of the program `hermes`; None where it is not on the path."""
    program = shutil.which("hermes", path=environ.get("PATH"))
    if program is None:
        return None
    with contextlib.suppress(OSError), Path(program).open("rb") as file:
        first = file.readline(4_096).decode("utf-8", "replace").strip()
        words = first.removeprefix("#!").split()
        if first.startswith("#!") and words and Path(words[0]).name.startswith("python"):
            return words[0]
    return None


def _import_failure(python: str, environ: Mapping[str, str]) -> str:
    """Why the plugin cannot be loaded there; nothing where it can."""
    try:
        done = subprocess.run(
            # -P keeps the current folder, which may be a project, off the module path.
            [python, "-P", "-c", _IMPORTS],
            capture_output=True,
            text=True,
            timeout=_IMPORT_SECONDS,
            env=dict(environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]


def _read(path: Path) -> str | None:
    """The text, with its line ends as they are; None where there is no file."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(
            [ConfigProblem(str(path), "", "cannot be read", f"{error}; set {ENABLED} and {ENGINE} by hand")]
        ) from error


def _write(path: Path, text: str) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    replace_file(path, text)
    if mode is not None:
        path.chmod(mode)


def _plain_values(text: str, path: Path) -> dict[str, Any]:
    import yaml

    parse_yaml(text, path)
    values = yaml.safe_load(text)
    return values if isinstance(values, dict) else {}


def _notes_path(environ: Mapping[str, str]) -> Path:
    return clew_home(environ) / _NOTES


def _without_edits(text: str, noted: Mapping[str, Any]) -> str | None:
    """The text without the lines that the setup wrote; None where one of them is not there once."""
    before, after = ((noted.get(name) or "").splitlines(keepends=True) for name in ("before", "after"))
    for kind, old, old_end, new, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        written = "".join(after[new:new_end])
        if kind != "equal" and text.count(written) != 1:
            return None
        text = text if kind == "equal" else text.replace(written, "".join(before[old:old_end]))
    return text if after else None


def _noted(environ: Mapping[str, str], path: Path) -> dict[str, Any]:
    """The note of the setup about this file, with its text before and after; empty if there is none."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        noted = json.loads(_notes_path(environ).read_text("utf-8"))
        return dict(noted) if noted["config"] == str(path) else {}
    return {}
