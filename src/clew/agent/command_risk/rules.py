"""Rules about one simple command: each yields what it finds dangerous. Their tables are in `facts` and `programs`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeAlias

from clew.agent.command_risk.command import (
    Findings,
    InspectedCommand,
    is_disk,
    is_git_internal,
    positional_arguments,
)
from clew.agent.command_risk.destinations import LOOPBACK, destination_of
from clew.agent.command_risk.facts import COMMAND_FACTS, CommandFact, RiskKind
from clew.agent.command_risk.programs import (
    BUNDLES_FLAGS,
    COMPRESSORS,
    DESTINATIONS,
    DOWNLOADERS,
    OUTPUT_FLAGS,
    SECRET_VARIABLE,
    WRITER_VALUE_FLAGS,
)
from clew.agent.files.file_types import lasting_effect
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, Word

_BY_SUBCOMMAND = frozenset({RiskKind.PUBLISH, RiskKind.HISTORY, RiskKind.PACKAGES, RiskKind.DATABASE})
"""Here an agreement for the session covers the subcommand; elsewhere, the same words only."""
_URL = re.compile(r"^\w+://|^(?:localhost|127\.0\.0\.1|\[::1\])|^[\w-]+(?:\.[\w-]+)+(?:[:/]|$)", re.I)
_SENDS = re.compile(
    r"^(?:-d|--data(?:-\w+)?|--json|-F|--form(?:-string)?|-T|--upload-file|--post-data|--post-file|--body-data|--body-file)"
    r"(?==|$)|^-[sSkLifgvN]*[dFT](?!e)"
)
_METHOD = re.compile(r"^(?:(?:-X|--request=?|--method=?)\s*)?(?:POST|PUT|PATCH|DELETE)$")
_CACHES = re.compile(
    r"(?:^|/)(?:node_modules|__pycache__|\.(?:pytest|mypy|ruff|parcel|hypothesis|sass|eslint)[_-]?cache|\.hypothesis|\.tox|\.nox|"
    r"\.next|\.nuxt|\.turbo|htmlcov|\.coverage|\.eggs|[\w.*-]*\.egg-info|[\w*-]*\.py[co]|build|dist|target|out|coverage|_build|_site|"
    r"\.output|\.nyc_output|\.svelte-kit|\.venv|venv|[\w.*-]+\.(?:log|tmp|bak|orig|rej|swp|pid))/?$"
)
"""What programs make again by themselves."""
_EMPTIES = re.compile(r"(?:1?,\$|1,|,)?d|")
"""Scripts of sed and perl that leave nothing of a file."""
RiskRule: TypeAlias = Callable[[InspectedCommand], Findings]


# -- facts of the table ------------------------------------------------------------------------------------------------


def known_commands(command: InspectedCommand) -> Findings:
    if {"--version", "--help"} >= set(command.texts) and command.texts:
        return
    for fact in COMMAND_FACTS:
        if _has_name(command.name, fact.commands) and _applies(command, fact):
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


# -- deleting ----------------------------------------------------------------------------------------------------------


def deleting(command: InspectedCommand) -> Findings:
    if command.name not in {"rm", "unlink", "shred", "srm", "rimraf", "trash", "del-cli"} or command.has_flag("--help"):
        return
    recursive = command.has_flag("-r", "-R", "--recursive") or command.name in {"rimraf", "trash", "del-cli"}
    for word in command.positional:
        yield from _deleted(command, word, recursive)


def _deleted(command: InspectedCommand, word: Word, recursive: bool) -> Findings:
    path = command.path_of(word)
    name = command.paths.display_name(path)
    made_again = path.location == "inside" and _CACHES.search(name if not path.is_glob else word.text)
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
        if command.paths.holds_text(path) and not path.path.endswith((".log", ".out", ".tmp")):
            yield command.finding(RiskKind.DELETE, "empties a file without a way back", f"empty {word.text}")


def moving_away(command: InspectedCommand) -> Findings:
    if command.name == "mv" and command.args and command.args[-1].text == "/dev/null":
        yield command.finding(RiskKind.DELETE, "deletes files without a way back", always_ask=True)


def discarding_changes(command: InspectedCommand) -> Findings:
    """`git checkout FILE`: the disk tells a file from a branch."""
    if not command.is_git("checkout") or command.has_flag("-b", "-B", "--orphan"):
        return
    if any(command.paths.exists_inside(command.path_of(word)) for word in command.positional[1:]):
        yield command.finding(RiskKind.HISTORY, "throws away changes that are not committed", "git checkout of files")


def deleting_found_files(command: InspectedCommand) -> Findings:
    if command.name not in {"find", "fd", "fdfind"}:
        return
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


def writing(command: InspectedCommand) -> Findings:
    for word in written_words(command):
        yield from written_to(command, word)


def written_words(command: InspectedCommand) -> Iterator[Word]:
    """Arguments that name files which the command writes."""
    value_flags = f"{OUTPUT_FLAGS.get(command.name, '')} {WRITER_VALUE_FLAGS.get(command.name, '')}"
    # BSD's `sed -i ''` has an empty one.
    positional = [word for word in positional_arguments(command.args, value_flags) if word.text]
    prints = command.name in COMPRESSORS and command.has_flag("-c", "-l", "-t", "--stdout")
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
    return name in BUNDLES_FLAGS and re.fullmatch(r"-[A-Za-z]{2,}", text) is not None and f"-{text[-1]}" in flags


def linking_out(command: InspectedCommand) -> Findings:
    """`ln -s /etc link`: what is written to the link afterwards is written outside."""
    if command.name != "ln" or not command.has_flag("-s", "--symbolic"):
        return
    for word in command.positional[:1]:
        if word.text.startswith(("/", "~")) and command.path_of(word).location == "outside":
            yield command.finding(
                RiskKind.OUTSIDE, f"makes a way out of the project, to {printable_line(command.path_of(word).path)}"
            )


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
    elif command.name not in _KEEPS_VARIABLES | DOWNLOADERS:
        yield from (word for word in command.args if not word.is_known)
        yield from (one.target for one in command.parsed.redirects if one.operator == "<<<" and not one.target.is_known)


# -- the network -------------------------------------------------------------------------------------------------------


def sending(command: InspectedCommand) -> Findings:
    if command.name not in DOWNLOADERS or _is_local(command):
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
    addresses = [text for text in command.texts if _URL.match(text)]
    return bool(addresses) and all(LOOPBACK.match(address) for address in addresses)


# -- processes and packages --------------------------------------------------------------------------------------------


def killing(command: InspectedCommand) -> Findings:
    if command.name != "kill" or {"-l", "-L", "-0"} & set(command.texts):
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
