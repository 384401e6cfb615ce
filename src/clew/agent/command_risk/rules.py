"""Rules about one simple command: each yields what it finds dangerous. Their tables are in `risk.toml`.

An agreement for the session covers the place that a command sends to or installs from, no other: `git push` is resolved
to the address of its remote. `files_written` and `files_run` are the files that a command writes, and those that it
runs: by an interpreter, by their path, or as rules of a task runner.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from urllib.parse import urlsplit

from clew.agent.command_risk.command import (
    Findings,
    InspectedCommand,
    RiskFinding,
    is_disk,
    is_git_internal,
    positional_arguments,
    rule,
)
from clew.agent.command_risk.tables import (
    COMMAND_FACTS,
    DESTINATIONS,
    INTERPRETERS,
    NAMES,
    OUTPUT_FLAGS,
    PROGRAM_FLAGS,
    SECRET_VARIABLE,
    WRITER_VALUE_FLAGS,
    CommandFact,
    ProgramFlags,
    RiskKind,
    pattern,
)
from clew.agent.files.file_types import lasting_effect
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, SimpleCommand, Word

_BY_SUBCOMMAND = frozenset({RiskKind.PUBLISH, RiskKind.HISTORY, RiskKind.PACKAGES, RiskKind.DATABASE})
"""Here an agreement for the session covers the subcommand; elsewhere, the same words only."""
_ADDRESS = re.compile(r"^\w+://|^(?:localhost|127\.0\.0\.1|\[::1\])|^[\w-]+(?:\.[\w-]+)+(?:[:/]|$)", re.I)
_SENDS = pattern("SENDS")
_METHOD = re.compile(r"^(?:(?:-X|--request=?|--method=?)\s*)?(?:POST|PUT|PATCH|DELETE)$")
_CACHES = pattern("CACHES")
_EMPTIES = re.compile(r"(?:1?,\$|1,|,)?d|")
"""Scripts of sed and perl that leave nothing of a file."""


# -- facts of the table ------------------------------------------------------------------------------------------------


@rule()
def known_commands(command: InspectedCommand) -> Findings:
    if {"--version", "--help"} >= set(command.texts) and command.texts:
        return
    for fact in COMMAND_FACTS:
        if _has_name(command.name, fact.names) and _applies(command, fact):
            yield command.finding(fact.kind, fact.reason, _scope(command, fact), always_ask=fact.always_ask)


def _scope(command: InspectedCommand, fact: CommandFact) -> str:
    if fact.kind not in _BY_SUBCOMMAND or command.has_flag(
        "-C", "--git-dir", "--work-tree", "--cwd", "--prefix", "--dir"
    ):
        return ""
    terms = [term for term in fact.needs.split() if not term.startswith(("-", "~"))]
    what = " ".join([command.name, *(word.text for word in command.positional[: max(1, len(terms))])])
    return printable_line(f"{what}{_at(command)}")


def _at(command: InspectedCommand) -> str:
    """Where it sends to or takes from: an agreement covers that place only."""
    place = destination_of(command)
    return f" at {place}" if place else ""


@lru_cache(maxsize=4_096)
def _has_name(name: str, names: str) -> bool:
    return any(fnmatchcase(name, one) for one in names.split("|"))


def _applies(command: InspectedCommand, fact: CommandFact) -> bool:
    if any(_meets_alone(command, term) for term in fact.unless.split()):
        return False
    positional, place = [word.text for word in command.positional], 0
    for term in fact.needs.split():
        if not _meets(command, term, positional[place] if place < len(positional) else None):
            return False
        place += not term.startswith(("-", "~"))
    return True


def _meets(command: InspectedCommand, term: str, argument: str | None) -> bool:
    if term.startswith("~"):
        return any(re.search(term[1:], text) for text in command.texts)
    return any(
        _meets(command, one, None)
        if one.startswith("~")
        else command.has_flag(one)
        if one.startswith("-")
        else argument is not None and fnmatchcase(argument, one)
        for one in term.split("|")
    )


def _meets_alone(command: InspectedCommand, term: str) -> bool:
    if term.startswith("~"):
        return _meets(command, term, None)
    plain = [one for one in term.split("|") if not one.startswith(("-", "~"))]
    return _meets(command, term, None) or any(
        fnmatchcase(word.text, one) for word in command.positional for one in plain
    )


# -- where a command sends to or installs from -------------------------------------------------------------------------

LOOPBACK = re.compile(
    r"^(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\])(?=[:/?#]|$)", re.IGNORECASE
)
_URL = re.compile(r"^(?:git\+)?\w[\w+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"^(?:[\w.-]+@)?[\w-]+(?:\.[\w-]+)+(?=[:/]|$)|^[\w.-]+@[\w.-]+")
_SOURCE_VARIABLE = re.compile(
    r"(?:INDEX|REGISTRY|REPOSITORY|HOST|PROFILE|KUBECONFIG|CONTEXT|ENDPOINT)\w*$", re.IGNORECASE
)
_MAX_CONFIG_BYTES = 1_000_000


def destination_of(command: InspectedCommand) -> str:
    """Where a command sends to or takes from, as text for a scope; empty where it names no place."""
    if command.is_git("push"):
        return _git_remote(command)
    return " ".join(dict.fromkeys(_places(command))).replace(UNKNOWN, "…")


def _places(command: InspectedCommand) -> Iterator[str]:
    texts = command.texts
    for at, text in enumerate(texts):
        flag, equals, value = text.partition("=")
        if text in NAMES["SOURCE_FLAGS"] and at + 1 < len(texts):
            yield f"{text} {texts[at + 1]}"
        elif equals and flag in NAMES["SOURCE_FLAGS"]:
            yield f"{flag} {value}"
        elif _URL.match(text):
            yield _host(text)
        elif found := _HOST.match(text):
            yield found[0]
    for name, word in command.parsed.assignments:
        if _SOURCE_VARIABLE.search(name):
            yield f"{name}={word.text}"


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else url


def _git_remote(command: InspectedCommand) -> str:
    """The address that `git push` sends to: of the remote that it names, or of the branch's own."""
    named = [word.text for word in command.positional[1:2]]
    settings = _git_settings(command.folder)
    remote = named[0] if named else _default_remote(command.folder, settings)
    section = f'remote "{remote}"'
    for key in ("pushurl", "url"):
        if settings is not None and settings.has_option(section, key):
            return f"{remote} ({settings.get(section, key)})"
    return remote


