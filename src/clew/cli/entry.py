"""The way in and the way out of every command: arguments, exit codes, and what is said when something fails.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped with Ctrl-C. A command's module is imported when it is asked
for, so that one command's needs cost the others nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from clew import __version__
from clew.cli.output import Console, console_for
from clew.errors import ClewError, ConfigError, InvalidArgument

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
SET_FLAG = "--set"


@dataclass(frozen=True, slots=True)
class Noun:
    """A command: its name, the module that has it, and one line for `clew --help`."""

    name: str
    module: str
    about: str


NOUNS = (
    Noun("chat", "clew.cli.chat", "talk to a model that can work in a project"),
    Noun("compress", "clew.cli.compress", "fold a long conversation into a short one"),
    Noun("context", "clew.cli.context", "show what fills the window of a conversation"),
    Noun("sessions", "clew.cli.sessions", "list, show, rename, branch, undo and delete what is kept"),
    Noun("search", "clew.cli.search", "find words in everything that was ever said"),
    Noun("usage", "clew.cli.usage", "tokens and cost of every call"),
    Noun("insights", "clew.cli.insights", "where tokens and money went, as tables and charts"),
    Noun("export", "clew.cli.export", "write a conversation out, for other programs"),
    Noun("doctor", "clew.cli.doctor", "check that all that was kept is whole, and mend it"),
    Noun("import", "clew.cli.import_", "take in sessions of Claude Code, Codex, opencode, Hermes and pi"),
    Noun("config", "clew.cli.config", "show, set and check settings"),
    Noun("models", "clew.cli.models", "list models, fetch one that runs on this machine, choose one"),
    Noun("plugins", "clew.cli.plugins", "list, describe and choose context engines"),
)

ABOUT = """\
Clew keeps a long conversation inside a model's context window, at the lowest
cost, without losing a word."""

MORE = """\
first steps:
  clew chat                              talk to a model; clew chat -p "..." asks once
  clew compress session.jsonl            a long conversation, folded into a short one
  clew context session.jsonl             any agent's session file; - is stdin
  clew context session.jsonl --model gpt-5 --top 20
  clew sessions list                     what is kept; clew search finds words in it
  clew config show                       every setting, and where it comes from

Settings are read from ~/.clew/config.yaml (CLEW_HOME moves the folder), then
from the environment (CLEW_COMPRESSION_THRESHOLD is compression.threshold), then
from --set key=value; the last one counts. Results go to stdout, notices to
stderr. Exit status: 0 done, 1 failed, 2 wrong use. `clew COMMAND --help` says more.
"""


class CommandModule(Protocol):
    """What the module of a noun offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace, console: Console) -> int: ...


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run one command and give back its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    console = console_for(sys.stdout, sys.stderr, os.environ if environ is None else environ)
    try:
        code = _run(words, console)
        console.out.flush()
    except ClewError as error:
        console.fail(str(error))
        return WRONG_USE if _is_wrong_use(error) else FAILED
    except SystemExit as leaving:  # argparse leaves this way, with its message already printed
        return leaving.code if isinstance(leaving.code, int) else WRONG_USE
    except BrokenPipeError:
        _silence(console)
        return FAILED
    except OSError as error:  # rooms translate theirs: what is left is our own output, to a full disk for one
        _silence(console)
        console.fail(f"{error.filename or 'standard output'}: {error.strerror or error}; make room, or write elsewhere")
        return FAILED
    except KeyboardInterrupt:
        console.fail("stopped")
        return INTERRUPTED
    return code


def _is_wrong_use(error: ClewError) -> bool:
    """Whether the command line is what is wrong: also where a flag sets what cannot be set."""
    return isinstance(error, InvalidArgument) or (isinstance(error, ConfigError) and error.source == SET_FLAG)


def _run(words: Sequence[str], console: Console) -> int:
    noun = _noun_in(words)
    module = cast(CommandModule, import_module(noun.module)) if noun else None
    parser = _parser(noun, module)
    if not words:
        parser.print_help(console.err)
        return WRONG_USE
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        command = f"clew {noun.name}" if noun else "clew"
        parser.error(f"unknown: {' '.join(unknown)}; `{command} --help` says what it takes")
    if module is None:
        parser.error("a command is missing")
    return module.run(arguments, console)


def _noun_in(words: Sequence[str]) -> Noun | None:
    first = next((word for word in words if not word.startswith("-")), None)
    return next((noun for noun in NOUNS if noun.name == first), None)


def _parser(chosen: Noun | None, module: CommandModule | None) -> argparse.ArgumentParser:
    """The parser of everything, with the arguments of the chosen command only."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("clew", description=ABOUT, epilog=MORE, formatter_class=shape)
    parser.add_argument("--version", action="version", version=f"clew {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="noun")
    for noun in NOUNS:
        command = commands.add_parser(
            noun.name, help=noun.about, description=_sentence(noun.about), formatter_class=shape
        )
        if noun is chosen and module is not None:
            module.add_arguments(command)
    return parser


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}."


def _silence(console: Console) -> None:
    """Nobody takes our output any more: the interpreter must not complain when it flushes at the end."""
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, console.out.fileno())
        os.close(quiet)
    except (OSError, ValueError):
        return
