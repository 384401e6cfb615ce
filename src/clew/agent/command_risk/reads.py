"""Rules about reading: secret files and files outside the project, by their names, by a listing, or with their folder.

A name counts whether the file exists or not. A folder counts by what is in it: `grep -r` asks where a secret file is
below it and the pattern would show a line of it. `find . -name '.e*'`, `ls -a | grep env` and `echo .env` name secrets;
`find . -type f` lists everything, so that it depends on what is there; `find . -name '*.py'` lists none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from clew.agent.command_risk.command import Findings, InspectedCommand, RiskFinding, rule
from clew.agent.command_risk.tables import (
    DESTINATIONS,
    FLAGS_ALONE,
    NAMES,
    VALUE_FLAGS,
    WRAPPERS,
    RiskKind,
    pattern,
)
from clew.agent.files.file_types import secret_kind
from clew.agent.files.paths import is_below
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, SimpleCommand, Word

_MAX_ENTRIES = 20_000
_MAX_CHARS = 65_536
_MAX_PATTERN = 500
_TELLING = pattern("TELLING", re.IGNORECASE)
_LEFT_OUT_FLAG = pattern("LEFT_OUT_FLAG")
_NAMES_NO_FILE = pattern("NAMES_NO_FILE")
_PLAIN_WORD = pattern("PLAIN_WORD", re.IGNORECASE)
_LISTS_ALL = pattern("LISTS_ALL")


def _glob_finds_secret(glob: str, *, sees_hidden: bool = False) -> bool:
    """Whether a glob asks for secret files: `.e*`, `~/.ss?/id*`, `*credentials*`; not one for everything.

    Globs of a shell leave hidden files out, those of `find` do not.
    """
    if sees_hidden:
        parts = [glob.rpartition("/")[2]]
    else:
        parts = [part for part in glob.split("/") if re.search(r"[*?\[]", part)]
    if parts and (secret_kind(glob) or glob.startswith("/proc/")):
        return True
    for part in parts:
        is_specific = part.startswith((".", "[", "?")) or (sees_hidden and part.strip("*?.") != "")
        if _TELLING.search(part) or (
            is_specific and any(fnmatchcase(name, part.lower()) for name in NAMES["SECRET_NAMES"])
        ):
            return True
    return False


def _regex_finds_secret(text: str, below: str = "") -> bool:
    try:
        return any(re.search(text, below + name, re.IGNORECASE) for name in NAMES["SECRET_NAMES"])
    except re.error:
        return True


# -- files that a command names ----------------------------------------------------------------------------------------

_WRAPPER_NAMES = frozenset(name for name in WRAPPERS if " " not in name)
_ONLY_DOTS = re.compile(r"(?:\.\./?)+")
"""`cmake ..`: the folder that it works for, as a rule."""
_SHOWS_PUBLIC = pattern("SHOWS_PUBLIC")


@rule()
def reading_files(command: InspectedCommand) -> Findings:
    """Secret files and files outside the project that a command is given; the tools for files ask for the same ones.

    Any program may show what it reads, so only those that list or name files are left out.
    """
    subcommand = next(iter(command.plain), "")
    is_git, is_link = command.name == "git", command.name == "ln" and command.has_flag("-s", "--symbolic")
    if command.name in NAMES["HARMLESS_WITH_SECRETS"] | _WRAPPER_NAMES - {"xargs"}:
        return
    if is_git and subcommand not in NAMES["GIT_SHOWS"] | NAMES["GIT_TAKES"]:
        return
    if command.name == "openssl" and _SHOWS_PUBLIC.match(subcommand):
        return  # certificates and requests, whose files look like those of keys
    words = _files_of_this_machine(command) if command.name in NAMES["ELSEWHERE"] else _named_files(command)
    for word in {word.text: word for word in words}.values():
        if not is_git or subcommand in NAMES["GIT_SHOWS"]:
            yield from secret_file(command, word)
        is_far_folder = _ONLY_DOTS.fullmatch(word.text) is not None and command.name not in NAMES["READERS"]
        if word.text != "/" and not is_far_folder and not is_link:
            yield from outside_file(command, word)


def redirected_reads(command: InspectedCommand) -> Findings:
    """`< .env`, `< <(find . -name .env)`, `< ~/notes.txt`."""
    for target in (redirect.target for redirect in command.parsed.redirects if redirect.operator == "<"):
        if not target.substitutions:
            yield from file_read(command, target)
        elif _listed_by(command, target.substitutions[-1]).names_secrets:
            yield _finding(command, "reads secret files that another command finds")


def file_read(command: InspectedCommand, word: Word) -> Findings:
    """What is dangerous about reading a file."""
    yield from secret_file(command, word)
    yield from outside_file(command, word)


def secret_file(command: InspectedCommand, word: Word) -> Findings:
    path = command.path_of(word)
    kind = secret_kind(word.text) or (secret_kind(path.path) if path.location != "unknown" else None)
    is_in_proc = command.folder is None or is_below(command.folder, "/proc") or UNKNOWN in word.text
    if kind is None and is_in_proc and word.text.rpartition("/")[2] in {"environ", "mem"}:
        kind = "the environment of a process"
    if kind is None and word.is_glob:
        matched = next(filter(None, map(secret_kind, command.paths.matching_files(word, command.folder))), None)
        kind = matched or ("a file of secrets, by its pattern" if _glob_finds_secret(word.text) else None)
    if kind is not None:
        yield command.finding(RiskKind.SECRETS, f"reads {kind}: {printable_line(word.text)}", printable_line(word.text))


def outside_file(command: InspectedCommand, word: Word) -> Findings:
    path = command.path_of(word)
    looks_like_path = re.match(r"/|~|\.\.(?:/|$)", word.text) is not None or "/../" in word.text
    is_other_home = re.match(r"~[\w-]", word.text) is not None
    is_far = command.folder is not None and not is_below(command.folder, command.paths.project)
    # Elsewhere also `status` might be a file.
    is_named = looks_like_path or (is_far and ("/" in word.text or "." in word.text or _exists(command, word.text)))
    # `/api/users` is no path of this machine where there is no folder /api.
    may_be_there = os.path.lexists("/" + path.path.lstrip("/").partition("/")[0])
    if "://" in word.text or not (is_other_home or (path.zone == "outside" and is_named and may_be_there)):
        return
    name = printable_line(path.path)
    scope = f"read below {name.rpartition('/')[0] or '/'}"
    yield command.finding(RiskKind.OUTSIDE, f"reads {name}, outside the project", scope)


def _files_of_this_machine(command: InspectedCommand) -> Iterator[Word]:
    """`docker run -v FILE:/x`, `docker build FOLDER`, `docker cp FILE container:/x`, `kubectl -f FILE`."""
    if command.plain[:1] in (["build"], ["cp"]):
        yield from (word for word in command.positional[1:] if not re.match(r"[\w-]+:", word.text))
    for word in command.values_of(NAMES["FLAGS_OF_THIS_MACHINE"]):
        source = re.search(r"(?:^|,)(?:source|src)=([^,]+)", word.text)
        yield replace(word, text=source[1] if source else word.text.partition(":")[0])


def _named_files(command: InspectedCommand) -> Iterator[Word]:
    """Arguments that name files which the command reads: `x`, `@x`, `if=x`, `--file=x`, `file://x`, `-fx`."""
    left_out = {id(word) for word in _patterns(command)}
    written = DESTINATIONS.get(command.name)
    if written == "all" and command.name in {"tee", "touch", "mkdir", "truncate"}:
        return
    if (written == "last" or command.name == "mv") and len(command.positional) > 1:
        left_out.add(id(command.positional[-1]))
    before = ""
    for word in command.args:
        is_flag_value = before.startswith("--") and command.name != "git"
        is_text = _LEFT_OUT_FLAG.match(before) or _NAMES_NO_FILE.match(before)
        before = word.text
        is_prose = " " in word.text and not re.match(r"[/~]|\.\.?/", word.text)
        if id(word) in left_out or is_text or is_prose:
            continue
        for text in _spellings(word.text, is_git=command.name == "git"):
            is_sure = not is_flag_value and (not _PLAIN_WORD.fullmatch(text) or _exists(command, text))
            if is_sure or command.name in NAMES["READERS"]:
                yield replace(word, text=text, is_glob=word.is_glob or (command.name == "git" and "*" in text))


def _patterns(command: InspectedCommand) -> Iterator[Word]:
    """Arguments that are patterns: the first, or what follows `-e` where the `-e` is no value of another flag."""
    if command.name in NAMES["PATTERN_FIRST"] and not command.has_flag("-e", "-f", "--regexp", "--expression"):
        yield from command.positional[:1]
    if command.is_git("grep"):
        yield from command.positional[1:2]
    alone = FLAGS_ALONE.get(command.name)
    if alone is None:
        return
    takes_pattern, takes_nothing = re.compile(f"-[{alone}]*e|--regexp|--expression"), re.compile(f"-[{alone}]+|--.*=.*")
    at, is_value = 0, False
    while at + 1 < len(command.args) and (text := command.args[at].text) != "--":
        if takes_pattern.fullmatch(text) and not is_value:
            yield command.args[at + 1]
            at += 1
        else:
            is_value = text.startswith("-") and not takes_nothing.fullmatch(text)
        at += 1


def _spellings(text: str, *, is_git: bool) -> Iterator[str]:
    if text.startswith(("!", ":!", ":^", ":(exclude)")):
        return
    if is_git:  # `HEAD:.env`, `:(top).env`, `-L1,9:.env`
        yield from {text.rpartition(":")[2], text.rpartition(")")[2]}
    if not text.startswith("-"):
        yield text.removeprefix("@").removeprefix("file://")
    elif text[2:3] in {".", "/", "~", "@"} and text[1:2] != "-":
        yield text[2:].removeprefix("@")
    flag, equals, value = text.partition("=")
    if equals and not _LEFT_OUT_FLAG.match(flag) and not _NAMES_NO_FILE.match(flag):
        yield value.removeprefix("@").removeprefix("file://")


def _exists(command: InspectedCommand, text: str) -> bool:
    if command.folder is None or UNKNOWN in text:
        return False
    path = os.path.join(command.folder, text)  # noqa: PTH118
    return os.path.isfile(path) or (command.name in NAMES["READERS"] and os.path.isdir(path))  # noqa: PTH112, PTH113


# -- searches of folders -----------------------------------------------------------------------------------------------

_REPEATED = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+][^)]*\)[*+{]")
"""A repetition inside a repetition, which may take exponential time to match."""
_CREDENTIAL = pattern("CREDENTIAL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Search:
    """A command that searches files, by its arguments."""

    command: InspectedCommand
    patterns: tuple[str, ...]
    roots: tuple[str, ...]
    included: tuple[str, ...]
    excluded: tuple[str, ...]

    @classmethod
    def of(cls, command: InspectedCommand) -> Search:
        plain = command.plain
        patterns = [word.text for word in command.values_of({"-e", "--regexp"})]
        if not patterns and not command.has_flag("-f", "--file", "--files"):
            patterns, plain = plain[:1], plain[1:]
        globs = [word.text for word in command.values_of({"--include", "-g", "--glob", "--iglob"})]
        included = [glob for glob in globs if not glob.startswith("!")]
        included += ["*.of-a-type"] if any(command.values_of({"-t", "--type"})) else []
        excluded = [word.text for word in command.values_of({"--exclude", "--exclude-dir"})]
        excluded += [glob[1:] for glob in globs if glob.startswith("!")]
        names = tuple(glob.rstrip("/") for glob in excluded)
        return cls(command, tuple(patterns), tuple(plain) or (".",), tuple(included), names)

    @property
    def is_recursive(self) -> bool:
        is_always = self.command.name in {"rg", "ag", "ack", "ugrep"}
        return is_always or self.command.has_flag("-r", "-R", "--recursive", "--dereference-recursive")

    @property
    def sees_hidden(self) -> bool:
        """Whether it reads files that begin with a dot, which `rg` and its like leave out by default."""
        if self.command.name == "rg":
            return self.command.has_flag("--hidden") or any(re.match(r"-(?:\.|uu)", one) for one in self.command.texts)
        return self.command.name != "ack" and (self.command.name != "ag" or self.command.has_flag("--hidden", "-u"))

    def would_show(self, path: str, name: str) -> bool:
        """Whether it would print a line of a file with this name; where that is unknown, it would."""
        if any(fnmatchcase(part, glob) for part in (name, *name.split("/")) for glob in self.excluded):
            return False
        if self.command.has_flag("-v", "--invert-match"):
            return True
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                lines = file.read(_MAX_CHARS).splitlines()
            found = [self._compiled(text) for text in self.patterns]
        except (OSError, re.error, ValueError):
            return True
        return not found or any(one.search(line) for one in found for line in lines)

    def _compiled(self, text: str) -> re.Pattern[str]:
        """The pattern as Python reads it. Raises re.error or ValueError where it is not known what it matches."""
        if UNKNOWN in text or len(text) > _MAX_PATTERN:
            raise ValueError("not known")
        if self.command.name == "fgrep" or self.command.has_flag("-F", "--fixed-strings"):
            text = re.escape(text)
        elif self.command.name == "grep" and not self.command.has_flag(
            "-E", "-P", "--extended-regexp", "--perl-regexp"
        ):
            # In a basic expression the brackets and signs mean themselves, unless escaped.
            text = re.sub(r"\\?[(){}|+?]", lambda found: found[0][1:] if len(found[0]) == 2 else f"\\{found[0]}", text)
        if _REPEATED.search(text):
            raise ValueError("may take long")
        text = text.replace("[[:space:]]", r"\s").replace("[:space:]", r"\s").replace("[:alnum:]", r"\w")
        ignores_case = self.command.has_flag("-i", "--ignore-case", "-S", "--smart-case")
        return re.compile(text, re.IGNORECASE if ignores_case else 0)


@rule()
def searching_folders(command: InspectedCommand) -> Findings:
    """`grep -r`, `rg --hidden` and `diff -r` over a folder with secrets in it."""
    if command.name == "diff" and command.has_flag("-r", "--recursive"):
        yield from _folder_reads(command, command.plain)
    search = Search.of(command) if command.name in NAMES["SEARCHERS"] else None
    if search is None or not search.is_recursive:
        return
    if any(_glob_finds_secret(glob) or secret_kind(glob) for glob in search.included):
        yield _finding(command, "searches secret files, by the names that it includes")
    elif not search.included and search.sees_hidden and not command.has_flag(*NAMES["LISTS_ONLY"]):
        hunts = any(_CREDENTIAL.search(text) for text in search.patterns)
        if hunts and any(command.paths.is_broad(root) for root in _resolved(command, search.roots)):
            yield _finding(command, "searches the whole project for credentials")
        else:
            yield from _folder_reads(command, search.roots, search)


def _folder_reads(command: InspectedCommand, roots: Iterable[str], *searches: Search) -> Findings:
    """Secret files below folders, of those that all searches would show."""
    for folder in _resolved(command, roots):
        is_inside = is_below(folder, command.paths.project)
        if not is_inside and command.paths.is_broad(folder):
            yield _finding(command, f"reads everything below {printable_line(folder)}, secrets among it")
            return
        for path in _secret_files_below(folder) if is_inside else ():
            name = os.path.relpath(path, folder)
            if all(one.would_show(path, name) for one in searches):
                shown = printable_line(name)
                reason = f"reads {secret_kind(name)}: {shown} is among what it reads"
                yield command.finding(RiskKind.SECRETS, reason, shown)
                return


def _secret_files_below(folder: str) -> Iterator[str]:
    """Files below a folder that usually hold secrets, nearest first; folders of others' code are left out."""
    looked_at = 0
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - NAMES["OTHERS_FOLDERS"])
        looked_at += len(files) + len(folders)
        paths = (os.path.join(here, name) for name in files)  # noqa: PTH118
        yield from (path for path in paths if secret_kind(os.path.relpath(path, folder)))
        if looked_at > _MAX_ENTRIES:
            return


