"""Rules about one simple command: each yields what it finds dangerous. Their tables are in `risk.toml`.

An agreement for the session covers the place that a command sends to or installs from, no other: `git push` is resolved
to the address of its remote. `files_written` and `files_run` are the files that a command writes, and those that it
runs: by an interpreter, by their path, or as rules of a task runner.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from urllib.parse import urlsplit

from clew.agent.command_risk.command import Findings, InspectedCommand, RiskFinding, positional_arguments, rule
from clew.agent.command_risk.reads import file_read
from clew.agent.command_risk.tables import (
    CODE_FACTS,
    COMMAND_FACTS,
    DESTINATIONS,
    INTERPRETERS,
    NAMES,
    OUTPUT_FLAGS,
    PROGRAM_FLAGS,
    SECRET_VARIABLE,
    WRITER_VALUE_FLAGS,
    CommandFact,
    RiskKind,
    pattern,
)
from clew.agent.files.file_types import lasting_effect, rule_files_of
from clew.agent.git_controls import common_git_folder, settings_in
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, SimpleCommand, Word

_BY_SUBCOMMAND = frozenset({RiskKind.PUBLISH, RiskKind.HISTORY, RiskKind.PACKAGES, RiskKind.DATABASE})
"""Here an agreement for the session covers the subcommand; elsewhere, the same words only."""
_ELSEWHERE_FLAGS = ("-C", "--git-dir", "--work-tree", "--cwd", "--prefix", "--dir")


# -- facts of the table ------------------------------------------------------------------------------------------------


@rule()
def known_commands(command: InspectedCommand) -> Findings:
    if {"--version", "--help"} >= set(command.texts) and command.texts:
        return
    for fact in COMMAND_FACTS:
        if _has_name(command.name, fact.names) and _applies(command, fact):
            yield command.finding(fact.kind, fact.reason, _scope(command, fact), always_ask=fact.always)


def _scope(command: InspectedCommand, fact: CommandFact) -> str:
    if fact.kind not in _BY_SUBCOMMAND or command.has_flag(*_ELSEWHERE_FLAGS):
        return ""
    terms = [term for term in fact.needs.split() if not term.startswith(("-", "~"))]
    what = " ".join([command.name, *command.plain[: max(1, len(terms))]])
    return printable_line(f"{what}{_at(command)}")


@lru_cache(maxsize=4_096)
def _has_name(name: str, names: str) -> bool:
    return any(fnmatchcase(name, one) for one in names.split("|"))


def _applies(command: InspectedCommand, fact: CommandFact) -> bool:
    for term in fact.unless.split():
        plain = [one for one in term.split("|") if not one.startswith(("-", "~"))]
        if _meets(command, term, None) or any(fnmatchcase(text, one) for text in command.plain[:3] for one in plain):
            return False
    place = 0
    for term in fact.needs.split():
        argument = command.plain[place] if place < len(command.plain) else None
        if not _meets(command, term, argument):
            return False
        place += not term.startswith(("-", "~", "<"))
    return True


def _meets(command: InspectedCommand, term: str, argument: str | None) -> bool:
    """Whether a command meets a term, which `risk.toml` explains."""
    if term.startswith("<~"):
        return re.search(term[2:], command.parsed.stdin_text or "") is not None
    if term == "<":
        return command.parsed.piped_from is not None or any(one.operator == "<" for one in command.parsed.redirects)
    if term.startswith("~"):
        return any(re.search(term[1:], text) for text in command.texts)
    for one in term.split("|"):
        if one.startswith("~"):
            is_met = any(re.search(one[1:], text) for text in command.texts)
        elif one.startswith("-"):
            is_met = command.has_flag(one)
        else:
            is_met = argument is not None and fnmatchcase(argument, one)
        if is_met:
            return True
    return False


def code_findings(command: InspectedCommand, language: str, text: str, most: int | None = None) -> Findings:
    """What is dangerous about code in one of the languages of the table."""
    for fact in CODE_FACTS[language][:most]:
        if fact.names and command.name not in fact.names.split():
            continue
        for found in fact.pattern.finditer(text):
            if "reads" in fact.pattern.groupindex:
                yield from file_read(command, Word(found["reads"]))
            elif "writes" in fact.pattern.groupindex:
                yield from written_to(command, Word(found["writes"]))
            else:
                yield command.finding(fact.kind, fact.reason, always_ask=fact.always)
                break


# -- where a command sends to or installs from -------------------------------------------------------------------------

_LOOPBACK = re.compile(
    r"^(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\])(?=[:/?#]|$)", re.IGNORECASE
)
_URL = re.compile(r"^(?:git\+)?\w[\w+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"^(?:[\w.-]+@)?[\w-]+(?:\.[\w-]+)+(?=[:/]|$)|^[\w.-]+@[\w.-]+")
_SOURCE_VARIABLE = re.compile(
    r"(?:INDEX|REGISTRY|REPOSITORY|HOST|PROFILE|KUBECONFIG|CONTEXT|ENDPOINT)\w*$", re.IGNORECASE
)
_MAX_CONFIG_CHARS = 1_000_000


def _at(command: InspectedCommand) -> str:
    """Where a command sends to or takes from, as the end of a scope; empty where it names no place."""
    place = _git_remote(command) if command.is_git("push") else " ".join(dict.fromkeys(_places(command)))
    return f" at {place.replace(UNKNOWN, '…')}" if place else ""


def _places(command: InspectedCommand) -> Iterator[str]:
    for before, text in zip(["", *command.texts], command.texts, strict=False):
        flag, equals, value = text.partition("=")
        if before in NAMES["SOURCE_FLAGS"]:
            yield f"{before} {text}"
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
    settings, head = _git_settings(command.folder)
    branch = f"branch.{head.removeprefix('ref: refs/heads/')}"
    keys = (f"{branch}.pushremote", "remote.pushdefault", f"{branch}.remote")
    default = next((settings[key] for key in keys if key in settings), "origin")
    remote = next(iter(command.plain[1:2]), default)
    address = settings.get(f"remote.{remote}.pushurl") or settings.get(f"remote.{remote}.url")
    return f"{remote} ({address})" if address else remote


def _git_settings(folder: str | None) -> tuple[dict[str, str], str]:
    """The settings of the repository that a folder is in, and its HEAD."""
    git = common_git_folder(Path(folder)) if folder is not None else None
    if git is None:
        return {}, ""
    try:
        text, head = (git / "config").read_text("utf-8")[:_MAX_CONFIG_CHARS], (git / "HEAD").read_text("utf-8").strip()
        # The last part of a key is without regard to case, a name in the middle is not.
        named = ((key.rpartition("."), value) for key, value in settings_in(text))
        return {f"{section}.{key.lower()}": value for (section, _, key), value in named}, head
    except (OSError, UnicodeDecodeError):
        return {}, ""


# -- deleting and writing over -----------------------------------------------------------------------------------------

_CACHES = pattern("CACHES")
_TEMPLATE = re.compile(r"\.(?:example|sample|template|dist|defaults?)$")
_EDITS_FILES = NAMES["COMPRESSORS"] | frozenset(
    "chgrp chmod chown mkdir mkfifo mknod patch perl rmdir sed touch".split()
)
_ENDLESS = frozenset(("/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"))
_HUGE = re.compile(r"(?:^|[=+-])\d{3,}[gG]i?B?$|(?:^|[=+-])\d+[TPE]i?B?$")


@rule("rm unlink shred srm rimraf trash del-cli")
def deleting(command: InspectedCommand) -> Findings:
    if command.has_flag("--help"):
        return
    recursive = command.has_flag("-r", "-R", "--recursive") or command.name in {"rimraf", "trash", "del-cli"}
    for word in command.positional:
        found = None if _is_made_again(command, word) else _deleted(command, word, recursive)
        if found is not None:
            reason, scope = found
            yield command.finding(RiskKind.DELETE, reason, scope, always_ask=not scope)


def _deleted(command: InspectedCommand, word: Word, recursive: bool) -> tuple[str, str] | None:
    """Why deleting this is asked about, and what an agreement covers: nothing else where that is empty."""
    path = command.path_of(word)
    name = command.paths.display_name(path)
    if path.location == "unknown" or (UNKNOWN in word.text and recursive):
        return "what it deletes is only known when it runs", ""
    if (recursive or word.text in {"*", "./*"}) and command.paths.is_broad(path.path):
        return f"deletes everything in {printable_line(path.path)}", ""
    if path.location == "outside":
        return f"deletes outside the project: {printable_line(path.path)}", ""
    if f"{path.path}/".endswith("/.git/") or is_git_internal(path.path):
        return "deletes what git knows of the project", ""
    if recursive:
        every = f"{name}/*" if path.is_glob else name
        return "deletes a folder and all that is in it, without a way back", f"all of {every}"
    if path.location == "inside":
        return "deletes files without a way back", "single files inside the project"
    return ("deletes files without a way back", f"files in {name}") if path.is_glob else None


def _is_made_again(command: InspectedCommand, word: Word) -> bool:
    """Whether it is a cache, an output of a build, or the like."""
    path = command.path_of(word)
    if path.location != "inside" or UNKNOWN in word.text or word.text.rpartition("/")[2].startswith(("*/", "**")):
        return False
    parts = command.paths.display_name(path).split("/")
    names = [word.text] if path.is_glob else accumulate(parts, lambda folder, name: f"{folder}/{name}")
    return any(map(_CACHES.search, names))


@rule("find fd fdfind")
def deleting_found_files(command: InspectedCommand) -> Findings:
    runs = {word.text.rpartition("/")[2] for word in command.values_of({"-exec", "-execdir", "-ok", "-okdir", "-x"})}
    if "-delete" not in command.texts and not runs & {"rm", "unlink", "shred"}:
        return
    options = next((at for at, text in enumerate(command.texts) if text.startswith(("-", "(", "!"))), None)
    is_far = any(command.path_of(root).location in ("outside", "unknown") for root in command.args[:options])
    named = [word.text for word in command.values_of({"-name", "-iname"})]
    negates = {"-o", "-or", "-not", "!"} & set(command.texts)
    if is_far or negates or not named or not all(map(_CACHES.search, named)):
        reason = "deletes whatever it finds" + (" outside the project" if is_far else "")
        yield command.finding(RiskKind.DELETE, reason, always_ask=is_far)


@rule("mv")
def moving_away(command: InspectedCommand) -> Findings:
    """`mv notes.db /tmp/`: a scratch folder is emptied by the system."""
    target = next(command.values_of({"-t", "--target-directory"}), None) or next(
        iter(command.positional[1:][-1:]), None
    )
    if target is None or command.path_of(target).location != "scratch":
        return
    sources = [word for word in command.positional if word is not target]
    if any(command.path_of(word).location == "inside" and not _is_made_again(command, word) for word in sources):
        yield command.finding(RiskKind.DELETE, "moves work to a scratch folder, which is emptied")


@rule("git")
def discarding_changes(command: InspectedCommand) -> Findings:
    """`git checkout FILE`: the disk shows whether it is a file or a branch."""
    is_of_files = command.is_git("checkout") and not command.has_flag("-b", "-B", "--orphan")
    if is_of_files and any(command.paths.exists_inside(command.path_of(word)) for word in command.positional[1:]):
        yield command.finding(RiskKind.HISTORY, "throws away changes that are not committed", "git checkout of files")


@rule()
def overwriting_files(command: InspectedCommand) -> Findings:
    """`cmd > main.py`, `cp x main.py`, `tee main.py`, `curl -o main.py`: what a file of the project held is lost.

    An editor such as `sed -i` keeps the most of it, and a file that is also an argument is worked on.
    """
    if command.name == "cp" and any(map(_TEMPLATE.search, command.texts)):
        return  # a first copy, as a rule
    for word in _overwritten(command):
        path = command.path_of(word)
        name = command.paths.display_name(path)
        if command.paths.holds_work(path) and not _CACHES.search(name):
            reason = f"writes over {printable_line(name)}, which is lost then"
            yield command.finding(RiskKind.DELETE, reason, f"overwrite {name}")


def _overwritten(command: InspectedCommand) -> Iterator[Word]:
    first = next(iter(command.texts), "")
    yield from (one.target for one in command.parsed.redirects if one.operator in {">", ">|", "&>"})
    if command.name == "mv":
        yield from command.positional[1:][-1:]
    elif not (command.name in _EDITS_FILES or (command.name == "tee" and command.has_flag("-a", "--append"))):
        yield from (word for word in written_words(command) if command.texts.count(word.text) < 2)
    if command.name == "gawk" and "inplace" in command.texts:
        yield from command.positional[1:]
    if command.name in {"tar", "bsdtar", "unzip"} and re.match(r"-?\w*x|--extract", first):
        yield from command.positional[1 + (not first.startswith("-")) :]
    if command.name in {"ed", "ex"} and re.search(r"^(?:1?,\$|%|,)d", command.parsed.stdin_text or "", re.MULTILINE):
        yield from command.positional


@rule()
def filling_the_disk(command: InspectedCommand) -> Findings:
    """`yes > x`, `dd if=/dev/zero of=x`, `cat /dev/urandom | tee x`: an endless or huge output goes into a file."""
    if command.name in {"head", "truncate", "dd", "mkfile"} and any(map(_HUGE.search, command.texts)):
        yield command.finding(RiskKind.EXHAUST, "writes more than a disk holds")
    targets = [*(one.target for one in command.parsed.redirects if one.writes), *written_words(command)]
    writes = any(command.path_of(target).path != "/dev/null" for target in targets)
    source: SimpleCommand | None = command.parsed if writes or command.name == "tail" else None
    while source is not None and source.words:
        name, *texts = (word.text for word in source.words)
        if name.rpartition("/")[2] in {"head", "timeout", "sed"} or any(text.startswith("count=") for text in texts):
            return
        files = {text.removeprefix("if=") for text in texts} | {one.target.text for one in source.redirects}
        if name == "yes" or (name in {"cat", "dd", "tail", "tee", "cp"} and files & _ENDLESS):
            yield command.finding(RiskKind.EXHAUST, "writes without an end")
            return
        source = source.piped_from


# -- writing -----------------------------------------------------------------------------------------------------------

_GIT_INTERNALS = pattern("GIT_INTERNALS")
_DISKS = re.compile(r"^/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper|md|dm-|mem|kmem|port|loop)")


def is_git_internal(path: str) -> bool:
    return _GIT_INTERNALS.search(path) is not None


@rule()
def writing(command: InspectedCommand) -> Findings:
    for word in written_words(command):
        yield from written_to(command, word)


def redirecting(command: InspectedCommand) -> Findings:
    for redirect in command.parsed.redirects:
        if redirect.writes:
            yield from written_to(command, redirect.target)


def written_words(command: InspectedCommand) -> Iterator[Word]:
    """Arguments that name files which the command writes."""
    flags = OUTPUT_FLAGS.get(command.name, "").split()
    value_flags = " ".join([*flags, WRITER_VALUE_FLAGS.get(command.name, "")])
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
    yield from command.values_of(flags)
    if command.name == "dd":
        yield from command.values_of({"of"})


@rule("ln")
def linking_out(command: InspectedCommand) -> Findings:
    """`ln -s /etc link`: what is read or written by the link afterwards is outside."""
    for word in command.positional[:1] if command.has_flag("-s", "--symbolic") else ():
        path = command.path_of(word)
        if not word.text.startswith(("/", "~")) and path.location != "unknown":
            # The target of a link is relative to the link.
            link = command.path_of(next(iter(command.positional[1:2]), Word("x"))).path
            folder = link if os.path.isdir(link) else os.path.dirname(link)  # noqa: PTH112, PTH120
            path = command.paths.resolve(word, folder)
        if path.location == "outside":
            yield command.finding(RiskKind.OUTSIDE, f"makes a way out of the project, to {printable_line(path.path)}")


def written_to(command: InspectedCommand, word: Word) -> Findings:
    """What is dangerous about writing to a file."""
    path = command.path_of(word)
    name = printable_line(command.paths.display_name(path))
    if re.match(r"/dev/(?:tcp|udp)/", path.path):
        yield command.finding(RiskKind.SENDING, "opens a connection through which anything can go", always_ask=True)
    elif _DISKS.match(path.path):
        yield command.finding(RiskKind.DISK, f"writes over {name}", always_ask=True)
    elif path.location == "outside" and word.text != "-":
        is_personal = command.paths.is_personal_setting(path.path)
        reason = f"changes settings of the person or the machine: {name}" if is_personal else f"writes to {name}"
        yield command.finding(RiskKind.OUTSIDE, f"{reason}, outside the project", name, always_ask=is_personal)
    elif path.location == "inside" and is_git_internal(path.path):
        yield command.finding(RiskKind.HIDDEN_CODE, f"changes what git runs: {name}", name)
    elif effect := lasting_effect(word.text if path.location == "unknown" or path.is_glob else name):
        yield command.finding(RiskKind.LASTING, f"changes {effect}: {name}", name)


def files_written(command: InspectedCommand) -> Iterator[str]:
    """Paths of text files that a command writes, as far as they are known."""
    words = [redirect.target for redirect in command.parsed.redirects if redirect.writes]
    if command.name in NAMES["TEXT_WRITERS"]:
        words += written_words(command)
    for path in filter(None, (_known_path(command, word) for word in words)):
        yield path
        if command.name in {"cp", "mv", "install", "ln"} and os.path.isdir(path):  # noqa: PTH112
            names = (source.text.rstrip("/").rpartition("/")[2] for source in command.positional[:-1])
            yield from (os.path.join(path, name) for name in names)  # noqa: PTH118


def _known_path(command: InspectedCommand, word: Word) -> str | None:
    path = command.path_of(word)
    is_known = word.is_known and path.location != "unknown" and not path.is_glob
    return os.path.realpath(path.path) if is_known and word.text else None


# -- variables, the network, processes ---------------------------------------------------------------------------------

_KEEPS_VARIABLES = frozenset("test [ [[ : true export declare local typeset readonly unset if while read".split())
_ASKS_FOR_SECRET = re.compile(r"api|auth|cred|key|pass|pat$|pwd|secret|sk|token|url")
_SENDS = pattern("SENDS")
_METHOD = re.compile(r"^(?:(?:-X|--request=?|--method=?)\s*)?(?:POST|PUT|PATCH|DELETE)$")
_ADDRESS = re.compile(r"^\w+://|^(?:localhost|127\.0\.0\.1|\[::1\])|^[\w-]+(?:\.[\w-]+)+(?:[:/]|$)", re.IGNORECASE)
_PRINTS_NO_FILE = frozenset("echo printf date uname arch dpkg".split())


@rule()
def showing_variables(command: InspectedCommand) -> Findings:
    shows_all = {
        "env": not command.plain,
        "printenv": not command.plain,
        "export": not command.plain,
        "set": not command.args,
        "declare": not command.plain and (not command.args or command.has_flag("-p", "-x")),
        "typeset": not command.plain,
    }.get(command.name, False)
    if shows_all and not command.has_flag("--help", "--version") and not _is_filtered(command):
        yield command.finding(RiskKind.SECRETS, "shows every variable, with the keys among them", "every variable")
    names = [name for word in _shown_words(command) for name in word.variables]
    names += command.plain if command.name == "printenv" else []
    if found := next((name for name in names if name == UNKNOWN or SECRET_VARIABLE.search(name)), None):
        name = "a variable" if found == UNKNOWN else printable_line(found)
        yield command.finding(RiskKind.SECRETS, f"shows the secret in {name}", name)


def _is_filtered(command: InspectedCommand) -> bool:
    """Whether a `grep` in the pipe leaves no secret: `env | grep PATH`."""
    reader = command.piped_into
    if reader is None or not reader.words or reader.words[0].text not in NAMES["SEARCHERS"]:
        return False
    flags = [word.text for word in reader.words[1:] if word.text.startswith("-")]
    wanted = " ".join(word.text for word in reader.words[1:] if not word.text.startswith("-")).strip("^=").lower()
    if any(re.match(r"-\w*[vef]|--", flag) for flag in flags) or not re.fullmatch(r"\w{3,}", wanted):
        return False
    secrets = [f"{name}={value}" for name, value in (command.environ or {}).items() if SECRET_VARIABLE.search(name)]
    return not _ASKS_FOR_SECRET.search(wanted) and not any(wanted in secret.lower() for secret in secrets)


def _shown_words(command: InspectedCommand) -> Iterator[Word]:
    """Words whose values a command prints, or passes on to where they may be printed."""
    if command.name in {"echo", "printf"}:
        yield from command.args
    elif command.name not in _KEEPS_VARIABLES | NAMES["DOWNLOADERS"]:
        yield from (word for word in command.args if not word.is_known)
        yield from (one.target for one in command.parsed.redirects if one.operator == "<<<" and not one.target.is_known)


@rule()
def sending(command: InspectedCommand) -> Findings:
    """Data in a request, and in the name that a name service is asked for: `dig $(whoami).example.org`."""
    if command.name in NAMES["NAME_SERVICES"] and any(word.substitutions and "." in word.text for word in command.args):
        yield command.finding(RiskKind.SENDING, "sends what another command prints, in the name that it asks for")
    addresses = [text for text in command.texts if _ADDRESS.match(text)]
    if command.name not in NAMES["DOWNLOADERS"] or (addresses and all(map(_LOOPBACK.match, addresses))):
        return
    if any(SECRET_VARIABLE.search(name) for word in command.args for name in word.variables):
        yield command.finding(RiskKind.SENDING, "sends a secret over the network")
    sources = [one for word in command.args for one in word.substitutions if one.words]
    if any(one.words[0].text not in _PRINTS_NO_FILE for one in sources):
        yield command.finding(RiskKind.SENDING, "sends what another command prints")
    sends = any(map(_SENDS.match, command.texts)) and not command.has_flag("-G", "--get")
    if sends or any(_METHOD.match(text) or "=@" in text or text[:1] == "@" for text in command.texts):
        place = _at(command)
        yield command.finding(
            RiskKind.SENDING, "sends data to another machine", f"{command.name}{place}" if place else ""
        )


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
    reason = "ends a process that may not be its own"
    yield command.finding(RiskKind.SYSTEM, reason, "kill by number", always_ask=is_all)


def _is_own(command: InspectedCommand, word: Word) -> bool:
    own = command.own_jobs | {"!", "$"}
    if word.substitutions and {one.words[0].text for one in word.substitutions if one.words} <= {"lsof", "fuser"}:
        return True  # the process that holds a port or a file
    return word.text == "0" or word.text.startswith("%") or (bool(word.variables) and set(word.variables) <= own)


# -- packages, and code that is fetched or named in an option ----------------------------------------------------------

_PIP = re.compile(r"pip[\d.]*|easy_install")
_GO_PACKAGE = re.compile(r"[\w-]+(?:\.[\w-]+)+/|.*@")
_PACKAGE_FLAGS = frozenset({"-p", "--package", "--from", "--spec"})
_STAYS_LOCAL = ("--no-install", "--offline", "--help", "--version")
_INSTALLERS = pattern("INSTALL_COMMANDS")
_URL_SPEC = pattern("URL_SPEC", re.IGNORECASE)
_NPM_REPOSITORY = re.compile(r"^[A-Za-z\d][\w.-]*/[\w.-]+(?:#.*)?$")
_INDEX_FLAGS = pattern("INDEX_FLAGS").pattern.split()
_INDEX_VARIABLE = pattern("INDEX_VARIABLE")
_PACKAGE_PROGRAM = pattern("PACKAGE_PROGRAM")


@rule()
def python_packages(command: InspectedCommand) -> Findings:
    is_install = command.name == "easy_install" or command.plain[:1] in (["install"], ["uninstall"])
    if not _PIP.fullmatch(command.name) or not is_install:
        return
    environ = command.environ or {}
    is_in_venv = (
        command.in_venv or command.is_project_program or environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX")
    )
    is_of_project = command.has_flag("-r", "--requirement", "-e", "--editable") or "." in command.texts
    stays = is_of_project or {"--target", "-t", "--dry-run"} & set(command.texts)
    scope = f"pip outside the project{_at(command)}"
    if command.has_flag("--user", "--break-system-packages"):
        yield command.finding(RiskKind.PACKAGES, "changes software for every project", scope)
    elif command.environ is not None and not is_in_venv and not stays:
        yield command.finding(RiskKind.PACKAGES, "changes software outside a virtual environment", scope)


@rule()
def running_fetched_code(command: InspectedCommand) -> Findings:
    """`npx x`, `uvx x`, `deno run https://...`, `go run example.org/x@v1`: code from the network runs at once."""
    package = _fetched_package(command)
    if package is not None and not _is_installed(command, package):
        name = printable_line(package.replace(UNKNOWN, "…")) or "a package"
        yield command.finding(RiskKind.REMOTE_CODE, f"fetches {name} and runs it", f"{command.name} {name}")
    runs = (command.name, *command.plain[:1])
    if command.name in NAMES["ADDRESS_RUNNERS"] and any(re.match(r"(?:https?|npm|jsr):", one) for one in command.plain):
        yield command.finding(RiskKind.REMOTE_CODE, "runs code from an address", always_ask=True)
    elif runs == ("go", "run") and any(map(_GO_PACKAGE.match, command.plain[1:2])):
        yield command.finding(RiskKind.REMOTE_CODE, "fetches a program and runs it")
    elif runs == ("uv", "run") and (
        command.has_flag("--with", "--with-requirements") or any(map(_URL_SPEC.match, command.texts))
    ):
        yield command.finding(RiskKind.REMOTE_CODE, "fetches packages that the project does not name, and runs them")


def _fetched_package(command: InspectedCommand) -> str | None:
    """The package that a command fetches and runs; empty where it is not named, None where it fetches none."""
    prefixes = (count for count in (2, 1, 0) if " ".join([command.name, *command.plain[:count]]) in NAMES["FETCHERS"])
    count = next(prefixes, None)
    if count is None or command.has_flag(*_STAYS_LOCAL) or "--no" in command.texts:
        return None
    values = " ".join(NAMES["FETCHER_VALUES"])
    rest = list(positional_arguments(command.args, values))[count:]
    if command.plain[:1] == ["init"] and not rest:  # `npm init` alone asks questions and writes a file
        return None
    # After its name, the flags are those of the package itself.
    own = next(iter(rest), None)
    ends = next((at for at, word in enumerate(command.args) if word is own), len(command.args))
    for before, text in zip(["", *command.texts[:ends]], command.texts[:ends], strict=False):
        flag, _, value = text.partition("=")
        if value and flag in _PACKAGE_FLAGS:
            return value
        if before in _PACKAGE_FLAGS:
            return text
    return own.text if own is not None else ""


def _is_installed(command: InspectedCommand, package: str) -> bool:
    """Whether the project has the program already: then `npx` runs that."""
    if command.name not in {"npx", "npm", "bunx"}:
        return False
    name = package.rpartition("/")[2]
    if package in NAMES["USUAL_TOOLS"] or not name or command.folder is None or UNKNOWN in name or "@" in name:
        return package in NAMES["USUAL_TOOLS"]
    here = Path(command.folder)
    folders = [one for one in (here, *here.parents) if one.is_relative_to(command.paths.project)] or [here]
    return any((folder / "node_modules" / ".bin" / name).exists() for folder in folders)


@rule()
def installing_from_elsewhere(command: InspectedCommand) -> Findings:
    """Packages by their address, or from an index that the command names."""
    what = " ".join([command.name, *command.plain[:2]])
    if found := _INSTALLERS.match(what):
        is_npm = command.name in {"npm", "pnpm", "yarn", "bun"}
        for text in command.texts:
            is_repository = is_npm and _NPM_REPOSITORY.match(text) and not _is_folder(command, text)
            if _URL_SPEC.match(text) or is_repository:
                name = printable_line(text)
                yield command.finding(RiskKind.REMOTE_CODE, f"installs code from {name}", f"{found[0]} {name}")
    for source in _indexes(command) if _PACKAGE_PROGRAM.fullmatch(command.name) else ():
        if not _LOOPBACK.match(source):
            name = printable_line(source.replace(UNKNOWN, "…"))
            yield command.finding(RiskKind.REMOTE_CODE, f"installs from {name}", f"{what} from {name}")


def _is_folder(command: InspectedCommand, text: str) -> bool:
    return command.folder is not None and os.path.isdir(os.path.join(command.folder, text))  # noqa: PTH112, PTH118


def _indexes(command: InspectedCommand) -> Iterator[str]:
    values = (word.text for word in command.values_of(_INDEX_FLAGS))
    yield from (value for value in values if "://" in value or UNKNOWN in value)
    yield from (word.text for word in command.values_of({"--trusted-host"}))
    for name, value in command.parsed.assignments:
        if _INDEX_VARIABLE.match(name) and value.text not in {"off", "direct"}:
            yield value.text


@rule()
def running_named_programs(command: InspectedCommand) -> Findings:
    """`tar -I x`, `rsync -e x`, `rg --pre x`, `man -P x`: the option names a program that is run."""
    for word, harmless in programs_named(command):
        program = next(iter(word.text.replace(UNKNOWN, "…").split()), "").rpartition("/")[2]
        if harmless != "*" and program not in harmless.split():
            yield _named_program(command, word.text)


def programs_named(command: InspectedCommand) -> Iterator[tuple[Word, str]]:
    """Command lines in options, each with the programs that are harmless there."""
    for table in PROGRAM_FLAGS:
        if command.name in table.commands.split("|"):
            for word in command.values_of(table.flags.split(), attached=table.attached):
                yield word, table.harmless


def _named_program(command: InspectedCommand, value: str) -> RiskFinding:
    return command.finding(RiskKind.HIDDEN_CODE, f"makes {command.name} run `{printable_line(value)}`", always_ask=True)


@rule("make gmake just ninja")
def running_foreign_rules(command: InspectedCommand) -> Findings:
    """`make -f` with a file outside the project, also one in a scratch folder."""
    for word in command.values_of({"-f", "--file", "--makefile", "--justfile", "-C", "--directory"}):
        if word.text != "-" and command.path_of(word).location != "inside":
            yield command.finding(RiskKind.HIDDEN_CODE, "runs rules from outside the project", always_ask=True)


# -- files that a command runs -----------------------------------------------------------------------------------------


def files_run(command: InspectedCommand) -> Iterator[str]:
    """Paths of files that a command runs, as far as they are known."""
    if not command.texts or not set(command.texts) <= {"--version", "--help", "-V", "-h"}:
        yield from filter(None, (_known_path(command, word) for word in _run_words(command)))


def _run_words(command: InspectedCommand) -> Iterator[Word]:
    first = command.parsed.words[0]
    if "/" in first.text or "." in first.text[1:]:
        yield first
    if command.name in NAMES["SHELLS"] or interpreter_name(command.name) or command.name in {"source", "."}:
        yield from command.positional[:1]
        yield from _piped_files(command)
        for word in [*command.values_of({"-m"})][:1]:  # `python -m tool.run` is tool/run.py, or tool/run/__main__.py
            path = word.text.replace(".", "/")
            yield from (Word(f"{path}.py"), Word(f"{path}/__main__.py"))
    elif command.name in NAMES["FILE_RUNNERS"]:
        yield from command.positional[:1]
    if " ".join([command.name, *command.plain[:1]]) in NAMES["FILE_RUNNERS"]:
        yield from command.positional[1:2]
    if rules := rule_files_of(command.name):
        yield from map(Word, rules)
        yield from command.values_of({"-f", "--file", "--makefile", "--justfile"})


def _piped_files(command: InspectedCommand) -> Iterator[Word]:
    """`bash < x.sh` and `cat x.sh | bash`."""
    yield from (redirect.target for redirect in command.parsed.redirects if redirect.operator == "<")
    source = command.parsed.piped_from
    if source is not None and source.words and source.words[0].text in {"cat", "tee", "sed", "envsubst"}:
        yield from source.words[1:]


def interpreter_name(name: str) -> str:
    """The name in the table of interpreters, without a version; empty for other programs."""
    return next((one for one in (name, name.rstrip("0123456789.")) if one in INTERPRETERS), "")
