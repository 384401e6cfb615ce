"""What the slash commands of a chat are given: the app, the session, and a screen to put pages on.

A page is drawn when the screen asks for it, for the width that it has then, by the functions of plain commands.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias

from clew.cli.console import MAX_WIDTH, Console
from clew.cli.text import wrap_all

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderableType, RenderResult

    from clew.agent import EditMode
    from clew.app import AgentApp
    from clew.messages import Message
    from clew.turn import Conversation, PreparedCompaction

MIN_PAGE_WIDTH = 20
MAX_COMPLETED_SESSIONS = 200
PrintPage: TypeAlias = Callable[[Console], None]
"""Prints a page; everything that it shows is known before."""


class ScreenPage:
    """A page as something that rich can draw."""

    def __init__(self, print_page: PrintPage) -> None:
        self._print_page = print_page

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text  # late: the table of commands needs no screen

        width = max(MIN_PAGE_WIDTH, min(MAX_WIDTH, options.max_width))
        colors = console.color_system is not None and not console.no_color
        out = StringIO()
        self._print_page(Console(out, out, {}, width, colors, not options.ascii_only, shows_progress=False))
        for line in out.getvalue().removesuffix("\n").split("\n"):
            yield Text.from_ansi(line)


async def _no_agent(message: Message | None) -> None:
    del message


@dataclass(frozen=True, slots=True)
class ShownOutput:
    """The whole output of a tool call or of a command of the person, of which the screen showed a part."""

    headline: str
    text: str


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
    ask: Callable[[Message | None], Awaitable[None]] = _no_agent
    """Asks the agent and shows its answer; with None about the history as it is."""
    put_text: Callable[[str], None] = lambda _: None
    """Puts text before what is being typed."""
    started: float = field(default_factory=time.monotonic)
    is_leaving: bool = False
    questions: list[str] = field(default_factory=list)
    """Questions that a command wants asked next, as if typed."""
    outputs: list[ShownOutput] = field(default_factory=list)
    """What tools and commands printed in this chat, oldest first: `/output 1` opens the first."""
    attached: list[str] = field(default_factory=list)
    """Outputs of `!!command` that the next question takes along."""
    edits_after_plan: EditMode = "allow"
    """The mode of edits in which an approved plan is carried out: the one before it."""
    previewed: PreparedCompaction | None = None
    """A compaction that was previewed and neither applied nor made again: `/compress --apply`."""
    listed: tuple[str, ...] = ()
    """The sessions of the last list on the screen: `/resume 2` means its second."""
    names: tuple[str, ...] = ()
    """Titles and ids of sessions, for completion; `learn_names` reads them from the store."""
    models: tuple[str, ...] = ()
    """Models that were talked to before, for completion."""

    def show_page(self, print_page: PrintPage) -> None:
        """Put a page on the screen."""
        self.print(ScreenPage(print_page))

    def show_lines(self, lines: Callable[[Console], Iterable[str]]) -> None:
        """Put lines on the screen, behind the margin of pages."""
        self.show_page(lambda console: console.print_lines(lines(console)))

    def show_text(self, *sentences: str) -> None:
        """Put sentences on the screen, each on lines of its own."""
        self.show_lines(lambda console: wrap_all(sentences, console.page_width))

    async def conversation(self) -> Conversation:
        """The conversation at its newest continuation; its size includes the tools, also before its first turn."""
        found = await self.app.runtime.conversation(self.session)
        if not found.size.tools:
            await self.count_tools(found)
        return found

    async def count_tools(self, conversation: Conversation) -> None:
        """Let the size include the tools that the very next request would have."""
        conversation.tools_with(await self.app.agent.toolbox.current_schemas(self.app.runtime, self.session))

    async def learn_names(self) -> None:
        """Read from the store what completion offers: titles and ids of sessions, and models talked to."""
        sessions = await self.app.store.list_sessions(limit=MAX_COMPLETED_SESSIONS, only_tips=True)
        self.names = tuple(dict.fromkeys(session.title or session.id for session in sessions))
        self.models = tuple(dict.fromkeys(session.model for session in sessions if session.model))
