"""Whether a shell command must be shown to a person before it runs, and why.

A seat belt, not a wall: it reads the command line as far as that can be read without running it, unwraps what runs
other commands, and asks when in doubt. It does not open scripts: `python x.py` is as harmless as its name. Text that is
only an argument (`git commit -m "rm -rf /"`) is never taken for a command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from clew.agent.dangers.code import dangerous_code, text_from
from clew.agent.dangers.inner import (
    inner_words,
    interpreter_in,
    is_stdin,
    lines_in,
    name_of,
    runs_of_find,
    set_by_words,
    sources_of,
    wrapper_of,
)
from clew.agent.dangers.places import Map
from clew.agent.dangers.programs import (
    CODE_SETTINGS,
    DECODERS,
    DOWNLOADERS,
    HOLDS_LINES,
    INTERPRETERS,
    LINE_SETTINGS,
    LOADS_CODE,
    SHELLS,
)
from clew.agent.dangers.rules import RULES, redirecting
from clew.agent.dangers.seen import Danger, Seen
from clew.agent.dangers.table import Kind
from clew.agent.shell import UNKNOWN, Line, Simple, Unreadable, Word, joined, read_line
from clew.agent.shown import shown
from clew.agent.tools.base import Risk

_ACTION_CHARS = 1_000
_MOST_REASONS = 12
_GIVEN = ("HOME", "TMPDIR", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "VIRTUAL_ENV")
_DEEPEST_LINES = 12
_LEADING = re.compile(r"^\+?[:\s]*(?:!|(?:shell|spawn|system)\s+)?")
"""What an editor or a debugger wants before a command for the shell."""


def risk_of_command(
    command: str, project: Path, workdir: Path | None = None, environ: Mapping[str, str] | None = None
) -> Risk | None:
    """Why a command must be agreed to; None where nothing about it is dangerous. Never raises."""
    folder = workdir or project
    judge = _Judge(project, environ)
    try:
        found = list(judge.line(command, os.path.realpath(folder), 0))
    except Unreadable as problem:
        why = f"could not be read, so nobody knows what it does: {problem}"
        found = [Danger(Kind.UNREADABLE, why, shown(command), "", always_ask=True)]
    return _risk(command, folder, found) if found else None


def outside_risk(command: str, folder: Path, risk: Risk | None) -> Risk:
    """The risk of a command that runs in a folder outside the project."""
    reason = f"runs outside the project, in {shown(str(folder))}"
    if risk is None:
        return Risk(f"run: {shown(command, _ACTION_CHARS)}", (reason,), f"run commands in {folder}")
    return Risk(risk.action, (reason, *risk.reasons), f"{risk.scope} (in {folder})")


def _risk(command: str, folder: Path, found: list[Danger]) -> Risk:
    whole = shown(command)
    reasons = dict.fromkeys(
        danger.why if danger.piece in (whole, "") else f"{danger.why} (`{danger.piece}`)" for danger in found
    )
    if any(danger.always_ask for danger in found):
        scope = f"exactly this command in {folder}: {command}"
    else:
        scope = "; ".join(sorted({danger.covers for danger in found}))
    return Risk(f"run: {shown(command, _ACTION_CHARS)}", tuple(reasons)[:_MOST_REASONS], scope)


def kinds_of_command(command: str, project: Path, environ: Mapping[str, str] | None = None) -> frozenset[Kind]:
    """What sorts of harm a command can do."""
    try:
        return frozenset(danger.kind for danger in _Judge(project, environ).line(command, os.path.realpath(project), 0))
    except Unreadable:
        return frozenset({Kind.UNREADABLE})


class _TooDeep(Unreadable):
    """Commands inside commands without end: nobody knows what the innermost does."""


class _Judge:
    """Goes through a command line, and through the lines inside it."""

    def __init__(self, project: Path, environ: Mapping[str, str] | None) -> None:
        self._environ = environ
        self._map = Map(project, environ or {})
        self._given = {name: value for name in _GIVEN if (value := (environ or {}).get(name))}
        self._downloaded: set[str] = set()
        self._own_jobs: set[str] = set()
        self._in_venv = False

    def line(self, text: str, folder: str | None, depth: int) -> Iterator[Danger]:
        if depth > _DEEPEST_LINES:
            raise _TooDeep(f"commands run each other more than {_DEEPEST_LINES} deep")
        line = read_line(text, {**self._given, **({"PWD": folder} if folder else {})})
        folders: dict[tuple[int, ...], str | None] = {(): folder}
        for simple in line.commands:
            nest = simple.nest
            while nest not in folders:
                nest = nest[:-1]
            yield from self._command(simple, line, folders[nest], depth)
            moved = self._moved(simple, folders[nest])
            if moved is not _STAYS:
                folders[simple.nest] = moved

    # -- one command ---------------------------------------------------------------------------------------------------

    def _command(self, simple: Simple, line: Line, folder: str | None, depth: int) -> Iterator[Danger]:
        self._own_jobs.update(name for name, value in simple.settings if value.variables == ("!",))
        seen = self._seen(simple, folder)
        yield from redirecting(seen)
        for name, value in (*simple.settings, *set_by_words(seen)):
            yield from self._setting(seen, name, value, depth)
        if not simple.words:
            return
        if seen.name in line.functions:
            left = simple.left
            if left is not None and left.words and name_of(left.words[0]) == seen.name:
                yield seen.danger(Kind.EXHAUST, "starts copies of itself without end", always_ask=True)
        yield from self._judged(seen, depth)

    def _setting(self, seen: Seen, name: str, value: Word, depth: int) -> Iterator[Danger]:
        """A variable that makes other programs run something."""
        if CODE_SETTINGS.match(name) and value.text:
            yield seen.danger(Kind.HIDDEN_CODE, f"{name} makes other programs run something", always_ask=True)
        elif name == "NODE_OPTIONS" and LOADS_CODE.search(value.text):
            yield seen.danger(Kind.HIDDEN_CODE, "NODE_OPTIONS makes every node run a file first", always_ask=True)
        elif LINE_SETTINGS.match(name):
            yield from self.line(value.text, seen.folder, depth + 1)

    def _maybe_line(self, word: Word, folder: str | None, depth: int) -> Iterator[Danger]:
        """An argument of an editor, a debugger or the like, which may run it; what no shell could read is none."""
        try:
            yield from self.line(_LEADING.sub("", word.text), folder, depth + 1)
        except _TooDeep:
            raise
        except Unreadable:
            return

    def _judged(self, seen: Seen, depth: int) -> Iterator[Danger]:
        """A command, and every command that it runs."""
        first = seen.simple.words[0]
        if (
            not seen.name
            or UNKNOWN in seen.name
            or (not first.is_known and "IFS" in first.variables)
            or (first.is_pattern and first.text not in ("[", "[["))
        ):
            yield seen.danger(Kind.HIDDEN_CODE, "which command it runs is only known when it runs", always_ask=True)
        for rule in RULES:
            yield from rule(seen)
        yield from self._downloads(seen)
        yield from self._code(seen, depth)
        for word in lines_in(seen):
            yield from self.line(word.text, seen.folder, depth + 1)
        for word in seen.args if seen.name in HOLDS_LINES else ():
            if " " in word.text:
                yield from self._maybe_line(word, seen.folder, depth)
        for inner in self._unwrapped(seen):
            if depth > _DEEPEST_LINES:
                raise _TooDeep(f"commands run each other more than {_DEEPEST_LINES} deep")
            yield from self._judged(inner, depth + 1)

    def _seen(self, simple: Simple, folder: str | None) -> Seen:
        name = name_of(simple.words[0]) if simple.words else ""
        own = frozenset(self._own_jobs)
        return Seen(simple, name, tuple(simple.words[1:]), folder, self._map, self._environ, own, in_venv=self._in_venv)

    def _again(self, seen: Seen, words: list[Word], in_venv: bool | None = None) -> Seen:
        """The command inside a command, with what is around it."""
        simple = Simple(words, [], [], seen.simple.text_in, seen.simple.left, seen.simple.nest, seen.simple.source)
        is_in_venv = seen.in_venv if in_venv is None else in_venv
        return replace(seen, simple=simple, name=name_of(words[0]), args=tuple(words[1:]), in_venv=is_in_venv)

    # -- commands that run commands ------------------------------------------------------------------------------------

    def _unwrapped(self, seen: Seen) -> Iterator[Seen]:
        words = seen.simple.words
        wrapper, rest = wrapper_of(words, seen)
        if wrapper is not None and (inner := inner_words(wrapper, rest)):
            is_of_project = wrapper.name.endswith(" run") or wrapper.name == "uvx"
            yield self._again(seen, inner, in_venv=seen.in_venv or is_of_project)
        if seen.name in {"find", "fd", "fdfind"}:
            yield from (self._again(seen, inner) for inner in runs_of_find(words))
        if interpreter_in(seen.name):
            yield from self._script(seen)

    def _script(self, seen: Seen) -> Iterator[Seen]:
        """`python -m pip install` is pip, `python manage.py flush` is manage.py."""
        flags = INTERPRETERS[interpreter_in(seen.name)].split()
        for place, word in enumerate(seen.args):
            if word.text == "-m" and seen.name.startswith(("python", "pypy")):
                if rest := list(seen.args[place + 1 :]):
                    is_near = "/" in seen.simple.words[0].text and seen.place(seen.simple.words[0]).where != "outside"
                    yield self._again(seen, rest, in_venv=seen.in_venv or is_near)
                return
            if word.text in flags or (len(word.text) > 2 and _ends_with_flag(word.text, flags)):
                return
            if not word.text.startswith("-"):
                if word.is_known:
                    yield self._again(seen, list(seen.args[place:]))
                return

    # -- code on the line ----------------------------------------------------------------------------------------------

    def _code(self, seen: Seen, depth: int) -> Iterator[Danger]:
        if seen.name in SHELLS or seen.name in {"su", "script", "runuser"}:
            yield from self._shell(seen, depth)
        elif seen.name == "eval" or (seen.name == "env" and seen.has_flag("-S")):
            words = [word for word in seen.args if not re.fullmatch(r"-\w+|--split-string", word.text)]
            yield from self._text_of(seen, words, joined(words), depth)
        elif seen.name in {"source", "."}:
            yield from self._sourced(seen, depth)
        elif seen.name == "trap" and seen.args and seen.args[0].text not in {"-", "", "-l", "-p"}:
            yield from self._text_of(seen, [seen.args[0]], seen.args[0].text, depth)
        elif interpreter_in(seen.name):
            yield from self._interpreted(seen)

    def _shell(self, seen: Seen, depth: int) -> Iterator[Danger]:
        """`sh -c text`, `... | sh`, `sh <<EOF`, `sh <(...)`."""
        for place, word in enumerate(seen.args):
            if word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text[1:]:
                rest = [one for one in seen.args[place + 1 :] if not one.text.startswith("-")][:1]
                yield from self._text_of(seen, rest, joined(rest), depth)
                return
        script = next(iter(seen.plain), None)
        if seen.name not in SHELLS:
            return
        if script is not None and not is_stdin(script) and not seen.has_flag("-s"):
            yield from self._unseen(seen, script)
        elif (text := _literal_input(seen.simple)) is not None:
            yield from self._text_of(seen, [], text, depth)
        else:
            yield from _piped(seen)

    def _interpreted(self, seen: Seen) -> Iterator[Danger]:
        flags = INTERPRETERS[interpreter_in(seen.name)].split()
        for word in seen.args:
            flag, equals, code = word.text.partition("=")
            if equals and flag in flags:
                yield from dangerous_code(seen, code)
        for word, after in zip(seen.args, seen.args[1:], strict=False):
            if word.text in flags or (len(word.text) > 2 and _ends_with_flag(word.text, flags)):
                yield from self._unseen(seen, after)
                yield from dangerous_code(seen, after.text)
                return
        script = next(iter(seen.plain), None)
        if {"-m", "-V", "--version", "-h", "--help"} & set(seen.texts):
            return
        if script is not None and not is_stdin(script):
            yield from self._unseen(seen, script)
        elif (text := _literal_input(seen.simple)) is not None:
            yield from dangerous_code(seen, text)
        else:
            yield from _piped(seen)

    def _sourced(self, seen: Seen, depth: int) -> Iterator[Danger]:
        for word in seen.args[:1]:
            if is_stdin(word) and (text := _literal_input(seen.simple)) is not None:
                yield from self._text_of(seen, [], text, depth)
            self._in_venv |= word.text.endswith("activate") or "/activate" in word.text
            yield from self._unseen(seen, word)

    def _text_of(self, seen: Seen, words: list[Word], text: str, depth: int) -> Iterator[Danger]:
        """Words that are run as a command line of their own."""
        for word in words:
            yield from _from_commands(seen, word)
        if text.replace(UNKNOWN, "").strip():
            yield from self.line(text, seen.folder, depth + 1)
        elif UNKNOWN in text and not any(word.inner for word in words):
            yield seen.danger(Kind.HIDDEN_CODE, "what it runs is only known when it runs", always_ask=True)

    def _unseen(self, seen: Seen, word: Word) -> Iterator[Danger]:
        """Code out of a file, or out of other commands."""
        yield from _from_commands(seen, word)
        if word.text.rpartition("/")[2] in self._downloaded:
            yield seen.danger(Kind.REMOTE_CODE, "runs what was just downloaded", always_ask=True)

    def _downloads(self, seen: Seen) -> Iterator[Danger]:
        """Remembers what is downloaded, and finds it where it is run."""
        if seen.name in DOWNLOADERS:
            written = [redirect.target.text for redirect in seen.simple.redirects if redirect.writes]
            names = [*seen.texts, *written]
            self._downloaded.update(name for text in names if (name := text.rpartition("/")[2]) and text[:1] != "-")
        elif "/" in seen.simple.words[0].text and seen.name in self._downloaded:
            yield seen.danger(Kind.REMOTE_CODE, "runs what was just downloaded", always_ask=True)

    # -- where it runs -------------------------------------------------------------------------------------------------

    def _moved(self, simple: Simple, folder: str | None) -> str | None:
        """The folder after a command: `cd` changes it."""
        if not simple.words or simple.words[0].text not in {"cd", "pushd", "popd", "chdir"}:
            return _STAYS
        target = next((word for word in simple.words[1:] if not word.text.startswith("-") or word.text == "-"), None)
        if simple.words[0].text == "popd" or (target is not None and target.text == "-"):
            return None
        if target is None:
            return self._map.home or None
        place = self._map.place(target, folder)
        return None if place.where == "unknown" or place.is_pattern else place.path


_STAYS = "\0"


def _ends_with_flag(text: str, flags: list[str]) -> bool:
    """`-lne` ends with -e."""
    return text[0] == "-" and text[1] != "-" and any(len(flag) == 2 and text.endswith(flag[1]) for flag in flags)


def _literal_input(simple: Simple) -> str | None:
    return simple.text_in if simple.text_in is not None else text_from(simple.left)


def _piped(seen: Seen) -> Iterator[Danger]:
    """Code that comes through a pipe."""
    left = seen.simple.left
    if left is None:
        return
    names = set(sources_of(left))
    if names & DOWNLOADERS:
        yield seen.danger(Kind.REMOTE_CODE, "runs what it downloads, unseen", always_ask=True)
    elif names & DECODERS or not names & {"cat"}:
        yield seen.danger(Kind.HIDDEN_CODE, "runs what another command prints, unseen", always_ask=True)


def _from_commands(seen: Seen, word: Word) -> Iterator[Danger]:
    """Code that is the output of other commands: `$( )`, `<( )`."""
    if not word.inner or word.is_known:
        return
    names = {name for inner in word.inner for name in sources_of(inner)}
    if names & DOWNLOADERS:
        yield seen.danger(Kind.REMOTE_CODE, "runs what it downloads, unseen", always_ask=True)
    elif seen.name in {"eval", "source", ".", *SHELLS} or names & DECODERS:
        yield seen.danger(Kind.HIDDEN_CODE, "runs what another command prints, unseen", always_ask=True)
