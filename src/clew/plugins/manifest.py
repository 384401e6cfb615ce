"""`plugin.yaml`: what a folder plugin says about itself without being run. Every key may be missing.

    description: keeps whole turns
    version: 1.0.0
    contract: 1

Keys we do not know are left alone: they may be a newer Clew's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "plugin.yaml"
_MOST_BYTES = 64_000


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the file says; `problem` where it cannot be understood."""

    description: str = ""
    version: str = ""
    contract: int | None = None
    problem: str = ""


def read_manifest(folder: Path, name: str) -> Manifest:
    """The manifest of a plugin's folder; an empty one where it has none."""
    path = folder / FILE
    try:
        if not path.exists():
            return Manifest()
        text = path.read_bytes()[: _MOST_BYTES + 1].decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return Manifest(problem=f"{path}: cannot be read: {error}")
    if len(text.encode()) > _MOST_BYTES:
        return Manifest(problem=f"{path}: larger than {_MOST_BYTES:,} bytes; a manifest holds a few lines")
    # Only where there is a manifest: YAML takes long to import.
    import yaml

    try:
        said = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Manifest(problem=f"{path}: not valid YAML: {' '.join(str(error).split())}")
    return _manifest_of({} if said is None else said, path, name)


def _manifest_of(said: Any, path: Path, name: str) -> Manifest:
    if not isinstance(said, dict):
        return Manifest(problem=f"{path}: keys are expected, as `description: ...`")
    for key, allowed in (("name", str), ("description", str), ("version", str | int | float), ("contract", int)):
        if key in said and (not isinstance(said[key], allowed) or isinstance(said[key], bool)):
            words = {"contract": "a whole number", "version": "a version, as 1.0.0"}.get(key, "text")
            return Manifest(problem=f"{path}: {key} = {said[key]!r} is not allowed; {words} is expected")
    if said.get("name", name) != name:
        return Manifest(problem=f"{path}: name = {said['name']!r}, but its folder is {name!r}; they must be the same")
    description = " ".join(said.get("description", "").split())
    return Manifest(description, str(said.get("version", "")), said.get("contract"))
