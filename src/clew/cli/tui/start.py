"""A chat in the terminal, from its greeting to its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.input import Input
from prompt_toolkit.output import Output
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from clew import __version__
from clew.app import AgentApp
from clew.cli.pages import plural, short_count
from clew.cli.sessions import spoken_facts
from clew.cli.text import sanitize
from clew.cli.tui.chat import Chat, ChatTerminal, run_chat, summary_lines
from clew.cli.tui.commands import COMMANDS, custom_commands
from clew.cli.tui.prompt import LineCompleter, LineReader, open_history
from clew.cli.tui.state import ScreenPage
from clew.turn import Conversation

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
class Keyboard:
    """The input and output of the prompt; None is the terminal."""

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
    """Chat until the user leaves, and print a summary; `first` are the first questions."""
    screen = terminal.screen
    chat = Chat(app, session, terminal)
    await chat.refresh()
    conversation = await app.runtime.conversation(session)
    # Before notices about loading the conversation.
    screen.print_first(greeting(app, conversation, mode, resumed=(chat.title or "") if is_resumed else None))
    await screen.flush()
    await run_chat(chat, _line_reader(chat, keyboard or Keyboard()), first)
    if not is_resumed:
        await _delete_empty_session(chat)
    await _print_summary(chat)


def _line_reader(chat: Chat, keyboard: Keyboard) -> LineReader:
    state = chat.state
    completer = LineCompleter(COMMANDS, lambda: state, lambda: custom_commands(state.app))
    return LineReader(chat, open_history(state.app.home), completer, keyboard.keys, keyboard.output)


async def _delete_empty_session(chat: Chat) -> None:
    """Delete a session without questions."""
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
        chat.screen.say(line, "dim")
    await chat.screen.flush()


def greeting(app: AgentApp, conversation: Conversation, mode: str, *, resumed: str | None) -> RenderableType:
    """The model, project, engine and settings; `resumed` is the title of an earlier conversation."""
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
        rows += spoken_facts(conversation)
    head = Text.assemble(("clew ", "bold"), (__version__, "bold"), ("  /help lists commands, Ctrl-D leaves", "dim"))
    facts = ScreenPage(lambda console: console.print_lines(console.fact_lines(rows, names=9, gap=1)))
    notices = [Padding(Text(sanitize(notice), "yellow"), (0, 0, 0, 2)) for notice in app.notices]
    return Group(head, facts, *notices)


def _window_text(app: AgentApp, conversation: Conversation) -> str:
    """`window 200K (by Clew's table)`."""
    is_local = conversation.window.source == "config" and app.settings.model.context_length is None
    # Not configured: it is the window that a local model is started with.
    source = "as it is started here" if is_local else SHORT_WINDOW_SOURCES[conversation.window.source]
    return f"window {short_count(conversation.window.tokens)} ({source})"


def _home_relative(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}" if path != Path.home() else "~"
    except (ValueError, RuntimeError):
        return str(path)
