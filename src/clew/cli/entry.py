"""The entry point of every command: the table of commands, exit codes, and errors for people and programs.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped with Ctrl-C. The module of a command is imported when it is
used. A program that asked for JSON gets its errors as JSON:
`{"error": {"kind": ..., "message": ..., "remedy": ...}}`, with the same exit code.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, TextIO

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from clew import __version__
from clew.cli.console import Console, console_for
from clew.cli.options import CliCommand, NounGroup, OneOf, command, json_option, sentence, wrong_use
from clew.errors import ClewError, ConfigError, InvalidArgument, ProviderRefused

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
COMPLETE = "_CLEW_COMPLETE"
"""The environment variable by which a shell asks for completions."""
COMMAND_LINE_SOURCES = ("--set", "config set", "config show")
"""Sources of a `ConfigError` for which the command line is wrong, not the file."""
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
COMMANDS: Mapping[str, tuple[str, str]] = {
    "init": ("init", "choose the model to talk to, and write it to the config"),
    "chat": ("chat", "talk to a model that can work in a project"),
    "serve": ("serve", "run a gateway that keeps conversations in the window"),
    "wrap": ("wrap", "run one program through a private gateway"),
    "mcp": ("mcp", "let Claude Code, Codex and others search old sessions, over MCP"),
    "setup": ("setup", "let Claude Code, opencode, pi, OpenClaw or Hermes compact with Clew"),
    "compress": ("compress", "fold a long conversation into a short one"),
    "audit": ("audit", "show what compactions in session files dropped, and what they cost"),
    "context": ("context", "show what fills the window of a conversation"),
    "sessions": ("sessions", "list, show, rename, undo and delete stored sessions"),
    "search": ("search", "search all stored messages"),
    "open": ("search", "read messages by number, verbatim"),
    "vectors": ("search", "search by meaning too, with vectors"),
    "usage": ("usage", "tokens and cost of every call"),
    "insights": ("usage", "tokens and cost over time, as tables and charts"),
    "dashboard": ("dashboard", "show sessions and cost in a browser, live"),
    "export": ("export", "write a conversation to a file, for other programs"),
    "doctor": ("doctor", "check the database, and repair it"),
    "import": ("imports", "import sessions of Claude Code, Codex, Gemini CLI, opencode, Hermes and pi"),
    "config": ("config", "show, set and check settings"),
    "models": ("models", "list models, fetch one to run on this machine, choose one"),
    "keys": ("keys", "make, list and revoke keys for the gateway's callers"),
    "plugins": ("plugins", "list, describe and choose context engines"),
    "completion": ("entry", "print the completion script of a shell"),
    "help": ("entry", "explain a command"),
    "version": ("entry", "print the version"),
}
"""Each command: its module in `clew.cli`, which has it as `<name>_command`, and one line about it."""
DESCRIPTION = """\
Clew keeps a long conversation inside a model's context window, at the lowest
cost, without losing a word."""
EPILOG = """\
first steps:
  clew init                              choose a model (clew chat asks too)
  clew chat                              talk to a model; clew chat -p "..." asks once
  clew compress session.jsonl            a long conversation, folded into a short one
  clew serve --upstream URL              any agent, by changing its base URL
  clew wrap -- codex                     one program, without changing its config
  clew context session.jsonl             any agent's session file; - is stdin
  clew context session.jsonl --model gpt-5 --top 20
  clew sessions list                     stored conversations; clew search finds words
  clew config show                       every setting, and where it comes from

Settings are read from ~/.clew/config.yaml (CLEW_HOME moves the folder), then
from the environment (CLEW_COMPRESSION_THRESHOLD is compression.threshold), then
from --set key=value; the last one wins. Results go to stdout, notices to
stderr. Exit status: 0 done, 1 failed, 2 wrong use. `clew help COMMAND` says more.
"""

SHELLS = ("bash", "zsh", "fish")
COMPLETION_HELP = """\
where the script goes:
  bash   eval "$(clew completion bash)"                     in ~/.bashrc
  zsh    source <(clew completion zsh)                      in ~/.zshrc, behind compinit
  fish   clew completion fish > ~/.config/fish/completions/clew.fish

It completes commands, options, settings, files, and the sessions that are kept.
"""
HELP_HELP = """\
examples:
  clew help
  clew help compress
  clew help sessions show
"""


class CommandTable(NounGroup):
    """The commands, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, about = COMMANDS[cmd_name]
        made: click.Command = getattr(import_module(f"clew.cli.{module}"), f"{cmd_name}_command")
        default = made.default_verb if isinstance(made, NounGroup) else ""
        alone = f" `clew {cmd_name}` alone is `clew {cmd_name} {default}`." if default else ""
        made.name, made.short_help, made.help = cmd_name, about, sentence(about) + alone
        return made

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        found = [CompletionItem(name, help=each[1]) for name, each in COMMANDS.items() if name.startswith(incomplete)]
        return found or CliCommand.shell_complete(self, ctx, incomplete)


