"""Where a word of a command points: inside the project, to scratch space, outside, or nobody knows yet.

Looks at the disk only to follow links and to see what is there. Knows no command.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from clew.agent.dangers.programs import GUARDED_INSIDE, SCRATCH, STREAMS
from clew.agent.shell import UNKNOWN, Word

Where: TypeAlias = Literal["inside", "scratch", "outside", "unknown"]
_MOST_FITTING = 300
_PATTERN_CHARS = re.compile(r"[*?\[{]")
_DISKS = re.compile(r"^/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper|md|dm-|mem|kmem|port|loop)")


@dataclass(frozen=True, slots=True)
class Place:
    """A path of a command, as far as it is known."""

    where: Where
    path: str
    """Absolute where that is known; of a pattern, the folder it looks in."""
    is_pattern: bool = False


class Map:
    """What lies where: the project, the home, the scratch space."""

    def __init__(self, project: Path, environ: Mapping[str, str]) -> None:
        self.project = os.path.realpath(project)
        self.home = environ.get("HOME", "")
        scratch = environ.get("TMPDIR", "")
        self._scratch = (*SCRATCH, *((scratch,) if scratch not in ("", "/") else ()))

    def place(self, word: Word, folder: str | None) -> Place:
        """Where a word points, from a folder (None: nobody knows which)."""
        text = self._expanded(word.text)
        known, is_pattern = text, False
        if word.is_pattern and (found := _PATTERN_CHARS.search(text)):
            is_pattern = True
            known = text[: found.start()].rpartition("/")[0] + "/" if "/" in text[: found.start()] else "."
            if ".." in text[found.start() :]:
                return Place("unknown", text, True)
        if UNKNOWN in known:
            start, _, rest = known.partition(UNKNOWN)
            known = start.rpartition("/")[0]
            if not known or ".." in rest:
                return Place("unknown", text, is_pattern)
            is_pattern = True
        if not known.startswith("/"):
            if folder is None:
                return Place("unknown", text, is_pattern)
            known = f"{folder}/{known}"
        path = os.path.normpath(known)
        return Place(self._where(path), path, is_pattern)

    def fitting(self, word: Word, folder: str | None) -> list[str]:
        """Files on the disk that a pattern stands for, the first few hundred."""
        text = self._expanded(word.text)
        if UNKNOWN in text or (folder is None and not text.startswith("/")):
            return []
        return [*islice(glob.iglob(text, root_dir=folder), _MOST_FITTING)]  # noqa: PTH207 (as a shell does: no dot files)

    def _where(self, path: str) -> Where:
        # A link inside the project may lead out of it, and a project may lie in the scratch space.
        try:
            real = os.path.realpath(path)
        except ValueError:  # chars that no path can hold
            return "unknown"
        if is_below(real, self.project):
            return "inside"
        if any(is_below(real, os.path.realpath(scratch)) for scratch in self._scratch):
            return "scratch"
        if path in STREAMS or path.startswith("/dev/fd/"):
            return "scratch"
        return "outside"

    def _expanded(self, text: str) -> str:
        if text == "~" or text.startswith("~/"):
            return (self.home or UNKNOWN) + text[1:]
        return UNKNOWN + "/" + text if re.match(r"~[\w+-]", text) else text

    def is_broad(self, path: str) -> bool:
        """A folder whose loss is the loss of everything: the project, what it lies in, the home, the root."""
        return is_below(self.project, path) or bool(self.home and is_below(self.home, path)) or path.count("/") < 2

    def is_of_person(self, path: str) -> bool:
        """Settings that the person or the machine lives by."""
        below_home = bool(self.home) and path.startswith(f"{self.home.rstrip('/')}/.")
        return below_home or path.startswith(("/etc", "/usr", "/bin", "/sbin", "/boot"))

    def is_there(self, place: Place) -> bool:
        return place.where == "inside" and Path(place.path).exists()

    def name(self, place: Place) -> str:
        """For people and scopes: relative to the project where it lies inside."""
        if place.where == "inside":
            return os.path.relpath(place.path, self.project)
        return place.path.replace(UNKNOWN, "…")


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_disk(path: str) -> bool:
    return _DISKS.match(path) is not None


def is_guarded(path: str) -> bool:
    return GUARDED_INSIDE.search(path) is not None
