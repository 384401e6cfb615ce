"""A chat put together: screen, keyboard, questions and what is watched, around a desk. From greeting to farewell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from clew.cli.tui.asking import Questions
from clew.cli.tui.commands import COMMANDS
from clew.cli.tui.drawing import Look
from clew.cli.tui.greeting import greeting
from clew.cli.tui.harmless import harmless
from clew.cli.tui.input import CommandCompleter, LineReader, Surroundings, history_in
from clew.cli.tui.run import Chat, talk
from clew.cli.tui.screen import Screen, Size
from clew.cli.tui.session_end import summary_lines
from clew.cli.tui.state import ChatState
from clew.cli.tui.tally import Tally
from clew.cli.tui.watching import ScreenWatcher
from clew.events import Event

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from clew.app import Desk
    from clew.cli.output import Console


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a person sees and what listens, before there is anything to talk about."""

    screen: Screen
    watcher: ScreenWatcher
    questions: Questions
    tally: Tally

    @classmethod
    def of(cls, console: Console) -> Terminal:
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

        return cls.on(Screen(Look(console.colors, console.unicode, console.environ), size, write))

    @classmethod
    def on(cls, screen: Screen) -> Terminal:
        return cls(screen, ScreenWatcher(screen), Questions(screen), Tally())

    def heard(self, event: Event) -> None:
        """For `clew.events`."""
        self.tally.heard(event)
        self.watcher.heard(event)


@dataclass(frozen=True, slots=True)
class Keyboard:
    """Where keys come from and what is drawn while they do; None is the terminal."""

    keys: Input | None = None
    output: Output | None = None


async def converse(
    terminal: Terminal,
    desk: Desk,
    session: str,
    mode: str,
    first: Sequence[str] = (),
    *,
    is_resumed: bool = False,
    keyboard: Keyboard | None = None,
) -> None:
    """Talk until the person leaves, and say what it came to."""
    screen, questions = terminal.screen, terminal.questions
    state = ChatState(
        desk=desk, session=session, say=screen.say, confirm=questions.confirm, wait_for=terminal.watcher.wait_for
    )
    chat = Chat(state, screen, terminal.watcher, questions, terminal.tally)
    await chat.refresh()
    live = await desk.runtime.conversation(session)
    # What was told while the conversation was loaded is read after who tells it.
    screen.say_first(greeting(desk, live, mode, resumed=(chat.title or "") if is_resumed else None))
    await screen.flush()
    await talk(chat, _reader(chat, questions, keyboard or Keyboard()), first)
    if not is_resumed:
        await _forget_empty(chat)
    await _say_farewell(chat)


def _reader(chat: Chat, questions: Questions, keyboard: Keyboard) -> LineReader:
    screen, state = chat.screen, chat.state
    around = Surroundings(
        above=screen.live_rows,
        label=lambda: questions.label,
        below=chat.status,
        interrupt=chat.interrupt,
        unicode=screen.look.unicode,
    )
    completer = CommandCompleter(COMMANDS, lambda: state)
    reader = LineReader(around, history_in(state.desk.home), completer, keyboard.keys, keyboard.output)

    def question_opens() -> None:
        reader.lay_aside()
        screen.changed()

    def question_closes() -> None:
        reader.take_up()
        screen.changed()

    questions.on_open, questions.on_close = question_opens, question_closes
    return reader


async def _forget_empty(chat: Chat) -> None:
    """A session that was begun and never talked in is nothing to keep."""
    desk, session = chat.state.desk, chat.state.session
    live = await desk.runtime.conversation(session)
    if not live.messages and live.root == live.session and not chat.questions_asked:
        await desk.runtime.forget(session)
        await desk.store.delete(session)
        chat.is_kept = False


async def _say_farewell(chat: Chat) -> None:
    chat.screen.gap()
    lines = summary_lines(await chat.ended()) if chat.is_kept else ["nothing was asked, nothing is kept"]
    for line in lines:
        chat.screen.say(Text(harmless(line), "dim"))
    await chat.screen.flush()
