"""The parser of the command line: argparse, with errors that are one line, name the remedy and guess what was meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from clew.errors import InvalidArgument

MAX_SUGGESTIONS = 3
_MIN_PREFIX = 2
_SIMILARITY = 0.65
_MISSING = re.compile(r"the following arguments are required: (.+)")


class CommandHelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps line ends, and leaves room for the longest name of a command, which argparse indents but does not count."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += self._indent_increment


class CommandParser(argparse.ArgumentParser):
    """Raises `InvalidArgument` where argparse would print and leave, so that the caller decides how an error looks."""

    default_verb: str | None = None
    """Of a command with commands below it: the one that is meant where none is named."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": CommandHelpFormatter} | options)

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ").replace(" with argument ", " with ")
        if missing := _MISSING.search(text):
            text = f"{missing[1]} {'are' if ', ' in missing[1] else 'is'} missing"
        raise self.refusal(f"{text}; {self.help_hint}")

    def refusal(self, text: str) -> InvalidArgument:
        """An error of this command; `clew:` stands before every one already."""
        below = self.prog.partition(" ")[2]
        return InvalidArgument(f"{below}: {text}" if below else text)

    @property
    def help_hint(self) -> str:
        return f"`{self.prog} --help` says what it takes"

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """The error for words that no parser took."""
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        if not options:
            self.error(f"too many arguments: {' '.join(words)}")
        near = did_you_mean(options[0], self.long_options) if len(options) == 1 else ""
        several = "unknown option" if len(options) == 1 else "unknown options"
        raise self.refusal(f"{several} {', '.join(options)}; {near}{self.help_hint}")

    def refuse_command(self, name: str) -> NoReturn:
        """The error for a command that is not below this one."""
        near = did_you_mean(name, subcommands(self))
        raise self.refusal(f"no command {name!r}; {near}`{self.prog} --help` lists them")

    @property
    def long_options(self) -> list[str]:
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            self.refuse_command(str(value))
        near = did_you_mean(str(value), map(str, action.choices))
        name = "/".join(action.option_strings) or action.metavar or action.dest
        allowed = f"{'It' if near else 'it'} takes {', '.join(map(str, action.choices))}"
        raise self.refusal(f"{name}: {value!r} is not allowed; {near}{allowed}")


def subcommands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parsers of the commands below this one, by name; none for a command that has no more below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def parser_of(parser: argparse.ArgumentParser, names: Iterable[str | None]) -> argparse.ArgumentParser:
    """The parser that these names of commands lead to, as far as they do."""
    for name in names:
        below = subcommands(parser)
        if name is None or name not in below:
            break
        parser = below[name]
    return parser


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`did you mean X? ` for a word that is near a known one, ready to stand before a sentence; else empty."""
    from difflib import get_close_matches  # late: only wrong use needs it

    by_word = {name.lstrip("-").lower(): name for name in known}
    wanted = given.lstrip("-").lower()
    begin = [word for word in by_word if len(wanted) >= _MIN_PREFIX and word.startswith(wanted)]
    near = begin[:MAX_SUGGESTIONS] or get_close_matches(wanted, by_word, 1, _SIMILARITY)
    return f"did you mean {' or '.join(by_word[word] for word in near)}? " if near else ""
