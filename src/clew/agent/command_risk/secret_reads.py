"""Rules about reading secrets: files named or matched by a command, files that others find for it, whole folders.

A name counts whether the file exists or not. A folder counts by what is in it: `grep -r` asks where a secret file lies
below and the pattern would show a line of it. `find . -name '.e*'`, `ls -a | grep env` and `echo .env` name secrets;
`find . -type f` lists everything, so that it depends on what is there; `find . -name '*.py'` lists none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from clew.agent.command_risk.command import Findings, InspectedCommand, RiskFinding, rule
from clew.agent.command_risk.tables import DESTINATIONS, NAMES, WRAPPERS, RiskKind, pattern
from clew.agent.files.file_types import secret_kind
from clew.agent.files.paths import is_below
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, SimpleCommand, Word

_MAX_ENTRIES = 20_000
_MAX_CHARS = 65_536
_MAX_PATTERN = 500
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", "site-packages", ".tox", ".nox"})
_VALUED = frozenset(
    "-A -B -C -m -e -f -g -t -T -d -D -M --include --exclude --exclude-dir --glob --iglob --type --regexp".split()
)
_REPEATED = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+][^)]*\)[*+{]")
"""A repetition inside a repetition may take for ever to match."""
_CREDENTIAL = pattern("CREDENTIAL", re.IGNORECASE)
_SHOWS_PUBLIC = pattern("SHOWS_PUBLIC")


@dataclass(frozen=True, slots=True)
class Search:
    """A command that searches files, by its arguments."""

    name: str
    flags: frozenset[str]
    """Long ones, and each letter of short ones: `-rn` is -r and -n."""
    patterns: tuple[str, ...]
    roots: tuple[str, ...]
    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, name: str, texts: list[str]) -> Search:
        flags: set[str] = set()
        values: dict[str, list[str]] = {}
        plain: list[str] = []
        at = 0
        while at < len(texts):
            text = texts[at]
            flag, equals, value = text.partition("=")
            if text == "--":
                plain += texts[at + 1 :]
                break
            if text.startswith("--"):
                flags.add(flag)
                if equals:
                    values.setdefault(flag, []).append(value)
            elif text.startswith("-") and len(text) > 1:
                flags.update(f"-{letter}" for letter in text[1:])
                flag = f"-{text[-1]}"
                if name == "rg" and re.fullmatch(r"-u{2,3}", text):
                    flags.add("--hidden")
            else:
                plain.append(text)
            if not equals and text.startswith("-") and flag in _VALUED and at + 1 < len(texts):
                at += 1
                values.setdefault(flag, []).append(texts[at])
            at += 1
        patterns = [*values.get("-e", []), *values.get("--regexp", [])]
        if not patterns and not flags & {"-f", "--file", "--files"}:
            patterns, plain = plain[:1], plain[1:]
        globs = [
            *values.get("--include", []),
            *values.get("-g", []),
            *values.get("--glob", []),
            *values.get("--iglob", []),
        ]
        left_out = [*values.get("--exclude", []), *values.get("--exclude-dir", [])]
        included = [glob for glob in globs if not glob.startswith("!")]
        if values.get("-t") or values.get("--type"):
            included.append("*.of-a-type")
        return cls(
            name,
            frozenset(flags),
            tuple(patterns),
            tuple(plain) or (".",),
            tuple(included),
            (*left_out, *(glob[1:] for glob in globs if glob.startswith("!"))),
        )

    @property
    def is_recursive(self) -> bool:
        if self.name in {"rg", "ag", "ack", "ugrep"}:
            return True
        return bool(self.flags & {"-r", "-R", "--recursive", "--dereference-recursive"})

    @property
    def sees_hidden(self) -> bool:
        """`rg` and its like leave out files that begin with a dot, unless told otherwise."""
        if self.name in {"rg", "ag"}:
            return bool(self.flags & {"--hidden", "-.", "-u"} - ({"-u"} if self.name == "rg" else set()))
        return self.name != "ack"

    @property
    def only_names(self) -> bool:
        return bool(self.flags & {"-l", "-L", "-c", "-q", "--files", "--quiet", "--count", "--files-with-matches"})

    @property
    def hunts_credentials(self) -> bool:
        return any(_CREDENTIAL.search(pattern) for pattern in self.patterns)

    def leaves_out(self, name: str) -> bool:
        parts = [name, *name.split("/")]
        return any(fnmatchcase(part, glob.rstrip("/")) for part in parts for glob in self.excluded)


def secret_files_below(folder: str) -> Iterator[str]:
    """Files below a folder that usually hold secrets, nearest first; folders of others' code are left out."""
    looked_at = 0
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        looked_at += len(files) + len(folders)
        for name in files:
            path = os.path.join(here, name)  # noqa: PTH118
            if secret_kind(os.path.relpath(path, folder)):
                yield path
        if looked_at > _MAX_ENTRIES:
            return


