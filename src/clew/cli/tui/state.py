"""The state of a running chat, which slash commands are given, and what a slash command is."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from clew.app import AgentApp
    from clew.turn import PreparedCompaction


@dataclass(slots=True)
class ChatState:
    """The app, the session and the screen of a chat, and what its commands remember."""

    app: AgentApp
    session: str
    """The session talked in; continuations of it lead to the same conversation."""
    print: Callable[[RenderableType], None]
    """Puts something on the screen, above the line that is being typed."""
    confirm: Callable[[str], Awaitable[bool]]
    """Asks yes or no; anything but yes is no."""
    wait_for: Callable[[str], None] = lambda _: None
    """Shows what the chat waits for, with seconds, until the command ends."""
    started: float = field(default_factory=time.monotonic)
    is_leaving: bool = False
    questions: list[str] = field(default_factory=list)
    """Questions that a command wants asked next, as if typed."""
    previewed: PreparedCompaction | None = None
    """A compaction that was previewed and neither applied nor made again: `/compress --apply`."""
    listed: tuple[str, ...] = ()
    """The sessions of the last list on the screen: `/resume 2` means its second."""
    names: tuple[str, ...] = ()
    """Titles and ids of sessions, for completion; `commands.learn_names` reads them from the store."""
    models: tuple[str, ...] = ()
    """Models that were talked to before, for completion."""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One slash command, as help, completion and the screen know it."""

    name: str
    usage: str
    """The arguments: `[focus] | --preview | --undo`."""
    about: str
    """One line for /help."""
    run: Callable[[ChatState, str], Awaitable[None]]
    """Gets the arguments as they were typed, stripped. Raises ClewError for what the person can correct."""
    complete: Callable[[ChatState, str], Iterable[str]] | None = None
    """What could be typed behind the name; must not wait."""