def _default_remote(folder: str | None, settings: configparser.RawConfigParser | None) -> str:
    if settings is None or folder is None:
        return "origin"
    try:
        head = (_git_folder(folder) or Path()).joinpath("HEAD").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        head = ""
    section = f'branch "{head.removeprefix("ref: refs/heads/")}"'
    for where, key in ((section, "pushremote"), ("remote", "pushdefault"), (section, "remote")):
        if settings.has_option(where, key):
            return settings.get(where, key)
    return "origin"


def _git_settings(folder: str | None) -> configparser.RawConfigParser | None:
    git = _git_folder(folder) if folder is not None else None
    if git is None:
        return None
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        with (git / "config").open(encoding="utf-8") as file:
            text = file.read(_MAX_CONFIG_BYTES)
        # Git indents its settings, which would make them continuations here.
        parser.read_string("\n".join(line.strip() for line in text.splitlines()))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return None
    return parser


def _git_folder(folder: str) -> Path | None:
    here = Path(folder)
    for parent in (here, *here.parents):
        git = parent / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            return _linked_folder(git)
    return None


def _linked_folder(git: Path) -> Path | None:
    """Of a linked worktree or a submodule: `.git` is a file that names the folder."""
    try:
        named = git.read_text("utf-8").partition("gitdir:")[2].strip()
        real = Path(os.path.normpath(git.parent / named))
        common = real / "commondir"
        return Path(os.path.normpath(real / common.read_text("utf-8").strip())) if common.is_file() else real
    except (OSError, UnicodeDecodeError):
        return None


# -- deleting ----------------------------------------------------------------------------------------------------------


@rule("rm unlink shred srm rimraf trash del-cli")
def deleting(command: InspectedCommand) -> Findings:
    if command.has_flag("--help"):
        return
    recursive = command.has_flag("-r", "-R", "--recursive") or command.name in {"rimraf", "trash", "del-cli"}
    for word in command.positional:
        yield from _deleted(command, word, recursive)


def _deleted(command: InspectedCommand, word: Word, recursive: bool) -> Findings:
    path = command.path_of(word)
    name = command.paths.display_name(path)
    made_again = path.location == "inside" and (
        _CACHES.search(word.text) if path.is_glob else any(map(_CACHES.search, accumulate(name.split("/"), _joined)))
    )
    if made_again and not word.text.rpartition("/")[2].startswith(("*/", "**")) and UNKNOWN not in word.text:
        return
    if path.location == "unknown" or (UNKNOWN in word.text and recursive):
        yield command.finding(RiskKind.DELETE, "what it deletes is only known when it runs", always_ask=True)
    elif (recursive or word.text in {"*", "./*"}) and command.paths.is_broad(path.path):
        yield command.finding(RiskKind.DELETE, f"deletes everything in {printable_line(path.path)}", always_ask=True)
    elif path.location == "outside":
        yield command.finding(
            RiskKind.DELETE, f"deletes outside the project: {printable_line(path.path)}", always_ask=True
        )
    elif f"{path.path}/".endswith("/.git/") or is_git_internal(path.path):
        yield command.finding(RiskKind.DELETE, "deletes what git knows of the project", always_ask=True)
    elif recursive:
        every = f"{name}/*" if path.is_glob else name
        yield command.finding(
            RiskKind.DELETE, "deletes a folder and all that is in it, without a way back", f"all of {every}"
        )
    elif path.location == "inside":
        yield command.finding(RiskKind.DELETE, "deletes files without a way back", "single files inside the project")
    elif path.is_glob:
        yield command.finding(RiskKind.DELETE, "deletes files without a way back", f"files in {name}")


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}"


