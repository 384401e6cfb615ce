"""The chat itself: lines come in at any time, are taken one after the other, and each is a question or a command.

Whatever runs for a line is a task, which Ctrl-C stops. Nothing that goes wrong with one line ends the chat.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from clew.cli.tui.commands import find_command, learn_names, unknown_command
from clew.cli.tui.commands.here import conversation_of
from clew.cli.tui.harmless import harmless
from clew.cli.tui.problems import explained
from clew.cli.tui.session_end import Ended
from clew.cli.tui.status import Figures, Fragment, status_line
from clew.cli.tui.tally import Tally
from clew.cli.tui.typed import message_of, title_of
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.cli.tui.asking import Questions
    from clew.cli.tui.input import LineReader
    from clew.cli.tui.screen import Screen
    from clew.cli.tui.state import ChatState
    from clew.cli.tui.watching import ScreenWatcher
    from clew.turn import LiveConversation

_log = logging.getLogger("clew.chat")
# These only look: they need not wait for a turn that runs.
AT_ONCE = frozenset({"help", "usage", "context", "insights", "sessions", "search", "tree"})
LEAVING = "quit"
TICK_SECONDS = 0.2
MOST_ECHOED_ROWS = 20
HOW_TO_LEAVE = "Ctrl-D or /quit leaves; Ctrl-C stops what runs"


class Chat:
    """One person, one screen."""

    def __init__(
        self, state: ChatState, screen: Screen, watcher: ScreenWatcher, questions: Questions, tally: Tally
    ) -> None:
        self.state = state
        self.screen = screen
        self.title: str | None = None
        self.questions_asked = 0
        self.is_kept = True
        self._watcher = watcher
        self._questions = questions
        self._tally = tally
        self._lines: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._given_up = asyncio.Event()
        self._live: LiveConversation | None = None
        self._undone = 0
        self._beside: set[asyncio.Task[None]] = set()

    # -- what is typed -------------------------------------------------------------------------------------------------

    def take(self, line: str) -> None:
        """A line that was typed, whenever that is."""
        if self._questions.is_open:
            self._questions.take(line)
        elif line.strip() and not (self._work is not None and self._does_at_once(line)):
            self._lines.append(line)
            self._arrived.set()
            self._show_queue()

    def _does_at_once(self, line: str) -> bool:
        """Whether a line is a command that need not wait for what runs; then it is on its way."""
        command = find_command(line.split()[0]) if _is_command(line) else None
        if command is None or command.name not in (*AT_ONCE, LEAVING):
            return False
        if command.name == LEAVING:
            self.leave()
            return True
        self._echo(line)
        task = asyncio.create_task(self._guarded(self._command(line)))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        task.add_done_callback(self._tell_defect)
        return True

    def leave(self) -> None:
        """Stop what runs, and go."""
        self.state.is_leaving = True
        self._arrived.set()
        if self._work is not None:
            self._work.cancel()

    def interrupt(self, has_text: bool = False) -> bool:
        """Ctrl-C: stop what runs; at the second time, do not wait for it. False: forget what is typed."""
        if self._work is None:
            if not has_text:
                self.screen.say(Text(HOW_TO_LEAVE, "dim"))
            return not has_text
        if self._work.cancelling():
            self._given_up.set()
        self._work.cancel()
        self.screen.live.is_stopping = True
        self.screen.changed()
        return True

    def _show_queue(self) -> None:
        self.screen.live.queued = list(self._lines) if self._work is not None else []
        self.screen.changed()

    # -- one line after the other --------------------------------------------------------------------------------------

    async def converse(self, first: Sequence[str] = ()) -> None:
        """Until the person leaves."""
        self.state.asks.extend(first)
        await self.refresh()
        while (line := await self._next_line()) is not None:
            self._echo(line)
            await self._do(line)
            self._show_queue()
        for task in self._beside:
            task.cancel()

    async def _next_line(self) -> str | None:
        while not self.state.is_leaving:
            if self.state.asks:
                return self.state.asks.pop(0)
            if self._lines:
                return self._lines.popleft()
            self._arrived.clear()
            await self._arrived.wait()
        return None

    async def _do(self, line: str) -> None:
        is_command = _is_command(line)
        self._given_up.clear()
        self._watcher.wait_for("working" if is_command else "waiting for the model")
        self._work = asyncio.create_task(self._guarded(self._command(line) if is_command else self._ask(line)))
        self._show_queue()
        given_up = asyncio.create_task(self._given_up.wait())
        async with self._ticking():
            await asyncio.wait({self._work, given_up}, return_when=asyncio.FIRST_COMPLETED)
        given_up.cancel()
        was_stopped = not self._work.done() or self._work.cancelled()
        self._watcher.over()
        self._tell_defect(self._work)
        self._work = None
        if was_stopped:
            self.screen.say(Text("stopped; what came is kept" if not is_command else "stopped", "yellow"))
        await self._guarded(self.refresh())

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it; what goes wrong is told, and the chat goes on."""
        try:
            await work
        except ClewError as problem:
            self._watcher.settle()
            self.screen.say(Text(harmless(explained(problem)), "red"))

    def _tell_defect(self, work: asyncio.Task[None]) -> None:
        """What nobody has foreseen is told too, and does not end the chat either."""
        defect = work.exception() if work.done() and not work.cancelled() else None
        if defect is not None:
            _log.debug("a line of the chat failed", exc_info=defect)
            where = traceback.extract_tb(defect.__traceback__)[-1]
            told = f"{type(defect).__name__}: {defect} (at {Path(where.filename).name}:{where.lineno})"
            self.screen.say(Text(harmless(f"Clew itself failed, please report it: {told}. The chat goes on."), "red"))

    async def _command(self, line: str) -> None:
        name, _, words = line.strip()[1:].partition(" ")
        command = find_command(name)
        if command is None:
            self.screen.say(Text(unknown_command(name), "yellow"))
            return
        await command.run(self.state, words.strip())

    async def _ask(self, line: str) -> None:
        desk = self.state.desk
        await self._entitle(line)
        self.questions_asked += 1
        exchange = await desk.agent.ask(self.state.session, message_of(line, desk.project), self._watcher)
        if exchange.is_cut:
            self.screen.say(Text(f"stopped after {exchange.rounds} rounds; ask it to go on", "yellow"))

    async def _entitle(self, line: str) -> None:
        """The first words of the first question are the title, where the session has none."""
        store = self.state.desk.store
        tip = await store.session(await store.get_compression_tip(self.state.session))
        if not tip.title:
            tip = await store.rename(tip.id, title_of(line))
        self.title = tip.title

    def _echo(self, line: str) -> None:
        self.screen.gap()
        sign = self.screen.look.sign("›", ">")
        self.screen.say(Text(f"{sign} " + "\n  ".join(_echoed(harmless(line).rstrip())), "bold cyan"))
        self.screen.changed()

    # -- figures -------------------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Look again at which conversation it is, and at what it took."""
        desk = self.state.desk
        # With its tools: the meter must not jump with the first question.
        self._live = await conversation_of(self.state)
        self.title = (await desk.store.session(self._live.session)).title
        await self._tally.read(desk.store, self._live.session)
        made = await desk.store.compactions(self._live.session)
        self._undone = self._counted(self._live) - sum(each.is_in_effect for each in made)
        await learn_names(self.state)

    def status(self) -> Sequence[Fragment]:
        """The line below."""
        if self._live is None:
            return []
        return status_line(self.figures(self._live), self.screen.width, unicode=self.screen.look.unicode)

    def figures(self, live: LiveConversation) -> Figures:
        status = live.engine.get_status()
        return Figures(
            model=live.target.model,
            used=live.size.tokens,
            threshold=status.threshold_tokens,
            window=live.window.tokens,
            engine=live.engine.name,
            last=self._tally.last,
            session=self._tally.session,
            compactions=max(0, self._counted(live) - self._undone),
            is_paused=status.paused is not None,
            is_preparing=self._watcher.is_preparing,
            compacts=self.state.desk.settings.compression.enabled,
        )

    @staticmethod
    def _counted(live: LiveConversation) -> int:
        """The compactions that an engine has made, without one that was prepared and waits to be used."""
        is_ready = live.preparation is not None and live.preparation.task.done()
        return live.engine.get_status().compactions - is_ready

    async def ended(self) -> Ended:
        """What it came to."""
        state, done = self.state, self._watcher.compactions
        tip = await state.desk.store.get_compression_tip(state.session)
        await self._tally.read(state.desk.store, tip)
        return Ended(
            session=tip,
            title=self.title,
            seconds=time.monotonic() - state.started,
            questions=self.questions_asked,
            spent=self._tally.session,
            compactions=len(done),
            folded=sum(each.tokens_before - each.tokens_after for each in done),
        )

    @contextlib.asynccontextmanager
    async def _ticking(self) -> AsyncIterator[None]:
        """Clocks on the screen go on while something runs."""

        async def tick() -> None:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                self.screen.changed()

        ticking = asyncio.create_task(tick())
        try:
            yield
        finally:
            ticking.cancel()


