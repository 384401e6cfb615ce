"""What could be typed behind a command. Answers at once, from what is known without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from clew.cli.tui.commands import COMMANDS

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState

MOST_SESSIONS = 200


async def read_names(state: ChatState) -> None:
    """Titles and ids of the newest conversations, and the models of all of these."""
    sessions = await state.desk.store.list_sessions(limit=MOST_SESSIONS, only_tips=True)
    state.names = tuple(dict.fromkeys(session.title or session.id for session in sessions))
    state.models = tuple(dict.fromkeys(session.model for session in sessions if session.model))


def compress(state: ChatState, words: str) -> Iterator[str]:
    flags = ["--preview", "--undo"]
    if state.draft is not None:
        flags.append("--apply")
    if words.startswith("--preview "):
        flags = ["--preview --full"]
    return _begun(flags, words)


def usage(state: ChatState, words: str) -> Iterator[str]:
    del state
    return _begun(["all"], words)


def sessions(state: ChatState, words: str) -> Iterator[str]:
    return _begun(state.names, words)


def search(state: ChatState, words: str) -> Iterator[str]:
    del state
    return _begun(["--here"], words) if words.startswith("-") else iter(())


def model(state: ChatState, words: str) -> Iterator[str]:
    own = state.desk.settings.model.name
    return _begun(dict.fromkeys([*([own] if own else []), *state.models]), words)


def engine(state: ChatState, words: str) -> Iterator[str]:
    plugins = state.desk.engines.catalog.plugins()
    return _begun(dict.fromkeys(plugin.name for plugin in plugins if not plugin.problem), words)


def memory(state: ChatState, words: str) -> Iterator[str]:
    del state
    return _begun(["add ", "user ", "remove ", "edit"], words)


def skills(state: ChatState, words: str) -> Iterator[str]:
    return _begun([skill.name for skill in state.desk.skills], words)


def pin(state: ChatState, words: str) -> Iterator[str]:
    del state
    return _begun(["last", "remove "], words)


def commands(state: ChatState, words: str) -> Iterator[str]:
    del state
    return _begun([command.name for command in COMMANDS], words.removeprefix("/"))


def _begun(choices: Iterable[str], words: str) -> Iterator[str]:
    """The choices that begin with what was typed."""
    typed = words.lower()
    return (choice for choice in choices if choice.lower().startswith(typed) and choice != words)
