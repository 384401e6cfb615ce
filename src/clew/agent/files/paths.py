"""Where the agent may read and write: a path as a model wrote it becomes a place, or the reason why it is none.

Knows folders and names, not what is in files. Outside the project nothing is allowed in silence: a person is asked,
and only what was put to them may be touched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from clew.agent.files.secret_files import secret_in
from clew.errors import InvalidArgument

SETTING = "agent.allowed_paths"
LONGEST_PATH_CHARS = 4_096
LONGEST_NAME_BYTES = 255

Zone: TypeAlias = Literal["project", "allowed", "read_only", "outside"]

_KINDS = ((stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))


@dataclass(frozen=True, slots=True)
class Place:
    """A path with every link followed, and in which zone it lies."""

    path: Path
    shown: str
    """For people and models: from the project's folder on, or whole where it is outside."""
    zone: Zone


@dataclass(frozen=True, slots=True)
class Unusable:
    """A path that is no place, and why."""

    problem: str


@dataclass(frozen=True, slots=True)
class Concern:
    """Why a person has to agree before a path is touched, and what else they would agree to with it."""

    reason: str
    scope: str


class Workplace:
    """A project, what else is allowed beside it, and what a person was asked about."""

    def __init__(self, root: Path, allowed: Sequence[Path] = (), read_only_allowed: Sequence[Path] = ()) -> None:
        self.root = root.expanduser().resolve()
        self.allowed = tuple(_resolved(allowed))
        self.read_only_allowed = tuple(_resolved(read_only_allowed))
        self._asked: set[tuple[str, Path]] = set()

    # -- before a call: what a person has to agree to ------------------------------------------------------------------

    def reading_concerns(self, *paths: object) -> tuple[Concern, ...]:
        """Why reading these has to be asked for; what is no path at all is left to the call to report."""
        found = (self._concerns("read", place) for place in self._places(paths))
        return tuple(concern for concerns in found for concern in concerns)

    def writing_concerns(self, *paths: object) -> tuple[Concern, ...]:
        found = (self._concerns("write", place) for place in self._places(paths) if not _in_git(place.path))
        return tuple(concern for concerns in found for concern in concerns)

    def secret_concerns(self, *paths: object) -> tuple[Concern, ...]:
        """Why showing these has to be asked for, wherever they are."""
        return tuple(concern for place in self._places(paths) for concern in self._secret_concerns(place))

    def forget(self, *paths: object) -> None:
        """A person said no to these: they were asked about, and are not agreed to."""
        for place in self._places(paths):
            self._asked -= {("read", place.path), ("write", place.path)}

    # -- during a call -------------------------------------------------------------------------------------------------

    def place_to_read(self, path: object) -> Place:
        """Where to read. Raises InvalidArgument for what is no place, or outside and never put to a person."""
        place = self._usable(path)
        self._must_be_agreed("read", place)
        return place

    def place_to_write(self, path: object) -> Place:
        place = self._usable(path)
        if _in_git(place.path):
            raise InvalidArgument(f"{place.shown} is inside .git, which only git itself may write; use git commands")
        self._must_be_agreed("write", place)
        return place

    def locate(self, path: object) -> Place | Unusable:
        """A path as a model wrote it: from the project's folder on, `~` for the home folder, links followed."""
        problem = _problem_with(path)
        if problem or not isinstance(path, str):
            return Unusable(problem or f"{path!r} is no path")
        try:
            given = Path(path).expanduser() if path == "~" or path.startswith("~/") else Path(path)
            found = (self.root / given).resolve()
            kind = _special_kind(found)
        except (OSError, RuntimeError, ValueError) as problem:
            return Unusable(f"{path!r} cannot be resolved: {problem}")
        if kind:
            return Unusable(f"{path!r} is a {kind}; only files and folders can be read or written")
        return Place(found, self.shown(found), self._zone(found))

    def shown(self, path: Path) -> str:
        """A resolved path as people and models read it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def looks_secret(self, path: Path) -> str | None:
        """What such a file usually holds; None where its name says nothing of secrets."""
        inside = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        return secret_in(inside.as_posix())

    def _places(self, paths: Iterable[object]) -> Iterable[Place]:
        located = (self.locate(path) for path in paths)
        return (place for place in dict.fromkeys(located) if isinstance(place, Place))

    def _concerns(self, deed: Literal["read", "write"], place: Place) -> Iterable[Concern]:
        if not self._is_free(deed, place):
            self._asked.add((deed, place.path))
            yield Concern(self._reason(place), f"{deed} outside: {place.path.parent}")
        if deed == "read":
            yield from self._secret_concerns(place)

    def _secret_concerns(self, place: Place) -> Iterable[Concern]:
        kind = self.looks_secret(place.path)
        if kind and _is_there(place.path):
            yield Concern(f"{place.shown} looks like {kind}, and the model would see it", f"read secret: {place.path}")

    def _reason(self, place: Place) -> str:
        if place.zone == "read_only":
            return f"{place.path} is in a folder that is only for reading"
        return f"{place.path} is outside the project {self.root}"

    def _usable(self, path: object) -> Place:
        place = self.locate(path)
        if isinstance(place, Unusable):
            raise InvalidArgument(place.problem)
        return place

    def _must_be_agreed(self, deed: Literal["read", "write"], place: Place) -> None:
        # Where a link moved since the person was asked, this is another place than the one they agreed to.
        if self._is_free(deed, place) or (deed, place.path) in self._asked:
            return
        raise InvalidArgument(
            f"{self._reason(place)}; a person can allow its folder for good with the setting {SETTING}"
        )

    def _is_free(self, deed: Literal["read", "write"], place: Place) -> bool:
        return place.zone in ("project", "allowed") or (deed == "read" and place.zone == "read_only")

    def _zone(self, path: Path) -> Zone:
        """Of the folders that hold it, the innermost counts: a spill folder stays read-only in a project around it."""
        zones: tuple[tuple[Zone, tuple[Path, ...]], ...] = (
            ("project", (self.root,)),
            ("allowed", self.allowed),
            ("read_only", self.read_only_allowed),
        )
        holding = [
            (len(folder.parts), zone) for zone, folders in zones for folder in folders if path.is_relative_to(folder)
        ]
        return max(holding, key=lambda found: found[0])[1] if holding else "outside"


def _problem_with(path: object) -> str | None:
    if not isinstance(path, str) or not path.strip():
        return f"path is {path!r}; give the path of a file, from the project's folder on"
    if "\0" in path:
        return f"the path {path[:80]!r} holds a NUL character, which no file name can"
    if len(path) > LONGEST_PATH_CHARS:
        return f"the path {path[:40]!r}... has {len(path):,} chars; {LONGEST_PATH_CHARS:,} is the most"
    try:
        longest = max(path.split("/"), key=lambda name: len(os.fsencode(name)))
        is_too_long = len(os.fsencode(longest)) > LONGEST_NAME_BYTES
    except UnicodeEncodeError:
        return f"the path {path[:80]!r} holds half a character (a lone surrogate); write it as plain text"
    return f"the name {longest[:40]!r}... is longer than {LONGEST_NAME_BYTES} bytes" if is_too_long else None


def _special_kind(path: Path) -> str | None:
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), None)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that we may not look into
        return True


def _in_git(path: Path) -> bool:
    return any(part.casefold() == ".git" for part in path.parts)


def _resolved(folders: Sequence[Path]) -> Iterable[Path]:
    return (folder.expanduser().resolve() for folder in folders)
