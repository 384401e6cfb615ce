"""Rules about reading secrets: files named or matched by a command, files that others find for it, whole folders.

A name counts whether the file exists or not. A folder counts by what is in it: `grep -r` asks where a secret file lies
below and the pattern would show a line of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from clew.agent.command_risk.command import Findings, InspectedCommand, RiskFinding, is_below
from clew.agent.command_risk.facts import RiskKind
from clew.agent.command_risk.listed_files import ListedFiles, files_listed_by, find_lists, matches_a_secret, names_in
from clew.agent.command_risk.programs import (
    DESTINATIONS,
    FINDERS,
    HARMLESS_WITH_SECRETS,
    PATTERN_FIRST,
    READERS,
    SEARCHERS,
)
from clew.agent.command_risk.searches import Search, secret_files_below, shows_a_line_of
from clew.agent.files.file_types import is_public_file, secret_kind
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, Word

_LEFT_OUT_FLAG = re.compile(r"--?(?:exclude|ignore|skip|not|no-)\S*$|--env-file\S*$|-x$|-(?:key)?out$")
"""Flags that name files which are not shown: left out, or handed to a program as its settings."""
_PLAIN_WORD = re.compile(r"secrets?|credentials|gcloud|cookies", re.IGNORECASE)
"""Also the name of a branch, a service, a task: a file only where there is one."""
_FLAGS_ALONE = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep"), "EFGHILPRUabchilnoqrsvwxz"),
    **dict.fromkeys(("sed", "gsed"), "Enrsz"),
    "rg": "FHLNPSUcilnoqsvwx",
}
"""Letters of flags that take no value, of programs that take a pattern behind `-e`."""
_GIT_SHOWS = frozenset(
    "show diff log blame annotate cat-file grep stash archive format-patch difftool whatchanged range-diff "
    "diff-tree diff-index diff-files rev-list show-branch hash-object bundle".split()
)
_RUNS_FILES = frozenset("ln tee xargs python python3 perl ruby node".split())
"""Of the readers, those that run the file they are given, or only name it."""
_CHANGES_ONLY = frozenset(
    "wc mv cp sed dos2unix black ruff isort prettier eslint gofmt rustfmt clang-format shellcheck".split()
)
"""Commands that print nothing of most files that they are given."""


def reading_secrets(command: InspectedCommand) -> Findings:
    """Secret files that a command names."""
    if command.name == "git":
        yield from _git_shows(command)
    elif command.name not in HARMLESS_WITH_SECRETS:
        for word in _named_files(command):
            yield from secret_file(command, word)


def redirected_secrets(command: InspectedCommand) -> Findings:
    """`< .env`, and `< <(find . -name .env)`."""
    for redirect in command.parsed.redirects:
        if redirect.operator == "<":
            yield from secret_file(command, redirect.target)
            if redirect.target.substitutions and files_listed_by(redirect.target.substitutions[-1]).names_secrets:
                yield _finding(command, "reads secret files that another command finds")


def reading_outside(command: InspectedCommand) -> Findings:
    """Files outside the project that a command shows, copies or sends; the tools for files ask for the same ones."""
    if command.name in READERS - _RUNS_FILES or command.name in {"source", "."}:
        for word in _named_files(command):
            yield from outside_file(command, word)


def redirected_from_outside(command: InspectedCommand) -> Findings:
    """`< ~/notes.txt`."""
    for redirect in command.parsed.redirects:
        if redirect.operator == "<" and not redirect.target.substitutions:
            yield from outside_file(command, redirect.target)


def outside_file(command: InspectedCommand, word: Word) -> Findings:
    """What is to be asked about reading a file that lies outside the project."""
    path = command.path_of(word)
    looks_like_path = word.text.startswith(("/", "~", "../")) or word.text == ".." or command.folder is None
    is_far = command.folder is not None and not is_below(command.folder, command.paths.project)
    if path.location != "outside" or not (looks_like_path or "/../" in word.text or is_far) or "://" in word.text:
        return
    if not is_public_file(path.path):
        name = printable_line(path.path)
        scope = f"read below {name.rpartition('/')[0] or '/'}"
        yield command.finding(RiskKind.OUTSIDE, f"reads {name}, outside the project", scope)


def secret_file(command: InspectedCommand, word: Word) -> Findings:
    """What is secret about reading a file."""
    path = command.path_of(word)
    kind = secret_kind(word.text) or (secret_kind(path.path) if path.location != "unknown" else None)
    if kind is None and _is_of_process(command, word):
        kind = "the environment of a process"
    if kind is None and word.is_glob:
        matched = next(filter(None, map(secret_kind, command.paths.matching_files(word, command.folder))), None)
        kind = matched or ("a file of secrets, by its pattern" if matches_a_secret(word.text) else None)
    if kind is not None:
        yield command.finding(RiskKind.SECRETS, f"reads {kind}: {printable_line(word.text)}", printable_line(word.text))


def _is_of_process(command: InspectedCommand, word: Word) -> bool:
    """`cd /proc/$PPID && cat environ`."""
    is_near = command.folder is None or is_below(command.folder, "/proc")
    return word.text.rpartition("/")[2] in {"environ", "mem"} and (is_near or UNKNOWN in word.text)


def _named_files(command: InspectedCommand) -> Iterator[Word]:
    """Arguments that name files which the command reads: `x`, `@x`, `if=x`, `--file=x`, `file://x`, `-fx`."""
    words = list(command.args)
    if command.name in PATTERN_FIRST and not command.has_flag("-e", "-f", "--regexp", "--expression"):
        pattern = next(iter(command.positional), None)
        words = [word for word in words if word is not pattern]
    patterns = set(map(id, _patterns(command)))
    words = [word for word in words if id(word) not in patterns]
    written = DESTINATIONS.get(command.name)
    if (written == "last" or command.name == "mv") and len(command.positional) > 1:
        last = next(iter(command.positional[-1:]), None)
        words = [word for word in words if word is not last]
    elif written == "all" and command.name in {"tee", "touch", "mkdir", "truncate"}:
        return
    before = ""
    for word in words:
        is_flag_value, before_this, before = before.startswith("--"), before, word.text
        if _LEFT_OUT_FLAG.match(before_this) or " " in word.text:
            continue
        for text in _spellings(word.text):
            is_sure = command.name in READERS or (
                not is_flag_value and (not _PLAIN_WORD.fullmatch(text) or _exists(command, text))
            )
            if is_sure:
                yield replace(word, text=text)


def _patterns(command: InspectedCommand) -> Iterator[Word]:
    """What stands behind `-e`, which is no file. Not behind a flag that may take the `-e` for its own value."""
    if command.name not in _FLAGS_ALONE:
        return
    alone = _FLAGS_ALONE[command.name]
    takes_pattern, takes_nothing = re.compile(f"-[{alone}]*e|--regexp|--expression"), re.compile(f"-[{alone}]+|--.*=.*")
    args, at, is_value = command.args, 0, False
    while at + 1 < len(args) and (text := args[at].text) != "--":
        if takes_pattern.fullmatch(text) and not is_value:
            yield args[at + 1]
            at += 1
        else:
            is_value = text.startswith("-") and not takes_nothing.fullmatch(text)
        at += 1


def _spellings(text: str) -> Iterator[str]:
    if text.startswith("!"):
        return
    if not text.startswith("-"):
        yield text.removeprefix("@").removeprefix("file://")
    elif text[2:3] in {".", "/", "~", "@"} and text[1:2] != "-":
        yield text[2:].removeprefix("@")
    flag, equals, value = text.partition("=")
    if equals and not _LEFT_OUT_FLAG.match(flag):
        yield value.removeprefix("@").removeprefix("file://")


def _exists(command: InspectedCommand, text: str) -> bool:
    return command.folder is not None and UNKNOWN not in text and os.path.isfile(os.path.join(command.folder, text))  # noqa: PTH113, PTH118


def _git_shows(command: InspectedCommand) -> Findings:
    words = command.positional
    if not words or words[0].text not in _GIT_SHOWS:
        return
    for word in [*words[1:], *(word for word in command.args if word.text.startswith("-L"))]:
        if word.text.startswith((":!", ":^", ":(exclude)")) or " " in word.text:
            continue
        for part in {word.text, word.text.rpartition(":")[2], word.text.rpartition(")")[2]}:
            yield from secret_file(command, Word(part, is_glob=word.is_glob or "*" in part))


# -- files that other commands find ------------------------------------------------------------------------------------


def reading_found_secrets(command: InspectedCommand) -> Findings:
    """`find -exec cat`, `find | xargs cat`, `cat $(find ...)`, `find | while read`."""
    if command.name in FINDERS:
        listed = find_lists([word.text for word in command.args], command.name)
        for inner in _commands_of_find(command):
            yield from _given(command, inner, listed)
    source = command.parsed.piped_from
    if command.name in {"xargs", "parallel"}:
        inner = [word for word in command.args if not word.text.startswith("-")]
        given = command.parsed.stdin_text
        listed = files_listed_by(source) if given is None else names_in(given.split())
        yield from _given(command, inner or [Word("echo")], listed)
    elif command.name in {"read", "mapfile", "readarray"} and source is not None:
        if files_listed_by(source).names_secrets:
            yield _finding(command, "reads secret files that another command finds")
    elif command.name not in HARMLESS_WITH_SECRETS:
        for word in command.args:
            if word.substitutions and not word.is_known:
                yield from _given(command, list(command.parsed.words), files_listed_by(word.substitutions[-1]))


def _commands_of_find(command: InspectedCommand) -> Iterator[list[Word]]:
    words = list(command.args)
    for at, word in enumerate(words):
        if word.text in {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}:
            yield words[at + 1 :]


def _given(command: InspectedCommand, inner: list[Word], listed: ListedFiles) -> Findings:
    """What a command reads that is given the files which another found."""
    names = [word.text.rpartition("/")[2] for word in inner]
    if not names or names[0] in HARMLESS_WITH_SECRETS | {"git", "xargs"}:
        return
    if listed.names_secrets:
        yield _finding(command, "reads secret files that it finds by their names")
    elif listed.is_everything and names[0] not in _CHANGES_ONLY:
        searches = [listed.search] if listed.search is not None else []
        if names[0] in SEARCHERS:
            searches.append(Search.of(names[0], [word.text for word in inner[1:]]))
        yield from _folders(command, listed.roots, *searches)


# -- whole folders -----------------------------------------------------------------------------------------------------


def copying_folders(command: InspectedCommand) -> Findings:
    """Archives and servers of the home folder, or of the settings in it."""
    is_server = command.name in _SERVERS or (
        command.name in {"php", "ruby"} and bool({"-S", "-run"} & set(command.texts))
    )
    is_archive = command.name in _ARCHIVERS or (command.name == "cp" and command.has_flag("-r", "-R", "-a"))
    for word in command.positional if is_server or is_archive else ():
        path = command.path_of(word)
        if path.location != "outside" or not word.text.startswith(("/", "~", "$")):
            continue
        settings = os.path.join(command.paths.home or "/nonexistent", ".")  # noqa: PTH118
        if command.paths.is_broad(path.path) or path.path.startswith(settings):
            yield _finding(command, f"takes all of {printable_line(path.path)} along, secrets among it")


_SERVERS = frozenset("http.server httpd serve http-server live-server darkhttpd miniserve".split())
_ARCHIVERS = frozenset("tar gtar bsdtar zip 7z rsync cpio pax".split())


def searching_folders(command: InspectedCommand) -> Findings:
    """`grep -r`, `rg --hidden` and `diff -r` over a folder with secrets in it."""
    if command.name == "diff" and command.has_flag("-r", "--recursive"):
        yield from _folders(command, [word.text for word in command.positional])
    search = Search.of(command.name, command.texts) if command.name in SEARCHERS else None
    if search is None or not search.is_recursive:
        return
    if any(matches_a_secret(glob) or secret_kind(glob) for glob in search.included):
        yield _finding(command, "searches secret files, by the names that it includes")
    elif not search.included and search.sees_hidden and not search.only_names:
        if search.hunts_credentials and any(command.paths.is_broad(root) for root in _resolved(command, search.roots)):
            yield _finding(command, "searches the whole project for credentials")
        else:
            yield from _folders(command, search.roots, search)


def _folders(command: InspectedCommand, roots: Iterable[str], *searches: Search) -> Findings:
    """Secret files below folders, of those that all searches would show."""
    for folder in _resolved(command, roots):
        is_inside = is_below(folder, command.paths.project)
        if not is_inside and command.paths.is_broad(folder):
            yield _finding(command, f"reads everything below {printable_line(folder)}, secrets among it")
            return
        for path in secret_files_below(folder) if is_inside else ():
            name = os.path.relpath(path, folder)
            if all(not one.leaves_out(name) and shows_a_line_of(one, path) for one in searches):
                yield command.finding(
                    RiskKind.SECRETS,
                    f"reads {secret_kind(name)}: {printable_line(name)} is among what it reads",
                    printable_line(name),
                )
                return


def _resolved(command: InspectedCommand, roots: Iterable[str]) -> Iterator[str]:
    for root in roots:
        path = command.path_of(Word(root))
        if path.location != "unknown":
            yield path.path


def _finding(command: InspectedCommand, reason: str) -> RiskFinding:
    return command.finding(RiskKind.SECRETS, reason)
