"""What is dangerous about one simple command: rules, each of which sees the command and says what it finds.

Rules combine; they do not know each other. The facts they go by are in `danger_table`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from clew.agent.dangers.code import awk_code, database_loss, sed_code
from clew.agent.dangers.places import is_guarded
from clew.agent.dangers.programs import DESTINATIONS, DOWNLOADERS, READERS, SECRET_VARIABLE, TAKES_PATTERN
from clew.agent.dangers.seen import Danger, Seen
from clew.agent.dangers.table import FACTS, Fact, Kind
from clew.agent.dangers.writing import linking_out, writing, written_to
from clew.agent.files.secret_files import secret_in
from clew.agent.shell import UNKNOWN, Word
from clew.agent.shown import shown

_BY_SUBCOMMAND = frozenset({Kind.PUBLISH, Kind.HISTORY, Kind.PACKAGES, Kind.DATABASE})
"""Here an agreement for the session is for the subcommand; elsewhere, for the same words only."""
_LOOPBACK = re.compile(
    r"^(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\])(?=[:/?#]|$)", re.I
)
_URL = re.compile(r"^\w+://|^(?:localhost|127\.0\.0\.1|\[::1\])|^[\w-]+(?:\.[\w-]+)+(?:[:/]|$)", re.I)
_SENDS = re.compile(
    r"^(?:-d|--data(?:-\w+)?|--json|-F|--form(?:-string)?|-T|--upload-file|--post-data|--post-file|--body-data|--body-file)"
    r"(?==|$)|^-[sSkLifgvN]*[dFT](?!e)"
)
_METHOD = re.compile(r"^(?:(?:-X|--request=?|--method=?)\s*)?(?:POST|PUT|PATCH|DELETE)$")


Rule = Callable[[Seen], Iterator[Danger]]


# -- facts of the table ------------------------------------------------------------------------------------------------


def known_commands(seen: Seen) -> Iterator[Danger]:
    if {"--version", "--help"} >= set(seen.texts) and seen.texts:
        return
    for fact in FACTS:
        if _is_named(seen.name, fact.commands) and _is_met(seen, fact):
            yield seen.danger(fact.kind, fact.why, _covers(seen, fact), always_ask=fact.always_ask)


def _covers(seen: Seen, fact: Fact) -> str:
    if fact.kind not in _BY_SUBCOMMAND or seen.has_flag("-C", "--git-dir", "--work-tree", "--cwd", "--prefix", "--dir"):
        return ""
    terms = [term for term in fact.needs.split() if not term.startswith(("-", "~"))]
    return shown(" ".join([seen.name, *(word.text for word in seen.plain[: max(1, len(terms))])]))


@lru_cache(maxsize=4_096)
def _is_named(name: str, names: str) -> bool:
    return any(fnmatchcase(name, one) for one in names.split("|"))


def _is_met(seen: Seen, fact: Fact) -> bool:
    if any(_meets_alone(seen, term) for term in fact.unless.split()):
        return False
    plain, place = [word.text for word in seen.plain], 0
    for term in fact.needs.split():
        if not _meets(seen, term, plain[place] if place < len(plain) else None):
            return False
        place += not term.startswith(("-", "~"))
    return True


def _meets(seen: Seen, term: str, argument: str | None) -> bool:
    if term.startswith("~"):
        return any(re.search(term[1:], text) for text in seen.texts)
    return any(
        _meets(seen, one, None)
        if one.startswith("~")
        else seen.has_flag(one)
        if one.startswith("-")
        else argument is not None and fnmatchcase(argument, one)
        for one in term.split("|")
    )


def _meets_alone(seen: Seen, term: str) -> bool:
    return any(_meets(seen, term, text) for text in [word.text for word in seen.plain] or [""])


# -- deleting ----------------------------------------------------------------------------------------------------------


def deleting(seen: Seen) -> Iterator[Danger]:
    if seen.name not in {"rm", "unlink", "shred", "srm", "rimraf", "trash", "del-cli"} or seen.has_flag("--help"):
        return
    whole = seen.has_flag("-r", "-R", "--recursive") or seen.name in {"rimraf", "trash", "del-cli"}
    for word in seen.plain:
        yield from _deleted(seen, word, whole)


def _deleted(seen: Seen, word: Word, whole: bool) -> Iterator[Danger]:
    place = seen.place(word)
    name = seen.map.name(place)
    if place.where == "unknown" or (UNKNOWN in word.text and whole):
        yield seen.danger(Kind.DELETE, "what it deletes is only known when it runs", always_ask=True)
    elif (whole or word.text in {"*", "./*"}) and seen.map.is_broad(place.path):
        yield seen.danger(Kind.DELETE, f"deletes everything in {shown(place.path)}", always_ask=True)
    elif place.where == "outside":
        yield seen.danger(Kind.DELETE, f"deletes outside the project: {shown(place.path)}", always_ask=True)
    elif f"{place.path}/".endswith("/.git/") or is_guarded(place.path):
        yield seen.danger(Kind.DELETE, "deletes what git knows of the project", always_ask=True)
    elif whole:
        every = f"{name}/*" if place.is_pattern else name
        yield seen.danger(Kind.DELETE, "deletes a folder and all that is in it, without a way back", f"all of {every}")
    elif place.where == "inside":
        yield seen.danger(Kind.DELETE, "deletes files without a way back", "single files inside the project")
    elif place.is_pattern:
        yield seen.danger(Kind.DELETE, "deletes files without a way back", f"files in {name}")


def moving_away(seen: Seen) -> Iterator[Danger]:
    if seen.name == "mv" and seen.args and seen.args[-1].text == "/dev/null":
        yield seen.danger(Kind.DELETE, "deletes files without a way back", always_ask=True)


def taking_back(seen: Seen) -> Iterator[Danger]:
    """`git checkout FILE`: the name alone does not tell a file from a branch, the disk does."""
    plain = seen.plain
    if seen.name != "git" or not plain or plain[0].text != "checkout" or seen.has_flag("-b", "-B", "--orphan"):
        return
    if any(seen.map.is_there(seen.place(word)) for word in plain[1:]):
        yield seen.danger(Kind.HISTORY, "throws away changes that are not committed", "git checkout of files")


def finding(seen: Seen) -> Iterator[Danger]:
    if seen.name not in {"find", "fd", "fdfind"}:
        return
    texts = seen.texts
    runs = [texts[i + 1] for i, text in enumerate(texts[:-1]) if text in {"-exec", "-execdir", "-ok", "-okdir", "-x"}]
    if "-delete" not in texts and not any(name.rpartition("/")[2] in {"rm", "unlink", "shred"} for name in runs):
        return
    roots = []
    for word in seen.args:
        if word.text.startswith(("-", "(", "!")):
            break
        roots.append(seen.place(word))
    is_far = any(root.where in ("outside", "unknown") for root in roots)
    why = "deletes whatever it finds" + (" outside the project" if is_far else "")
    yield seen.danger(Kind.DELETE, why, always_ask=is_far)


# -- redirects and secrets ---------------------------------------------------------------------------------------------


def redirecting(seen: Seen) -> Iterator[Danger]:
    for redirect in seen.simple.redirects:
        if redirect.writes:
            yield from written_to(seen, redirect.target)
        elif redirect.operator == "<":
            yield from _secret_file(seen, redirect.target)


def reading_secrets(seen: Seen) -> Iterator[Danger]:
    if seen.name in READERS:
        words = seen.plain
        if seen.name in TAKES_PATTERN and not seen.has_flag("-e", "-f", "--regexp", "--expression"):
            words = words[1:]
        if DESTINATIONS.get(seen.name) == "last":
            words = words[:-1]
        for word in words:
            yield from _secret_file(seen, word)
    elif seen.name == "git" and [word.text for word in seen.plain[:1]] in (["show"], ["diff"], ["cat-file"], ["blame"]):
        for word in seen.plain[1:]:
            yield from _secret_file(seen, Word(word.text.rpartition(":")[2], is_pattern=word.is_pattern))


def _secret_file(seen: Seen, word: Word) -> Iterator[Danger]:
    place = seen.place(word)
    what = secret_in(word.text) or (secret_in(place.path) if place.where != "unknown" else None)
    if what is None and word.is_pattern:
        what = next(filter(None, map(secret_in, seen.map.fitting(word, seen.folder))), None)
    if what is not None:
        yield seen.danger(Kind.SECRETS, f"reads {what}: {shown(word.text)}", shown(word.text))


def showing_variables(seen: Seen) -> Iterator[Danger]:
    plain = [word.text for word in seen.plain]
    shows_all = {
        "env": not plain,
        "printenv": not plain,
        "export": not plain,
        "set": not seen.args,
        "declare": not plain and (not seen.args or seen.has_flag("-p", "-x")),
        "typeset": not plain,
    }.get(seen.name, False)
    if shows_all and not seen.has_flag("--help", "--version"):
        yield seen.danger(Kind.SECRETS, "shows every variable, with the keys among them", "every variable")
    names = plain if seen.name == "printenv" else [name for word in seen.args for name in word.variables]
    if seen.name in {"printenv", "echo", "printf"} and (found := next(filter(SECRET_VARIABLE.search, names), None)):
        yield seen.danger(Kind.SECRETS, f"shows the secret in {shown(found)}", shown(found))


# -- the network -------------------------------------------------------------------------------------------------------


def sending(seen: Seen) -> Iterator[Danger]:
    if seen.name not in DOWNLOADERS or _is_local(seen):
        return
    if any(SECRET_VARIABLE.search(name) for word in seen.args for name in word.variables):
        yield seen.danger(Kind.SENDING, "sends a secret over the network")
    if any(_prints_unseen(word) for word in seen.args):
        yield seen.danger(Kind.SENDING, "sends what another command prints")
    sends = any(_SENDS.match(text) for text in seen.texts) and not seen.has_flag("-G", "--get")
    if sends or any(_METHOD.match(text) for text in seen.texts) or any("=@" in t or t[:1] == "@" for t in seen.texts):
        yield seen.danger(Kind.SENDING, "sends data to another machine")


def _prints_unseen(word: Word) -> bool:
    return any(
        inner.words and inner.words[0].text not in {"echo", "printf", "date", "uname", "arch", "dpkg"}
        for inner in word.inner
    )


def _is_local(seen: Seen) -> bool:
    addresses = [text for text in seen.texts if _URL.match(text)]
    return bool(addresses) and all(_LOOPBACK.match(address) for address in addresses)


# -- processes and packages --------------------------------------------------------------------------------------------


def killing(seen: Seen) -> Iterator[Danger]:
    if seen.name != "kill" or {"-l", "-L", "-0"} & set(seen.texts):
        return
    words = [word for word in seen.args if word.text == "-1" or not word.text.startswith("-")]
    if {"-s", "-n"} & set(seen.texts) and words:
        words = words[1:]
    if all(_is_own(seen, word) for word in words):
        return
    is_all = any(word.text in {"1", "-1"} for word in words[1:] or words)
    yield seen.danger(Kind.SYSTEM, "ends a process that may not be its own", "kill by number", always_ask=is_all)


def _is_own(seen: Seen, word: Word) -> bool:
    own = seen.own_jobs | {"!", "$"}
    return word.text == "0" or word.text.startswith("%") or (bool(word.variables) and set(word.variables) <= own)


def python_packages(seen: Seen) -> Iterator[Danger]:
    if not re.fullmatch(r"pip[\d.]*|easy_install", seen.name):
        return
    if not {"install", "uninstall"} & {word.text for word in seen.plain[:1]} and seen.name != "easy_install":
        return
    if seen.has_flag("--user", "--break-system-packages"):
        yield seen.danger(Kind.PACKAGES, "changes software for every project", "pip outside the project")
    elif seen.environ is not None and not _is_in_venv(seen) and not {"--target", "-t", "--dry-run"} & set(seen.texts):
        yield seen.danger(Kind.PACKAGES, "changes software outside a virtual environment", "pip outside the project")


def _is_in_venv(seen: Seen) -> bool:
    first = seen.simple.words[0] if seen.simple.words else Word("")
    is_of_project = "/" in first.text and seen.map.place(first, seen.folder).where != "outside"
    environ = seen.environ or {}
    return seen.in_venv or is_of_project or any(environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))


RULES: tuple[Rule, ...] = (
    known_commands,
    deleting,
    moving_away,
    taking_back,
    finding,
    writing,
    linking_out,
    reading_secrets,
    showing_variables,
    sending,
    killing,
    python_packages,
    database_loss,
    awk_code,
    sed_code,
)

__all__ = ["RULES", "redirecting"]
