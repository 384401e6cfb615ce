"""Git metadata that makes git run code: found in folders that a sandboxed command may write, and set aside.

Git runs what a repository's config and hooks name, for the person who enters its folder: a shell prompt runs
`git status`. What a command inside the sandbox leaves there would run outside. Repositories that were there before are
trusted as they are; of what is new, or has changed, only settings that are known to run nothing are left in place.
Hooks, configs and programs in the project that a trusted or a personal config names count as parts of it: git itself
is asked what it reads, once, before the first command.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from clew.agent.processes import path_outside

ASIDE = ".untrusted"
_MAX_CONFIG_BYTES = 65_536
_GIT_SECONDS = 20.0
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


def git_folders(roots: Sequence[Path]) -> Iterator[Path]:
    """Everything below some folders that git takes for a repository: `.git`, as folder, file or link, and bare ones."""
    for root in roots:
        for here, folders, files in os.walk(root):
            names = {*folders, *files}
            is_repository = "HEAD" in names and ({"objects", "refs"} <= names or "commondir" in names)
            if is_repository and Path(here).name != ".git":
                yield Path(here)
            if ".git" in names:
                yield Path(here, ".git")
            # Git finds a repository also in a folder whose names nobody may list.
            hidden = (Path(here, name, ".git") for name in folders if not os.access(Path(here, name), os.R_OK))
            yield from filter(os.path.lexists, hidden)
            folders[:] = [name for name in folders if not (is_repository and name == "objects")]


class TrustedGit:
    """The repositories that were there when a sandbox was opened, and what has appeared since."""

    def __init__(self, roots: Sequence[Path], environ: Mapping[str, str]) -> None:
        self._roots = tuple(roots)
        self._trusted = frozenset(path for path in git_folders(self._roots) if path.is_dir() and not path.is_symlink())
        self.folders = tuple(sorted(path for path in self._trusted if not (path / "commondir").exists()))
        """Of these nothing can be moved inside the sandbox."""
        self._hook_folders: set[Path] = set()
        self._configs: set[Path] = set()
        self._programs: set[Path] = set()
        self._own_hooks = ""
        """Where the personal config looks for hooks in every repository."""
        for folder in (Path("/"), *map(_worktree_of, self.folders)):
            for base, key, value in _settings_of(folder, self._outside(environ)):
                self._add_named(folder, base, key.casefold(), value)
        parts = (part for path in git_folders(self._roots) for part in self._parts(path))
        self._known = {part: _digest(part) for part in (*parts, *self._named())}

    def set_aside(self) -> list[str]:
        """Rename what git would run code by, and was not there before; a sentence about each."""
        found = [control for path in git_folders(self._roots) for control in self._new(path)]
        found += self._changed(self._named())
        return [_moved(control, self._roots) for control in dict.fromkeys(found) if os.path.lexists(control.path)]

    def _new(self, path: Path) -> Iterator[GitControl]:
        """What to set aside of a repository: single files of one that is trusted, else all of it."""
        wrong = list(self._changed(self._parts(path)))
        if path in self._trusted:
            yield from wrong
            return
        yield from (control for control in wrong if not control.path.is_relative_to(path))
        yield from (GitControl(path, control.why) for control in wrong[:1] if control.path.is_relative_to(path))

    def _changed(self, parts: Iterator[Path]) -> Iterator[GitControl]:
        for part in parts:
            if self._known.get(part) != _digest(part) and (why := self._why(part)):
                yield GitControl(part, why)

    def _parts(self, path: Path) -> Iterator[Path]:
        yield from _parts(path)
        if self._own_hooks:
            yield from _names(_worktree_of(path) / self._own_hooks)

    def _named(self) -> Iterator[Path]:
        """Hooks, configs and programs that configs name."""
        for folder in self._hook_folders:
            yield from _names(folder)
        yield from filter(os.path.lexists, (*self._configs, *self._programs))

    def _add_named(self, folder: Path, base: Path, key: str, value: str) -> None:
        """Note what a setting names below the roots: where git looks for hooks, for more settings, and what it runs."""
        if self._is_below_roots(base):
            self._configs.add(base)
        if key == "core.hookspath":
            hooks = Path(os.path.normpath(folder / value))
            if folder == Path("/") and not value.startswith("/"):
                self._own_hooks = value
            # The scripts of husky in `_` run those in the folder above.
            named = [hooks, hooks.parent] if hooks.name == "_" else [hooks]
            self._hook_folders.update(path for path in named if self._is_below_roots(path))
        elif key.startswith(("include.", "includeif.")):
            config = Path(os.path.normpath(base.parent / value))
            self._configs.update([config] if self._is_below_roots(config) else [])
        elif not _HARMLESS_KEYS.fullmatch(key) and not key.startswith("alias."):
            for word in filter(None, re.split(r"[\s\"';|&]+", value)):
                program = Path(os.path.normpath(folder / word))
                if self._is_below_roots(program) and ("/" in word or program.is_file()):
                    self._programs.add(program)

    def _is_below_roots(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots)

    def _outside(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment for git: its search path has no folder that a command may write."""
        return {**environ, "PATH": path_outside(environ, self._roots)}

    def _why(self, part: Path) -> str:
        """How git would run something by a part of a repository; "" where it would not."""
        if part in self._programs:
            return f"the program {part.name}, which a setting of git names"
        if part.name == ".git":
            target = _target_of(part)
            inner = () if target is None else _parts(target)
            return next((why for one in inner if self._known.get(one) != _digest(one) and (why := self._why(one))), "")
        is_own = bool(self._own_hooks) and part.parent.match(f"*/{self._own_hooks}")
        if part.parent.name == "hooks" or part.parent in self._hook_folders or is_own:
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


def _settings_of(folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[Path, str, str]]:
    """Each setting that git reads in a folder, with the file that it is in; listing them runs nothing."""
    program = shutil.which("git", path=environ["PATH"])
    if program is None:
        return
    with suppress(OSError, subprocess.TimeoutExpired):
        listed = subprocess.run(
            [program, "config", "--list", "--show-origin", "-z"],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
        ).stdout
        fields = iter(os.fsdecode(listed).split("\0"))
        for origin, setting in zip(fields, fields, strict=False):
            key, _, value = setting.partition("\n")
            home = environ.get("HOME", "")
            value = home + value[1:] if value.startswith("~/") else value
            yield Path(os.path.normpath(folder / origin.removeprefix("file:"))), key, value


def _worktree_of(path: Path) -> Path:
    return path.parent if path.name == ".git" else path


def _parts(path: Path) -> Iterator[Path]:
    """The files of a repository that say what git runs, and a `.git` that points to another folder."""
    if path.is_symlink() or path.is_file():
        yield path
        return
    yield from (path / name for name in _CONTROLS if os.path.lexists(path / name))
    yield from (hook for hook in _names(path / "hooks") if not hook.name.endswith(".sample"))


def _names(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
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
