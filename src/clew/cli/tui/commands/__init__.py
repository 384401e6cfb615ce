"""Slash commands of a chat: the table of them, finding one, and completing its arguments.

The code of a command is imported when it runs, so that a chat starts quickly.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from clew.cli.options import STATE_KINDS
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


_CHOICES: Mapping[str, Choices] = {
    "compress": _compress_flags,
    "undo": lambda *_: ["--keep-files"],
    "output": lambda state, _: [str(number) for number in range(len(state.outputs), 0, -1)],
    "mode": lambda *_: EDIT_MODES,
    "usage": lambda *_: ["all"],
    "resume": lambda state, _: state.names,
    "search": lambda _, words: ["--here"] if words.startswith("-") else [],
    "state": lambda *_: ["all", *STATE_KINDS],
    "model": _models,
    "engine": _engines,
    "memory": lambda *_: ["add ", "user ", "remove ", "edit"],
    "skills": lambda state, _: [skill.name for skill in state.app.skills],
    "pin": lambda *_: ["last", "remove "],
    "help": lambda *_: [command.name for command in COMMANDS],
}


# -- the table ---------------------------------------------------------------------------------------------------------


def _commands(module: str, *rows: tuple[str, str, str]) -> Iterator[SlashCommand]:
    """Commands whose functions `run_<name>` in a module of `clew.cli` are imported when they run."""
    for name, usage, about in rows:
        yield SlashCommand(
            name, usage, about, partial(_run, module, name), _CHOICES.get(name) and partial(_complete, name)
        )


async def _run(module: str, name: str, state: ChatState, words: str) -> None:
    await getattr(import_module(f"clew.cli.{module}"), f"run_{name}")(state, words.strip())


def _complete(name: str, state: ChatState, words: str) -> Iterable[str]:
    typed = words.lower()
    return (it for it in _CHOICES[name](state, words) if it.lower().startswith(typed) and it != words)


COMMANDS: tuple[SlashCommand, ...] = (
    *_commands(
        "compress",
        (
            "compress",
            "[focus] | --preview [--full] [focus] | --apply | --undo",
            "fold older messages into a handoff now",
        ),
    ),
    *_commands(
        "tui.commands.last_question",
        ("retry", "", "ask the last question again"),
        ("undo", "[--keep-files]", "undo the last question, its answer and its file edits"),
        ("edit", "[text]", "undo the last question and change it"),
    ),
    *_commands("tui.commands.output", ("output", "[number [line]]", "the whole output of a tool or command")),
    *_commands(
        "tui.commands.mode",
        ("mode", "[allow | ask | plan]", "edit files freely, ask before each, or only plan"),
        ("plan", "[question]", "only read, until you approve the plan"),
    ),
    *_commands("context", ("context", "", "what fills the window, as a bar with numbers")),
    *_commands(
        "usage",
        ("usage", "[all]", "tokens and cost of this conversation, or of all"),
        ("insights", "[days]", "tokens and cost of the last days"),
    ),
    *_commands(
        "sessions",
        ("new", "[title]", "start a new conversation; this one is kept"),
        ("resume", "[number | id | title]", "continue an earlier conversation"),
        ("sessions", "[words]", "list conversations"),
    ),
    *_commands("search", ("search", "[--here] words", "search all stored messages")),
    *_commands("sessions", ("tree", "", "this conversation as a tree: compactions, branches")),
    *_commands("maps", ("map", "[part]", "the map of folded messages (engine lcm)")),
    *_commands(
        "state",
        ("state", "[kind | words | all] [m120]", "files, tests, settings, rules, tasks: values now, or at a message"),
    ),
    *_commands("models", ("model", "[name]", "the model and its window; or choose another")),
    *_commands("plugins", ("engine", "[name]", "list the context engines, or choose one")),
    *_commands(
        "tui.commands.memory",
        ("memory", "[add text | user text | remove part | edit]", "what is remembered between sessions"),
        ("skills", "[name]", "list the skills, or open one"),
        ("pin", "[last | mN | text | remove N]", "keep a text word for word in every request"),
    ),
    *_commands(
        "tui.commands.help",
        ("help", "[command]", "every command, or all about one"),
        ("quit", "", "leave; the conversation is kept"),
    ),
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