@rule()
def overwriting_files(command: InspectedCommand) -> Findings:
    """`cmd > main.py`, `cp x main.py`, `tee main.py`, `curl -o main.py`: what a file of the project held is lost.

    An editor such as `sed -i` keeps the most of it, and a file that is also an argument is worked on.
    """
    targets = [one.target for one in command.parsed.redirects if one.operator in {">", ">|", "&>"}]
    if command.name == "mv":
        targets += command.positional[1:][-1:]
    elif command.name not in _EDITS_FILES and not (command.name == "tee" and command.has_flag("-a", "--append")):
        targets += (word for word in written_words(command) if command.texts.count(word.text) < 2)
    if command.name == "find":
        targets += [
            after for word, after in zip(command.args, command.args[1:], strict=False) if word.text.startswith("-fp")
        ]
    if command.name == "gawk" and "inplace" in command.texts:
        targets += command.positional[1:]
    if command.name in {"tar", "bsdtar", "unzip"} and re.match(r"-?\w*x|--extract", " ".join(command.texts[:1])):
        targets += command.positional[1 + (not command.texts[0].startswith("-")) :]
    if command.name == "cp" and any(map(_TEMPLATE.search, command.texts)):
        return  # a first copy, as a rule
    for word in targets:
        path = command.path_of(word)
        name = command.paths.display_name(path)
        if command.paths.holds_work(path) and not _CACHES.search(name) and not path.path.endswith(".out"):
            yield command.finding(
                RiskKind.DELETE, f"writes over {printable_line(name)}, which is lost then", f"overwrite {name}"
            )


_TEMPLATE = re.compile(r"\.(?:example|sample|template|dist|defaults?)$")
_EDITS_FILES = NAMES["COMPRESSORS"] | frozenset(
    "chgrp chmod chown mkdir mkfifo mknod patch perl rmdir sed touch".split()
)
_ENDLESS = frozenset(("/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"))
_HUGE = re.compile(r"(?:^|[=+-])\d{3,}[gG]i?B?$|(?:^|[=+-])\d+[TPE]i?B?$")


@rule()
def filling_the_disk(command: InspectedCommand) -> Findings:
    """`yes > x`, `dd if=/dev/zero of=x`, `cat /dev/urandom | tee x`: an endless or huge output goes into a file."""
    writes = any(one.writes and command.path_of(one.target).path != "/dev/null" for one in command.parsed.redirects)
    writes |= any(command.path_of(word).path != "/dev/null" for word in written_words(command))
    if command.name in {"head", "truncate", "dd", "mkfile"} and any(map(_HUGE.search, command.texts)):
        yield command.finding(RiskKind.EXHAUST, "writes more than a disk holds")
    source: SimpleCommand | None = command.parsed
    while source is not None and source.words:
        name, *texts = (word.text for word in source.words)
        if name.rpartition("/")[2] in {"head", "timeout", "sed"} or any(text.startswith("count=") for text in texts):
            return
        files = {text.removeprefix("if=") for text in texts} | {one.target.text for one in source.redirects}
        is_endless = name == "yes" or (name in {"cat", "dd", "tail", "tee", "cp"} and files & _ENDLESS)
        if is_endless and (writes or name == "tail"):
            yield command.finding(RiskKind.EXHAUST, "writes without an end")
            return
        source = source.piped_from


@rule()
def emptying_files(command: InspectedCommand) -> Findings:
    """`: > main.py`, `cp /dev/null main.py`: a file of the project is empty afterwards."""
    words = [command.name, *command.texts]
    is_empty = words in ([""], [":"], ["true"], ["echo"], ["cat", "/dev/null"])
    targets = [one.target for one in command.parsed.redirects if is_empty and one.operator in {">", ">|", "&>"}]
    if command.name == "cp" and command.texts[:1] == ["/dev/null"]:
        targets += command.args[1:]
    if command.name in {"sed", "perl"} and any(_EMPTIES.fullmatch(text) for text in command.texts):
        targets += written_words(command)
    if command.name == "dd" or (command.name == "sort" and "/dev/null" in command.texts):
        targets += written_words(command)
    if command.name == "yes":
        targets += [one.target for one in command.parsed.redirects if one.writes]
    if command.name in {"ed", "ex"} and re.search(r"^(?:1?,\$|%|,)d$", command.parsed.stdin_text or "", re.MULTILINE):
        targets += command.positional
    for word in targets:
        path = command.path_of(word)
        if command.paths.holds_work(path) and not path.path.endswith((".log", ".out", ".tmp")):
            yield command.finding(RiskKind.DELETE, "empties a file without a way back", f"empty {word.text}")


@rule("crontab")
def setting_crontab(command: InspectedCommand) -> Findings:
    """`... | crontab`, `crontab < x`."""
    if not command.args and (command.parsed.piped_from is not None or command.parsed.redirects):
        yield command.finding(RiskKind.SYSTEM, "changes what runs at fixed times")


@rule("mv")
def moving_away(command: InspectedCommand) -> Findings:
    if command.args and command.args[-1].text == "/dev/null":
        yield command.finding(RiskKind.DELETE, "deletes files without a way back", always_ask=True)


