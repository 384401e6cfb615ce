"""Which files a command lists for another: whether secrets are among them, by the names that it asks for.

`find . -name '.e*'`, `ls -a | grep env` and `echo .env` name secrets; `find . -type f` lists everything, so that it
depends on what is there; `find . -name '*.py'` lists none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from clew.agent.command_risk.programs import SEARCHERS
from clew.agent.command_risk.searches import Search
from clew.agent.files.file_types import secret_kind
from clew.shell import UNKNOWN, SimpleCommand

SECRET_NAMES = (
    *(".env", ".env.local", ".env.production", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass"),
    *(".ssh", ".aws", ".gnupg", ".kube", ".docker", ".bash_history", "id_rsa", "id_ed25519"),
)
"""Names of secret files, against which patterns are tried."""
_TELLING = re.compile(r"secret|credential|passw|private.?key", re.IGNORECASE)
_NAME_TESTS = {"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-lname"}
_PASSES_ON = frozenset("sort uniq head tail tr cut sed awk cat tac shuf nl column tee xargs".split())


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """What a command lists."""

    names_secrets: bool = False
    """It asks for secret files by their names."""
    is_everything: bool = False
    """It lists what is there, below `roots`."""
    roots: tuple[str, ...] = ()
    search: Search | None = None
    """Of these, only files in which it finds something."""


NOTHING = ListedFiles()


def matches_a_secret(glob: str) -> bool:
    """Whether a pattern asks for secret files: `.e*`, `~/.ss?/id*`, `*credentials*`; not one for everything."""
    parts = [part for part in glob.split("/") if re.search(r"[*?\[]", part)]
    if glob.startswith("/proc/") and any(fnmatchcase(name, parts[-1]) for name in ("environ", "mem") if parts):
        return True
    if any(_TELLING.search(part) for part in parts):
        return True
    return any(
        part.startswith((".", "[", "?")) and any(fnmatchcase(name, part) for name in SECRET_NAMES) for part in parts
    )


def names_in(texts: list[str]) -> ListedFiles:
    """What is listed where the names themselves are known."""
    return ListedFiles(any(secret_kind(text) or matches_a_secret(text) for text in texts))


def files_listed_by(command: SimpleCommand | None) -> ListedFiles:
    """What a pipe lists that ends in this command."""
    filters: list[SimpleCommand] = []
    while command is not None and command.words:
        name = command.words[0].text.rpartition("/")[2]
        if name in {"grep", "egrep", "rg"} and command.piped_from is not None:
            filters.append(command)
        elif name not in _PASSES_ON or command.piped_from is None:
            break
        command = command.piped_from
    if command is None or not command.words:
        return NOTHING
    listed = _listed(command)
    for one in reversed(filters):
        listed = _filtered(listed, one)
    return listed


def _listed(command: SimpleCommand) -> ListedFiles:
    name, *texts = (word.text for word in command.words)
    name = name.rpartition("/")[2]
    if name in {"find", "fd", "fdfind"}:
        return find_lists(texts, name)
    plain = [text for text in texts if not text.startswith("-")]
    if name in {"echo", "printf", "ls"} and names_in(plain).names_secrets:
        return ListedFiles(names_secrets=True)
    if name == "ls" and any(re.fullmatch(r"-[A-Za-z]*[aA][A-Za-z]*|--(?:almost-)?all", text) for text in texts):
        return ListedFiles(is_everything=True, roots=tuple(plain) or (".",))
    if name == "tree" and "-a" in texts:
        return ListedFiles(is_everything=True, roots=tuple(plain) or (".",))
    if name == "git" and plain[:1] == ["ls-files"] and "--exclude-standard" not in texts:
        is_untracked = any(re.fullmatch(r"-[a-z]*o[a-z]*|--others", text) for text in texts)
        return ListedFiles(is_everything=is_untracked, roots=(".",))
    if name in SEARCHERS:
        search = Search.of(name, texts)
        if search.is_recursive and search.sees_hidden and search.flags & {"-l", "--files-with-matches"}:
            return ListedFiles(any(map(matches_a_secret, search.included)), not search.included, search.roots, search)
    if name == "rg" and "--files" in texts and any(text in {"--hidden", "-uu", "-uuu", "-."} for text in texts):
        return ListedFiles(is_everything=True, roots=tuple(plain) or (".",))
    return NOTHING


def find_lists(texts: list[str], name: str = "find") -> ListedFiles:
    """What `find` lists, by its arguments."""
    if name != "find":
        return _fd_lists(texts)
    roots: list[str] = []
    for text in texts:
        if text.startswith(("-", "(", "!")):
            break
        roots.append(text)
    wanted, is_restricted, negates = any(root.startswith("/proc") or secret_kind(root) for root in roots), False, False
    for at, text in enumerate(texts):
        if text in _NAME_TESTS and at + 1 < len(texts):
            pattern = texts[at + 1]
            if not negates and pattern.strip("*./"):
                is_restricted = True
                wanted |= UNKNOWN not in pattern and _asks_for_secret(pattern, is_regex="regex" in text)
            negates = False
        elif text in {"!", "-not"}:
            negates = True
        elif text in {"-exec", "-execdir", "-ok", "-okdir"}:
            break
    return ListedFiles(wanted, not is_restricted, tuple(roots) or (".",))


def _asks_for_secret(pattern: str, *, is_regex: bool) -> bool:
    if is_regex:
        try:
            return any(re.fullmatch(pattern, f"./{name}") for name in SECRET_NAMES)
        except re.error:
            return True
    name = pattern.rpartition("/")[2]
    if secret_kind(pattern) or _TELLING.search(name):
        return True
    # `*.*` and the like ask for everything.
    is_specific = name.startswith(".") or bool(name.strip("*?."))
    return is_specific and any(fnmatchcase(secret, name.lower()) for secret in SECRET_NAMES)


def _fd_lists(texts: list[str]) -> ListedFiles:
    ends = next((at for at, text in enumerate(texts) if text in {"-x", "-X", "--exec", "--exec-batch"}), len(texts))
    texts = texts[:ends]
    valued = {"-t", "-e", "-d", "-E", "-g", "-S", "--type", "--extension", "--max-depth", "--exclude"}
    plain = [
        text for at, text in enumerate(texts) if not text.startswith("-") and (at == 0 or texts[at - 1] not in valued)
    ]
    if plain and (secret_kind(plain[0]) or _matches(plain[0], SECRET_NAMES)) and plain[0].strip("."):
        return ListedFiles(names_secrets=True)
    if any(text in {"-H", "--hidden", "-u", "-HI", "-IH"} for text in texts) and not plain:
        return ListedFiles(is_everything=True, roots=(".",))
    return NOTHING


def _filtered(listed: ListedFiles, command: SimpleCommand) -> ListedFiles:
    """What a `grep` in the pipe leaves of it."""
    texts = [word.text for word in command.words[1:]]
    pattern = next((text for text in texts if not text.startswith("-")), "")
    if any(re.fullmatch(r"-[A-Za-z]*v[A-Za-z]*|--invert-match", text) for text in texts):
        return NOTHING if _matches(pattern, SECRET_NAMES) else listed
    if not _matches(pattern, SECRET_NAMES):
        return NOTHING
    return ListedFiles(listed.names_secrets or listed.is_everything)


def _matches(pattern: str, names: tuple[str, ...]) -> bool:
    try:
        return any(re.search(pattern, name, re.IGNORECASE) for name in names)
    except re.error:
        return True
