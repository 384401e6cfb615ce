"""From what happens to what is seen: pieces of replies, calls of tools, and events, put on the screen.

Called as things happen, and returns at once. Decides nothing.
"""

from __future__ import annotations

import time

from rich.text import Text

from clew.agent import Doing, Onlooker, ToolResult
from clew.cli.output import clipped, columns
from clew.cli.tui.drawing import drawing_of_diff, is_diff
from clew.cli.tui.harmless import harmless, harmless_line
from clew.cli.tui.live import Compacting, Running
from clew.cli.tui.problems import remark_on
from clew.cli.tui.screen import Screen
from clew.cli.tui.streaming import BlockStream
from clew.events import (
    CompactionFinished,
    CompactionPhase,
    CompactionStarted,
    Event,
    Notice,
    OutputCapLowered,
    OutputSpilled,
    Overflowed,
    WindowLearnt,
)
from clew.messages import text_of
from clew.providers import Delta, Reply

UNDO = "/compress --undo brings it back"
AWAITED = "compacting (prepared ahead): summarise"


class ScreenWatcher(Onlooker):
    """Shows one exchange after the other."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._live = screen.live
        self._stream = BlockStream()
        self._has_streamed = False
        self.is_preparing = False
        """A compaction is being made ahead of time."""
        self.compactions: list[CompactionFinished] = []
        """Those that changed something."""

    # -- the reply -----------------------------------------------------------------------------------------------------

    def wait_for(self, what: str) -> None:
        """Show that something is waited for; nothing where it is empty."""
        self._live.waiting, self._live.waiting_since = what, time.monotonic()
        self._screen.changed()

    def piece(self, delta: Delta) -> None:
        # A compaction that came to nothing may end without a word; a reply shows that it is over.
        self._live.compacting = None
        if delta.kind == "text":
            self._live.thinking = ""
            self._has_streamed = True
            self._live.spoke_at = self._live.waiting_since = time.monotonic()
            self._say(delta.text)
            self._live.tail = self._stream.tail
        elif delta.kind == "reasoning":
            self._live.thinking = (self._live.thinking + delta.text)[-2_000:]
        elif delta.text:
            self._live.waiting = f"writing a call of {harmless_line(delta.text)}"
        self._screen.changed()

    def replied(self, reply: Reply) -> None:
        if not self._has_streamed:
            self._say(text_of(reply.message))
        self.settle()
        self._warn(remark_on(reply))
        self.wait_for("waiting for the model")

    def _say(self, text: str) -> None:
        for block in self._stream.feed(text):
            self._screen.say_block(block)

    def settle(self) -> None:
        """What has come of the reply stays, finished or not."""
        for block in self._stream.finish():
            self._screen.say_block(block)
        self._live.tail = self._live.thinking = ""
        self._live.spoke_at = float("-inf")
        self._has_streamed = False
        self._screen.changed()

    def over(self) -> None:
        """Nothing goes on any more."""
        self.settle()
        for running in self._live.running.values():
            # What was begun may have done something: it must not vanish without a line.
            self._say_call(running.headline, f"stopped after {time.monotonic() - running.since:.1f} s", is_error=True)
        self._live.running.clear()
        self._live.compacting = None
        self._live.waiting = ""
        self._live.is_stopping = False
        self._screen.changed()

    # -- tools ---------------------------------------------------------------------------------------------------------

    def began(self, doing: Doing) -> None:
        self._live.running[doing.call_id] = Running(doing.headline, time.monotonic())
        self._screen.changed()

    def output(self, doing: Doing, text: str) -> None:
        running = self._live.running.get(doing.call_id)
        if running is not None:
            running.print(text)
            self._screen.changed()

    def ended(self, doing: Doing, result: ToolResult, seconds: float) -> None:
        self._live.running.pop(doing.call_id, None)
        self._live.waiting_since = time.monotonic()
        self._say_call(doing.headline, f"{seconds:.1f} s", is_error=result.is_error)
        self._say_outcome(result)

    def _say_call(self, headline: str, how: str, *, is_error: bool) -> None:
        """A call in one line; how it ended is seen however long the call is."""
        look = self._screen.look
        sign, style = (look.sign("✗", "x"), "red") if is_error else (look.sign("✓", "+"), "green")
        room = max(10, self._screen.width - columns(how) - 5)
        self._screen.say(
            Text.assemble((sign, style), f" {clipped(harmless_line(headline), room)}", (f"  {how}", "dim"))
        )

    def _say_outcome(self, result: ToolResult) -> None:
        shown = harmless(result.shown or "").strip("\n")
        if result.is_error:
            first = next((line for line in harmless(result.text).splitlines() if line.strip()), "")
            self._quietly(f"  {first.strip()}", "red")
        elif shown and is_diff(shown):
            self._screen.say(drawing_of_diff(shown))
        elif shown:
            for line in shown.splitlines()[:3]:
                self._quietly(f"  {line}")

    # -- events --------------------------------------------------------------------------------------------------------

    def heard(self, event: Event) -> None:
        """For `clew.events`."""
        match event:
            case CompactionStarted():
                self._live.compacting = Compacting(event.reason, event.tokens, time.monotonic())
            case CompactionPhase(phase="prepare"):
                self.is_preparing = True
            case CompactionPhase(phase="awaited"):
                self.wait_for(AWAITED)
            case CompactionPhase(phase="prepared" | "dropped"):
                self.is_preparing = False
                if self._live.waiting == AWAITED:
                    self.wait_for("waiting for the model")
            case CompactionPhase() if self._live.compacting is not None:
                # A phase is told when it is over: what comes next is the commit.
                self._live.compacting.phase = "commit"
            case CompactionFinished():
                self._say_compacted(event)
            case _:
                self._say_event(event)
        self._screen.changed()

    def _say_compacted(self, done: CompactionFinished) -> None:
        running, self._live.compacting = self._live.compacting, None
        is_asked = running is not None and running.reason == "manual"
        if done.continued_as is not None:
            self.compactions.append(done)
        # Who asked for it by hand is told by the command.
        if is_asked:
            return
        if done.continued_as is None:
            self._warn(f"nothing was compacted: {'; '.join(done.warnings)}" if done.warnings else "")
            return
        seconds = f" in {time.monotonic() - running.since:.1f} s" if running else ""
        arrow = self._screen.look.sign("→", "->")
        who = f", written by {done.written_by}" if done.written_by else ""
        told = f"compacted {done.tokens_before:,} {arrow} {done.tokens_after:,} tokens{seconds}{who}; {UNDO}"
        self._screen.say(Text(told, "magenta"))
        for warning in done.warnings:
            self._warn(warning)

    def _say_event(self, event: Event) -> None:
        match event:
            case Overflowed(attempt=attempt, limit=limit):
                stated = f", which states a window of {limit:,} tokens" if limit else ""
                self._warn(f"the request was too large for the provider{stated}; attempt {attempt} with less follows")
            case WindowLearnt(model=model, tokens=tokens, is_stated=is_stated):
                how = "the provider states it" if is_stated else "a guess for this session"
                self._warn(f"the window of {model} is taken to be {tokens:,} tokens: {how}")
            case OutputCapLowered(max_tokens=most):
                self._quietly(f"asked again for at most {most:,} tokens of output")
            case OutputSpilled(tool=tool, chars=chars):
                self._quietly(
                    f"{tool or 'a tool'} gave {chars:,} characters: they lie in a file, the model sees a part"
                )
            case Notice(text=text):
                self._warn(text)
            case _:
                return

    def _quietly(self, words: str, style: str = "dim") -> None:
        line = Text(words, style)
        line.truncate(self._screen.width - 1, overflow="ellipsis")
        self._screen.say(line)

    def _warn(self, words: str) -> None:
        if words:
            self._screen.say(Text(harmless(words), "yellow"))