cli = CommandTable("clew", help=DESCRIPTION, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
click.version_option(__version__, prog_name="clew", message="clew %(version)s")(cli)


def main(
    argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None, stdin: TextIO | None = None
) -> int:
    """Run one command; returns its exit code. Arguments default to those of the process."""
    words = list(sys.argv[1:] if argv is None else argv)
    own = os.environ if environ is None else environ
    console = console_for(sys.stdout, sys.stderr, own, sys.stdin if stdin is None else stdin)
    try:
        if instruction := own.get(COMPLETE):
            return shell_complete(cli, {"obj": console}, "clew", COMPLETE, instruction)
        code = _run(words, console)
        console.out.flush()
    except click.exceptions.Exit as exit_:  # the help or the version was printed
        return exit_.exit_code
    except click.UsageError as error:
        return report_failure(wrong_use(error), console, as_json=wants_json(words))
    except ClewError as error:
        return report_failure(error, console, as_json=wants_json(words))
    except BrokenPipeError:
        _silence(console)
        return FAILED
    except OSError as error:  # while writing the result, such as a full disk; other errors are translated below
        _silence(console)
        where = error.filename or "standard output"
        console.error(f"{where}: {error.strerror or error}; make room, or write elsewhere")
        return FAILED
    except KeyboardInterrupt:
        console.error("stopped")
        return INTERRUPTED
    return code


def _run(words: list[str], console: Console) -> int:
    if not words:
        click.echo(cli.make_context("clew", [], obj=console, resilient_parsing=True).get_help(), err=True)
        return WRONG_USE
    with cli.make_context("clew", words.copy(), obj=console) as context:
        code: int = cli.invoke(context)
    return code


# -- failures ----------------------------------------------------------------------------------------------------------


def wants_json(words: Sequence[str]) -> bool:
    """Whether `--json` is among words that could not be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def exit_code(error: ClewError) -> int:
    """2 for a wrong command line, 1 for everything else."""
    is_wrong_use = isinstance(error, InvalidArgument) or (
        isinstance(error, ConfigError) and error.source in COMMAND_LINE_SOURCES
    )
    return WRONG_USE if is_wrong_use else FAILED


def report_failure(error: ClewError, console: Console, *, as_json: bool) -> int:
    """Print the error; returns the exit code."""
    fields = failure_json(error)
    if as_json:
        console.clear_progress()
        console.print_json(fields)
    else:
        console.error(fields["error"]["message"])
    return exit_code(error)


def failure_json(error: ClewError) -> dict[str, Any]:
    """The error as JSON; a provider's refusal with a remedy."""
    if isinstance(error, ProviderRefused):
        from clew.providers import explain_refusal

        explained = explain_refusal(error)
        return {"error": {"kind": error.fault.kind, "message": str(explained), "remedy": explained.remedy}}
    return {"error": {"kind": error_kind(error), "message": str(error), "remedy": error.remedy}}


def error_kind(error: ClewError) -> str:
    """`wrong_use`, or the class of the error in snake case: no_model, unknown_session, ..."""
    if exit_code(error) == WRONG_USE:
        return "wrong_use"
    name = type(error).__name__
    return "failed" if name == "ClewError" else _CAPITAL.sub("_", name.removesuffix("Error")).lower()


def _silence(console: Console) -> None:
    """Redirect stdout to the null device, so that the interpreter's last flush does not fail."""
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, console.out.fileno())
        os.close(quiet)
    except (OSError, ValueError):
        return


# -- completion, help and version --------------------------------------------------------------------------------------


@command(COMPLETION_HELP)
@click.argument("shell", metavar="SHELL", type=OneOf(SHELLS))
@json_option
def completion_command(console: Console, shell: str) -> int:
    made = get_completion_class(shell)
    assert made is not None, f"click has no completion for {shell}"
    script = made(cli, {}, "clew", COMPLETE).source()
    return console.show({"shell": shell, "script": script}, lambda: console.print(script.removesuffix("\n")))


def _complete_commands(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    _, found = _find(list(ctx.params.get("commands") or ()), ctx.find_root())
    return found.shell_complete(ctx.find_root(), incomplete) if isinstance(found, click.Group) else []


@command(HELP_HELP)
@click.argument("commands", metavar="COMMAND", nargs=-1, shell_complete=_complete_commands)
@json_option
@click.pass_context
def help_command(context: click.Context, console: Console, commands: tuple[str, ...]) -> int:
    found_context, found = _find(list(commands), context.find_root())
    text = found.get_help(found_context)
    return console.show({"command": found_context.command_path, "help": text}, lambda: click.echo(text))


def _find(names: list[str], context: click.Context) -> tuple[click.Context, click.Command]:
    """The command that these names select, with its context."""
    found = context.command
    for name in names:
        if not isinstance(found, click.Group):
            break
        _, below, _ = found.resolve_command(context, [name])
        if below is None:
            break
        context, found = click.Context(below, info_name=name, parent=context), below
    return context, found


@command()
@json_option
def version_command(console: Console) -> int:
    if not console.as_json:
        console.print(f"clew {__version__}")
        return 0
    from clew.install import EXTRAS, has_extra, source_folder

    folder = source_folder()
    console.print_json(
        {
            "version": __version__,
            "python": platform.python_version(),
            "executable": sys.executable,
            "system": f"{platform.system()} {platform.machine()}",
            "installed_from": None if folder is None else str(folder),
            "extras": {name: has_extra(name) for name in EXTRAS},
        }
    )
    return 0
