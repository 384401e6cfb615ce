"""Slash commands of a chat: the table of them, finding one, and completing its arguments.

The code of a command is imported when it runs, so that a chat starts quickly.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from clew.cli.tui.state import ChatState
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.app import AgentApp

# Names in other programs.
ALIASES = {
    "exit": "quit",
    "q": "quit",
    "compact": "compress",
    "clear": "new",
    "reset": "new",
    "pins": "pin",
    "cost": "usage",
    "tokens": "usage",
    "stats": "insights",
    "rewind": "undo",
    "status": "context",
    "models": "model",
    "continue": "resume",
    "history": "sessions",
    "permissions": "mode",
    "commands": "help",
}
EDIT_MODES = ("allow", "ask", "plan")
STATE_KINDS = ("tasks", "branch", "commits", "tests", "services", "settings", "files", "rules", "decisions")


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A slash command."""

    name: str
    usage: str
    """The arguments: `[focus] | --preview | --undo`."""
    about: str
    """One line for /help."""
    run: Callable[[ChatState, str], Awaitable[None]]
    """Gets the arguments as typed, stripped. Raises ClewError for errors that the user can correct."""
    complete: Callable[[ChatState, str], Iterable[str]] | None = None
    """Completions of the arguments, without I/O."""


Choices: TypeAlias = Callable[[ChatState, str], Iterable[str]]
"""Completions for the typed arguments, without I/O."""


# -- completion --------------------------------------------------------------------------------------------------------


def _compress_flags(state: ChatState, words: str) -> list[str]:
    if words.startswith("--preview "):
        return ["--preview --full"]
    return ["--preview", "--undo", *(["--apply"] if state.previewed is not None else [])]


def _models(state: ChatState, words: str) -> Iterable[str]:
    del words
    configured = state.app.settings.model.name
    return dict.fromkeys([*([configured] if configured else []), *state.models])


def _engines(state: ChatState, words: str) -> Iterable[str]:
    del words
    return dict.fromkeys(plugin.name for plugin in state.app.engines.catalog.plugins() if not plugin.problem)


def _starting_with(choices: Iterable[str], words: str) -> Iterable[str]:
    typed = words.lower()
    return (choice for choice in choices if choice.lower().startswith(typed) and choice != words)


# -- the table ---------------------------------------------------------------------------------------------------------


def _command(name: str, usage: str, about: str, where: str, choices: Choices | None = None) -> SlashCommand:
    """A command whose function `run_<name>` in module `where` of `clew.cli` is imported when it runs."""

    async def run(state: ChatState, words: str) -> None:
        await getattr(import_module(f"clew.cli.{where}"), f"run_{name}")(state, words.strip())

    def complete(state: ChatState, words: str) -> Iterable[str]:
        return _starting_with(choices(state, words), words) if choices is not None else ()

    return SlashCommand(name, usage, about, run, complete if choices is not None else None)