def _resolved(command: InspectedCommand, roots: Iterable[str]) -> Iterator[str]:
    paths = (command.path_of(Word(root)) for root in roots)
    return (path.path for path in paths if path.location != "unknown")


# -- files that other commands list ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listing:
    """What a command lists."""

    names_secrets: bool = False
    """It asks for secret files by their names."""
    is_everything: bool = False
    """It lists what is there, below `roots`."""
    roots: tuple[str, ...] = ()
    search: Search | None = None
    """Of these, only files in which it finds something."""


@rule()
def reading_found_secrets(command: InspectedCommand) -> Findings:
    """`find -exec cat`, `find | xargs cat`, `cat $(find ...)`, `find | while read`."""
    source = command.parsed.piped_from
    if command.name in NAMES["FINDERS"]:
        listed = _found(command.name, command.texts)
        for at, text in enumerate(command.texts):
            if text in NAMES["FIND_RUNS"]:
                yield from _given(command, command.texts[at + 1 :], listed)
    elif command.name in {"xargs", "parallel"}:
        inner = [text for text in command.texts if not text.startswith("-")]
        given = command.parsed.stdin_text
        listed = _listed_by(command, source) if given is None else Listing(_names_secrets(given.split()))
        yield from _given(command, inner or ["echo"], listed)
    elif command.name in {"read", "mapfile", "readarray"} and source is not None:
        listed = _listed_by(command, source)
        yield from _given(command, [command.name], replace(listed, is_everything=False))
    elif command.name not in NAMES["HARMLESS_WITH_SECRETS"]:
        for word in command.args:
            if word.substitutions and not word.is_known:
                yield from _given(command, [command.name, *command.texts], _listed_by(command, word.substitutions[-1]))


