"""Draws the work of the agent: streamed replies, tool calls, and events of compactions and recoveries."""

from __future__ import annotations

import time

from rich.text import Text

from clew.agent import AgentObserver, ToolActivity, ToolResult
from clew.cli.text import clip, display_width, sanitize, sanitize_line
from clew.cli.tui.exchange import overflow_notice, reply_remark
from clew.cli.tui.markdown import MarkdownStream, diff_renderable, is_diff
from clew.cli.tui.screen import RunningCompaction, RunningTool, Screen
from clew.cli.tui.state import ShownOutput
from clew.events import (
    CompactionFinished,
    CompactionPhase,
    CompactionStarted,
    CompactionUndone,
    Event,
    Notice,
    OutputCapLowered,
    OutputSpilled,
    Overflowed,
    PassagesRecalled,
    SummaryReplied,
)
from clew.messages import text_of
from clew.providers import Delta, Reply

MAX_COMMAND_LINES = 40
MAX_RESULT_LINES = 3
"""Lines of a tool result that are shown; Ctrl-O and /output show all."""
_SHOWN_BY_THEIR_END = ("terminal", "process", "read_file")
UNDO_HINT = "/compress --undo brings it back"
WAITING_FOR_PREPARED = "compacting (prepared ahead): summarise"


class ScreenObserver(AgentObserver):
    """Draws each exchange as it happens."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._live = screen.live
        self._stream = MarkdownStream()
        self._has_streamed = False
        self.is_preparing = False
        """A compaction is being prepared."""
        self.compactions: list[CompactionFinished] = []
        """Compactions of this chat that are in effect."""
        self.outputs: list[ShownOutput] = []
        """Outputs of tools in this chat, oldest first."""

    def wait_for(self, what: str) -> None:
        """Show a waiting message; none for an empty text."""
        self._live.waiting, self._live.waiting_since = what, time.monotonic()
        self._screen.refresh()

    def on_delta(self, delta: Delta) -> None:
        # A compaction without changes may end without an event; a reply shows its end.
        self._live.compacting = None
        if delta.kind == "text":
            self._live.thinking = ""
            self._has_streamed = True
            self._live.last_text_at = self._live.waiting_since = time.monotonic()
            self._feed(delta.text)
            self._live.tail = self._stream.tail
        elif delta.kind == "reasoning":
            self._live.thinking = (self._live.thinking + delta.text)[-2_000:]
        elif delta.text:
            self._live.waiting = f"writing a call of {sanitize_line(delta.text)}"
        self._screen.refresh()

    def on_reply(self, reply: Reply) -> None:
        if not self._has_streamed:
            self._feed(text_of(reply.message))
        self.finish_reply()
        self._warn(reply_remark(reply))
        self.wait_for("waiting for the model")

    def _feed(self, text: str) -> None:
        for block in self._stream.feed(text):
            self._screen.print_block(block)

    def finish_reply(self) -> None:
        """Print the rest of the reply, finished or not."""
        for block in self._stream.finish():
            self._screen.print_block(block)
        self._live.tail = self._live.thinking = ""
        self._live.last_text_at = float("-inf")
        self._has_streamed = False
        self._screen.refresh()

    def finish_turn(self) -> None:
        """Clear the live area; running tools are printed as stopped."""
        self.finish_reply()
        for running in self._live.running.values():
            # Printed, because it may have had effects.
            self._print_tool_call(
                running.headline, f"stopped after {time.monotonic() - running.since:.1f} s", is_error=True
            )
        self._live.running.clear()
        self._live.compacting = None
        self._live.waiting = ""
        self._live.is_stopping = False
        self._screen.refresh()

    def on_tool_start(self, activity: ToolActivity) -> None:
        self._live.running[activity.call_id] = RunningTool(activity.headline, time.monotonic())
        self._screen.refresh()

    def on_tool_output(self, activity: ToolActivity, text: str) -> None:
        running = self._live.running.get(activity.call_id)
        if running is not None:
            running.append(text)
            self._screen.refresh()

    def on_tool_end(self, activity: ToolActivity, result: ToolResult, seconds: float) -> None:
        self._live.running.pop(activity.call_id, None)
        self._live.waiting_since = time.monotonic()
        how = f"{seconds:.1f} s"
        if result.text.strip():
            self.outputs.append(ShownOutput(activity.headline, result.text))
            how += f"  #{len(self.outputs)}"
        self._print_tool_call(activity.headline, how, is_error=result.is_error or result.has_failed)
        self._print_tool_result(activity.tool, result)

    def on_command_end(self, headline: str, text: str, how: str, *, is_error: bool) -> None:
        """Print the output of a command that the user ran; of a long one, the end."""
        self._live.running.clear()
        lines = sanitize(text).rstrip("\n").split("\n")
        if text.strip():
            self.outputs.append(ShownOutput(headline, text))
            how += f"  #{len(self.outputs)}"
        self._print_tool_call(headline, how, is_error=is_error)
        if len(lines) > MAX_COMMAND_LINES:
            hidden = len(lines) - MAX_COMMAND_LINES
            self._print_dim(f"  … {hidden:,} lines before; /output {len(self.outputs)} shows all")
        for line in lines[-MAX_COMMAND_LINES:] if text.strip() else []:
            self._screen.say(f"  {line}")

    def _print_tool_call(self, headline: str, how: str, *, is_error: bool) -> None:
        """Print a call on one line; the headline is cut, not the outcome."""
        look = self._screen.look
        sign, style = (look.sign("✗", "x"), "red") if is_error else (look.sign("✓", "+"), "green")
        room = max(10, self._screen.width - display_width(how) - 5)
        self._screen.print(Text.assemble((sign, style), f" {clip(sanitize_line(headline), room)}", (f"  {how}", "dim")))

    def _print_tool_result(self, tool: str, result: ToolResult) -> None:
        """Print a diff, or three lines of a result: of a command the last ones, else the first."""
        shown = sanitize(result.display_text or result.text).strip("\n")
        if shown and result.display_text and is_diff(shown):
            self._screen.print(diff_renderable(shown))
            return
        lines = [line for line in shown.splitlines() if line.strip()]
        most = 1 if tool == "read_file" else MAX_RESULT_LINES
        hidden = len(lines) - most
        is_end = tool in _SHOWN_BY_THEIR_END
        shown_rows = [(line, "red" if result.is_error or result.has_failed else "dim") for line in lines]
        shown_rows = shown_rows[-most:] if is_end else shown_rows[:most]
        if hidden > 0 and tool != "read_file":
            more = f"… {hidden:,} line{'s' if hidden != 1 else ''} {'before' if is_end else 'more'}; Ctrl-O shows all"
            shown_rows.insert(0 if is_end else most, (more, "dim"))
        for line, style in shown_rows:
            self._print_dim(f"  {line}", style)

    def on_event(self, event: Event) -> None:
        """Handle an event of the app."""
        match event:
            case CompactionStarted():
                self._live.compacting = RunningCompaction(event.reason, event.tokens, time.monotonic())
            case CompactionPhase(phase="prepare"):
                self.is_preparing = True
            case CompactionPhase(phase="awaited"):
                self.wait_for(WAITING_FOR_PREPARED)
            case CompactionPhase(phase="prepared" | "dropped"):
                self.is_preparing = False
                if self._live.waiting == WAITING_FOR_PREPARED:
                    self.wait_for("waiting for the model")
            case CompactionPhase() if self._live.compacting is not None:
                # Reported at the end of a phase; the commit is next.
                self._live.compacting.phase = "commit"
            case CompactionFinished():
                self._print_compaction(event)
            case CompactionUndone():
                # The undone compaction may be older than this chat.
                del self.compactions[-1:]
            case _:
                self._print_event(event)
        self._screen.refresh()

    def _print_compaction(self, done: CompactionFinished) -> None:
        running, self._live.compacting = self._live.compacting, None
        is_asked = running is not None and running.reason == "manual"
        if done.continued_as is not None:
            self.compactions.append(done)
        # /compress prints it.
        if is_asked:
            return
        if done.continued_as is None:
            self._warn(f"nothing was compacted: {'; '.join(done.warnings)}" if done.warnings else "")
            return
        seconds = f" in {time.monotonic() - running.since:.1f} s" if running else ""
        arrow = self._screen.look.sign("→", "->")
        who = f", written by {done.written_by}" if done.written_by else ""
        text = f"compacted {done.tokens_before:,} {arrow} {done.tokens_after:,} tokens{seconds}{who}; {UNDO_HINT}"
        self._screen.say(text, "magenta")
        for warning in done.warnings:
            self._warn(warning)

    def _print_event(self, event: Event) -> None:
        match event:
            case Overflowed():
                self._warn(overflow_notice(event))
            case OutputCapLowered(max_tokens=most):
                self._print_dim(f"asked again for at most {most:,} tokens of output")
            case OutputSpilled(tool=tool, chars=chars):
                self._print_dim(
                    f"{tool or 'a tool'} gave {chars:,} characters: stored in a file, the model sees a part"
                )
            case PassagesRecalled(messages=numbers, tokens=tokens):
                self._print_dim(f"recalled {', '.join(numbers)} for this answer, {tokens:,} tokens")
            case SummaryReplied(extends=True, model=model, prompt_tokens=prompt, cache_read_tokens=cached) if prompt:
                self._print_dim(f"{model} read the conversation for a summary, {cached / prompt:.0%} from the cache")
            case Notice(text=text):
                self._warn(text)
            case _:
                return

    def _print_dim(self, words: str, style: str = "dim") -> None:
        line = Text(words, style)
        line.truncate(self._screen.width - 1, overflow="ellipsis")
        self._screen.print(line)

    def _warn(self, words: str) -> None:
        if words:
            self._screen.say(words, "yellow")