@rule("git")
def discarding_changes(command: InspectedCommand) -> Findings:
    """`git checkout FILE`: the disk tells a file from a branch."""
    if not command.is_git("checkout") or command.has_flag("-b", "-B", "--orphan"):
        return
    if any(command.paths.exists_inside(command.path_of(word)) for word in command.positional[1:]):
        yield command.finding(RiskKind.HISTORY, "throws away changes that are not committed", "git checkout of files")


@rule("find fd fdfind")
def deleting_found_files(command: InspectedCommand) -> Findings:
    texts = command.texts
    runs = [texts[i + 1] for i, text in enumerate(texts[:-1]) if text in {"-exec", "-execdir", "-ok", "-okdir", "-x"}]
    if "-delete" not in texts and not any(name.rpartition("/")[2] in {"rm", "unlink", "shred"} for name in runs):
        return
    roots = []
    for word in command.args:
        if word.text.startswith(("-", "(", "!")):
            break
        roots.append(command.path_of(word))
    is_far = any(root.location in ("outside", "unknown") for root in roots)
    named = [texts[i + 1] for i, text in enumerate(texts[:-1]) if text in {"-name", "-iname"}]
    if not is_far and named and all(map(_CACHES.search, named)) and not {"-o", "-or", "-not", "!"} & set(texts):
        return
    reason = "deletes whatever it finds" + (" outside the project" if is_far else "")
    yield command.finding(RiskKind.DELETE, reason, always_ask=is_far)


# -- writing -----------------------------------------------------------------------------------------------------------


@rule()
def writing(command: InspectedCommand) -> Findings:
    for word in written_words(command):
        yield from written_to(command, word)


def written_words(command: InspectedCommand) -> Iterator[Word]:
    """Arguments that name files which the command writes."""
    value_flags = f"{OUTPUT_FLAGS.get(command.name, '')} {WRITER_VALUE_FLAGS.get(command.name, '')}"
    # BSD's `sed -i ''` has an empty one.
    positional = [word for word in positional_arguments(command.args, value_flags) if word.text]
    prints = command.name in NAMES["COMPRESSORS"] and command.has_flag("-c", "-l", "-t", "--stdout")
    which = None if prints else DESTINATIONS.get(command.name)
    if which is not None and positional:
        targets = {"last": positional[-1:], "all": positional, "rest": positional[1:], "first": positional[:1]}[which]
        yield from targets if which != "last" or len(positional) > 1 or command.has_flag("-d") else []
    if command.name in {"sed", "perl"} and any(re.match(r"-[nEerpl]*i|--in-place", text) for text in command.texts):
        has_script = any(re.match(r"-[nErpl]*i?[ef]$|--expression|--file", text) for text in command.texts)
        yield from positional if has_script else positional[1:]
    if command.is_git("clone") or command.is_git("worktree", "add"):
        yield from command.positional[2:3]
    flags = OUTPUT_FLAGS.get(command.name, "").split()
    for word, after in zip(command.args, command.args[1:], strict=False):
        if word.text in flags or _ends_with(command.name, word.text, flags):
            yield after
    for word in command.args:
        if (value := _attached(word.text, flags)) is not None:
            yield Word(value, word.variables, word.substitutions)
    for word in command.args:
        flag, equals, value = word.text.partition("=")
        if equals and (flag in flags or (command.name == "dd" and flag == "of")):
            yield Word(value, word.variables, word.substitutions)


def _attached(text: str, flags: list[str]) -> str | None:
    """`-o/tmp/x`: a value in one word with its flag; only what begins like a path counts."""
    is_path = text[2:3] in ("/", "~", ".")
    return text[2:] if is_path and text[:2] in flags and text[1:2] != "-" else None


def _ends_with(name: str, text: str, flags: list[str]) -> bool:
    """`-sSLo x`: of flags in one word, the last has the value."""
    return (
        name in NAMES["BUNDLES_FLAGS"] and re.fullmatch(r"-[A-Za-z]{2,}", text) is not None and f"-{text[-1]}" in flags
    )


@rule("ln")
def linking_out(command: InspectedCommand) -> Findings:
    """`ln -s /etc link`: what is read or written by the link afterwards is outside."""
    if not command.has_flag("-s", "--symbolic"):
        return
    for word in command.positional[:1]:
        path = command.path_of(word)
        if not word.text.startswith(("/", "~")) and path.location != "unknown":
            # The target of a link is relative to the link.
            link = command.path_of(command.positional[1]) if len(command.positional) > 1 else command.path_of(Word("x"))
            folder = link.path if os.path.isdir(link.path) else os.path.dirname(link.path)  # noqa: PTH112, PTH120
            path = command.paths.resolve(word, folder)
        if path.location == "outside":
            yield command.finding(RiskKind.OUTSIDE, f"makes a way out of the project, to {printable_line(path.path)}")