def _given(command: InspectedCommand, texts: list[str], listed: Listing) -> Findings:
    """What a command reads that is given the files which another found."""
    name = texts[0].rpartition("/")[2] if texts else ""
    if not name or name in NAMES["HARMLESS_WITH_SECRETS"] | {"git", "xargs"}:
        return
    for root in listed.roots:
        yield from outside_file(command, Word(root))
    if listed.names_secrets:
        yield _finding(command, "reads secret files that it finds by their names")
    elif listed.is_everything and name not in NAMES["CHANGES_ONLY"]:
        searches = [listed.search] if listed.search is not None else []
        searches += [Search.of(_with_texts(command, name, texts[1:]))] if name in NAMES["SEARCHERS"] else []
        yield from _folder_reads(command, listed.roots, *searches)


def _listed_by(command: InspectedCommand, source: SimpleCommand | None) -> Listing:
    """What a pipe lists that ends in this command."""
    filters: list[list[str]] = []
    while source is not None and source.words:
        name, *texts = (word.text for word in source.words)
        name = name.rpartition("/")[2]
        is_filter = name in {"grep", "egrep", "rg"}
        if source.piped_from is None or not (is_filter or name in NAMES["PASSES_ON"]):
            listed = _listed(_with_texts(command, name, texts))
            for one in reversed(filters):
                listed = _filtered(listed, one)
            return listed
        filters += [texts] if is_filter else []
        source = source.piped_from
    return Listing()


