"""Where the agent may read and write: paths as a model wrote them, resolved and checked against the project.

Outside the project a person is asked first, and only what they were asked about may be read or written.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from clew.agent.files.file_types import is_public_file, lasting_effect, secret_kind
from clew.errors import InvalidArgument

SETTING = "agent.allowed_paths"
MAX_PATH_CHARS = 4_096
MAX_NAME_BYTES = 255

PathAccess: TypeAlias = Literal["read", "write"]
SystemZone: TypeAlias = Literal["project", "scratch", "public", "outside"]
Zone: TypeAlias = Literal["allowed", "read_only"] | SystemZone
SCRATCH_FOLDERS = ("/tmp", "/var/tmp", "/private/tmp")  # noqa: S108 (names what may be read and written)
"""Folders outside a project that need no question."""

_KINDS = ((stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path with every link followed, and in which zone it lies."""

    path: Path
    display_name: str
    """For people and models: relative to the project, or absolute where it is outside."""
    zone: Zone


@dataclass(frozen=True, slots=True)
class PathConcern:
    """Why a person has to agree before a path is used, and the scope of their agreement."""

    reason: str
    scope: str


def zone_of(path: str, project: str, scratch: Sequence[str] = SCRATCH_FOLDERS) -> SystemZone:
    """The zone of an absolute path, for commands and for the tools for files alike; links are followed.

    Of a scratch folder that the project lies in, what is beside the project is outside. Raises ValueError for a path
    that no file can have.
    """
    real = os.path.realpath(path)
    if is_below(real, project):
        return "project"
    for folder in map(os.path.realpath, scratch):
        beside = os.path.join(folder, os.path.relpath(project, folder).split("/")[0])  # noqa: PTH118
        if is_below(real, folder) and not (is_below(project, folder) and is_below(real, beside)):
            return "scratch"
    # By the name, too: `/proc/self` is a link to the process that asks.
    return "public" if is_public_file(real) or is_public_file(os.path.normpath(path)) else "outside"


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Workspace:
    """The project's folder, further allowed folders, and the paths that a person was asked about."""

    def __init__(self, root: Path, allowed: Sequence[Path] = (), read_only_allowed: Sequence[Path] = ()) -> None:
        self.root = root.expanduser().resolve()
        self.allowed = tuple(_resolved(allowed))
        self.read_only_allowed = tuple(_resolved(read_only_allowed))
        self._asked: set[tuple[str, Path]] = set()

    # -- before a call: what a person has to agree to ------------------------------------------------------------------

    def read_concerns(self, *paths: object) -> tuple[PathConcern, ...]:
        """Why reading these has to be asked for; what is no path at all is reported by the call itself."""
        return tuple(concern for target in self._resolved_paths(paths) for concern in self._concerns("read", target))

    def write_concerns(self, *paths: object) -> tuple[PathConcern, ...]:
        targets = (target for target in self._resolved_paths(paths) if not _in_git(target.path))
        return tuple(concern for target in targets for concern in self._concerns("write", target))

    def secret_concerns(self, *paths: object) -> tuple[PathConcern, ...]:
        """Why showing these has to be asked for, wherever they are."""
        return tuple(concern for target in self._resolved_paths(paths) for concern in self._secret_concerns(target))

    def lasting_concerns(self, path: object, text: str) -> tuple[PathConcern, ...]:
        """Why writing this text there has to be asked for: later sessions read it, or it runs by itself."""
        targets = (target for target in self._resolved_paths([path]) if not _in_git(target.path))
        found = ((target, lasting_effect(target.display_name, text)) for target in targets)
        return tuple(
            PathConcern(f"{target.display_name} is {effect}", f"write lasting: {target.path}")
            for target, effect in found
            if effect
        )

    def withdraw(self, *paths: object) -> None:
        """A person refused these: they do not count as agreed to."""
        for target in self._resolved_paths(paths):
            self._asked -= {("read", target.path), ("write", target.path)}

    # -- during a call -------------------------------------------------------------------------------------------------

    def path_to_read(self, path: object) -> ResolvedPath:
        """The path to read. Raises InvalidArgument where it cannot be used, or is outside and no person was asked."""
        target = self.resolve(path)
        self._check_agreed("read", target)
        return target

    def path_to_write(self, path: object) -> ResolvedPath:
        target = self.resolve(path)
        if _in_git(target.path):
            raise InvalidArgument(
                f"{target.display_name} is inside .git, which only git itself may write; use git commands"
            )
        self._check_agreed("write", target)
        return target

    def resolve(self, path: object) -> ResolvedPath:
        """A path as a model wrote it: relative to the project, `~` for the home folder, links followed.

        Raises InvalidArgument where it cannot be used.
        """
        problem = _problem_with(path)
        if problem or not isinstance(path, str):
            raise InvalidArgument(problem or f"{path!r} is no path")
        try:
            given = Path(path).expanduser() if path == "~" or path.startswith("~/") else Path(path)
            found = (self.root / given).resolve()
            kind = _special_kind(found)
        except (OSError, RuntimeError, ValueError) as failed:
            raise InvalidArgument(f"{path!r} cannot be resolved: {failed}") from failed
        if kind:
            raise InvalidArgument(f"{path!r} is a {kind}; only files and folders can be read or written")
        return ResolvedPath(found, self.display_name(found), self._zone(found, str(self.root / given)))

    def display_name(self, path: Path) -> str:
        """A resolved path as people and models read it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def secret_kind_of(self, path: Path) -> str | None:
        """What secret such a file usually holds; None where its name is harmless."""
        inside = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        return secret_kind(inside.as_posix())

    def _resolved_paths(self, paths: Iterable[object]) -> Iterable[ResolvedPath]:
        """Those that can be used, each once."""
        found: dict[ResolvedPath, None] = {}
        for path in paths:
            with suppress(InvalidArgument):
                found[self.resolve(path)] = None
        return found

    def _concerns(self, access: PathAccess, target: ResolvedPath) -> Iterable[PathConcern]:
        if not self._is_allowed(access, target):
            self._asked.add((access, target.path))
            yield PathConcern(self._reason(target), f"{access} outside: {target.path.parent}")
        if access == "read":
            yield from self._secret_concerns(target)

    def _secret_concerns(self, target: ResolvedPath) -> Iterable[PathConcern]:
        kind = self.secret_kind_of(target.path)
        if kind and _exists(target.path):
            yield PathConcern(
                f"{target.display_name} looks like {kind}, and the model would see it", f"read secret: {target.path}"
            )

    def _reason(self, target: ResolvedPath) -> str:
        if target.zone == "read_only":
            return f"{target.path} is in a folder that is only for reading"
        return f"{target.path} is outside the project {self.root}"

    def _check_agreed(self, access: PathAccess, target: ResolvedPath) -> None:
        # Where a link moved since the person was asked, this is another path than the one they agreed to.
        if self._is_allowed(access, target) or (access, target.path) in self._asked:
            return
        raise InvalidArgument(
            f"{self._reason(target)}; a person can allow its folder for good with the setting {SETTING}"
        )

    def _is_allowed(self, access: PathAccess, target: ResolvedPath) -> bool:
        if target.zone in ("project", "allowed", "scratch"):
            return True
        return access == "read" and target.zone in ("read_only", "public")

    def _zone(self, path: Path, given: str) -> Zone:
        """The innermost folder counts: a spill folder stays read-only inside a project."""
        zones: tuple[tuple[Zone, tuple[Path, ...]], ...] = (
            ("project", (self.root,)),
            ("allowed", self.allowed),
            ("read_only", self.read_only_allowed),
        )
        holding = [
            (len(folder.parts), zone) for zone, folders in zones for folder in folders if path.is_relative_to(folder)
        ]
        return max(holding, key=lambda found: found[0])[1] if holding else zone_of(given, str(self.root))


def _problem_with(path: object) -> str | None:
    if not isinstance(path, str) or not path.strip():
        return f"path is {path!r}; give the path of a file, from the project's folder on"
    if "\0" in path:
        return f"the path {path[:80]!r} holds a NUL character, which no file name can"
    if len(path) > MAX_PATH_CHARS:
        return f"the path {path[:40]!r}... has {len(path):,} chars; {MAX_PATH_CHARS:,} is the most"
    try:
        longest = max(path.split("/"), key=lambda name: len(os.fsencode(name)))
        is_too_long = len(os.fsencode(longest)) > MAX_NAME_BYTES
    except UnicodeEncodeError:
        return f"the path {path[:80]!r} holds half a character (a lone surrogate); write it as plain text"
    return f"the name {longest[:40]!r}... is longer than {MAX_NAME_BYTES} bytes" if is_too_long else None


def _special_kind(path: Path) -> str | None:
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), None)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that we may not look into
        return True


def _in_git(path: Path) -> bool:
    return any(part.casefold() == ".git" for part in path.parts)


def _resolved(folders: Sequence[Path]) -> Iterable[Path]:
    return (folder.expanduser().resolve() for folder in folders)


# -- folders, and paths that may have been meant -----------------------------------------------------------------------

_MAX_ENTRIES = 20_000
"""The most entries that a search for a file of the same name reads."""
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})


def list_folder(folder: Path, offset: int, limit: int) -> str:
    """The entries of a folder, folders first, with sizes."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))
    lines = [_entry_line(entry) for entry in entries[offset - 1 : offset - 1 + limit]]
    last = offset - 1 + len(lines)
    more = f"; go on with offset={last + 1}" if last < len(entries) else ""
    span = f"entries {offset}-{last} of {len(entries):,}" if lines else f"{len(entries):,} entries"
    return "\n".join([*lines, f"[folder, {span}{more}]"])


def similar_paths(workspace: Workspace, target: ResolvedPath) -> list[str]:
    """Paths that may have been meant instead of a missing one, the most likely first."""
    parent, name = target.path.parent, target.path.name
    try:
        near = difflib.get_close_matches(name, os.listdir(parent)[:_MAX_ENTRIES], 3, 0.6)  # noqa: PTH208
    except OSError:
        near = []
    paths = [*(parent / one for one in near), *_same_name(workspace.root, name)]
    return list(dict.fromkeys(map(workspace.display_name, paths)))[:5]


def _same_name(root: Path, name: str) -> Iterator[Path]:
    looked_at = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        looked_at += len(files) + len(folders)
        if name in files:
            yield Path(folder, name)
        if looked_at > _MAX_ENTRIES:
            return


def _entry_line(entry: os.DirEntry[str]) -> str:
    name = entry.name.encode("utf-8", "backslashreplace").decode()
    if entry.is_symlink():
        return f"{name} -> {os.readlink(entry.path)}"  # noqa: PTH115 (a link may be broken)
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    try:
        return f"{name}  {entry.stat(follow_symlinks=False).st_size:,} bytes"
    except OSError:
        return name
