"""Git metadata that makes git run code: found in folders that a sandboxed command may write, and set aside.

Git runs what a repository's config and hooks name, for the person who enters its folder: a shell prompt runs
`git status`. What a command inside the sandbox leaves there would run outside. Repositories that existed before are
trusted as they are; of what is new, or has changed, only settings that are known to run nothing are left in place.
Hooks, configs and programs in the project that a trusted or a personal config names count as parts of it: git itself
is asked what it reads, once, before the first command. Files of the project that these run in turn stay in place, since
they are part of the work; their changes are reported.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b, file_digest
from pathlib import Path

from clew.agent.files.file_types import TABLES, rule_files_of
from clew.agent.processes import LeftCode, path_outside

ASIDE = ".untrusted"
_MAX_CONFIG_BYTES = 65_536
_GIT_SECONDS = 20.0
_HARMLESS_KEYS = re.compile(TABLES["git_harmless_keys"], re.IGNORECASE | re.ASCII)
"""Keys of a config that name no program, no other file and no other folder."""
_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?: "([^"\\\n]*)")?\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=[ \t]*([^\\\n]*))?")
_BREAKS_LINES = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Chars at which some readers begin a new line, or stop; git does neither."""
_RUNS_PROGRAM = re.compile(r"\s*(?:[\w+-]+::|-)")
"""An address that makes git run a program; quotes in it mean nothing to git."""
_STRATEGY_RUNS = re.compile(r"(?:^|\])\s*strategy\s*=.*(?:/|\\\r?$)", re.MULTILINE | re.IGNORECASE)
"""In `sequencer/opts`: a strategy with a slash, or one that continues on the next line."""
_TODO_RUNS = re.compile(r"^\s*(?:exec|x)\s", re.MULTILINE)
_TODO = "rebase-merge/git-rebase-todo"
_STRATEGIES = ("rebase-merge/strategy", "rebase-apply/strategy", "sequencer/opts")
"""What goes on after an interruption runs `git-merge-NAME` of these; a name with a slash is one of the worktree's."""
_CONTROLS = ("config", "config.worktree", "commondir", _TODO, *_STRATEGIES)
_OTHER_SYSTEMS = {
    ".hg": ("hgrc", "hgrc-not-shared", "sharedpath"),
    ".sl": ("config", "hgrc", "sharedpath"),
    ".jj": ("repo", "repo/config.toml", "workspace-config.toml"),
}
"""Files of other version control systems that name programs, or another folder with such files."""
_REPOSITORY_NAMES = (".git", *_OTHER_SYSTEMS)
_MAX_POINTER_BYTES = 1 << 20
"""Git reads no larger `.git` file."""
_PATH_MAX = 4096
"""Bytes of a path with the null behind it: no system call of Linux takes a longer one."""
_LONG_NAME, _SHORT_NAME = 200, 50
_MAX_HASHED_BYTES = 64_000_000
"""A larger file is compared by its size and times."""
_MAX_PROGRAM_BYTES = 262_144
_MAX_FOLLOWED = 400
_WORD = re.compile(r"[\w@./+-]+")
_PROGRAM_NAME = re.compile(TABLES["program_name"])
"""Names of files that programs run, or take their commands from."""
_FOLLOWED_LEVELS = 2


def git_folders(roots: Sequence[Path]) -> Iterator[Path]:
    """Everything below some folders that git takes for a repository: `.git`, as folder, file or link, and bare ones."""
    for root in roots:
        for here, folders, files in _walk(root):
            names = {*folders, *files}
            is_repository = "HEAD" in names and ({"objects", "refs"} <= names or "commondir" in names)
            if is_repository and Path(here).name != ".git":
                yield Path(here)
            yield from (Path(here, name) for name in _REPOSITORY_NAMES if name in names)
            # Git finds a repository also in a folder that may not be listed.
            hidden = (Path(here, name, ".git") for name in folders if not os.access(Path(here, name), os.R_OK))
            yield from filter(os.path.lexists, hidden)
            folders[:] = [name for name in folders if not (is_repository and name == "objects")]