def written_to(command: InspectedCommand, word: Word) -> Findings:
    """What is dangerous about writing to a file."""
    path = command.path_of(word)
    name = printable_line(command.paths.display_name(path))
    if re.match(r"/dev/(?:tcp|udp)/", path.path):
        yield command.finding(RiskKind.SENDING, "opens a connection through which anything can go", always_ask=True)
    elif is_disk(path.path):
        yield command.finding(RiskKind.DISK, f"writes over {name}", always_ask=True)
    elif path.location == "outside" and word.text != "-":
        is_personal = command.paths.is_personal_setting(path.path)
        reason = f"changes settings of the person or the machine: {name}" if is_personal else f"writes to {name}"
        yield command.finding(RiskKind.OUTSIDE, f"{reason}, outside the project", name, always_ask=is_personal)
    elif path.location == "inside" and is_git_internal(path.path):
        yield command.finding(RiskKind.HIDDEN_CODE, f"changes what git runs: {name}", name)
    elif effect := lasting_effect(word.text if path.location == "unknown" or path.is_glob else name):
        yield command.finding(RiskKind.LASTING, f"changes {effect}: {name}", name)


# -- redirects and secrets ---------------------------------------------------------------------------------------------


def redirecting(command: InspectedCommand) -> Findings:
    for redirect in command.parsed.redirects:
        if redirect.writes:
            yield from written_to(command, redirect.target)


@rule()
def showing_variables(command: InspectedCommand) -> Findings:
    positional = [word.text for word in command.positional]
    shows_all = {
        "env": not positional,
        "printenv": not positional,
        "export": not positional,
        "set": not command.args,
        "declare": not positional and (not command.args or command.has_flag("-p", "-x")),
        "typeset": not positional,
    }.get(command.name, False)
    if shows_all and not command.has_flag("--help", "--version"):
        yield command.finding(RiskKind.SECRETS, "shows every variable, with the keys among them", "every variable")
    if command.name == "printenv":
        names = positional
    else:
        names = [name for word in _shown_words(command) for name in word.variables]
    if found := next((name for name in names if name == UNKNOWN or SECRET_VARIABLE.search(name)), None):
        name = "a variable" if found == UNKNOWN else printable_line(found)
        yield command.finding(RiskKind.SECRETS, f"shows the secret in {name}", name)


_KEEPS_VARIABLES = frozenset("test [ [[ : true export declare local typeset readonly unset if while read".split())


def _shown_words(command: InspectedCommand) -> Iterator[Word]:
    """Words whose values a command prints, or hands on to where they may be printed."""
    if command.name in {"echo", "printf"}:
        yield from command.args
    elif command.name not in _KEEPS_VARIABLES | NAMES["DOWNLOADERS"]:
        yield from (word for word in command.args if not word.is_known)
        yield from (one.target for one in command.parsed.redirects if one.operator == "<<<" and not one.target.is_known)


# -- the network -------------------------------------------------------------------------------------------------------


@rule()
def sending(command: InspectedCommand) -> Findings:
    if command.name not in NAMES["DOWNLOADERS"] or _is_local(command):
        return
    if any(SECRET_VARIABLE.search(name) for word in command.args for name in word.variables):
        yield command.finding(RiskKind.SENDING, "sends a secret over the network")
    if any(_prints_unseen(word) for word in command.args):
        yield command.finding(RiskKind.SENDING, "sends what another command prints")
    sends = any(_SENDS.match(text) for text in command.texts) and not command.has_flag("-G", "--get")
    if (
        sends
        or any(_METHOD.match(text) for text in command.texts)
        or any("=@" in t or t[:1] == "@" for t in command.texts)
    ):
        yield command.finding(
            RiskKind.SENDING, "sends data to another machine", f"{command.name}{_at(command)}" if _at(command) else ""
        )


def _prints_unseen(word: Word) -> bool:
    return any(
        inner.words and inner.words[0].text not in {"echo", "printf", "date", "uname", "arch", "dpkg"}
        for inner in word.substitutions
    )


def _is_local(command: InspectedCommand) -> bool:
    addresses = [text for text in command.texts if _ADDRESS.match(text)]
    return bool(addresses) and all(LOOPBACK.match(address) for address in addresses)


# -- processes and packages --------------------------------------------------------------------------------------------


@rule("kill")
def killing(command: InspectedCommand) -> Findings:
    if {"-l", "-L", "-0"} & set(command.texts):
        return
    words = [word for word in command.args if word.text == "-1" or not word.text.startswith("-")]
    if {"-s", "-n"} & set(command.texts) and words:
        words = words[1:]
    # A process that is asked to end by its number was looked up before, and belongs to the person.
    is_plain = len(words) == len(command.args)
    if all(_is_own(command, word) or (is_plain and re.fullmatch(r"[2-9]|\d{2,7}", word.text)) for word in words):
        return
    is_all = any(word.text in {"1", "-1"} for word in words[1:] or words)
    yield command.finding(
        RiskKind.SYSTEM, "ends a process that may not be its own", "kill by number", always_ask=is_all
    )


def _is_own(command: InspectedCommand, word: Word) -> bool:
    own = command.own_jobs | {"!", "$"}
    if word.substitutions and {one.words[0].text for one in word.substitutions if one.words} <= {"lsof", "fuser"}:
        return True  # whoever holds a port or a file
    return word.text == "0" or word.text.startswith("%") or (bool(word.variables) and set(word.variables) <= own)


