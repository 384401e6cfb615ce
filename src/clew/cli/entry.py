"""The entry point of every command: the table of commands, their arguments, exit codes, and errors.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped with Ctrl-C. A command's module is imported only when it is asked
for. Commands whose verb can be left out (`clew sessions` lists) get it put in before anything is parsed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, TextIO, cast

from clew import __version__
from clew.cli.console import Console, console_for
from clew.cli.failures import FAILED, INTERRUPTED, WRONG_USE, report_failure, wants_json
from clew.cli.parser import CommandParser, parser_of, subcommands
from clew.errors import ClewError

HELP_FLAGS = ("-h", "--help")


@dataclass(frozen=True, slots=True)
class CliCommand:
    """A command: its name, the module that has it, and one line for `clew --help`."""

    name: str
    module: str
    about: str
    default_verb: str | None = None
    """What `clew NAME` alone does, of the verbs it has."""


COMMANDS = (
    CliCommand("init", "clew.cli.commands.init", "choose the model to talk to, and write it to the config"),
    CliCommand("chat", "clew.cli.commands.chat", "talk to a model that can work in a project"),
    CliCommand("serve", "clew.cli.commands.serve", "keep the conversations of any agent in the window, as a gateway"),
    CliCommand("wrap", "clew.cli.commands.wrap", "run one program through a private gateway"),
    CliCommand("mcp", "clew.cli.commands.mcp", "let Claude Code, Codex and others recall old sessions, over MCP"),
    CliCommand("setup", "clew.cli.commands.setup", "make Hermes Agent use Clew's engine, in its own config"),
    CliCommand("compress", "clew.cli.commands.compress", "fold a long conversation into a short one"),
    CliCommand("context", "clew.cli.commands.context", "show what fills the window of a conversation"),
    CliCommand("sessions", "clew.cli.commands.sessions", "list, show, rename, undo and delete stored sessions", "list"),
    CliCommand("search", "clew.cli.commands.search", "search all stored messages"),
    CliCommand("open", "clew.cli.commands.open", "read messages by their numbers, word for word"),
    CliCommand("usage", "clew.cli.commands.usage", "tokens and cost of every call"),
    CliCommand("insights", "clew.cli.commands.insights", "tokens and cost over time, as tables and charts"),
    CliCommand("dashboard", "clew.cli.commands.dashboard", "show sessions and cost in a browser, live"),
    CliCommand("export", "clew.cli.commands.export", "write a conversation to a file, for other programs"),
    CliCommand("doctor", "clew.cli.commands.doctor", "check the database, and repair it"),
    CliCommand(
        "import",
        "clew.cli.commands.import_",
        "import sessions of Claude Code, Codex, Gemini CLI, opencode, Hermes and pi",
    ),
    CliCommand("config", "clew.cli.commands.config", "show, set and check settings", "show"),
    CliCommand(
        "models", "clew.cli.commands.models", "list models, fetch one to run on this machine, choose one", "list"
    ),
    CliCommand("keys", "clew.cli.commands.keys", "make, list and revoke keys for the gateway's callers", "list"),
    CliCommand("plugins", "clew.cli.commands.plugins", "list, describe and choose context engines", "list"),
    CliCommand("completion", "clew.cli.commands.completion", "print the completion script of a shell"),
    CliCommand("help", "clew.cli.commands.help", "explain a command"),
    CliCommand("version", "clew.cli.commands.version", "print the version"),
)

DESCRIPTION = """\
Clew keeps a long conversation inside a model's context window, at the lowest
cost, without losing a word."""

EPILOG = """\
first steps:
  clew init                              choose a model; clew chat asks for one, too
  clew chat                              talk to a model; clew chat -p "..." asks once
  clew compress session.jsonl            a long conversation, folded into a short one
  clew serve --upstream URL              any agent, by changing its base URL
  clew wrap -- codex                     one program, without changing its config
  clew context session.jsonl             any agent's session file; - is stdin
  clew context session.jsonl --model gpt-5 --top 20
  clew sessions list                     what is kept; clew search finds words in it
  clew config show                       every setting, and where it comes from

