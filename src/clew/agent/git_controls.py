"""Git metadata that makes git run code: found in folders that a sandboxed command may write, and set aside.

Git runs what a repository's config and hooks name, for the person who enters its folder: a shell prompt runs
`git status`. What a command inside the sandbox leaves there would run outside. Repositories that were there before are
trusted as they are; of what is new, or has changed, only settings that are known to run nothing are left in place.
Hooks and configs outside `.git` that a trusted config names count as its parts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

ASIDE = ".untrusted"
_MAX_CONFIG_BYTES = 65_536
_HARMLESS_KEYS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf)|"
    r"extensions\.(?:objectformat|refstorage|partialclone)|user\.(?:name|email)|init\.defaultbranch|"
    r"branch\..*\.(?:remote|merge|rebase)|remote\..*\.(?:url|fetch|tagopt)|submodule\..*\.(?:url|active)|submodule\.active|"
    r"pull\.(?:rebase|ff)|push\.default|color\.\w+|advice\.\w+",
    re.IGNORECASE,
)
"""Keys of a config that name no program, no other file and no other folder."""
_SECTION = re.compile(r'\[([\w.-]+)(?: "([^"\\\n]*)")?\]')
_SETTING = re.compile(r"([A-Za-z][\w-]*)(?:\s*=\s*([^\\\n]*))?")
_RUNS_PROGRAM = re.compile(r"\s*[\"']?(?:ext::|fd::|-)")
"""An address that makes git run a program."""
_TODO_RUNS = re.compile(r"^\s*(?:exec|x)\s", re.MULTILINE)
_TODO = "rebase-merge/git-rebase-todo"
_CONTROLS = ("config", "config.worktree", "commondir", _TODO)


@dataclass(frozen=True, slots=True)
class GitControl:
    """A file or folder by which git would run something, and how."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class NamedByConfig:
    """What a config names outside its repository."""

    hook_folders: tuple[Path, ...] = ()
    configs: tuple[Path, ...] = ()


def git_folders(roots: Sequence[Path]) -> Iterator[Path]:
    """Everything below some folders that git takes for a repository: `.git`, as folder, file or link, and bare ones."""
    for root in roots:
        for here, folders, files in os.walk(root):
            found = [name for name in (*folders, *files) if name == ".git"]
            if "HEAD" in files and {"objects", "refs"} <= set(folders):
                yield Path(here)
                folders.clear()
            for name in found:
                yield Path(here, name)
            folders[:] = [name for name in folders if name != ".git"]