def shows_a_line_of(search: Search, path: str) -> bool:
    """Whether a search would print a line of a file; where that is unknown, it would."""
    if "-v" in search.flags or "--invert-match" in search.flags:
        return True
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_CHARS)
        found = [_compiled(search, pattern) for pattern in search.patterns]
    except (OSError, re.error, ValueError):
        return True
    return not found or any(pattern.search(line) for pattern in found for line in text.splitlines())


def _compiled(search: Search, pattern: str) -> re.Pattern[str]:
    """The pattern as Python reads it. Raises re.error or ValueError where it cannot be told what it matches."""
    is_fixed = search.name == "fgrep" or bool(search.flags & {"-F", "--fixed-strings"})
    if UNKNOWN in pattern or len(pattern) > _MAX_PATTERN:
        raise ValueError("not known")
    if is_fixed:
        pattern = re.escape(pattern)
    else:
        if search.name == "grep" and not search.flags & {"-E", "-P", "--extended-regexp", "--perl-regexp"}:
            # In a basic expression the brackets and signs mean themselves, unless escaped.
            pattern = re.sub(
                r"\\?[(){}|+?]", lambda found: found[0][1:] if len(found[0]) == 2 else f"\\{found[0]}", pattern
            )
        if _REPEATED.search(pattern):
            raise ValueError("may take long")
        pattern = pattern.replace("[[:space:]]", r"\s").replace("[:space:]", r"\s").replace("[:alnum:]", r"\w")
    ignores_case = bool(search.flags & {"-i", "--ignore-case", "-S", "--smart-case"})
    return re.compile(pattern, re.IGNORECASE if ignores_case else 0)


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
    if name in NAMES["SEARCHERS"]:
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
        return ListedFiles(roots=listed.roots) if _matches(pattern, SECRET_NAMES) else listed
    is_secret = _matches(pattern, SECRET_NAMES) and (listed.names_secrets or listed.is_everything)
    return ListedFiles(is_secret, roots=listed.roots)


def _matches(pattern: str, names: tuple[str, ...]) -> bool:
    try:
        return any(re.search(pattern, name, re.IGNORECASE) for name in names)
    except re.error:
        return True


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
_ELSEWHERE = frozenset("adb docker kubectl nerdctl oc podman ssh vagrant".split())
"""Most of their arguments are paths of another machine or of a container."""
_OF_THIS_MACHINE = frozenset("--build-arg --env-file --file --filename --mount --volume -f -v".split())
"""Their flags that name files of this machine."""
_NAMES_NO_FILE = re.compile(
    r"--?(?:prefix|destdir|install-dir|rootdir|grep|m|message|title|body|author|url|path|route|endpoint|header|H|"
    r"regex|pattern|replace|uri|base-?url|mount-?path|subj)$"
)
"""Flags whose value looks like a path and is a text, an address or a place for later."""
_NOT_READ = frozenset("expr ln tr xargs".split())
"""What looks like a path is a character for them, or a rule of its own handles it."""