@rule()
def python_packages(command: InspectedCommand) -> Findings:
    if not re.fullmatch(r"pip[\d.]*|easy_install", command.name):
        return
    if not {"install", "uninstall"} & {word.text for word in command.positional[:1]} and command.name != "easy_install":
        return
    if command.has_flag("--user", "--break-system-packages"):
        yield command.finding(
            RiskKind.PACKAGES, "changes software for every project", f"pip outside the project{_at(command)}"
        )
    elif (
        command.environ is not None
        and not _is_in_venv(command)
        and not (command.has_flag("-r", "--requirement", "-e", "--editable") or {"."} & set(command.texts))
        and not {"--target", "-t", "--dry-run"} & set(command.texts)
    ):
        yield command.finding(
            RiskKind.PACKAGES,
            "changes software outside a virtual environment",
            f"pip outside the project{_at(command)}",
        )


def _is_in_venv(command: InspectedCommand) -> bool:
    environ = command.environ or {}
    is_active = any(environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    return command.in_venv or command.is_project_program or is_active


# -- code that is fetched, or named in an option -----------------------------------------------------------------------

_GO_PACKAGE = re.compile(r"[\w-]+(?:\.[\w-]+)+/|.*@")
_STAYS_LOCAL = ("--no-install", "--no", "--offline", "--help", "--version")
_INSTALLERS = pattern("INSTALL_COMMANDS")
_URL_SPEC = pattern("URL_SPEC", re.IGNORECASE)
_NPM_REPOSITORY = re.compile(r"^[A-Za-z\d][\w.-]*/[\w.-]+(?:#.*)?$")
_INDEX_FLAG = pattern("INDEX_FLAG")
_INDEX_VARIABLE = pattern("INDEX_VARIABLE")
_PACKAGE_PROGRAM = pattern("PACKAGE_PROGRAM")
_EDITOR_ESCAPE = pattern("EDITOR_ESCAPE")
_ED_ESCAPE = re.compile(r"^\s*(?:[\d,$.]*\s*[rweR]\s*)?!", re.MULTILINE)


@rule()
def running_fetched_code(command: InspectedCommand) -> Findings:
    """`npx x`, `uvx x`, `deno run https://...`, `go run example.org/x@v1`: code from the network runs at once."""
    package = _fetched_package(command)
    if package is not None and not _is_installed(command, package):
        name = printable_line(package.replace(UNKNOWN, "…")) or "a package"
        yield command.finding(RiskKind.REMOTE_CODE, f"fetches {name} and runs it", f"{command.name} {name}")
    subcommand = next(iter(command.positional), Word("")).text
    others = [word.text for word in command.positional]
    if command.name in NAMES["ADDRESS_RUNNERS"] and any(re.match(r"(?:https?|npm|jsr):", text) for text in others):
        yield command.finding(RiskKind.REMOTE_CODE, "runs code from an address", always_ask=True)
    elif (command.name, subcommand) == ("go", "run") and any(map(_GO_PACKAGE.match, others[1:2])):
        yield command.finding(RiskKind.REMOTE_CODE, "fetches a program and runs it")
    elif (command.name, subcommand) == ("uv", "run") and (
        command.has_flag("--with", "--with-requirements") or any(map(_URL_SPEC.match, command.texts))
    ):
        yield command.finding(RiskKind.REMOTE_CODE, "fetches packages that the project does not name, and runs them")


def _fetched_package(command: InspectedCommand) -> str | None:
    positional = [word.text for word in command.positional]
    for count in (2, 1, 0):
        if " ".join([command.name, *positional[:count]]) in NAMES["FETCHERS"]:
            break
    else:
        return None
    if any(command.has_flag(flag) for flag in _STAYS_LOCAL if flag != "--no") or "--no" in command.texts:
        return None
    rest = positional[count:]
    if positional[:1] == ["init"] and not rest:  # `npm init` alone asks questions and writes a file
        return None
    # Behind its name, the flags are those of the package itself.
    texts = command.texts
    package = next((at for at, text in enumerate(texts) if _is_package(texts, at)), len(texts))
    texts = texts[: package + 1]
    named = [texts[at + 1] for at, text in enumerate(texts[:-1]) if text in {"-p", "--package", "--from", "--spec"}]
    named += [text.partition("=")[2] for text in texts if text.startswith(("--package=", "--from=", "--spec="))]
    skipped = {texts[at + 1] for at, text in enumerate(texts[:-1]) if text in NAMES["FETCHER_VALUES"]}
    own = next((text for text in rest if text not in skipped), "")
    return named[0] if named else own


def _is_package(texts: list[str], at: int) -> bool:
    is_word = not texts[at].startswith("-")
    is_value = at > 0 and texts[at - 1] in NAMES["FETCHER_VALUES"]
    is_subcommand = texts[at] in {"run", "tool", "x", "dlx", "exec", "create", "init", "shell"} and at < 2
    return is_word and not is_value and not is_subcommand


def _is_installed(command: InspectedCommand, package: str) -> bool:
    """Whether the project has the program already: then `npx` runs that."""
    name = package.rpartition("/")[2]
    if command.name in {"npx", "npm", "bunx"} and package in NAMES["USUAL_TOOLS"]:
        return True
    if (
        not name
        or command.folder is None
        or UNKNOWN in name
        or "@" in name
        or command.name not in {"npx", "npm", "bunx"}
    ):
        return False
    folder = command.folder
    while True:
        if os.path.exists(os.path.join(folder, "node_modules", ".bin", name)):  # noqa: PTH110, PTH118
            return True
        if folder in (command.paths.project, "/"):
            return False
        folder = os.path.dirname(folder)  # noqa: PTH120


@rule()
def installing_from_elsewhere(command: InspectedCommand) -> Findings:
    """Packages by their address, or from an index that the command names."""
    what = " ".join([command.name, *(word.text for word in command.positional[:2])])
    if found := _INSTALLERS.match(what):
        count = len(found[0].split()) - 1
        is_npm = command.name in {"npm", "pnpm", "yarn", "bun"}
        for word in command.args:
            text = word.text if word.text not in {one.text for one in command.positional[:count]} else ""
            if _URL_SPEC.match(text) or (is_npm and _NPM_REPOSITORY.match(text) and not _is_folder(command, text)):
                name = printable_line(text)
                yield command.finding(RiskKind.REMOTE_CODE, f"installs code from {name}", f"{found[0]} {name}")
    for source in _indexes(command) if _PACKAGE_PROGRAM.fullmatch(command.name) else ():
        if not LOOPBACK.match(source):
            name = printable_line(source.replace(UNKNOWN, "…"))
            yield command.finding(RiskKind.REMOTE_CODE, f"installs from {name}", f"{what} from {name}")


def _is_folder(command: InspectedCommand, text: str) -> bool:
    return command.folder is not None and os.path.isdir(os.path.join(command.folder, text))  # noqa: PTH112, PTH118


def _indexes(command: InspectedCommand) -> Iterator[str]:
    texts = command.texts
    for at, text in enumerate(texts):
        if found := _INDEX_FLAG.match(text):
            value = found[1] if found[1] is not None else texts[at + 1] if at + 1 < len(texts) else ""
            if "://" in value or text.startswith("--trusted-host") or UNKNOWN in value:
                yield value
    for name, value in command.parsed.assignments:
        if _INDEX_VARIABLE.match(name) and value.text not in {"off", "direct"}:
            yield value.text


# -- programs named in options -----------------------------------------------------------------------------------------


@rule()
def running_named_programs(command: InspectedCommand) -> Findings:
    """`tar -I x`, `rsync -e x`, `rg --pre x`, `man -P x`: the option names a program that is run."""
    for table in PROGRAM_FLAGS:
        if command.name not in table.commands.split("|"):
            continue
        for value in _values_of(command, table):
            program = value.replace(UNKNOWN, "…").split()[0].rpartition("/")[2] if value.split() else ""
            if program not in table.harmless.split():
                yield _named_program(command, value)
    flags = {"difftool": {"-x"}, "clone": {"-u"}, "grep": {"-O"}}
    for subcommand, its_flags in flags.items() if command.name == "git" else ():
        if command.is_git(subcommand) and its_flags & {text[:2] for text in command.texts}:
            yield _named_program(command, f"what {' or '.join(its_flags)} names")


def _named_program(command: InspectedCommand, value: str) -> RiskFinding:
    return command.finding(RiskKind.HIDDEN_CODE, f"makes {command.name} run `{printable_line(value)}`", always_ask=True)


def _values_of(command: InspectedCommand, table: ProgramFlags) -> Iterator[str]:
    flags = table.flags.split()
    texts = command.texts
    for at, text in enumerate(texts):
        flag, equals, value = text.partition("=")
        if equals and flag in flags:
            yield value
        elif text in flags:
            yield texts[at + 1] if at + 1 < len(texts) else ""
        elif any(len(one) == 2 and text.startswith(one) and len(text) > 2 for one in flags) and table.is_attached:
            yield text[2:]


@rule("make gmake just ninja")
def running_foreign_rules(command: InspectedCommand) -> Findings:
    """`make SHELL=x`, `make --eval=x`, `make -f` with a file outside the project."""
    for word in command.args:
        if re.match(r"(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKE)=|--eval|-E$", word.text):
            yield command.finding(RiskKind.HIDDEN_CODE, f"changes what {command.name} runs", always_ask=True)
    for word, after in zip(command.args, command.args[1:], strict=False):
        is_file = word.text in {"-f", "--file", "--makefile", "--justfile", "-C", "--directory"}
        if is_file and after.text != "-" and command.path_of(after).location != "inside":
            yield command.finding(RiskKind.HIDDEN_CODE, "runs rules from outside the project", always_ask=True)


@rule()
def escaping_editors(command: InspectedCommand) -> Findings:
    """`vim -c '!x'`, `less +!x`, `ed <<< '!x'`."""
    if command.name in NAMES["EDITORS"] and any(_EDITOR_ESCAPE.search(text) for text in command.texts):
        yield command.finding(RiskKind.HIDDEN_CODE, "runs a command from within an editor or a pager", always_ask=True)
    if command.name in {"ed", "ex", "vim", "vi", "red"} and _ED_ESCAPE.search(command.parsed.stdin_text or ""):
        yield command.finding(RiskKind.HIDDEN_CODE, "runs a command from within an editor", always_ask=True)


@rule()
def asking_name_services(command: InspectedCommand) -> Findings:
    """`dig $(whoami).example.org`: a name that is asked for carries data away."""
    if command.name in NAMES["NAME_SERVICES"] and any(_is_made(word) for word in command.args):
        yield command.finding(RiskKind.SENDING, "sends what another command prints, in the name that it asks for")


def _is_made(word: Word) -> bool:
    return bool(word.substitutions) and "." in word.text


_PS_VALUES = frozenset("-p -o -C -u -U -g -G -t -s -O --pid --ppid --user --format --sort --tty p o O U t".split())


@rule("ps")
def showing_processes(command: InspectedCommand) -> Findings:
    """`ps auxe` and `ps -ef e` show the environment of processes; `ps -e` does not."""
    texts = command.texts
    plain = [text for at, text in enumerate(texts) if at == 0 or texts[at - 1] not in _PS_VALUES]
    if any(re.fullmatch(r"[A-Za-z]*e[A-Za-z]*", text) for text in plain):
        yield command.finding(RiskKind.SECRETS, "shows the environment of processes, with the keys in it")


_RULE_FILES: dict[str, tuple[str, ...]] = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "invoke": ("tasks.py",),
    "nox": ("noxfile.py",),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "bun": ("package.json",),
}
"""The files that task runners run without a name on the command line."""
_FILE_RUNNERS = frozenset({"tsx", "ts-node", "esno", "jiti", "java", "go run", "deno run", "bun run", "streamlit run"})
_NO_SCRIPT = frozenset({"--version", "--help", "-V", "-h"})


