"""What a chat knows of itself while it runs: the desk it works at, the session it is in, and where lines go.

Slash commands get this and nothing else. Knows no key and no cursor.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from clew.app import Desk
    from clew.turn import Draft


@dataclass(slots=True)
class ChatState:
    """One chat at one screen."""

    desk: Desk
    session: str
    """The session talked in; continuations of it lead to the same conversation."""
    say: Callable[[RenderableType], None]
    """Puts something on the screen, above the line that is being typed."""
    confirm: Callable[[str], Awaitable[bool]]
    """Asks yes or no; no where nobody is there."""
    wait_for: Callable[[str], None] = lambda _: None
    """Shows what is waited for, with seconds, until the command ends."""
    started: float = field(default_factory=time.monotonic)
    is_leaving: bool = False
    asks: list[str] = field(default_factory=list)
    """Questions that a command wants asked next, as if typed."""
    draft: Draft | None = None
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
    """What may stand behind the name: `[focus] | --preview | --undo`."""
    about: str
    """One line for /help."""
    run: Callable[[ChatState, str], Awaitable[None]]
    """Gets what stands behind the name, stripped. Problems a person can mend are raised as ClewError."""
    complete: Callable[[ChatState, str], Iterable[str]] | None = None
    """What could be typed behind the name; must answer at once."""
