"""What command lines do to the state of the work: tests they run, commits they make, services they start or end.

Lines are read by `clew.shell`; the names of programs are rows of `state.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from posixpath import basename

from clew.facts.data import load_table
from clew.facts.text import shorten
from clew.facts.tools import commands_in
from clew.lazy import lazy_pattern
from clew.shell import SimpleCommand

_TABLE = load_table("state.toml")
_RUNNERS, _QUIET, _QUIET_VALUES = (
    frozenset(_TABLE["tests"][key].split()) for key in ("programs", "quiet", "quiet_values")
)
_TEST_WORDS = tuple(_TABLE["tests"]["words"])
_UNITS, _START, _STOP, _END = (
    frozenset(_TABLE["services"][key].split()) for key in ("programs", "start", "stop", "end")
)
_MARKS = (*_UNITS, *_END, *(row.removeprefix("* ") for row in _TABLE["settings"]["commands"]), "commit")
_TESTS_CHARS = 80
_MESSAGE_OPTION = lazy_pattern(r"-[a-zA-Z]*m")


def may_change_state(line: str) -> bool:
    """Whether a command line has a word for which it is read; a fast check."""
    for mark in _MARKS:  # noqa: SIM110 (a generator takes three times as long)
        if mark in line:
            return True
    return False


def tests_named(line: str) -> str:
    """The command of a line that runs tests, without options that only change what it prints."""
    commands = [[word.text for word in command.words] for command in commands_in(line) if command.words]
    chosen = next(filter(_runs_tests, commands), commands[-1] if commands else line.split())
    kept = [
        word
        for before, word in zip(("", *chosen), chosen, strict=False)
        if word.partition("=")[0] not in _QUIET | _QUIET_VALUES and before not in _QUIET_VALUES
    ]
    return shorten(" ".join(kept), _TESTS_CHARS)


def _runs_tests(words: Sequence[str]) -> bool:
    is_runner = any(basename(word) in _RUNNERS for word in words[:5])
    return is_runner or any(word.startswith(_TEST_WORDS) for word in words[1:4])


def commit_subject(command: SimpleCommand) -> str:
    """The first line of the message that a `git commit` is given; empty for any other command."""
    words = command.words
    if len(words) < 2 or basename(words[0].text) != "git" or not any(word.text == "commit" for word in words):
        return ""
    for option, word in pairwise(words):
        if option.text == "--message" or _MESSAGE_OPTION.fullmatch(option.text):
            # The message is a word, or what a here-document inside of it says.
            texts = (word.text if word.is_known else "", *(inner.stdin_text or "" for inner in word.substitutions))
            return next((text.strip().split("\n")[0] for text in texts if text.strip()), "")
    return ""


def unit_changed(command: SimpleCommand) -> tuple[str, str] | None:
    """The service that a command starts or stops by its name, and what it is then."""
    words = [word.text for word in command.words]
    if not words or basename(words[0]) not in _UNITS:
        return None
    plain = [word for word in words if not word.startswith("-")]
    at = next((at for at, word in enumerate(plain[:4]) if word in _START | _STOP), None)
    if at is None:
        return None
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--name"]
    name = next(iter(named or ([] if plain[at] == "run" else plain[at + 1 :])), "")
    return (name, "stopped" if plain[at] in _STOP else "running") if name else None


def words_ended(command: SimpleCommand) -> set[str]:
    """The words by which a command names the processes that it ends; empty where it ends none."""
    words = [word.text for word in command.words]
    name = basename(words[0]) if words else ""
    if name not in _END and (name != "xargs" or _END.isdisjoint(words)):
        return set()
    return {part for text in _texts(command) for part in parts_of(text)}


def _texts(command: SimpleCommand | None) -> Iterator[str]:
    """The words of a command, and of the commands whose output it is given."""
    while command is not None:
        for word in command.words:
            yield word.text
            for inner in word.substitutions:
                yield from _texts(inner)
        command = command.piped_from


def parts_of(text: str) -> set[str]:
    """The words of a command line that may name a process: programs, files, ports, numbers of processes."""
    return {part for part in text.replace(":", " ").replace("=", " ").split() if len(part) > 2 and part not in _END}
