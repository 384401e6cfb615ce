"""One simple command as the rules inspect it: its arguments, its flags, and where its paths lead.

Looks at the disk only to follow links and to see which files exist.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from clew.agent.command_risk.tables import NAMES, VALUE_FLAGS, RiskKind
from clew.agent.files.paths import SCRATCH_FOLDERS, SystemZone, is_below, zone_of
from clew.agent.files.session_files import SessionFiles
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, SimpleCommand, Word

PathLocation: TypeAlias = Literal["inside", "scratch", "outside", "unknown"]
_MAX_MATCHES = 300
_MAX_PATH_CHARS = 4_096
_GLOB_CHARS = re.compile(r"[*?\[{]")
_SHORT_FLAGS = re.compile(r"-[A-Za-z0-9]+$")


@dataclass(frozen=True, slots=True)
class RiskFinding:
    """One thing that is dangerous about a command."""

    kind: RiskKind
    reason: str
    excerpt: str
    """The part of the line that it is about."""
    scope: str
    """What an agreement for the session covers."""
    always_ask: bool = False


Findings: TypeAlias = Iterator[RiskFinding]
RiskRule: TypeAlias = "Callable[[InspectedCommand], Findings]"
_RULES: list[tuple[frozenset[str], RiskRule]] = []


def rule(names: str = "") -> Callable[[RiskRule], RiskRule]:
    """Register a rule about the commands of these names, or about every command."""

    def register(check: RiskRule) -> RiskRule:
        _RULES.append((frozenset(names.split()), check))
        return check

    return register


def findings_of(command: InspectedCommand) -> Findings:
    """What the rules find dangerous about one simple command."""
    for names, check in _RULES:
        if not names or command.name in names:
            yield from check(command)


@dataclass(frozen=True, slots=True)
class InspectedCommand:
    """A command as rules see it."""

    parsed: SimpleCommand
    name: str
    args: tuple[Word, ...]
    folder: str | None
    """Where it runs; None where that is unknown."""
    paths: PathResolver
    environ: Mapping[str, str] | None = None
    own_jobs: frozenset[str] = frozenset()
    """Variables that hold ids of processes started on the same line."""
    in_venv: bool = False
    piped_into: SimpleCommand | None = None
    """The command that reads its output."""
    texts: list[str] = field(init=False)
    positional: list[Word] = field(init=False)
    """Arguments that are no flags, nor the values of flags before a subcommand."""
    plain: list[str] = field(init=False)
    """The texts of the positional arguments."""

    def __post_init__(self) -> None:
        # Every rule asks for these, so they are made once.
        object.__setattr__(self, "texts", [word.text for word in self.args])
        listed = list(positional_arguments(self.args, VALUE_FLAGS.get(self.name, "")))
        object.__setattr__(self, "positional", listed)
        object.__setattr__(self, "plain", [word.text for word in listed])

    @property
    def is_project_program(self) -> bool:
        """Whether it is run by a path that is not outside the project: `.venv/bin/pip`."""
        program = self.parsed.words[0]
        return "/" in program.text and self.path_of(program).location != "outside"

    def path_of(self, word: Word) -> CommandPath:
        return self.paths.resolve(word, self.folder)

    def is_git(self, *subcommand: str) -> bool:
        """Whether it is `git` with these first positional arguments."""
        return self.name == "git" and self.plain[: len(subcommand)] == [*subcommand]

    def has_flag(self, *flags: str) -> bool:
        return any(is_flag(text, flag) for text in self.texts if text[:1] == "-" for flag in flags)

    def values_of(self, flags: Collection[str], *, attached: bool = False) -> Iterator[Word]:
        """Values of these flags: `-o x`, `--out=x`, and `-o/x`, where a value begins like a path or `attached` is set.

        Of the flags in one word (`-sSLo x`) the last has the value, for programs that are used like that.
        """
        for at, word in enumerate(self.args):
            flag, equals, value = word.text.partition("=")
            is_last_of_many = self.name in NAMES["BUNDLES_FLAGS"] and f"-{word.text[-1:]}" in flags
            if word.text in flags or (is_last_of_many and _SHORT_FLAGS.match(word.text)):
                yield from self.args[at + 1 : at + 2]
            elif equals and flag in flags:
                yield replace(word, text=value)
            elif word.text[:2] in flags and (attached or word.text[2:3] in ("/", "~", ".")):
                yield replace(word, text=word.text[2:])

    def finding(self, kind: RiskKind, reason: str, scope: str = "", *, always_ask: bool = False) -> RiskFinding:
        excerpt = printable_line(self.parsed.source or " ".join([self.name, *self.texts]))
        # An agreement to `git push` here does not cover a push in another folder.
        is_here = self.folder is not None and is_below(self.folder, self.paths.project)
        elsewhere = "" if is_here else f" in {self.folder or 'some folder'}"
        return RiskFinding(kind, reason, excerpt, f"{kind}: {scope or excerpt}{elsewhere}", always_ask)


def is_flag(text: str, flag: str) -> bool:
    """Whether an argument is this flag, alone (`-r`), with a value (`-r=x`) or among short flags (`-xrf`)."""
    if text == flag or text.startswith(f"{flag}="):
        return True
    return len(flag) == 2 and flag != "--" and _SHORT_FLAGS.match(text) is not None and flag[1] in text[1:]


def positional_arguments(args: tuple[Word, ...], value_flags: str) -> Iterator[Word]:
    """Arguments that are no flags, nor the values of these flags."""
    flags, skip, only_positional = value_flags.split(), False, False
    for word in args:
        if skip:
            skip = False
        elif word.text == "--" and not only_positional:
            only_positional = True
        elif only_positional or word.text == "-" or not word.text.startswith("-"):
            yield word
        else:
            is_last_of_many = _SHORT_FLAGS.match(word.text) and f"-{word.text[-1]}" in flags
            skip = word.text in flags or bool(is_last_of_many)


@dataclass(frozen=True, slots=True)
class CommandPath:
    """A path of a command, as far as it is known."""

    location: PathLocation
    path: str
    """Absolute where that is known; of a glob, the folder it looks in."""
    is_glob: bool = False
    zone: SystemZone | None = None
    """None where it is not known."""


class PathResolver:
    """Resolves the paths of commands against the project, the home folder and the scratch folders."""

    def __init__(self, project: Path, environ: Mapping[str, str], session_files: SessionFiles) -> None:
        self._session_files = session_files
        self.project = os.path.realpath(project)
        self.home = environ.get("HOME", "")
        scratch = environ.get("TMPDIR", "")
        self._scratch = (*SCRATCH_FOLDERS, *((scratch,) if scratch not in ("", "/") else ()))

    def resolve(self, word: Word, folder: str | None) -> CommandPath:
        """The path that a word names, relative to a folder (None: unknown)."""
        text = self._expanded(word.text)
        known, is_glob = text, False
        if word.is_glob and (found := _GLOB_CHARS.search(text)):
            is_glob = True
            known = text[: found.start()].rpartition("/")[0] + "/" if "/" in text[: found.start()] else "."
            if ".." in text[found.start() :]:
                return CommandPath("unknown", text, True)
        if UNKNOWN in known:
            start, _, rest = known.partition(UNKNOWN)
            known = start.rpartition("/")[0]
            if not known or ".." in rest:
                return CommandPath("unknown", text, is_glob)
            is_glob = True
        if not known.startswith("/"):
            if folder is None:
                return CommandPath("unknown", text, is_glob)
            known = f"{folder}/{known}"
        if len(known) > _MAX_PATH_CHARS:
            return CommandPath("unknown", text, is_glob)
        zone = self._zone(known)
        location: PathLocation = "unknown" if zone is None else "inside" if zone == "project" else "outside"
        return CommandPath("scratch" if zone == "scratch" else location, os.path.normpath(known), is_glob, zone)

    def matching_files(self, word: Word, folder: str | None) -> list[str]:
        """Files on disk that a glob matches, the first few hundred."""
        text = self._expanded(word.text)
        if UNKNOWN in text or (folder is None and not text.startswith("/")):
            return []
        return [*islice(glob.iglob(text, root_dir=folder), _MAX_MATCHES)]  # noqa: PTH207 (as a shell does: no dot files)

    def _zone(self, path: str) -> SystemZone | None:
        """The zone of a path; None for one that no file can have."""
        if path in NAMES["STREAM_DEVICES"] or path.startswith("/dev/fd/"):
            return "scratch"
        try:
            return zone_of(path, self.project, self._scratch)
        except ValueError:
            return None

    def _expanded(self, text: str) -> str:
        if text == "~" or text.startswith("~/"):
            return (self.home or UNKNOWN) + text[1:]
        return UNKNOWN + "/" + text if re.match(r"~[\w+-]", text) else text

    def is_broad(self, path: str) -> bool:
        """Whether a folder contains everything: the project, a folder around it, the home folder, the root."""
        return is_below(self.project, path) or bool(self.home and is_below(self.home, path)) or path.count("/") < 2

    def is_personal_setting(self, path: str) -> bool:
        """Whether it is a setting of the person or of the machine."""
        below_home = bool(self.home) and path.startswith(f"{self.home.rstrip('/')}/.")
        return below_home or path.startswith(("/etc", "/usr", "/bin", "/sbin", "/boot"))

    def exists_inside(self, path: CommandPath) -> bool:
        return path.location == "inside" and Path(path.path).exists()

    def holds_work(self, path: CommandPath) -> bool:
        """Whether it is a file of the project that is not empty, and that this session did not write."""
        try:
            file = Path(path.path)
            is_file = path.location == "inside" and not path.is_glob and file.is_file()
            return is_file and file.stat().st_size > 0 and not self._session_files.has_written(path.path)
        except (OSError, ValueError):
            return False

    def display_name(self, path: CommandPath) -> str:
        """For people and scopes: relative to the project where it is inside."""
        if path.location == "inside":
            return os.path.relpath(path.path, self.project)
        return path.path.replace(UNKNOWN, "…")