def _walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`, without recursion: that of Python 3.11 fails some 1,000 folders below the first."""
    waiting = [str(root)]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as found:
                entries = list(found)
        except OSError:
            continue
        folders = [entry.name for entry in entries if _holds(entry.is_dir)]
        own = {entry.name for entry in entries if not _holds(entry.is_symlink)}
        known = set(folders)
        yield here, folders, [entry.name for entry in entries if entry.name not in known]
        waiting += [os.path.join(here, name) for name in reversed(folders) if name in own]  # noqa: PTH118 (much faster)


class TrustedGit:
    """The repositories that existed when a sandbox was opened, and what has appeared since."""

    def __init__(self, roots: Sequence[Path], environ: Mapping[str, str]) -> None:
        self._roots = tuple(roots)
        self._trusted = frozenset(path for path in git_folders(self._roots) if _is_own_folder(path))
        self.folders = tuple(sorted(path for path in self._trusted if not _holds((path / "commondir").exists)))
        """Of these nothing can be moved inside the sandbox."""
        self._hook_folders: set[Path] = set()
        self._configs: set[Path] = set()
        self._programs: set[Path] = set()
        self._followed: dict[Path, str] = {}
        """Files of the project that hooks and named programs run in turn, each with the one that names it."""
        self._reported: dict[Path, bytes | None] = {}
        self._own_hooks = ""
        """Where the personal config looks for hooks in every repository."""
        for folder in (Path("/"), *map(_worktree_of, self.folders)):
            for base, key, value in _settings_of(folder, self._outside(environ)):
                self._add_named(folder, base, key.casefold(), value)
        parts = (part for path in git_folders(self._roots) for part in self._parts(path))
        self._known = {part: _digest(part) for part in (*parts, *self._named())}
        self._follow()

    def set_aside(self) -> list[LeftCode]:
        """Rename new metadata by which git would run code; changed files that hooks run stay in place."""
        found = [control for path in git_folders(self._roots) for control in self._new(path)]
        found += self._changed(self._named())
        moved = [self._moved(part, why) for part, why in dict.fromkeys(found) if os.path.lexists(part)]
        new = [left for left in moved if left.aside is not None or self._is_unreported(left)]
        return [*new, *self._changed_programs()]

    def _is_unreported(self, left: LeftCode) -> bool:
        """Whether what could not be moved is reported for the first time."""
        before = self._reported.get(left.path)
        self._reported[left.path] = left.digest
        return before != left.digest

    def decide(self, left: LeftCode, *, keeps: bool) -> str:
        """Carry out what a person decided; returns a sentence about it."""
        name = self._name(left.path)
        if not keeps and left.aside is None:
            left = self._moved(left.path, left.why)
            if left.aside is None:
                return f"{name} stays: it could not be moved"
        if not keeps or left.aside is None:
            self._trust(left.path)
            return f"{name} stays, a person agreed" if keeps else str(left)
        # Only what the person saw is kept, and only where nothing else has its name.
        if _digest_of_all(left.aside) != left.digest or os.path.lexists(left.path):
            return f"{name} stays aside: it has changed, or another is in its place"
        if os.path.lexists(head := left.aside / f"HEAD{ASIDE}"):
            head.rename(left.aside / "HEAD")
        left.aside.rename(left.path)
        self._trust(left.path)
        return f"{name} is back in its place, a person agreed"

    def _trust(self, path: Path) -> None:
        parts = (path, *self._parts(path)) if path.name in _REPOSITORY_NAMES or _holds(path.is_dir) else (path,)
        self._known.update((part, _digest(part)) for part in parts)
        self._follow()

    def _moved(self, path: Path, why: str) -> LeftCode:
        numbers = range(1_000_000)
        # Behind a longer name there is no room for the ending.
        name = path.name if len(os.fsencode(path.name)) <= _LONG_NAME else path.name[:_SHORT_NAME]
        stem = path.with_name(f"{name}{ASIDE}")
        aside = next(one for number in numbers if not os.path.lexists(one := Path(f"{stem}{number or ''}")))
        text = _shown(path)
        try:
            _rename(path, aside)
        except OSError:
            why = f"git may run code by it ({why}), but it could not be moved"
            return LeftCode(path, why, self._name(path), digest=_digest_of_all(path), text=text)
        if os.path.lexists(aside / "HEAD"):
            # Without its HEAD it is no repository for git, also in a shell inside it.
            with suppress(OSError):
                _rename(aside / "HEAD", aside / f"HEAD{ASIDE}")
        return LeftCode(path, why, self._name(path), aside, self._name(aside), _digest_of_all(aside), text)

    def _name(self, path: Path) -> str:
        root = next((root for root in self._roots if path.is_relative_to(root)), path.parent)
        return str(path.relative_to(root))

    # -- files of the project that hooks and named programs run --------------------------------------------------------

    def _follow(self) -> None:
        """Note the files that hooks and named programs name, and those that these name."""
        known, level = self._followed, [(part, _worktree_of(part.parent.parent)) for part in self._hooks()]
        level += [(program, root) for program in self._programs for root in self._roots]
        self._followed = {}
        seen = {part for part, _ in level}
        for _ in range(_FOLLOWED_LEVELS):
            named = [(path, base, part) for part, base in level for path in _files_named_in(part, base)]
            level = []
            for path, base, part in named:
                if path in seen or not self._is_below_roots(path) or len(self._followed) >= _MAX_FOLLOWED:
                    continue
                seen.add(path)
                level.append((path, base))
                self._followed[path] = f"{self._name(part)}, which git runs outside the sandbox, names it"
        for path in self._followed.keys() - known.keys():
            self._known.setdefault(path, _digest(path))

    def _hooks(self) -> Iterator[Path]:
        for folder in self._trusted:
            yield from (part for part in self._parts(folder) if part.parent.name not in _REPOSITORY_NAMES)
        for folder in self._hook_folders:
            yield from _names(folder)

    def _changed_programs(self) -> Iterator[LeftCode]:
        for path, why in self._followed.items():
            digest = _digest(path)
            if digest is None or digest in (self._known.get(path), self._reported.get(path)):
                continue
            self._reported[path] = digest
            yield LeftCode(path, why, self._name(path), digest=digest, text=_shown(path))

    def _new(self, path: Path) -> Iterator[tuple[Path, str]]:
        """What to set aside of a repository, and why: single files of one that is trusted, else all of it."""
        wrong = list(self._changed(self._parts(path)))
        if path in self._trusted:
            yield from wrong
            return
        yield from ((part, why) for part, why in wrong if not part.is_relative_to(path))
        yield from ((path, why) for part, why in wrong[:1] if part.is_relative_to(path))

    def _changed(self, parts: Iterator[Path]) -> Iterator[tuple[Path, str]]:
        for part in parts:
            if self._known.get(part) != _digest(part) and (why := self._why(part)):
                yield part, why

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
                if self._is_below_roots(program) and ("/" in word or _holds(program.is_file)):
                    self._programs.add(program)

    def _is_below_roots(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots)

    def _outside(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment for git: its search path has no folder that a command may write."""
        return {**environ, "PATH": path_outside(environ, self._roots)}

    def _why(self, part: Path) -> str:
        """How git would run something by a part of a repository; "" where it would not."""
        try:
            return self._why_readable(part)
        except (OSError, ValueError, RecursionError):
            # What is wrong with one repository must not keep others from being set aside.
            return f"{part.name}, which cannot be read"

    def _why_readable(self, part: Path) -> str:
        if part in self._programs:
            return f"the program {part.name}, which a setting of git names"
        system = next((name for name in (part.parent.name, part.parent.parent.name) if name in _OTHER_SYSTEMS), "")
        if system:
            return "" if _holds(part.is_dir) else f"{part.name} of {system}, which names programs"
        if part.name == ".git":
            target = _target_of(part)
            # Git follows no second `.git` file.
            inner = _parts(target) if target is not None and _holds(target.is_dir) else ()
            return next((why for one in inner if self._known.get(one) != _digest(one) and (why := self._why(one))), "")
        is_own = bool(self._own_hooks) and part.parent.match(f"*/{self._own_hooks}")
        if part.parent.name == "hooks" or part.parent in self._hook_folders or is_own:
            return f"the hook {part.name}"
        text = _text_of(part)
        if text is None:
            return f"{part.name}, which cannot be read"
        if part.name == "commondir":
            common, owner = _named_path(part), part.parent.parent
            if common is None or owner.name != "worktrees" or not common.samefile(owner.parent):
                return "settings of another folder"
            # Git follows no second `commondir`.
            parts = (one for one in _parts(owner.parent) if one.name != part.name)
            return next((why for _, why in self._changed(parts)), "")
        if part.name == "git-rebase-todo":
            return "a rebase that runs a command" if _TODO_RUNS.search(text) else ""
        if part.name in ("strategy", "opts"):
            runs = "/" in text if part.name == "strategy" else _STRATEGY_RUNS.search(text)
            return "a merge strategy in the project" if runs else ""
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


def _rename(path: Path, name: Path) -> None:
    """Rename a file or a folder, also where a command has made the folder that it is in read-only."""
    try:
        path.rename(name)
    except PermissionError:
        path.parent.chmod(path.parent.stat().st_mode | stat.S_IRWXU)
        path.rename(name)


def _worktree_of(path: Path) -> Path:
    return path.parent if path.name == ".git" else path


def _parts(path: Path) -> Iterator[Path]:
    """The files of a repository that say what git runs, and a `.git` that points to another folder."""
    if _holds(path.is_symlink) or _holds(path.is_file):
        yield path
        return
    # Git takes a folder with any name for a repository.
    names = dict.fromkeys((*_OTHER_SYSTEMS.get(path.name, ()), *_CONTROLS))
    yield from (path / name for name in names if os.path.lexists(path / name))
    yield from (hook for hook in _names(path / "hooks") if not hook.name.endswith(".sample"))


def _holds(test: Callable[[], bool]) -> bool:
    """The result of a test of a path; False for a path that is too long, or that may not be entered."""
    try:
        return test()
    except (OSError, ValueError):
        return False


def _is_own_folder(path: Path) -> bool:
    return _holds(path.is_dir) and not _holds(path.is_symlink)


def _names(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def common_git_folder(folder: Path) -> Path | None:
    """The repository that a folder is in: of a linked worktree or a submodule, the one that its `.git` file names."""
    git = next((parent / ".git" for parent in (folder, *folder.parents) if _holds((parent / ".git").exists)), None)
    if git is None or _holds(git.is_dir):
        return git
    real = _target_of(git)
    common = _named_folder(real / "commondir") if real is not None else None
    return common or real


def _target_of(pointer: Path) -> Path | None:
    """The folder that a `.git` which is a file or a link points to; None where it is none."""
    if _holds(pointer.is_dir):
        return Path(os.path.realpath(pointer))
    return _named_folder(pointer, b"gitdir: ")


def _named_folder(pointer: Path, prefix: bytes = b"") -> Path | None:
    """The folder that a file names, without links."""
    named = _named_path(pointer, prefix)
    return None if named is None else Path(os.path.realpath(named))


def _named_path(pointer: Path, prefix: bytes = b"") -> Path | None:
    """The path that a file names, read as git reads it: a blank at the end counts, a line end does not."""
    try:
        if not pointer.is_file() or pointer.stat().st_size > _MAX_POINTER_BYTES:
            return None
        data = pointer.read_bytes()
    except OSError:
        return None
    named = data.removeprefix(prefix).rstrip(b"\r\n").partition(b"\0")[0]
    is_path = data.startswith(prefix) and 0 < len(named) < _PATH_MAX
    return pointer.parent / os.fsdecode(named) if is_path else None


def _text_of(path: Path) -> str | None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_CONFIG_BYTES:
            return None
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _digest(path: Path) -> bytes | None:
    """A digest of a part of a repository, or of a link's target."""
    try:
        if path.is_symlink():
            return b"link " + os.fsencode(path.readlink())
        # A pipe with that name must not be waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_HASHED_BYTES:
                return f"{status.st_mode} {status.st_size} {status.st_ino} {status.st_ctime_ns}".encode()
            found = file_digest(file, blake2b).digest()
        scripts = _scripts_of(path) if path.name == "package.json" else None
        if scripts is not None:
            found = json.dumps(scripts, sort_keys=True).encode()
        return blake2b(found + str(status.st_mode).encode()).digest()
    except OSError:
        return None


def _digest_of_all(path: Path) -> bytes:
    """A digest of a file, or of a repository, as a person saw it."""
    parts = [path, *_parts(path)] if _holds(path.is_dir) else [path]
    return b"".join(_digest(part) or b"" for part in parts if not _holds(part.is_dir))


def _settings_that_may_run(text: str) -> Iterator[str]:
    """Keys of a config that are not known to run nothing, and lines that are read by git otherwise than here."""
    for key, value in settings_in(text):
        if not _HARMLESS_KEYS.fullmatch(key) or (
            key.casefold().endswith(".url") and _RUNS_PROGRAM.match(value.replace('"', ""))
        ):
            yield key


def settings_in(text: str) -> Iterator[tuple[str, str]]:
    """Each setting of a config with its value; a line that is none, with nothing."""
    section = ""
    text = text.replace("\r\n", "\n")
    if found := _BREAKS_LINES.search(text):
        yield f"file with the character {found[0]!r}", ""
    for line in text.split("\n"):
        line = line.strip(" \t")
        if not line or line[0] in "#;":
            continue
        if header := _SECTION.fullmatch(line):
            section = f"{header[1]}.{header[2]}." if header[2] is not None else f"{header[1]}."
        elif found := _SETTING.fullmatch(line):
            yield f"{section}{found[1]}", found[2] or ""
        else:
            yield repr(line[:80]), ""


# -- files that programs name ------------------------------------------------------------------------------------------


def _shown(path: Path) -> str:
    """The text that a person decides about: of a repository, its settings and hooks."""
    parts = list(_parts(path)) if _holds(path.is_dir) else [path]
    return "\n".join(f"{part.name}:\n{text}" for part in parts if (text := _text_of(part)))


def _files_named_in(program: Path, base: Path) -> Iterator[Path]:
    """Files below a folder that a program names in its text, and those in which a program it names finds commands."""
    text = _program_text(program)
    words = dict.fromkeys(_WORD.findall(text))
    yield from (base / file for word in words for file in rule_files_of(word))
    for word in words:
        spellings = [word.strip("."), word, word.lstrip("/")]
        if program.suffix == ".py":
            spellings.append(f"{word.replace('.', '/')}.py")
        for folder in dict.fromkeys((base, program.parent)):
            for spelling in dict.fromkeys(spellings):
                path = Path(os.path.normpath(folder / spelling))
                if _PROGRAM_NAME.search(path.name) or _is_program(path):
                    yield path


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and (os.access(path, os.X_OK) or path.open("rb").read(2) == b"#!")
    except (OSError, ValueError):
        return False


def _program_text(path: Path) -> str:
    """The text of a program; of a `package.json`, what it runs."""
    scripts = _scripts_of(path) if path.name == "package.json" else None
    if scripts is not None:
        return json.dumps(scripts)
    with suppress(OSError):
        if path.is_file() and path.stat().st_size <= _MAX_PROGRAM_BYTES:
            return path.read_text("utf-8", "replace")
    return ""


def _scripts_of(package: Path) -> dict[str, object] | None:
    """What a `package.json` runs: its other settings change with every dependency."""
    try:
        read = json.loads(_text_of(package) or "")
    except (ValueError, RecursionError):
        return None
    return (
        {key: read[key] for key in ("scripts", "lint-staged", "husky") if key in read}
        if isinstance(read, dict)
        else None
    )
