"""A running chat: typed lines are handled in order; each is a question or a slash command.

A line runs as a task, which Ctrl-C cancels. An error in one line does not end the chat.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.agent import ToolActivity
from clew.agent.process_output import CommandOutput
from clew.agent.processes import ProcessGroup, shell_command
from clew.cli.pages import plural
from clew.cli.text import sanitize
from clew.cli.tui.attachments import PLAN_NOTE, command_output_block, question_message
from clew.cli.tui.commands import ALIASES, EDIT_MODES, custom_commands, custom_question, find_command, unknown_command
from clew.cli.tui.exchange import explain_problem, title_from
from clew.cli.tui.markdown import TerminalLook
from clew.cli.tui.observer import ScreenObserver
from clew.cli.tui.prompt import ApprovalPrompts, LineReader
from clew.cli.tui.screen import Screen, Size
from clew.cli.tui.state import ChatState
from clew.cli.tui.status import CallTotals, Fragment, StatusFigures, UsageCounter, status_line
from clew.errors import ClewError, InvalidArgument
from clew.events import Event

if TYPE_CHECKING:
    from clew.app import AgentApp
    from clew.cli.console import Console
    from clew.messages import Message
    from clew.turn import Conversation

_log = logging.getLogger("clew.chat")
# These only read, so that they run beside a turn.
IMMEDIATE = frozenset({"help", "usage", "context", "insights", "sessions", "search", "tree", "output"})
QUIT = "quit"
SHELL_SIGN = "!"
TICK_SECONDS = 0.2
STOP_SECONDS = 1.0
MAX_ECHO_ROWS = 6
LEAVING_WORDS = ("exit", "quit", ":q")
KEPT_CHARS = 200_000
"""Of a longer output, the beginning and the end are kept."""
_CALL_ID = "user"
NEEDS_TERMINAL = frozenset(("emacs", "htop", "nano", "nvim", "vi", "vim"))
"""Programs that need a terminal."""
HOW_TO_LEAVE = "Ctrl-D or /quit leaves; Esc or Ctrl-C stops what runs"


@dataclass(frozen=True, slots=True)
class ChatTerminal:
    """The screen and its writers; created before the app, which sends events to them."""

    screen: Screen
    observer: ScreenObserver
    approvals: ApprovalPrompts
    usage_counter: UsageCounter

    @classmethod
    def of(cls, console: Console) -> ChatTerminal:
        """Create it for the terminal of a console."""

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


class Chat:
    """A chat of one user at one terminal."""

    def __init__(self, app: AgentApp, session: str, terminal: ChatTerminal) -> None:
        self.screen, self.approvals = terminal.screen, terminal.approvals
        self._observer, self._usage_counter = terminal.observer, terminal.usage_counter
        self.state = ChatState(
            app=app,
            session=session,
            print=self.screen.print,
            confirm=self.approvals.confirm,
            wait_for=self._observer.wait_for,
            ask=self._ask_message,
            outputs=self._observer.outputs,
        )
        self.title: str | None = None
        self.questions_asked = 0
        self.is_kept = True
        self._lines: deque[str] = deque()
        self._line_arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        """The task of the current line."""
        self._abandoned = asyncio.Event()
        self._conversation: Conversation | None = None
        self._undone = 0
        """Compactions that the engine counts and that were undone."""
        self._side_tasks: set[asyncio.Task[None]] = set()

    def receive_line(self, line: str) -> None:
        """Handle a typed line: it answers an open prompt, runs at once, or is queued."""
        if self.approvals.is_open:
            self.approvals.answer(line)
            return
        if line.strip().lower() in LEAVING_WORDS:
            line = f"/{QUIT}"
        if line.strip() and not (self._task is not None and self._runs_immediately(line)):
            self._lines.append(line)
            self._line_arrived.set()
            self._show_queue()

    def _runs_immediately(self, line: str) -> bool:
        """Start a command that can run beside a turn; False for another line."""
        command = find_command(line.split()[0]) if _is_command(line) else None
        if command is None or command.name not in (*IMMEDIATE, QUIT):
            return False
        if command.name == QUIT:
            self.leave()
            return True
        self._start_aside(line)
        return True

    def _start_aside(self, line: str) -> None:
        """Run a command beside the current task."""
        self._echo(line)
        self._run_aside(self._command(line))

    def _run_aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._side_tasks.add(task)
        task.add_done_callback(self._side_tasks.discard)
        task.add_done_callback(self._report_defect)

    def open_newest_output(self) -> None:
        """Show the whole output of the newest tool call: Ctrl-O."""
        self._start_aside(f"/output {len(self.state.outputs) or ''}".strip())

    def leave(self) -> None:
        """Cancel the current task, and end the chat."""
        self.state.is_leaving = True
        self._line_arrived.set()
        if self._task is not None:
            self._task.cancel()

    def stop_turn(self) -> None:
        """Cancel the current task, if any: Esc."""
        if self._task is not None and not self._task.cancelling():
            self.interrupt()

    def take_next_mode(self) -> None:
        """Switch to the next mode of edits: Shift-Tab."""
        now = self.state.app.agent.approvals.edits
        self._start_aside(f"/mode {EDIT_MODES[(EDIT_MODES.index(now) + 1) % len(EDIT_MODES)]}")

    def interrupt(self, has_text: bool = False) -> bool:
        """Cancel the current task, the second time without waiting: Ctrl-C. False if typed text is to be cleared."""
        if self._task is None:
            if not has_text:
                self.screen.say(HOW_TO_LEAVE, "dim")
            return not has_text
        if self._task.cancelling():
            self._abandoned.set()
        self._task.cancel()
        self._give_back_queue()
        self.screen.live.is_stopping = True
        self.screen.refresh()
        return True

    def _give_back_queue(self) -> None:
        """Move queued lines back into the input, since they may be obsolete after a cancelled turn."""
        waiting = [*self.state.questions, *self._lines]
        if waiting:
            self.state.questions.clear()
            self._lines.clear()
            self.state.put_text("\n".join(waiting))
            back = "the queued line is" if len(waiting) == 1 else f"the {len(waiting)} queued lines are"
            self.screen.say(f"{back} back in the input; Enter asks, Ctrl-C clears", "yellow")
        self._show_queue()

    def _show_queue(self) -> None:
        self.screen.live.queued = list(self._lines) if self._task is not None else []
        self.screen.refresh()

    async def run(self, first: Sequence[str] = ()) -> None:
        """Handle lines until the user leaves."""
        self.state.questions.extend(first)
        await self.refresh()
        while (line := await self._next_line()) is not None:
            self._echo(line)
            await self._run_line(line)
            self._show_queue()
        for task in self._side_tasks:
            task.cancel()

    async def _next_line(self) -> str | None:
        while not self.state.is_leaving:
            if self.state.questions:
                return self.state.questions.pop(0)
            if self._lines:
                return self._lines.popleft()
            self._line_arrived.clear()
            await self._wait_for_line()
        return None

    async def _wait_for_line(self) -> None:
        """Wait for a typed line; a large conversation is folded shortly before the provider's cache expires."""
        from clew.turn import FOLD_BEFORE_SECONDS

        conversation = self._conversation
        left = conversation.cache_seconds_left if conversation is not None else None
        if conversation is not None and left is not None and left > FOLD_BEFORE_SECONDS:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._line_arrived.wait(), left - FOLD_BEFORE_SECONDS)
                return
            self._run_aside(self._fold_idle(conversation))
        await self._line_arrived.wait()

    async def _fold_idle(self, conversation: Conversation) -> None:
        if await conversation.fold_before_expiry():
            self.screen.say("folded while idle, before the provider's cache expired; /compress --undo", "dim")
            await self.refresh()

    async def _run_line(self, line: str) -> None:
        is_question, work = self._work_for(line)
        self._abandoned.clear()
        self._observer.wait_for("waiting for the model" if is_question else "working")
        self._task = asyncio.create_task(self._guarded(work))
        self._show_queue()
        abandoned = asyncio.create_task(self._abandoned.wait())
        async with self._ticking():
            await asyncio.wait({self._task, abandoned}, return_when=asyncio.FIRST_COMPLETED)
        abandoned.cancel()
        was_stopped = not self._task.done() or self._task.cancelled()
        self._observer.finish_turn()
        self._report_defect(self._task)
        self._task = None
        if was_stopped:
            self.screen.say("stopped; the reply so far is kept" if is_question else "stopped", "yellow")
        await self._guarded(self.refresh())

    def _work_for(self, line: str) -> tuple[bool, Coroutine[Any, Any, None]]:
        """Whether a line is a question for the model, and its coroutine."""
        if _is_command(line):
            return False, self._command(line)
        if line.lstrip().startswith(SHELL_SIGN):
            return False, self._run_user_command(line.strip())
        return True, self._ask(line)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine and print its error, if any."""
        try:
            await work
        except ClewError as problem:
            self._observer.finish_reply()
            self.screen.say(explain_problem(problem), "red")

    def _report_defect(self, work: asyncio.Task[None]) -> None:
        """Print an unexpected exception instead of ending the chat."""
        defect = work.exception() if work.done() and not work.cancelled() else None
        if defect is not None:
            _log.debug("a line of the chat failed", exc_info=defect)
            where = traceback.extract_tb(defect.__traceback__)[-1]
            what = f"{type(defect).__name__}: {defect} (at {Path(where.filename).name}:{where.lineno})"
            self.screen.say(f"Clew itself failed, please report it: {what}. The chat continues.", "red")

    async def _command(self, line: str) -> None:
        name, _, words = line.strip()[1:].partition(" ")
        command = find_command(name)
        own = custom_commands(self.state.app).get(name.lower())
        if own is not None and (command is None or command.name != ALIASES.get(name.lower(), name.lower())):
            self.state.questions.append(custom_question(own, words.strip()))
            return
        if command is None:
            self.screen.say(unknown_command(name), "yellow")
            return
        await command.run(self.state, words.strip())

    async def _run_user_command(self, line: str) -> None:
        """Run `!command`; the output of `!!command` is also attached to the next question."""
        is_shared = line.startswith(2 * SHELL_SIGN)
        command = line.lstrip(SHELL_SIGN).strip()
        if not command:
            raise InvalidArgument(
                "! runs a command: !git status", remedy="!! also shows the model what it printed: !!git status"
            )
        output = await run_user_command(command, self.state.app, self._observer)
        if is_shared:
            self.state.attached.append(command_output_block(command, output))
            self.screen.say("  the next question includes this output", "dim")

    async def _ask(self, line: str) -> None:
        app, attached = self.state.app, self.state.attached
        approvals = app.agent.approvals
        is_plan = approvals.edits == "plan"
        asked = question_message(
            line, app.project, [*attached, *([PLAN_NOTE] if is_plan else [])], app.max_result_chars
        )
        for note in asked.taken:
            self.screen.say(f"  {note}", "dim")
        for note in asked.missing:
            self.screen.say(f"  {note}", "yellow")
        await self._set_title(line)
        attached.clear()
        await self._ask_message(asked.message)
        if is_plan and approvals.edits == "plan" and await self.approvals.confirm("Carry out this plan?"):
            approvals.edits = self.state.edits_after_plan
            self.state.questions.append("The plan is approved: carry it out.")

    async def _ask_message(self, message: Message | None) -> None:
        self.questions_asked += 1
        exchange = await self.state.app.agent.ask(self.state.session, message, self._observer)
        if exchange.hit_round_limit:
            self.screen.say(f"stopped after {exchange.rounds} rounds; ask it to continue", "yellow")

    async def _set_title(self, line: str) -> None:
        """Use the start of the first question as the title of a session without one."""
        store = self.state.app.store
        tip = await store.session(await store.get_compression_tip(self.state.session))
        if not tip.title:
            tip = await store.rename(tip.id, title_from(line))
        self.title = tip.title

    def _echo(self, line: str) -> None:
        self.screen.blank_line()
        sign = self.screen.look.sign("›", ">")
        self.screen.say(f"{sign} " + "\n  ".join(_echo_rows(sanitize(line).rstrip())), "bold cyan")
        self.screen.refresh()

    async def refresh(self) -> None:
        """Reload the conversation, its title and its usage."""
        store = self.state.app.store
        conversation = self._conversation = await self.state.conversation()
        self.title = (await store.session(conversation.session)).title
        await self._usage_counter.load(store, conversation.session)
        in_effect = sum(each.is_in_effect for each in await store.compactions(conversation.session, keep_damaged=True))
        self._undone = _compactions_made(conversation) - in_effect
        await self.state.learn_names()

    def status(self) -> Sequence[Fragment]:
        """The status line."""
        if self._conversation is None:
            return []
        return status_line(self.figures(self._conversation), self.screen.width, unicode=self.screen.look.unicode)

    def figures(self, conversation: Conversation) -> StatusFigures:
        status = conversation.engine.get_status()
        return StatusFigures(
            model=conversation.target.model,
            used=conversation.size.tokens,
            threshold=status.threshold_tokens,
            window=conversation.window.tokens,
            engine=conversation.engine.name,
            last=self._usage_counter.last,
            session=self._usage_counter.session,
            compactions=max(0, _compactions_made(conversation) - self._undone),
            is_paused=status.paused is not None,
            is_preparing=self._observer.is_preparing,
            is_enabled=self.state.app.settings.compression.enabled,
            mode={"ask": "asks before edits", "plan": "plan mode"}.get(self.state.app.agent.approvals.edits, ""),
        )

    async def summary(self) -> ChatSummary:
        """The summary at the end of the chat."""
        state, compactions = self.state, self._observer.compactions
        tip = await state.app.store.get_compression_tip(state.session)
        await self._usage_counter.load(state.app.store, tip)
        return ChatSummary(
            session=tip,
            title=self.title,
            seconds=time.monotonic() - state.started,
            questions=self.questions_asked,
            usage=self._usage_counter.session,
            compactions=len(compactions),
            freed=sum(each.tokens_before - each.tokens_after for each in compactions),
        )

    @contextlib.asynccontextmanager
    async def _ticking(self) -> AsyncIterator[None]:
        """Redraw the clocks on the screen while the block runs."""

        async def tick() -> None:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                self.screen.refresh()

        ticking = asyncio.create_task(tick())
        try:
            yield
        finally:
            ticking.cancel()


async def run_chat(chat: Chat, reader: LineReader, first: Sequence[str] = ()) -> None:
    """Run a chat with the lines of a reader until one of them ends."""
    chat.state.put_text = reader.insert_text
    chat.screen.redraw, chat.screen.run_above = reader.redraw, reader.run_above
    printing = asyncio.create_task(chat.screen.print_forever())
    reading = asyncio.create_task(_read_lines(chat, reader))
    for task in (printing, reading):
        # Without output or input the chat cannot continue.
        task.add_done_callback(lambda _: chat.leave())
    with _handle_signals(chat):
        try:
            await chat.run(first)
        finally:
            reader.stop()
            printing.cancel()
            # A prompt that was about to open was not stopped, and would wait for input.
            await asyncio.wait({reading}, timeout=STOP_SECONDS)
            reading.cancel()
            problems = await asyncio.gather(reading, printing, return_exceptions=True)
            await chat.screen.flush()
    for problem in problems:
        if isinstance(problem, Exception):
            raise problem


@contextlib.contextmanager
def _handle_signals(chat: Chat) -> Iterator[None]:
    """Handle signals like keys, also while no line is read."""
    loop = asyncio.get_running_loop()
    wanted: dict[signal.Signals, Callable[[], object]] = {
        signal.SIGINT: chat.interrupt,
        signal.SIGTERM: chat.leave,
        signal.SIGHUP: chat.leave,
    }
    # A loop outside of the main thread gets no signals.
    with contextlib.suppress(ValueError, RuntimeError):
        for number, action in wanted.items():
            loop.add_signal_handler(number, action)
    try:
        yield
    finally:
        for number in wanted:
            with contextlib.suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)


async def _read_lines(chat: Chat, reader: LineReader) -> None:
    while not chat.state.is_leaving:
        try:
            line = await reader.line()
        except EOFError:
            chat.leave()
            return
        chat.receive_line(line)


def _echo_rows(line: str) -> list[str]:
    """The rows of a typed line; a long one is shortened in the middle."""
    rows = line.split("\n")
    if len(rows) <= MAX_ECHO_ROWS:
        return rows
    half = MAX_ECHO_ROWS // 2
    return [*rows[:half], f"... {len(rows) - 2 * half:,} more lines ...", *rows[-half:]]


def _compactions_made(conversation: Conversation) -> int:
    """The compactions that the engine counts, without a prepared one."""
    return conversation.engine.get_status().compactions - conversation.preparer.is_ready


def _is_command(line: str) -> bool:
    """Whether a line is a slash command; a path such as /etc/hosts is not."""
    first = line.strip().split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:]


async def run_user_command(command: str, app: AgentApp, observer: ScreenObserver) -> str:
    """Run a command to its end and print its output; the output with the exit code where it is not 0.

    It has no terminal and no standard input. Cancelling ends it with all that it started.
    """
    if (program := Path(command.split()[0]).name) in NEEDS_TERMINAL:
        raise InvalidArgument(
            f"{program} needs a terminal of its own, which !command does not have", remedy="run it in another window"
        )
    activity = ToolActivity(_CALL_ID, "terminal", f"$ {command}")
    output, started = CommandOutput(KEPT_CHARS), time.monotonic()
    observer.on_tool_start(activity)

    def on_bytes(piece: bytes) -> None:
        observer.on_tool_output(activity, output.feed(piece))

    try:
        process = await ProcessGroup.start(shell_command(command), app.project, app.environ, on_bytes)
    except OSError as problem:
        raise ClewError(f"the command could not be started: {problem.strerror}", remedy="check the shell") from problem
    code: int | None = None
    try:
        code = await process.exit_code()
    finally:
        await process.end()
        seconds = f"{time.monotonic() - started:.1f} s"
        how = seconds if code == 0 else f"exit {code}, {seconds}" if code is not None else f"stopped after {seconds}"
        observer.on_command_end(activity.headline, output.text(), how, is_error=code != 0)
    return output.text() if code == 0 else f"{output.text().rstrip()}\n[exit {code}]"


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """Figures about a finished chat."""

    session: str
    title: str | None
    seconds: float
    questions: int
    usage: CallTotals
    """Usage of the whole conversation."""
    compactions: int = 0
    """Number of compactions in this chat."""
    freed: int = 0
    """Tokens that they removed from the window."""


def summary_lines(summary: ChatSummary) -> list[str]:
    """Time, tokens, cost, and the command to resume."""
    name = f"{summary.session} ({summary.title})" if summary.title else summary.session
    usage = summary.usage
    cached = f" ({usage.cached} from the cache)" if usage.prompt_tokens else ""
    lines = [
        f"session   {name}",
        f"time      {format_duration(summary.seconds)}, {plural(summary.questions, 'question')}, "
        f"{plural(usage.calls, 'call')} of the model",
        f"tokens    {usage.prompt_tokens:,} in{cached}, {usage.output_tokens:,} out",
        f"cost      {usage.cost_text}",
    ]
    if summary.compactions:
        lines.append(f"folded    {summary.freed:,} tokens in {plural(summary.compactions, 'compaction')}")
    return [*lines, f"resume    clew chat --resume {summary.session}"]


def format_duration(seconds: float) -> str:
    """`42 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"
