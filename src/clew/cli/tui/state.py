"""The state of a chat for its slash commands: app, session and screen.

Pages are drawn by the functions of plain commands, whenever the screen needs them, for its current width.
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
"""Prints a page from values that were read before."""


class ScreenPage:
    """A page as a renderable of rich."""

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
    """The whole output of a tool call or of a command of the user."""

    headline: str
    text: str


@dataclass(slots=True)
class ChatState:
    """The app, session and screen of a chat, and the state of its commands."""

    app: AgentApp
    session: str
    """The session of the chat, or an earlier one of its conversation."""
    print: Callable[[RenderableType], None]
    """Prints above the prompt."""
    confirm: Callable[[str], Awaitable[bool]]
    """Asks a yes-or-no question; anything but yes is no."""
    wait_for: Callable[[str], None] = lambda _: None
    """Shows a waiting message with a clock until the command ends."""
    ask: Callable[[Message | None], Awaitable[None]] = _no_agent
    """Asks the agent and shows its answer; None continues the history without a new question."""
    put_text: Callable[[str], None] = lambda _: None
    """Inserts text before the typed text."""
    started: float = field(default_factory=time.monotonic)
    is_leaving: bool = False
    questions: list[str] = field(default_factory=list)
    """Questions to ask next, as if typed."""
    outputs: list[ShownOutput] = field(default_factory=list)
    """Outputs of tools and commands in this chat, oldest first, for `/output 1`."""
    attached: list[str] = field(default_factory=list)
    """Outputs of `!!command` to attach to the next question."""
    edits_after_plan: EditMode = "allow"
    """The mode of edits before plan mode, for an approved plan."""
    previewed: PreparedCompaction | None = None
    """A previewed compaction, for `/compress --apply`."""
    listed: tuple[str, ...] = ()
    """The sessions of the last list, for `/resume 2`."""
    names: tuple[str, ...] = ()
    """Titles and ids of sessions, for completion; see `learn_names`."""
    models: tuple[str, ...] = ()
    """Models of stored sessions, for completion."""

    def show_page(self, print_page: PrintPage) -> None:
        """Show a page."""
        self.print(ScreenPage(print_page))

    def show_lines(self, lines: Callable[[Console], Iterable[str]]) -> None:
        """Show lines after the margin of pages."""
        self.show_page(lambda console: console.print_lines(lines(console)))

    def show_text(self, *sentences: str) -> None:
        """Show sentences, each starting on a new line."""
        self.show_lines(lambda console: wrap_all(sentences, console.page_width))

    async def conversation(self) -> Conversation:
        """The newest continuation of the conversation; its size includes the tools, also before the first turn."""
        found = await self.app.runtime.conversation(self.session)
        if not found.size.tools:
            await self.count_tools(found)
        return found

    async def count_tools(self, conversation: Conversation) -> None:
        """Include the tools of the next request in the size."""
        conversation.tools_with(await self.app.agent.toolbox.current_schemas(self.app.runtime, self.session))

    async def learn_names(self) -> None:
        """Read titles, ids and models of sessions for completion."""
        sessions = await self.app.store.list_sessions(limit=MAX_COMPLETED_SESSIONS, only_tips=True)
        self.names = tuple(dict.fromkeys(session.title or session.id for session in sessions))
        self.models = tuple(dict.fromkeys(session.model for session in sessions if session.model))