@rule()
def reading_secrets(command: InspectedCommand) -> Findings:
    """Secret files that a command names."""
    if command.name == "git":
        yield from _git_shows(command)
    elif command.name == "openssl" and command.texts and _SHOWS_PUBLIC.match(command.texts[0]):
        return  # certificates and requests, whose files look like those of keys
    elif command.name not in NAMES["HARMLESS_WITH_SECRETS"]:
        for word in _named_files(command):
            yield from secret_file(command, word)


def redirected_reads(command: InspectedCommand) -> Findings:
    """`< .env`, `< <(find . -name .env)`, `< ~/notes.txt`."""
    for target in (redirect.target for redirect in command.parsed.redirects if redirect.operator == "<"):
        yield from secret_file(command, target)
        if not target.substitutions:
            yield from outside_file(command, target)
        elif files_listed_by(target.substitutions[-1]).names_secrets:
            yield _finding(command, "reads secret files that another command finds")


@rule()
def reading_outside(command: InspectedCommand) -> Findings:
    """Files outside the project that a command is given; the tools for files ask for the same ones.

    Any program may show what it reads, so only those that list or name files are left out.
    """
    if command.name in NAMES["HARMLESS_WITH_SECRETS"] | _NOT_READ and not (
        command.name == "ln" and not _is_link(command)
    ):
        return
    is_git = command.name == "git"
    if is_git and not (command.positional and command.positional[0].text in NAMES["GIT_SHOWS"] | NAMES["GIT_TAKES"]):
        return
    # Behind a wrapper is a command of its own.
    names = command.args[:0] if command.name in _WRAPPER_NAMES else _named_files(command)
    if command.name in _ELSEWHERE:
        names = _files_of_this_machine(command)
    seen: set[str] = set()
    for word in names:
        is_far_folder = _ONLY_DOTS.fullmatch(word.text) is not None and command.name not in NAMES["READERS"]
        if word.text not in seen and word.text != "/" and not is_far_folder:
            seen.add(word.text)
            yield from outside_file(command, word)


_ONLY_DOTS = re.compile(r"(?:\.\./?)+")
"""`cmake ..`: the folder that it works for, as a rule."""
_WRAPPER_NAMES = frozenset(name for name in WRAPPERS if " " not in name)


def _is_link(command: InspectedCommand) -> bool:
    return command.has_flag("-s", "--symbolic")


def _files_of_this_machine(command: InspectedCommand) -> Iterator[Word]:
    """`docker run -v FILE:/x`, `docker build FOLDER`, `docker cp FILE container:/x`, `kubectl -f FILE`."""
    texts = [word.text for word in command.positional[:2]]
    if texts[:1] in (["build"], ["cp"]):
        yield from (word for word in command.positional[1:] if not re.match(r"[\w-]+:", word.text))
    before = ""
    for word in command.args:
        flag, _, value = word.text.partition("=")
        if before in _OF_THIS_MACHINE or flag in _OF_THIS_MACHINE:
            text = word.text if before in _OF_THIS_MACHINE else value
            if source := re.search(r"(?:^|,)(?:source|src)=([^,]+)", text):
                text = source[1]
            yield replace(word, text=text.partition(":")[0])
        before = word.text


def outside_file(command: InspectedCommand, word: Word) -> Findings:
    """What is to be asked about reading a file that lies outside the project."""
    path = command.path_of(word)
    looks_like_path = re.match(r"/|~|\.\.(?:/|$)", word.text) is not None or "/../" in word.text
    is_other_home = re.match(r"~[\w-]", word.text) is not None
    is_far = command.folder is not None and not is_below(command.folder, command.paths.project)
    # Elsewhere also `status` might be a file.
    is_named = looks_like_path or (is_far and ("/" in word.text or "." in word.text or _exists(command, word.text)))
    if "://" in word.text or not (is_other_home or (path.zone == "outside" and is_named and _may_be_there(path.path))):
        return
    name = printable_line(path.path)
    scope = f"read below {name.rpartition('/')[0] or '/'}"
    yield command.finding(RiskKind.OUTSIDE, f"reads {name}, outside the project", scope)


