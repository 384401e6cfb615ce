"""The line that is typed: keys, history, completion of slash commands, and the status line below it.

The one file that knows prompt_toolkit's prompt. Gives whole lines to whoever asked for them; knows no agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from clew.cli.tui.state import ChatState, SlashCommand
from clew.errors import StoreError

HISTORY_FILE = "chat_history"
REDRAW_SECONDS = 0.03
STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse",
        "status.model": "bold",
        "status.green": "ansigreen",
        "status.yellow": "ansiyellow",
        "status.red": "ansired bold",
        "status.dim": "ansibrightblack",
        "status.gap": "ansibrightblack",
        "live.dim": "ansibrightblack",
        "live.tool": "ansicyan",
        "live.work": "ansimagenta",
        "prompt": "bold ansicyan",
        "question": "bold ansiyellow",
    }
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is drawn around the line, and who is told of keys that are no text. Each is asked when it is drawn."""

    above: Callable[[], Sequence[tuple[str, str]]]
    """Rows that go on."""
    label: Callable[[], str]
    """What is asked; empty for an ordinary line."""
    below: Callable[[], Sequence[tuple[str, str]]]
    interrupt: Callable[[bool], bool]
    """Ctrl-C, and whether something is typed; False where that is to be forgotten."""
    unicode: bool = True


class LineReader:
    """Reads one line after the other; the prompt is there all the time."""

    def __init__(
        self,
        around: Surroundings,
        history: History | None = None,
        completer: Completer | None = None,
        keyboard: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._around = around
        self._laid_aside = ""
        self.session: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            history=history or InMemoryHistory(),
            completer=completer,
            complete_while_typing=Condition(_is_command),
            auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=lambda: list(around.below()),
            key_bindings=_keys(around),
            prompt_continuation="  ",
            style=STYLE,
            erase_when_done=True,
            enable_suspend=True,
            enable_open_in_editor=True,
            include_default_pygments_style=False,
            input=keyboard,
            output=output,
        )

        # Pieces of a reply come faster than anybody reads.
        self.session.app.min_redraw_interval = REDRAW_SECONDS

    async def line(self) -> str:
        """The next line; EOFError when the person leaves."""
        begun = "" if self._around.label() else self._laid_aside
        if begun:
            self._laid_aside = ""
        # Signals are caught by whoever runs the chat, also between two lines.
        return await self.session.prompt_async(default=begun, handle_sigint=False)

    def leave(self) -> None:
        """End the reading of a line."""
        if self.session.app.is_running:
            self.session.app.exit(exception=EOFError())

    def redraw(self) -> None:
        self.session.app.invalidate()

    async def above(self, action: Callable[[], None]) -> None:
        """Do something to the terminal above the line."""
        await run_in_terminal(action)

    def lay_aside(self) -> None:
        """Keep what is being typed for later: a question comes between."""
        buffer = self.session.default_buffer
        self._laid_aside = self._laid_aside or buffer.text
        buffer.reset()

    def take_up(self) -> None:
        """Go on with what was laid aside, where the question is gone without an answer."""
        if self._laid_aside and self.session.app.is_running:
            buffer = self.session.default_buffer
            buffer.document = Document(self._laid_aside)
            self._laid_aside = ""

    def _message(self) -> StyleAndTextTuples:
        rows: StyleAndTextTuples = [("", "\n")]
        for style, text in self._around.above():
            rows += [(style, text), ("", "\n")]
        label = self._around.label()
        if label:
            return [*rows, ("class:question", f"{label} ")]
        return [*rows, ("class:prompt", "› " if self._around.unicode else "> ")]


def _is_command() -> bool:
    return get_app().current_buffer.text.startswith("/")


def _keys(around: Surroundings) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif around.label():
            # The answer to a question is no line that anybody wants back from the history.
            event.app.exit(result=buffer.text)
        else:
            buffer.validate_and_handle()

    # Not Ctrl-J: while a line is printed, and before the first prompt, a terminal turns Enter into that key.
    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        if not around.interrupt(bool(event.current_buffer.text)):
            event.current_buffer.reset()

    @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(exception=EOFError())

    return keys


class CommandCompleter(Completer):
    """Completes slash commands and what may stand behind them."""

    def __init__(self, commands: Sequence[SlashCommand], state: Callable[[], ChatState]) -> None:
        self._commands = commands
        self._state = state

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        del complete_event
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        name, gap, words = text[1:].partition(" ")
        if not gap:
            for command in self._commands:
                if command.name.startswith(name.lower()):
                    yield Completion(f"/{command.name}", -len(text), f"/{command.name}", command.about)
            return
        found = next((command for command in self._commands if command.name == name.lower()), None)
        if found is not None and found.complete is not None:
            for option in found.complete(self._state(), words):
                yield Completion(option, -len(words))


def history_in(home: Path) -> History:
    """The lines of earlier chats, in a file that only its owner reads."""
    path = home / HISTORY_FILE
    try:
        path.touch(mode=0o600, exist_ok=True)
        path.chmod(0o600)
    except OSError as error:
        raise StoreError(f"{path}: the history of lines cannot be kept: {error.strerror}; see to the folder") from error
    return FileHistory(str(path))