COMMANDS: tuple[SlashCommand, ...] = (
    _command(
        "compress",
        "[focus] | --preview [--full] [focus] | --apply | --undo",
        "fold older messages into a handoff now",
        "compress",
        _compress_flags,
    ),
    _command("retry", "", "ask the last question again", "tui.commands.last_question"),
    _command(
        "undo",
        "[--keep-files]",
        "undo the last question, its answer and its file edits",
        "tui.commands.last_question",
        lambda *_: ["--keep-files"],
    ),
    _command("edit", "[text]", "undo the last question and change it", "tui.commands.last_question"),
    _command(
        "output",
        "[number [line]]",
        "the whole output of a tool or command",
        "tui.commands.output",
        lambda state, _: [str(number) for number in range(len(state.outputs), 0, -1)],
    ),
    _command(
        "mode",
        "[allow | ask | plan]",
        "edit files freely, ask before each, or only plan",
        "tui.commands.mode",
        lambda *_: EDIT_MODES,
    ),
    _command("plan", "[question]", "only read, until you approve the plan", "tui.commands.mode"),
    _command("context", "", "what fills the window, as a bar with numbers", "context"),
    _command("usage", "[all]", "tokens and cost of this conversation, or of all", "usage", lambda *_: ["all"]),
    _command("insights", "[days]", "tokens and cost of the last days", "usage"),
    _command("new", "[title]", "start a new conversation; this one is kept", "sessions"),
    _command(
        "resume", "[number | id | title]", "continue an earlier conversation", "sessions", lambda state, _: state.names
    ),
    _command("sessions", "[words]", "list conversations", "sessions"),
    _command(
        "search",
        "[--here] words",
        "search all stored messages",
        "search",
        lambda _, words: ["--here"] if words.startswith("-") else [],
    ),
    _command("tree", "", "this conversation as a tree: compactions, branches", "sessions"),
    _command("map", "[part]", "the map of folded messages (engine lcm)", "maps"),
    _command(
        "state",
        "[kind | words | all] [m120]",
        "files, tests, settings, rules, tasks: values now, or at a message",
        "state",
        lambda *_: ["all", *STATE_KINDS],
    ),
    _command("model", "[name]", "the model and its window; or choose another", "models", _models),
    _command("engine", "[name]", "list the context engines, or choose one", "plugins", _engines),
    _command(
        "memory",
        "[add text | user text | remove part | edit]",
        "what is remembered between sessions",
        "tui.commands.memory",
        lambda *_: ["add ", "user ", "remove ", "edit"],
    ),
    _command(
        "skills",
        "[name]",
        "list the skills, or open one",
        "tui.commands.memory",
        lambda state, _: [skill.name for skill in state.app.skills],
    ),
    _command(
        "pin",
        "[last | mN | text | remove N]",
        "keep a text word for word in every request",
        "tui.commands.memory",
        lambda *_: ["last", "remove "],
    ),
    _command(
        "help",
        "[command]",
        "every command, or all about one",
        "tui.commands.help",
        lambda *_: [command.name for command in COMMANDS],
    ),
    _command("quit", "", "leave; the conversation is kept", "tui.commands.help"),
)


def find_command(name: str) -> SlashCommand | None:
    """The command with this name, alias, or unique beginning of a name."""
    wanted = name.removeprefix("/").lower()
    wanted = ALIASES.get(wanted, wanted)
    matching = [command for command in COMMANDS if wanted and command.name.startswith(wanted)]
    exact = next((command for command in matching if command.name == wanted), None)
    return exact or (matching[0] if len(matching) == 1 else None)


def unknown_command(name: str) -> str:
    """The message for an unknown or ambiguous command."""
    wanted = name.removeprefix("/").lower()
    matching = [command.name for command in COMMANDS if wanted and command.name.startswith(wanted)]
    if matching:
        return f"/{wanted} could be {_either(matching)}"
    near = get_close_matches(wanted, [command.name for command in COMMANDS], 3, 0.6)
    if near:
        return f"there is no command /{wanted}; did you mean {_either(near)}?"
    return f"there is no command /{wanted}; /help lists those there are"


def _either(names: Iterable[str]) -> str:
    *others, last = [f"/{name}" for name in names]
    return f"{', '.join(others)} or {last}" if others else last


# -- custom commands ---------------------------------------------------------------------------------------------------

ARGUMENTS_PLACE = "$ARGUMENTS"
MAX_CUSTOM_CHARS = 100_000
_FRONT_MATTER = re.compile(r"\A---\n.*?^---\s*$", re.DOTALL | re.MULTILINE)
"""Settings in files for other agents."""


def custom_commands(app: AgentApp) -> dict[str, Path]:
    """`NAME.md` in `commands` of the Clew home and `.clew/commands` of the project, which takes precedence."""
    folders = (app.home / "commands", app.project / ".clew" / "commands")
    return {file.stem.lower(): file for folder in folders for file in sorted(folder.glob("*.md"))}


def custom_question(file: Path, words: str) -> str:
    """The question for `/NAME words`: the text of the file, with the words in place of `$ARGUMENTS` or appended.

    Front matter between lines of `---` is dropped. Raises InvalidArgument if the file cannot be read.
    """
    try:
        text = _FRONT_MATTER.sub("", file.read_text(encoding="utf-8")[:MAX_CUSTOM_CHARS]).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidArgument(f"{file} cannot be read: {problem}") from problem
    if ARGUMENTS_PLACE in text:
        return text.replace(ARGUMENTS_PLACE, words)
    return f"{text}\n\n{words}".strip()
