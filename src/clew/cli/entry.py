"""The entry point of every command: the table of commands, their arguments, exit codes, and errors.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped with Ctrl-C. A command's module is imported only when it is asked
for.
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
from clew.cli.console import Console, console_for
from clew.errors import ClewError, ConfigError, InvalidArgument, ProviderRefused

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
SET_FLAG = "--set"


@dataclass(frozen=True, slots=True)
class CliCommand:
    """A command: its name, the module that has it, and one line for `clew --help`."""

    name: str
    module: str
    about: str


COMMANDS = (
    CliCommand("init", "clew.cli.commands.init", "choose the model to talk to, and write it to the config"),
    CliCommand("chat", "clew.cli.commands.chat", "talk to a model that can work in a project"),
    CliCommand("compress", "clew.cli.commands.compress", "fold a long conversation into a short one"),
    CliCommand("context", "clew.cli.commands.context", "show what fills the window of a conversation"),
    CliCommand("sessions", "clew.cli.commands.sessions", "list, show, rename, branch, undo and delete what is kept"),
    CliCommand("search", "clew.cli.commands.search", "find words in everything that was ever said"),
    CliCommand("usage", "clew.cli.commands.usage", "tokens and cost of every call"),
    CliCommand("insights", "clew.cli.commands.insights", "where tokens and money went, as tables and charts"),
    CliCommand("export", "clew.cli.commands.export", "write a conversation out, for other programs"),
    CliCommand("doctor", "clew.cli.commands.doctor", "check that all that was kept is whole, and mend it"),
    CliCommand(
        "import", "clew.cli.commands.import_", "take in sessions of Claude Code, Codex, opencode, Hermes and pi"
    ),
    CliCommand("config", "clew.cli.commands.config", "show, set and check settings"),
    CliCommand("models", "clew.cli.commands.models", "list models, fetch one that runs on this machine, choose one"),
    CliCommand("plugins", "clew.cli.commands.plugins", "list, describe and choose context engines"),
)

DESCRIPTION = """\
Clew keeps a long conversation inside a model's context window, at the lowest
cost, without losing a word."""

EPILOG = """\
first steps:
  clew init                              choose a model; clew chat asks for one, too
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
    """What the module of a command has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace, console: Console) -> int: ...


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    console = console_for(sys.stdout, sys.stderr, os.environ if environ is None else environ)
    try:
        code = _run(words, console)
        console.out.flush()
    except ClewError as error:
        console.error(_error_text(error))
        return WRONG_USE if _is_wrong_use(error) else FAILED
    except SystemExit as exit_:  # argparse has printed its message already
        return exit_.code if isinstance(exit_.code, int) else WRONG_USE
    except BrokenPipeError:
        _silence(console)
        return FAILED
    except OSError as error:  # of our own output, such as a full disk; the rooms below translate theirs
        _silence(console)
        console.error(
            f"{error.filename or 'standard output'}: {error.strerror or error}; make room, or write elsewhere"
        )
        return FAILED
    except KeyboardInterrupt:
        console.error("stopped")
        return INTERRUPTED
    return code


def _error_text(error: ClewError) -> str:
    if not isinstance(error, ProviderRefused):
        return str(error)
    from clew.providers import explain_refusal

    return str(explain_refusal(error))


def _is_wrong_use(error: ClewError) -> bool:
    """Whether the command line is wrong: also a `--set` of what cannot be set."""
    return isinstance(error, InvalidArgument) or (isinstance(error, ConfigError) and error.source == SET_FLAG)


def _run(words: Sequence[str], console: Console) -> int:
    chosen = _command_in(words)
    module = cast(CommandModule, import_module(chosen.module)) if chosen else None
    parser = _parser(chosen, module)
    if not words:
        parser.print_help(console.err)
        return WRONG_USE
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        command = f"clew {chosen.name}" if chosen else "clew"
        parser.error(f"unknown: {' '.join(unknown)}; `{command} --help` says what it takes")
    if module is None:
        parser.error("a command is missing")
    return module.run(arguments, console)


def _command_in(words: Sequence[str]) -> CliCommand | None:
    first = next((word for word in words if not word.startswith("-")), None)
    return next((command for command in COMMANDS if command.name == first), None)


def _parser(chosen: CliCommand | None, module: CommandModule | None) -> argparse.ArgumentParser:
    """The parser of everything, with the arguments of the chosen command only."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("clew", description=DESCRIPTION, epilog=EPILOG, formatter_class=shape)
    parser.add_argument("--version", action="version", version=f"clew {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="noun")
    for each in COMMANDS:
        sentence = f"{each.about[0].upper()}{each.about[1:]}."
        command = commands.add_parser(each.name, help=each.about, description=sentence, formatter_class=shape)
        if each is chosen and module is not None:
            module.add_arguments(command)
    return parser


def _silence(console: Console) -> None:
    """Send stdout to nowhere, so that the interpreter does not complain when it flushes at the end."""
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, console.out.fileno())
        os.close(quiet)
    except (OSError, ValueError):
        return