def _with_texts(command: InspectedCommand, name: str, texts: list[str]) -> InspectedCommand:
    """Another command in the same place."""
    return replace(command, name=name, args=tuple(map(Word, texts)))


def _listed(command: InspectedCommand) -> Listing:
    if command.name in NAMES["FINDERS"]:
        return _found(command.name, command.texts)
    if command.name in {"echo", "printf", "ls"} and _names_secrets(command.plain):
        return Listing(names_secrets=True)
    if _LISTS_ALL.match(" ".join([command.name, *command.texts])):
        roots = command.plain if command.name in {"ls", "tree"} else []
        return Listing(is_everything=True, roots=tuple(roots) or (".",))
    if command.name in NAMES["SEARCHERS"]:
        search = Search.of(command)
        if search.is_recursive and search.sees_hidden and command.has_flag("-l", "--files-with-matches"):
            return Listing(_names_secrets(search.included), not search.included, search.roots, search)
    return Listing()


def _names_secrets(texts: Iterable[str]) -> bool:
    return any(secret_kind(text) or _glob_finds_secret(text) for text in texts)


def _found(name: str, texts: list[str]) -> Listing:
    """What `find` or `fd` lists, by its arguments."""
    ends = next((at for at, text in enumerate(texts) if text in NAMES["FIND_RUNS"]), len(texts))
    texts = texts[:ends]
    if name != "find":
        valued = VALUE_FLAGS["fd"].split()
        plain = [
            one for before, one in zip(["", *texts], texts, strict=False) if one[:1] != "-" and before not in valued
        ]
        if plain:
            return Listing(bool(plain[0].strip(".")) and (bool(secret_kind(plain[0])) or _regex_finds_secret(plain[0])))
        return Listing(is_everything=bool({"-H", "--hidden", "-u", "-HI", "-IH"} & set(texts)), roots=(".",))
    options = next((at for at, text in enumerate(texts) if text.startswith(("-", "(", "!"))), len(texts))
    roots = tuple(texts[:options]) or (".",)
    names_secrets, is_restricted = any(root.startswith("/proc") or secret_kind(root) for root in roots), False
    for before, test, wanted in zip(["", *texts], texts, texts[1:], strict=False):
        if test in NAMES["NAME_TESTS"] and before not in {"!", "-not"} and wanted.strip("*./"):
            is_restricted = True
            is_regex = "regex" in test
            finds = _regex_finds_secret(wanted, "./") if is_regex else _glob_finds_secret(wanted, sees_hidden=True)
            names_secrets |= UNKNOWN not in wanted and finds
    return Listing(names_secrets, not is_restricted, roots)


def _filtered(listed: Listing, texts: list[str]) -> Listing:
    """What a `grep` in the pipe leaves of it."""
    finds = _regex_finds_secret(next((text for text in texts if not text.startswith("-")), ""))
    if any(re.fullmatch(r"-[A-Za-z]*v[A-Za-z]*|--invert-match", text) for text in texts):
        return Listing(roots=listed.roots) if finds else listed
    return Listing(finds and (listed.names_secrets or listed.is_everything), roots=listed.roots)


def _finding(command: InspectedCommand, reason: str) -> RiskFinding:
    return command.finding(RiskKind.SECRETS, reason)