async def talk(chat: Chat, reader: LineReader, first: Sequence[str] = ()) -> None:
    """Run a chat with whoever types into a reader."""
    chat.screen.redraw, chat.screen.above = reader.redraw, reader.above
    printing = asyncio.create_task(chat.screen.print_for_ever())
    reading = asyncio.create_task(_read(chat, reader))
    for task in (printing, reading):
        # Without eyes or hands there is nobody to talk to.
        task.add_done_callback(lambda _: chat.leave())
    with _signals(chat):
        try:
            await chat.converse(first)
        finally:
            reader.leave()
            printing.cancel()
            problems = await asyncio.gather(reading, printing, return_exceptions=True)
            await chat.screen.flush()
    for problem in problems:
        if isinstance(problem, Exception):
            raise problem


@contextlib.contextmanager
def _signals(chat: Chat) -> Iterator[None]:
    """Signals mean what keys mean, also while nothing is read."""
    loop = asyncio.get_running_loop()
    wanted: dict[signal.Signals, Callable[[], object]] = {
        signal.SIGINT: chat.interrupt,
        signal.SIGTERM: chat.leave,
        signal.SIGHUP: chat.leave,
    }
    # A loop that is not in the main thread gets none.
    with contextlib.suppress(ValueError, RuntimeError):
        for number, action in wanted.items():
            loop.add_signal_handler(number, action)
    try:
        yield
    finally:
        for number in wanted:
            with contextlib.suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)


async def _read(chat: Chat, reader: LineReader) -> None:
    while not chat.state.is_leaving:
        try:
            line = await reader.line()
        except EOFError:
            chat.leave()
            return
        chat.take(line)


def _echoed(line: str) -> list[str]:
    """What was typed, as it stays on the screen: of a long paste the beginning and the end."""
    rows = line.split("\n")
    if len(rows) <= MOST_ECHOED_ROWS:
        return rows
    half = MOST_ECHOED_ROWS // 2
    return [*rows[:half], f"... {len(rows) - 2 * half:,} more lines ...", *rows[-half:]]


def _is_command(line: str) -> bool:
    """A slash and a name; a path such as /etc/hosts is none."""
    first = line.strip().split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:]