def files_written(command: InspectedCommand) -> Iterator[str]:
    """Paths of text files that a command writes, as far as they are known."""
    words = [redirect.target for redirect in command.parsed.redirects if redirect.writes]
    if command.name in NAMES["TEXT_WRITERS"]:
        words += written_words(command)
    for word in words:
        path = _path(command, word)
        if path is not None:
            yield path
            if command.name in {"cp", "mv", "install", "ln"} and os.path.isdir(path):  # noqa: PTH112
                sources = command.positional[:-1]
                yield from (os.path.join(path, source.text.rstrip("/").rpartition("/")[2]) for source in sources)  # noqa: PTH118


def files_run(command: InspectedCommand) -> Iterator[str]:
    """Paths of files that a command runs, as far as they are known."""
    if set(command.texts) <= _NO_SCRIPT and command.texts:
        return
    for word in _run_words(command):
        path = _path(command, word)
        if path is not None:
            yield path


def _run_words(command: InspectedCommand) -> Iterator[Word]:
    first = command.parsed.words[0]
    if "/" in first.text or "." in first.text[1:]:
        yield first
    positional = command.positional
    named = command.name if not positional else f"{command.name} {positional[0].text}"
    if command.name in NAMES["SHELLS"] or interpreter_name(command.name) or command.name in {"source", "."}:
        yield from positional[:1]
        yield from _piped_files(command)
        yield from _module(command)
    elif command.name in _FILE_RUNNERS:
        yield from positional[:1]
    if named in _FILE_RUNNERS:
        yield from positional[1:2]
    if command.name in _RULE_FILES:
        yield from map(Word, _RULE_FILES[command.name])
        yield from (
            after
            for word, after in zip(command.args, command.args[1:], strict=False)
            if word.text in {"-f", "--file", "--makefile", "--justfile"}
        )


def interpreter_name(name: str) -> str:
    """The name in the table of interpreters, without a version; empty for other programs."""
    return next((one for one in (name, name.rstrip("0123456789.")) if one in INTERPRETERS), "")


def _piped_files(command: InspectedCommand) -> Iterator[Word]:
    """`bash < x.sh` and `cat x.sh | bash`."""
    yield from (redirect.target for redirect in command.parsed.redirects if redirect.operator == "<")
    source = command.parsed.piped_from
    if source is not None and source.words and source.words[0].text in {"cat", "tee", "sed", "envsubst"}:
        yield from source.words[1:]


def _module(command: InspectedCommand) -> Iterator[Word]:
    """`python -m tool.run` is tool/run.py, or tool/run/__main__.py."""
    for word, after in zip(command.args, command.args[1:], strict=False):
        if word.text == "-m":
            path = after.text.replace(".", "/")
            yield Word(f"{path}.py")
            yield Word(f"{path}/__main__.py")
            return


def _path(command: InspectedCommand, word: Word) -> str | None:
    path = command.path_of(word)
    is_known = word.is_known and path.location != "unknown" and not path.is_glob
    return os.path.realpath(path.path) if is_known and word.text else None
