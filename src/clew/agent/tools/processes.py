"""Commands that go on while the agent does other things: started by `terminal`, looked after with `process`.

Each keeps the last part of what it printed; all are ended at `close`. Knows no screen and no approvals: only commands
that were allowed to start are here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from clew.agent.commands.printed import Cleaner, Folder, Tail
from clew.agent.commands.running import Running
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, function_schema, wrong

MOST_RUNNING = 16
MOST_KEPT = 64
"""Of those that ended; the oldest are forgotten."""
RING_CHARS = 1_000_000
LOOK_CHARS = 30_000
MOST_WAIT_SECONDS = 600.0


class BackgroundCommand:
    """One command, and how much of its output was looked at."""

    def __init__(self, number: int, command: str) -> None:
        self.id = f"p{number}"
        self.command = command
        self.exit_code: int | None = None
        self.was_stopped = False
        self.seconds = 0.0
        self._running: Running | None = None
        self._watching: asyncio.Task[None] | None = None
        self._cleaner = Cleaner()
        self._folder = Folder()
        self._tail = Tail(RING_CHARS)
        self._looked = 0

    async def start(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._running = await Running.start(self.command, folder, environ, self._hear)
        self._watching = asyncio.create_task(self._watch(self._running))

    @property
    def has_ended(self) -> bool:
        return self.exit_code is not None

    @property
    def state(self) -> str:
        """How it stands, in a few words."""
        if self._running is None or self.exit_code is None:
            running = f" for {time.monotonic() - self._running.started:.0f} s" if self._running else ""
            return f"running{running}"
        return f"{'stopped' if self.was_stopped else 'ended'} after {self.seconds:.1f} s, [exit {self.exit_code}]"

    def new_output(self) -> tuple[int, str]:
        """What was printed since the last look: how many chars of it are gone, and the rest."""
        self._tail.add(self._folder.rest())
        gone, text = self._tail.since(self._looked)
        self._looked = self._tail.total_chars
        return gone, text

    def last_output(self, lines: int) -> str:
        self._tail.add(self._folder.rest())
        self._looked = self._tail.total_chars
        return "\n".join(self._tail.since(0)[1].splitlines()[-lines:])

    async def wait(self, seconds: float) -> None:
        """Until it ended, but no longer than this."""
        if self._watching is not None:
            await asyncio.wait([self._watching], timeout=seconds)

    async def stop(self) -> None:
        """Nothing of it runs after this."""
        if self._running is not None and not self.has_ended:
            self.was_stopped = True
            await self._running.end()
        if self._watching is not None:
            await asyncio.wait([self._watching])

    def _hear(self, piece: bytes) -> None:
        self._tail.add(self._folder.feed(self._cleaner.feed(piece)))

    async def _watch(self, running: Running) -> None:
        code = await running.exit_code()
        # What it left running ends with it: nothing runs that nobody looks after.
        await running.end()
        self._tail.add(self._folder.feed(self._cleaner.feed(b"", is_last=True)))
        self.seconds = time.monotonic() - running.started
        self.exit_code = code


class Background:
    """Every command in the background of one agent."""

    def __init__(self, most_running: int = MOST_RUNNING) -> None:
        self._most_running = most_running
        self._commands: dict[str, BackgroundCommand] = {}
        self._started = 0
        self._told: set[str] = set()

    @property
    def commands(self) -> tuple[BackgroundCommand, ...]:
        return tuple(self._commands.values())

    def find(self, name: str) -> BackgroundCommand | None:
        return self._commands.get(name)

    @property
    def is_full(self) -> bool:
        return sum(not command.has_ended for command in self.commands) >= self._most_running

    async def start(self, command: str, folder: Path, environ: Mapping[str, str]) -> BackgroundCommand:
        """Starts a command. Raises OSError where that cannot be; ask `is_full` first."""
        self._started += 1
        started = BackgroundCommand(self._started, command)
        await started.start(folder, environ)
        self._commands[started.id] = started
        ended = [command.id for command in self.commands if command.has_ended]
        for forgotten in ended[: max(0, len(ended) - MOST_KEPT)]:
            del self._commands[forgotten]
        return started

    def ended_since_last_look(self) -> tuple[BackgroundCommand, ...]:
        """Those that ended and were not told of yet."""
        ended = tuple(command for command in self.commands if command.has_ended and command.id not in self._told)
        self._told.update(command.id for command in ended)
        return ended

    def told(self, command: BackgroundCommand) -> None:
        """Its end, if it has ended, is in a result already."""
        if command.has_ended:
            self._told.add(command.id)

    async def close(self) -> None:
        await asyncio.gather(*(command.stop() for command in self.commands))


_ABOUT = (
    "Look after commands that `terminal` started with background: true. "
    "list: all of them and how they stand. output: what one printed since you last looked (tail: N for its last N "
    "lines). wait: until it ends, at most `seconds` (default 30), then its new output. stop: end it and all it "
    "started. They have no standard input. They end with the session."
)


class ProcessTool(AgentTool):
    """Looks after commands in the background."""

    name = "process"

    def __init__(self, background: Background, look_chars: int = LOOK_CHARS) -> None:
        self._background = background
        self._look_chars = look_chars
        self.schema = function_schema(
            self.name,
            _ABOUT,
            {
                "action": {"type": "string", "enum": ["list", "output", "wait", "stop"]},
                "id": {"type": "string", "description": "Such as p1; not for list."},
                "tail": {"type": "integer", "description": "For output: the last lines, seen or not."},
                "seconds": {"type": "number", "description": "For wait."},
            },
            "action",
        )

    def headline(self, arguments: Arguments) -> str:
        return f"process {arguments.get('action', '')} {arguments.get('id', '')}".strip()

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        action = arguments.get("action")
        if action == "list":
            return ToolResult(self._list())
        command = self._background.find(str(arguments.get("id", "")))
        if command is None:
            ids = ", ".join(one.id for one in self._background.commands) or "none were started"
            return wrong(f"there is no background command {arguments.get('id')!r}; there are: {ids}")
        if action == "output":
            return self._output(command, arguments.get("tail"))
        if action == "wait":
            seconds = _number(arguments.get("seconds", 30))
            if seconds is None:
                return wrong(f"seconds is {arguments['seconds']!r}; give a number from 0 to {MOST_WAIT_SECONDS:.0f}")
            await command.wait(min(seconds, MOST_WAIT_SECONDS))
            return self._output(command, None)
        if action == "stop":
            await command.stop()
            return self._output(command, None)
        return wrong(f"action is {action!r}; it is one of list, output, wait, stop")

    def _list(self) -> str:
        for command in self._background.commands:
            self._background.told(command)
        lines = [f"{one.id}  {one.state}  {_one_line(one.command)}" for one in self._background.commands]
        return "\n".join(lines) or "no command was started in the background"

    def _output(self, command: BackgroundCommand, tail: object) -> ToolResult:
        if tail is None:
            gone, text = command.new_output()
        elif isinstance(tail, int) and tail > 0:
            gone, text = 0, command.last_output(tail)
        else:
            return wrong(f"tail is {tail!r}; give a number of lines, from 1")
        if len(text) > self._look_chars:
            gone, text = gone + len(text) - self._look_chars, text[-self._look_chars :]
        self._background.told(command)
        return ToolResult("\n".join(part for part in self._parts(command, gone, text) if part))

    def _parts(self, command: BackgroundCommand, gone: int, text: str) -> list[str]:
        others = self._background.ended_since_last_look()
        return [
            f"[{gone:,} chars left out here]" if gone else "",
            text.rstrip("\n") or "(nothing new was printed)",
            f"{command.id} {command.state}",
            *(f"also {other.id} {other.state}: {_one_line(other.command)}" for other in others),
        ]

    async def close(self) -> None:
        await self._background.close()


def _number(value: object) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    return float(value) if good else None  # type: ignore[arg-type]


def _one_line(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 100 else f"{line[:99]}…"