Settings are read from ~/.clew/config.yaml (CLEW_HOME moves the folder), then
from the environment (CLEW_COMPRESSION_THRESHOLD is compression.threshold), then
from --set key=value; the last one counts. Results go to stdout, notices to
stderr. Exit status: 0 done, 1 failed, 2 wrong use. `clew help COMMAND` says more.
"""


class CommandModule(Protocol):
    """What the module of a command has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace, console: Console) -> int: ...


def main(
    argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None, stdin: TextIO | None = None
) -> int:
    """Run one command; returns its exit code. What is not given is the process's own."""
    words = list(sys.argv[1:] if argv is None else argv)
    own = os.environ if environ is None else environ
    console = console_for(sys.stdout, sys.stderr, own, sys.stdin if stdin is None else stdin)
    try:
        code = _run(words, console)
        console.out.flush()
    except ClewError as error:
        return report_failure(error, console, as_json=wants_json(words))
    except SystemExit as exit_:  # argparse has printed the help or the version
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


def _run(words: Sequence[str], console: Console) -> int:
    chosen = _command_in(words)
    module = _module_of(chosen) if chosen else None
    parser = _parser({} if chosen is None or module is None else {chosen: module})
    if not words:
        parser.print_help(console.err)
        return WRONG_USE
    arguments, unknown = parser.parse_known_args(_with_verb(words, chosen))
    if unknown:
        leaf = parser_of(parser, (arguments.noun, getattr(arguments, "verb", None)))
        cast(CommandParser, leaf).refuse_unknown(unknown)
    if module is None:
        parser.error("a command is missing")
    return module.run(arguments, console)


def explain(names: Sequence[str], console: Console) -> None:
    """Print the help of a command, or of all of them."""
    chosen = next((command for command in COMMANDS if names and command.name == names[0]), None)
    parser: argparse.ArgumentParser = _parser({chosen: _module_of(chosen)} if chosen else {})
    for name in names:
        below = subcommands(parser)
        if name not in below:
            cast(CommandParser, parser).refuse_command(name)
        parser = below[name]
    parser.print_help(console.out)


def full_parser() -> CommandParser:
    """The parser with the arguments of every command, for completion and man pages."""
    return _parser({command: _module_of(command) for command in COMMANDS})


def _module_of(command: CliCommand) -> CommandModule:
    return cast(CommandModule, import_module(command.module))


def _command_in(words: Sequence[str]) -> CliCommand | None:
    first = next((word for word in words if not word.startswith("-")), None)
    return next((command for command in COMMANDS if command.name == first), None)


def _with_verb(words: Sequence[str], chosen: CliCommand | None) -> list[str]:
    """The words, with the verb that is meant where none is given: `clew sessions --json` lists."""
    if chosen is None or chosen.default_verb is None:
        return list(words)
    behind = words.index(chosen.name) + 1
    has_verb = behind < len(words) and (not words[behind].startswith("-") or words[behind] in HELP_FLAGS)
    return list(words) if has_verb else [*words[:behind], chosen.default_verb, *words[behind:]]


def _parser(modules: Mapping[CliCommand, CommandModule]) -> CommandParser:
    """The parser of everything, with the arguments of these commands only."""
    parser = CommandParser("clew", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"clew {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="noun")
    for each in COMMANDS:
        sentence = f"{each.about[0].upper()}{each.about[1:]}."
        if each.default_verb:
            sentence += f" `clew {each.name}` alone is `clew {each.name} {each.default_verb}`."
        command = commands.add_parser(each.name, help=each.about, description=sentence)
        command.default_verb = each.default_verb
        if each in modules:
            modules[each].add_arguments(command)
    return parser


def _silence(console: Console) -> None:
    """Send stdout to nowhere, so that the interpreter does not complain when it flushes at the end."""
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, console.out.fileno())
        os.close(quiet)
    except (OSError, ValueError):
        return