def _may_be_there(path: str) -> bool:
    """Whether a path may be one of this machine: `/api/users` is none, where there is no folder /api."""
    return os.path.lexists("/" + path.lstrip("/").partition("/")[0])


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
    if command.name in NAMES["PATTERN_FIRST"] and not command.has_flag("-e", "-f", "--regexp", "--expression"):
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
        if _LEFT_OUT_FLAG.match(before_this) or _NAMES_NO_FILE.match(before_this) or " " in word.text:
            continue
        for text in _spellings(word.text):
            is_sure = command.name in NAMES["READERS"] or (
                not is_flag_value and (not _PLAIN_WORD.fullmatch(text) or _exists(command, text))
            )
            if is_sure:
                yield replace(word, text=text)


def _patterns(command: InspectedCommand) -> Iterator[Word]:
    """What follows `-e`, which is no file. Not behind a flag that may take the `-e` for its own value."""
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
    if equals and not _LEFT_OUT_FLAG.match(flag) and not _NAMES_NO_FILE.match(flag):
        yield value.removeprefix("@").removeprefix("file://")


def _exists(command: InspectedCommand, text: str) -> bool:
    if command.folder is None or UNKNOWN in text:
        return False
    path = os.path.join(command.folder, text)  # noqa: PTH118
    return os.path.isfile(path) or (command.name in NAMES["READERS"] and os.path.isdir(path))  # noqa: PTH112, PTH113


def _git_shows(command: InspectedCommand) -> Findings:
    words = command.positional
    if not words or words[0].text not in NAMES["GIT_SHOWS"]:
        return
    for word in [*words[1:], *(word for word in command.args if word.text.startswith("-L"))]:
        if word.text.startswith((":!", ":^", ":(exclude)")) or " " in word.text:
            continue
        for part in {word.text, word.text.rpartition(":")[2], word.text.rpartition(")")[2]}:
            yield from secret_file(command, Word(part, is_glob=word.is_glob or "*" in part))


# -- files that other commands find ------------------------------------------------------------------------------------


@rule()
def reading_found_secrets(command: InspectedCommand) -> Findings:
    """`find -exec cat`, `find | xargs cat`, `cat $(find ...)`, `find | while read`."""
    if command.name in NAMES["FINDERS"]:
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
        listed = files_listed_by(source)
        for root in listed.roots:
            yield from outside_file(command, Word(root))
        if listed.names_secrets:
            yield _finding(command, "reads secret files that another command finds")
    elif command.name not in NAMES["HARMLESS_WITH_SECRETS"]:
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
    if not names or names[0] in NAMES["HARMLESS_WITH_SECRETS"] | {"git", "xargs"}:
        return
    for root in listed.roots if names[0] not in NAMES["HARMLESS_WITH_SECRETS"] else ():
        yield from outside_file(command, Word(root))
    if listed.names_secrets:
        yield _finding(command, "reads secret files that it finds by their names")
    elif listed.is_everything and names[0] not in NAMES["CHANGES_ONLY"]:
        searches = [listed.search] if listed.search is not None else []
        if names[0] in NAMES["SEARCHERS"]:
            searches.append(Search.of(names[0], [word.text for word in inner[1:]]))
        yield from _folders(command, listed.roots, *searches)


# -- whole folders -----------------------------------------------------------------------------------------------------


@rule()
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


@rule()
def searching_folders(command: InspectedCommand) -> Findings:
    """`grep -r`, `rg --hidden` and `diff -r` over a folder with secrets in it."""
    if command.name == "diff" and command.has_flag("-r", "--recursive"):
        yield from _folders(command, [word.text for word in command.positional])
    search = Search.of(command.name, command.texts) if command.name in NAMES["SEARCHERS"] else None
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
