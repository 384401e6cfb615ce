"""Slash commands: what a person can do in a chat beside talking. One file per noun, imported when it is used.

Commands decode words, call what the library offers, and show what came of it. Know no key and no cursor.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module

from clew.cli.tui.state import ChatState, SlashCommand

__all__ = ["COMMANDS", "find_command", "learn_names", "unknown_command"]

# Names that people try, and what they are called here.
_ALSO = {"exit": "quit", "q": "quit", "compact": "compress", "clear": "new", "pins": "pin"}


def _command(name: str, usage: str, about: str, where: str, completion: str = "") -> SlashCommand:
    """A command whose code is imported when it runs: `where` is a module of this folder and a function in it."""
    module, _, function = where.partition(".")

    async def run(state: ChatState, words: str) -> None:
        await getattr(import_module(f"{__name__}.{module}"), function)(state, words.strip())

    def complete(state: ChatState, words: str) -> Iterable[str]:
        found: Iterable[str] = getattr(import_module(f"{__name__}.completion"), completion)(state, words)
        return found

    return SlashCommand(name, usage, about, run, complete if completion else None)


_COMPRESS = "[focus] | --preview [--full] [focus] | --apply | --undo"
_MEMORY = "[add text | user text | remove part | edit]"
COMMANDS: tuple[SlashCommand, ...] = (
    _command("compress", _COMPRESS, "fold older messages into a handoff now", "compress.run", "compress"),
    _command("context", "", "what fills the window, as a bar with numbers", "window.run"),
    _command("usage", "[all]", "tokens and cost of this conversation, or of all", "spending.usage", "usage"),
    _command("insights", "[days]", "where tokens and money went in the last days", "spending.insights"),
    _command("new", "[title]", "begin a fresh conversation; this one is kept", "conversations.new"),
    _command("resume", "[number | id | title]", "go on with an earlier one", "conversations.resume", "sessions"),
    _command("sessions", "[words]", "the conversations there are", "conversations.sessions"),
    _command("search", "[--here] words", "find words in all that was ever said", "searching.run", "search"),
    _command("tree", "", "the chain of this conversation: compactions, branches", "tree.run"),
    _command("model", "[name]", "the model and its window; or talk to another", "model.run", "model"),
    _command("engine", "[name]", "the context engines there are; or choose one", "engine.run", "engine"),
    _command("memory", _MEMORY, "what is remembered over sessions", "memory.run", "memory"),
    _command("skills", "[name]", "the skills there are; or have one opened", "skills.run", "skills"),
    _command("pin", "[last | mN | text | remove N]", "keep a text word for word, always", "pins.run", "pin"),
    _command("help", "[command]", "every command, or all about one", "guidance.run", "commands"),
    _command("quit", "", "leave; the conversation is kept", "guidance.leave"),
)


def find_command(name: str) -> SlashCommand | None:
    """The command of a name, with or without its slash, or of a beginning that only it has."""
    wanted = name.removeprefix("/").lower()
    wanted = _ALSO.get(wanted, wanted)
    begun = [command for command in COMMANDS if wanted and command.name.startswith(wanted)]
    exact = next((command for command in begun if command.name == wanted), None)
    return exact or (begun[0] if len(begun) == 1 else None)


def unknown_command(name: str) -> str:
    """What to tell a person whose command is none, or could be several."""
    wanted = name.removeprefix("/").lower()
    begun = [command.name for command in COMMANDS if wanted and command.name.startswith(wanted)]
    near = begun or get_close_matches(wanted, [command.name for command in COMMANDS], 3, 0.5)
    if begun:
        return f"/{wanted} could be {_either(near)}"
    if near:
        return f"there is no command /{wanted}; did you mean {_either(near)}?"
    return f"there is no command /{wanted}; /help lists those there are"


async def learn_names(state: ChatState) -> None:
    """Read from the store what completion offers: titles and ids of sessions, and models talked to."""
    from clew.cli.tui.commands.completion import read_names

    await read_names(state)


def _either(names: Iterable[str]) -> str:
    *others, last = [f"/{name}" for name in names]
    return f"{', '.join(others)} or {last}" if others else last
