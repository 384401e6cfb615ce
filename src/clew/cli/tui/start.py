"""A chat in the terminal, from its greeting to its summary: screen, keyboard and prompts put together around an app."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from clew import __version__
from clew.cli.pages import plural, short_count
from clew.cli.sessions import message_preview
from clew.cli.text import clip, sanitize
from clew.cli.tui.chat import Chat, run_chat, summary_lines
from clew.cli.tui.commands import COMMANDS, custom_commands
from clew.cli.tui.markdown import TerminalLook
from clew.cli.tui.observer import ScreenObserver
from clew.cli.tui.prompt import ApprovalPrompts, LineCompleter, LineReader, PromptCallbacks, open_history
from clew.cli.tui.screen import Screen, Size
from clew.cli.tui.state import ChatState, ScreenPage
from clew.cli.tui.status import UsageCounter
from clew.events import Event

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from clew.app import AgentApp
    from clew.cli.console import Console
    from clew.turn import Conversation

PREVIEW_COLUMNS = 200
SHORT_WINDOW_SOURCES = {
    "config": "as configured",
    "stated": "as the provider stated",
    "endpoint": "as its endpoint says",
    "table": "by Clew's table",
    "default": "assumed",
}
APPROVALS = {
    "ask": "asks before what is dangerous",
    "allow": "everything runs without asking",
    "deny": "what is dangerous is refused",
}


@dataclass(frozen=True, slots=True)
class ChatTerminal:
    """The screen and all that draws on it; made before the app, which reports its events to it."""

    screen: Screen
    observer: ScreenObserver
    approvals: ApprovalPrompts
    usage_counter: UsageCounter

    @classmethod
    def of(cls, console: Console) -> ChatTerminal:
        """For the terminal that a console writes to."""

        def write(text: str) -> None:
            encoding = console.out.encoding or "utf-8"
            console.out.write(text.encode(encoding, "replace").decode(encoding))
            console.out.flush()

        def size() -> Size:
            try:
                found = os.get_terminal_size(console.out.fileno())
            except (OSError, ValueError):
                return console.width, 24
            return found.columns or console.width, found.lines or 24

        return cls.on(Screen(TerminalLook(console.colors, console.unicode, console.environ), size, write))

    @classmethod
    def on(cls, screen: Screen) -> ChatTerminal:
        return cls(screen, ScreenObserver(screen), ApprovalPrompts(screen), UsageCounter())

    def on_event(self, event: Event) -> None:
        """For `clew.events`."""
        self.usage_counter.on_event(event)
        self.observer.on_event(event)


@dataclass(frozen=True, slots=True)
class Keyboard:
    """Where keys come from and the prompt is drawn; None is the terminal."""

    keys: Input | None = None
    output: Output | None = None


async def run_terminal_chat(
    terminal: ChatTerminal,
    app: AgentApp,
    session: str,
    mode: str,
    first: Sequence[str] = (),
    *,
    is_resumed: bool = False,
    keyboard: Keyboard | None = None,
) -> None:
    """Chat until the person leaves, and print a summary; `first` are questions to begin with."""
    screen, approvals = terminal.screen, terminal.approvals
    state = ChatState(
        app=app, session=session, print=screen.print, confirm=approvals.confirm, wait_for=terminal.observer.wait_for
    )
    chat = Chat(state, screen, terminal.observer, approvals, terminal.usage_counter)
    await chat.refresh()
    conversation = await app.runtime.conversation(session)
    # Before the notices that loading the conversation printed.
    screen.print_first(greeting(app, conversation, mode, resumed=(chat.title or "") if is_resumed else None))
    await screen.flush()
    await run_chat(chat, _line_reader(chat, approvals, keyboard or Keyboard()), first)
    if not is_resumed:
        await _delete_empty_session(chat)
    await _print_summary(chat)


def _line_reader(chat: Chat, approvals: ApprovalPrompts, keyboard: Keyboard) -> LineReader:
    screen, state = chat.screen, chat.state
    callbacks = PromptCallbacks(
        above=screen.live_rows,
        label=lambda: approvals.label,
        below=chat.status,
        interrupt=chat.interrupt,
        open_output=chat.open_newest_output,
        stop=chat.stop_turn,
        next_mode=chat.take_next_mode,
        unicode=screen.look.unicode,
    )
    completer = LineCompleter(COMMANDS, lambda: state, lambda: custom_commands(state.app))
    reader = LineReader(callbacks, open_history(state.app.home), completer, keyboard.keys, keyboard.output)

    def on_open() -> None:
        reader.stash_text()
        screen.refresh()

    def on_close() -> None:
        reader.restore_text()
        screen.refresh()

    approvals.on_open, approvals.on_close = on_open, on_close
    return reader


async def _delete_empty_session(chat: Chat) -> None:
    """Remove a session in which nothing was asked."""
    app, session = chat.state.app, chat.state.session
    conversation = await app.runtime.conversation(session)
    is_unused = not conversation.messages and conversation.root == conversation.session
    if is_unused and not chat.questions_asked:
        await app.runtime.forget(session)
        await app.store.delete(session)
        chat.is_kept = False


async def _print_summary(chat: Chat) -> None:
    chat.screen.blank_line()
    lines = summary_lines(await chat.summary()) if chat.is_kept else ["nothing was asked, nothing is kept"]
    for line in lines:
        chat.screen.print(Text(sanitize(line), "dim"))
    await chat.screen.flush()


def greeting(app: AgentApp, conversation: Conversation, mode: str, *, resumed: str | None) -> RenderableType:
    """The model, the project, the engine and the settings; `resumed` is the title of an earlier conversation."""
    through = app.target.served_by
    rows = [
        (
            "model",
            f"{conversation.target.model}{f' through {through}' if through else ''}, {_window_text(app, conversation)}",
        ),
        ("project", _home_relative(app.project)),
        (
            "engine",
            f"{conversation.engine.name}, compacts from {conversation.engine.get_status().threshold_tokens:,} tokens",
        ),
        ("caching", app.caching_line().removeprefix("prompt caching: ")),
        ("approvals", APPROVALS.get(mode, mode)),
    ]
    if not app.settings.compression.enabled:
        rows[2] = ("engine", f"{conversation.engine.name}, automatic compaction is off")
    if resumed is not None:
        title = f" ({resumed})" if resumed else ""
        rows.append(
            ("resumed", f"{conversation.session}{title}, {plural(len(conversation.messages), 'message')} in view")
        )
        rows += _last_messages(conversation)
    head = Text.assemble(("clew ", "bold"), (__version__, "bold"), ("  /help lists commands, Ctrl-D leaves", "dim"))
    facts = ScreenPage(lambda console: console.print_lines(console.fact_lines(rows, names=9, gap=1)))
    notices = [Padding(Text(sanitize(notice), "yellow"), (0, 0, 0, 2)) for notice in app.notices]
    return Group(head, facts, *notices)


def _last_messages(conversation: Conversation) -> list[tuple[str, str]]:
    """The newest question and answer, cut to a few lines."""
    spoken = [message for message in conversation.messages if message["role"] in ("user", "assistant")]
    return [("you" if it["role"] == "user" else "it", clip(message_preview(it), PREVIEW_COLUMNS)) for it in spoken[-2:]]


def _window_text(app: AgentApp, conversation: Conversation) -> str:
    """`window 200K (by Clew's table)`."""
    is_local = conversation.window.source == "config" and app.settings.model.context_length is None
    # Nobody configured it: it is what a model on this machine is started with.
    source = "as it is started here" if is_local else SHORT_WINDOW_SOURCES[conversation.window.source]
    return f"window {short_count(conversation.window.tokens)} ({source})"


def _home_relative(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}" if path != Path.home() else "~"
    except (ValueError, RuntimeError):
        return str(path)
