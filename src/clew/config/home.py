"""The places of Clew's files and of its store, reading a config file with a limit, replacing a file in one step."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from clew.config.declare import invalid_file
from clew.errors import ConfigProblem, InvalidConfig

MAX_BYTES = 100_000
DATABASE_NAME = "state.db"
_SERVER = re.compile(r"postgres(?:ql)?://")
_SQLITE = "sqlite://"


def clew_home(environ: Mapping[str, str]) -> Path:
    """The folder of Clew's files: CLEW_HOME, else .clew in the home folder."""
    chosen = environ.get("CLEW_HOME", "").strip()
    try:
        return _expanded(chosen or "~/.clew", environ).absolute()
    except RuntimeError as error:
        raise InvalidConfig(
            [ConfigProblem("environment", "CLEW_HOME", repr(chosen), "no home folder found; set CLEW_HOME to a folder")]
        ) from error


def program_folder(environ: Mapping[str, str], variable: str, default: str, *, windows: str = "") -> Path:
    """The folder of another program: the one that a variable of it names, else `default` below the home folder.

    `windows` is its name below LOCALAPPDATA, for a program that has it there.
    """
    home = environ.get("HOME") or environ.get("USERPROFILE") or os.path.expanduser("~")  # noqa: PTH111 (Path raises)
    chosen = environ.get(variable, "").strip()
    if chosen:
        return Path(home) / chosen[2:] if chosen.startswith("~/") else Path(chosen)
    if windows and sys.platform == "win32" and environ.get("LOCALAPPDATA"):
        return Path(environ["LOCALAPPDATA"]) / windows
    return Path(home) / default


def config_path(environ: Mapping[str, str]) -> Path:
    """The path of the config file, which may not exist."""
    return clew_home(environ) / "config.yaml"


def learnt_limits_path(environ: Mapping[str, str]) -> Path:
    """The path of the file with the limits that providers stated in errors."""
    return clew_home(environ) / "learnt_limits.json"


def read_text(path: Path) -> str | None:
    """The text of the file with its byte order mark; None if there is no file."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise invalid_file(path, None, "is a folder", "a file is expected there; move the folder away") from None
    except OSError as error:
        raise invalid_file(
            path, None, f"cannot be read ({error.strerror})", "check its permissions and its path"
        ) from error
    if len(raw) > MAX_BYTES:
        raise invalid_file(
            path, None, "is larger than 100 KB", "a config file holds settings only; is it the right file?"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise invalid_file(
            path, line, f"byte 0x{raw[error.start]:02x} is not UTF-8", "save the file as UTF-8"
        ) from error


def store_place(url: str | None, environ: Mapping[str, str]) -> Path | str:
    """The place that `store.url` names: a file, relative to the folder of Clew, or the address of a server."""
    url = url or DATABASE_NAME
    if _SERVER.match(url):
        return url
    name = url.removeprefix(_SQLITE)
    home = environ.get("HOME")
    if home and (name == "~" or name.startswith("~/")):
        name = str(Path(home) / name[2:])
    return clew_home(environ) / Path(os.path.expanduser(name))  # noqa: PTH111 (Path raises where no home is known)


def path_exists(path: Path) -> bool:
    """Whether a file, folder or link of this name exists; False if that cannot be read."""
    try:
        return path.exists() or path.is_symlink()
    except OSError:
        return False


def replace_file(path: Path, text: str) -> None:
    """Write the file whole or not at all, private to its owner; a link stays a link and its target is replaced."""
    target = path.resolve()
    temporary: str | None = None
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes the file 0600 from its first moment on.
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
        remedy = "check the folder's permissions and space"
        raise invalid_file(path, None, f"cannot be written ({error.strerror})", remedy) from error


def _expanded(path: str, environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        return Path(home) / path[2:]
    return Path(path).expanduser()


def _sync_folder(folder: Path) -> None:
    """Make the rename durable, on systems that can open a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