class TrustedGit:
    """The repositories that were there when a sandbox was opened, and what has appeared since."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(roots)
        self.folders = tuple(path for path in git_folders(self._roots) if path.is_dir() and not path.is_symlink())
        """Of these nothing can be moved inside the sandbox."""
        self._named = {path: _named_by(path) for path in self.folders}
        """Folders of hooks and files of settings that each trusted config names; it cannot be changed inside."""
        self._known = {control: _digest(control) for path in git_folders(self._roots) for control in self._parts(path)}

    def set_aside(self) -> list[str]:
        """Rename what git would run code by, and was not there before; a sentence about each."""
        return [_moved(control, self._roots) for path in list(git_folders(self._roots)) for control in self._new(path)]

    def _new(self, path: Path) -> Iterator[GitControl]:
        """What to set aside of a repository: single files of one that is trusted, else all of it."""
        wrong = [
            GitControl(part, why)
            for part in self._parts(path)
            if self._known.get(part) != _digest(part) and (why := self._why(part))
        ]
        if path in self.folders:
            yield from wrong
        elif wrong and os.path.lexists(path):
            yield GitControl(path, wrong[0].why)

    def _parts(self, path: Path) -> Iterator[Path]:
        yield from _parts(path)
        if named := self._named.get(path):
            yield from (folder / name for folder in named.hook_folders for name in _names(folder))
            yield from filter(os.path.lexists, named.configs)

    def _why(self, part: Path) -> str:
        """How git would run something by a part of a repository; "" where it would not."""
        if part.name == ".git":
            target = _target_of(part)
            inner = () if target is None else _parts(target)
            return next((why for one in inner if self._known.get(one) != _digest(one) and (why := self._why(one))), "")
        if part.parent.name == "hooks" or any(part.parent in named.hook_folders for named in self._named.values()):
            return f"the hook {part.name}"
        text = _text_of(part)
        if text is None:
            return f"{part.name}, which cannot be read"
        if part.name == "commondir":
            is_worktree = part.parent.parent.name == "worktrees"
            common = Path(os.path.normpath(part.parent / text.strip()))
            return "" if is_worktree and common == part.parent.parent.parent else "settings of another folder"
        if part.name == "git-rebase-todo":
            return "a rebase that runs a command" if _TODO_RUNS.search(text) else ""
        return next((f"the setting {key}" for key in _settings_that_may_run(text)), "")


def _parts(path: Path) -> Iterator[Path]:
    """The files of a repository that say what git runs, and a `.git` that points to another folder."""
    if path.is_symlink() or path.is_file():
        yield path
        return
    yield from (path / name for name in _CONTROLS if os.path.lexists(path / name))
    for name in _names(path / "hooks"):
        if not name.endswith(".sample"):
            yield path / "hooks" / name
    for name in _names(path / "worktrees"):
        yield from _parts(path / "worktrees" / name)
    for here, folders, files in os.walk(path / "modules"):
        if "HEAD" in files:
            folders.clear()
            yield from _parts(Path(here))


def _named_by(git: Path) -> NamedByConfig:
    """The hooks and configs outside a repository that its config names, whether they are there or not."""
    hooks: list[Path] = []
    configs: list[Path] = []
    for key, value in _settings_in(_text_of(git / "config") or ""):
        place = os.path.expanduser(value.strip().strip('"'))  # noqa: PTH111 (Path raises where no home is known)
        if key.casefold() == "core.hookspath":
            hooks.append(Path(os.path.normpath(git.parent / place)))
            # The scripts of husky in `_` run those in the folder above.
            hooks += [hooks[-1].parent] if hooks[-1].name == "_" else []
        elif key.casefold().startswith(("include.", "includeif.")):
            configs.append(Path(os.path.normpath(git / place)))
    return NamedByConfig(tuple(hooks), tuple(configs))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _target_of(pointer: Path) -> Path | None:
    """The folder that a `.git` which is a file or a link points to; None where it is none."""
    if pointer.is_symlink():
        return Path(os.path.realpath(pointer))
    text = _text_of(pointer) or ""
    return (
        Path(os.path.realpath(pointer.parent / text[len("gitdir:") :].strip())) if text.startswith("gitdir:") else None
    )


def _text_of(path: Path) -> str | None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_CONFIG_BYTES:
            return None
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _digest(path: Path) -> bytes | None:
    """By what a part is known again; the folder that a pointer points to counts with it."""
    try:
        if path.is_symlink():
            return b"link " + os.fsencode(path.readlink())
        return blake2b(path.read_bytes()[: _MAX_CONFIG_BYTES + 1] + str(path.stat().st_mode).encode()).digest()
    except OSError:
        return None


def _settings_that_may_run(text: str) -> Iterator[str]:
    """Keys of a config that are not known to run nothing, and lines that are read by git otherwise than here."""
    for key, value in _settings_in(text):
        if not _HARMLESS_KEYS.fullmatch(key) or (key.casefold().endswith(".url") and _RUNS_PROGRAM.match(value)):
            yield key


def _settings_in(text: str) -> Iterator[tuple[str, str]]:
    """Each setting of a config with its value; a line that is none, with nothing."""
    section = ""
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if header := _SECTION.fullmatch(line):
            section = f"{header[1]}.{header[2]}." if header[2] is not None else f"{header[1]}."
        elif found := _SETTING.fullmatch(line):
            yield f"{section}{found[1]}", found[2] or ""
        else:
            yield repr(line[:80]), ""


def _moved(control: GitControl, roots: Sequence[Path]) -> str:
    aside = next(
        path for number in range(1_000_000) if not os.path.lexists(path := Path(f"{control.path}{ASIDE}{number or ''}"))
    )
    control.path.rename(aside)
    root = next((root for root in roots if control.path.is_relative_to(root)), control.path.parent)
    name, new_name = control.path.relative_to(root), aside.relative_to(root)
    return (
        f"{name} was made inside the sandbox and would make git run code outside ({control.why}); it is now "
        f"{new_name}. A person can look at it and rename it back"
    )
