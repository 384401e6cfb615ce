"""Hermes' own config: the two keys that make it use Clew, written into it, taken out again, and looked at.

Hermes wants both `plugins.enabled` and `context.engine`; with one of them alone it goes on with its built-in engine,
and says so in its log only. What is written here changes nothing else in the file, and what was changed is noted, so
that undoing it gives back the bytes from before.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clew.config import clew_home, replace_file
from clew.config.yaml_file import parse_yaml, with_key, with_list_item, without_key, without_list_item
from clew.errors import ConfigProblem, InvalidConfig

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
    """What Hermes' config says of Clew."""

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
class ConfigEdit:
    """A change of the text, by which it can be undone."""

    at: int
    """Chars before it."""
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class HermesCheck:
    """Whether Hermes uses Clew, as far as its config and its interpreter tell."""

    config: str
    problems: tuple[str, ...]
    python: str | None
    """The interpreter that Hermes runs with; None where none was found."""

    @property
    def is_ok(self) -> bool:
        return not self.problems


def hermes_config_path(environ: Mapping[str, str]) -> Path:
    """Where Hermes' config is, or would be: HERMES_HOME, else .hermes in the home folder."""
    chosen = environ.get("HERMES_HOME", "").strip()
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 (Path raises where no home is known)
    if chosen:
        folder = Path(home) / chosen[2:] if chosen.startswith("~/") else Path(chosen)
    elif sys.platform == "win32" and environ.get("LOCALAPPDATA"):
        folder = Path(environ["LOCALAPPDATA"]) / "hermes"
    else:
        folder = Path(home) / ".hermes"
    return folder / "config.yaml"


def read_hermes_config(environ: Mapping[str, str]) -> HermesConfig:
    """What Hermes' config says; `InvalidConfig` where it cannot be read."""
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


def set_up_hermes(environ: Mapping[str, str]) -> tuple[HermesConfig, list[str]]:
    """Write both keys; the config as it is then, and the keys that were changed."""
    config = read_hermes_config(environ)
    if config.is_disabled:
        raise InvalidConfig(
            [ConfigProblem(str(config.path), DISABLED, f"names {NAME}", "take it out of that list, which wins")]
        )
    was = text = _read(config.path) or ""
    edits, changed = [], []
    for key, edit in ((ENABLED, with_list_item), (ENGINE, with_key)):
        edited = edit(text, config.path, key, NAME)
        if edited != text:
            edits.append(_edit_between(text, edited))
            changed.append(key)
            text = edited
    if text != was:
        _write(config.path, text)
        _note(environ, config, edits)
    return read_hermes_config(environ), changed


def undo_hermes_setup(environ: Mapping[str, str]) -> tuple[HermesConfig, list[str]]:
    """Take both keys out again: the bytes from before, where nothing else has changed there since."""
    config = read_hermes_config(environ)
    text = _read(config.path)
    if text is None or not config.names_clew:
        _notes_path(environ).unlink(missing_ok=True)
        return config, []
    changed = [key for key, is_set in ((ENABLED, config.is_enabled), (ENGINE, config.engine == NAME)) if is_set]
    noted = _noted(environ, config.path)
    restored = _undone(text, noted[0]) if noted else None
    if restored is None or _names_clew(restored, config.path):
        restored = without_list_item(text, config.path, ENABLED, NAME)
        restored = without_key(restored, config.path, ENGINE) if config.engine == NAME else restored
    if noted and noted[1] and not restored:
        config.path.unlink()  # it was made by the setup
    else:
        _write(config.path, restored)
    _notes_path(environ).unlink(missing_ok=True)
    return read_hermes_config(environ), changed


def check_hermes(environ: Mapping[str, str]) -> HermesCheck | None:
    """Whether Hermes will use Clew; None where its config does not name it."""
    path = hermes_config_path(environ)
    try:
        config = read_hermes_config(environ)
    except InvalidConfig as problem:
        # It may be that nobody wants Clew there; whoever does has been set up here.
        if not _notes_path(environ).exists():
            return None
        return HermesCheck(str(path), (str(problem),), None)
    if not config.names_clew:
        return None
    problems = []
    silent = "Hermes goes on with its built-in engine and says so in its log only; `clew setup hermes` sets both"
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
            [python, "-c", _IMPORTS], capture_output=True, text=True, timeout=_IMPORT_SECONDS, env=dict(environ)
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]


# -- the file ----------------------------------------------------------------------------------------------------------


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


def _names_clew(text: str, path: Path) -> bool:
    values = _plain_values(text, path)
    plugins, context = values.get("plugins"), values.get("context")
    enabled = plugins.get("enabled") if isinstance(plugins, dict) else None
    return (isinstance(enabled, list) and NAME in enabled) or (
        isinstance(context, dict) and context.get("engine") == NAME
    )


# -- what was changed --------------------------------------------------------------------------------------------------


def _edit_between(before: str, after: str) -> ConfigEdit:
    at = _common(before, after)
    end = _common(before[at:][::-1], after[at:][::-1])
    return ConfigEdit(at, before[at : len(before) - end], after[at : len(after) - end])


def _common(one: str, other: str) -> int:
    """How many chars two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _undone(text: str, edits: list[ConfigEdit]) -> str | None:
    """The text from before the edits; None where one of them is not found any more."""
    for edit in reversed(edits):
        at = edit.at if text.startswith(edit.after, edit.at) else text.find(edit.after)
        if at < 0 or (at != edit.at and text.count(edit.after) != 1):
            return None
        text = text[:at] + edit.before + text[at + len(edit.after) :]
    return text


def _notes_path(environ: Mapping[str, str]) -> Path:
    return clew_home(environ) / _NOTES


def _note(environ: Mapping[str, str], config: HermesConfig, edits: list[ConfigEdit]) -> None:
    earlier = _noted(environ, config.path)
    noted = {
        "config": str(config.path),
        "created": earlier[1] if earlier else not config.exists,
        "edits": [asdict(edit) for edit in (*(earlier[0] if earlier else ()), *edits)],
    }
    replace_file(_notes_path(environ), json.dumps(noted, indent=1))


def _noted(environ: Mapping[str, str], path: Path) -> tuple[list[ConfigEdit], bool] | None:
    """The edits of a setup and whether it made the file; None where none is noted for this file."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(_notes_path(environ).read_text("utf-8"))
        if noted["config"] == str(path):
            return [ConfigEdit(**edit) for edit in noted["edits"]], bool(noted["created"])
    return None
