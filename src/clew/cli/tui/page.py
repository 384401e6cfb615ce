"""What every slash command needs: the conversation that the chat is in, and putting a page on the screen.

A page is drawn when the screen asks for it, for the width that it has then, by the views that plain commands use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias

from clew.cli.console import MAX_WIDTH, Console
from clew.cli.text import wrap_all

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderResult

    from clew.cli.tui.commands import ChatState
    from clew.turn import Conversation

MIN_PAGE_WIDTH = 20
PrintPage: TypeAlias = Callable[[Console], None]
"""Prints a page; everything that it shows is known before."""


class ScreenPage:
    """A page as something that rich can draw."""

    def __init__(self, print_page: PrintPage) -> None:
        self._print_page = print_page

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text  # late: commands import this module, too

        width = max(MIN_PAGE_WIDTH, min(MAX_WIDTH, options.max_width))
        colors = console.color_system is not None and not console.no_color
        out = StringIO()
        self._print_page(Console(out, out, {}, width, colors, not options.ascii_only, shows_progress=False))
        for line in out.getvalue().removesuffix("\n").split("\n"):
            yield Text.from_ansi(line)


def show_page(state: ChatState, print_page: PrintPage) -> None:
    """Put a page on the screen."""
    state.print(ScreenPage(print_page))


def show_lines(state: ChatState, lines: Callable[[Console], Iterable[str]]) -> None:
    """Put lines on the screen, behind the margin of pages."""
    show_page(state, lambda console: console.print_lines(lines(console)))


def show_text(state: ChatState, *sentences: str) -> None:
    """Put sentences on the screen, each on lines of its own."""
    show_lines(state, lambda console: wrap_all(sentences, console.page_width))


async def current_conversation(state: ChatState) -> Conversation:
    """The conversation at its newest continuation; its size includes the tools, also before its first turn."""
    conversation = await state.app.runtime.conversation(state.session)
    if not conversation.size.tools:
        await count_tools(state, conversation)
    return conversation


async def count_tools(state: ChatState, conversation: Conversation) -> None:
    """Let the size include the tools that the very next request would have."""
    conversation.tools_with(await state.app.agent.toolbox.current_schemas(state.app.runtime, state.session))


def window_source(conversation: Conversation) -> str:
    """Who says how large the window is; a model in a file has the one that it was started with."""
    is_in_a_file = conversation.target.served_by == "local" and conversation.window.source == "config"
    return "file" if is_in_a_file else conversation.window.source
