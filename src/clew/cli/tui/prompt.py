"""The prompt of a chat, with prompt_toolkit: keys, history, completion, status line; and approval prompts.

The next typed line answers an approval prompt. Only an exact answer is accepted: text that was being typed when the
prompt opened must not approve anything.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style
from rich.text import Text

from clew.agent import ApprovalAnswer
from clew.cli.text import clip, sanitize, sanitize_line
from clew.cli.tui.commands import SlashCommand
from clew.cli.tui.state import ChatState
from clew.errors import StoreError

if TYPE_CHECKING:
    from clew.agent import Risk
    from clew.cli.tui.chat import Chat
    from clew.cli.tui.screen import Screen

HISTORY_FILE = "chat_history"
REDRAW_SECONDS = 0.03
ESCAPE_SECONDS = 0.1
MAX_PASTED_LINES = 12
"""A longer paste is shown as a mark in the input."""
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
ONCE, ALWAYS, NO = ("y", "yes"), ("a", "always"), ("n", "no")
_ANSWERS: dict[ApprovalAnswer, str] = {"once": "allowed once", "session": "allowed for this session", "no": "refused"}
_TYPED_PATH = re.compile(r'(?:^|(?<=\s))@"?([^\s"]*)$')
_SHOWN_LINES = 400
"""Lines of a script that are shown before it runs."""
CHOICES = "y once, a for this session, n no (or n REASON), Ctrl-C stops the turn"
MAX_SCOPE = 60


class LineReader:
    """Reads lines; the prompt always stays on the screen."""

    def __init__(
        self,
        chat: Chat,
        history: History | None = None,
        completer: Completer | None = None,
        keyboard: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._chat = chat
        self._stashed = ""
        self._pastes = Pastes()
        self.session: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            history=history or InMemoryHistory(),
            completer=completer,
            complete_while_typing=Condition(_completes_while_typing),
            auto_suggest=AutoSuggestFromHistory(),
            bottom_toolbar=lambda: list(chat.status()),
            key_bindings=_keys(chat, self._pastes),
            prompt_continuation="  ",
            style=STYLE,
            erase_when_done=True,
            enable_suspend=True,
            enable_open_in_editor=True,
            include_default_pygments_style=False,
            input=keyboard,
            output=output,
        )

        chat.approvals.on_open, chat.approvals.on_close = self._stash_text, self._restore_text
        # A streamed reply would redraw too often.
        self.session.app.min_redraw_interval = REDRAW_SECONDS
        # Esc alone is a key: wait for the rest of a sequence only as long as a terminal takes to send it.
        self.session.app.ttimeoutlen = self.session.app.timeoutlen = ESCAPE_SECONDS

    async def line(self) -> str:
        """The next line; raises EOFError when the user leaves."""
        begun = "" if self._chat.approvals.label else self._stashed
        if begun:
            self._stashed = ""
        # Signals are handled by `run_chat`, also between two lines.
        return self._pastes.expand(await self.session.prompt_async(default=begun, handle_sigint=False))

    def stop(self) -> None:
        """Stop reading: `line` raises EOFError."""
        if self.session.app.is_running:
            self.session.app.exit(exception=EOFError())

    def redraw(self) -> None:
        self.session.app.invalidate()

    async def run_above(self, action: Callable[[], None]) -> None:
        """Run a function that writes above the prompt."""
        await run_in_terminal(action)

    def _stash_text(self) -> None:
        """Save and clear the typed text, because an approval prompt opens."""
        buffer = self.session.default_buffer
        self._stashed = self._stashed or buffer.text
        buffer.reset()
        self._chat.screen.refresh()

    def _restore_text(self) -> None:
        """Restore the saved text, if a prompt closes without an answer."""
        if self._stashed and self.session.app.is_running:
            self.session.default_buffer.document = Document(self._stashed)
            self._stashed = ""
        self._chat.screen.refresh()

    def insert_text(self, text: str) -> None:
        """Insert text before the typed text, or into the next line."""
        text = self._pastes.collapse(text)
        buffer = self.session.default_buffer
        if not self.session.app.is_running or self._chat.approvals.label:
            self._stashed = _joined(text, self._stashed)
        else:
            buffer.document = Document(_joined(text, buffer.text))

    def _message(self) -> StyleAndTextTuples:
        rows: StyleAndTextTuples = [("", "\n")]
        for style, text in self._chat.screen.live_rows():
            rows += [(style, text), ("", "\n")]
        label = self._chat.approvals.label
        if label:
            return [*rows, ("class:question", f"{label} ")]
        return [*rows, ("class:prompt", self._chat.screen.look.sign("› ", "> "))]


class Pastes:
    """Long pasted texts: the input shows a mark, which is replaced when the line is sent."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """The text, or a mark for a long one."""
        lines = len(text.splitlines())
        if lines <= MAX_PASTED_LINES:
            return text
        mark = f"[pasted text {len(self._texts) + 1}, {lines:,} lines]"
        self._texts[mark] = text
        return mark

    def expand(self, line: str) -> str:
        """The line with marks replaced by their texts."""
        for mark, text in self._texts.items():
            line = line.replace(mark, text)
        return line


def _joined(first: str, second: str) -> str:
    return f"{first}\n{second}" if second else first


def _completes_while_typing() -> bool:
    document = get_app().current_buffer.document
    return document.text.startswith("/") or _path_being_typed(document) is not None


def _path_being_typed(document: Document) -> str | None:
    """The text after the @ of the word before the cursor; None if there is none."""
    found = _TYPED_PATH.search(document.text_before_cursor)
    return found[1] if found else None


def _keys(chat: Chat, pastes: Pastes) -> KeyBindings:
    keys = KeyBindings()

    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(pastes.collapse(text))

    @keys.add("escape")
    def stop(event: KeyPressEvent) -> None:
        del event
        chat.stop_turn()

    @keys.add("s-tab")
    def next_mode(event: KeyPressEvent) -> None:
        del event
        chat.take_next_mode()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif chat.approvals.label:
            # An answer is not added to the history.
            event.app.exit(result=buffer.text)
        else:
            buffer.validate_and_handle()

    # Not Ctrl-J: a terminal may send it for Enter while a line is printed and before the first prompt.
    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        if not chat.interrupt(bool(event.current_buffer.text)):
            event.current_buffer.reset()

    @keys.add("c-o")
    def open_output(event: KeyPressEvent) -> None:
        del event
        chat.open_newest_output()

    @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(exception=EOFError())

    return keys


class LineCompleter(Completer):
    """Completes slash commands, their arguments, and paths after an @."""

    def __init__(
        self,
        commands: Sequence[SlashCommand],
        state: Callable[[], ChatState],
        own: Callable[[], Mapping[str, Path]] = dict,
    ) -> None:
        self._commands = commands
        self._own = own
        """Custom commands with their files."""
        self._state = state

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        path = _path_being_typed(document)
        if path is not None:
            yield from self._paths(path, complete_event)
            return
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        name, gap, words = text[1:].partition(" ")
        if not gap:
            for command in self._commands:
                if command.name.startswith(name.lower()):
                    yield Completion(f"/{command.name}", -len(text), f"/{command.name}", command.about)
            for own, file in self._own().items():
                if own.startswith(name.lower()):
                    yield Completion(f"/{own}", -len(text), f"/{own}", f"asks what {file.name} says")
            return
        found = next((command for command in self._commands if command.name == name.lower()), None)
        if found is not None and found.complete is not None:
            for option in found.complete(self._state(), words):
                yield Completion(option, -len(words))

    def _paths(self, typed: str, complete_event: CompleteEvent) -> Iterable[Completion]:
        project = str(self._state().app.project)
        completer = PathCompleter(expanduser=True, get_paths=lambda: [project])
        for found in completer.get_completions(Document(typed), complete_event):
            is_folder = found.display_text.endswith("/")
            yield Completion(f"{found.text}/" if is_folder else found.text, found.start_position, found.display)


def open_history(home: Path) -> History:
    """The history of lines, in a file that only its owner can read."""
    path = home / HISTORY_FILE
    try:
        path.touch(mode=0o600, exist_ok=True)
        path.chmod(0o600)
    except OSError as error:
        raise StoreError(
            f"{path}: the history of lines cannot be written: {error.strerror}", remedy="check the folder"
        ) from error
    return FileHistory(str(path))


# -- approval ----------------------------------------------------------------------------------------------------------


def parse_approval(line: str) -> tuple[ApprovalAnswer, str] | None:
    """The answer in a typed line, with the reason for a no; None if it is not an answer."""
    word, _, rest = line.strip().partition(" ")
    word = word.lower().rstrip(",:;.")
    if word in NO:
        return "no", rest.strip()
    if rest.strip():
        return None
    if word in ONCE:
        return "once", ""
    return ("session", "") if word in ALWAYS else None


class ApprovalPrompts:
    """Approval prompts; at most one is open."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._one_at_a_time = asyncio.Lock()
        self._answer: asyncio.Future[str] | None = None
        self.label = ""
        """The label of the open prompt."""
        self.on_open: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None
        """Called when a prompt opens and closes; set by `LineReader`."""

    @property
    def is_open(self) -> bool:
        return self._answer is not None

    def answer(self, line: str) -> None:
        """Answer the open prompt with a typed line."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(line)
        # Closed at once, so that the next line is not an answer.
        self._answer, self.label = None, ""

    async def approve(self, tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        """Ask whether a tool call may run; the `AskPerson` of `Approvals`."""
        async with self._one_at_a_time:
            self._screen.blank_line()
            self._screen.print(_question_text(tool, risk))
            while True:
                typed = await self._next_line("allow? [y/a/n]")
                found = parse_approval(typed)
                if found is not None:
                    break
                shown = clip(sanitize_line(typed), 30)
                self._screen.say(f"  {shown!r} is no answer: {CHOICES}", "yellow")
            self._screen.say(f"  {_ANSWERS[found[0]]}", "dim")
            return found

    async def confirm(self, question: str) -> bool:
        """Ask yes or no; anything but yes is no."""
        async with self._one_at_a_time:
            self._screen.say(f"{question} [y/n]", "bold")
            return (await self._next_line("[y/n]")).strip().lower() in ONCE

    async def _next_line(self, label: str) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self.label = label
        self._screen.live.is_asking = True
        self.on_open()
        try:
            return await answer
        finally:
            self._answer, self.label = None, ""
            self._screen.live.is_asking = False
            self.on_close()


def _question_text(tool: str, risk: Risk) -> Text:
    text = Text.assemble(("? ", "yellow bold"), (f"{tool} wants to ", "bold"), (sanitize(risk.action), "bold yellow"))
    for reason in risk.reasons:
        text.append(f"\n  why you are asked: {sanitize(reason)}", "yellow")
    lines = risk.text.splitlines()
    for line in lines[:_SHOWN_LINES]:
        text.append(f"\n  | {sanitize(line)}")
    if len(lines) > _SHOWN_LINES:
        text.append(f"\n  | … {len(lines) - _SHOWN_LINES:,} more lines", "dim")
    text.append(f"\n  {CHOICES}", "dim")
    text.append(f"\n  a covers: {tool}, {clip(sanitize_line(risk.scope), MAX_SCOPE)}", "dim")
    return text
