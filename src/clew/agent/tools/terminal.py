"""The tool `terminal`: runs a command in a shell, in the project, with a time limit and live output.

Every call is a new shell in a process group of its own, which ends with the call whatever happens. What is dangerous
about a command is known to `clew.agent.dangers`; this is no sandbox: an allowed command can do what its user can.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from clew.agent.commands.printed import Printed
from clew.agent.commands.running import Running
from clew.agent.commands.surroundings import environment_for_commands
from clew.agent.dangers import outside_risk, risk_of_command
from clew.agent.shown import shown
from clew.agent.tools.arguments import flag_argument
from clew.agent.tools.base import AgentTool, Arguments, CallContext, Risk, ToolResult, function_schema, wrong
from clew.agent.tools.processes import Background
from clew.errors import InvalidArgument

FIRST_LOOK_SECONDS = 1.0
"""How long a call with `background` waits for first output, or for an early end."""

_ABOUT = (
    "Run a shell command in the project (bash where there is one). Each call is a new shell: `cd` and variables do not "
    "carry over, so use workdir or `cd x && ...`. Output of both streams comes back in order with the exit code. "
    "No terminal and no standard input: use flags that answer questions (`-y`). What a command leaves running is ended "
    "with it; for servers and watchers use background: true, then the tool `process`. Dangerous commands are shown to "
    "the user first. To read, search or change files use the tools for files."
)


@dataclass(frozen=True, slots=True)
class _Order:
    """What a call asks for."""

    command: str
    folder: Path
    seconds: float
    in_background: bool


class Terminal(AgentTool):
    """Runs commands."""

    name = "terminal"

    def __init__(
        self,
        project: Path,
        environ: Mapping[str, str],
        seconds: float = 120.0,
        most_seconds: float = 1_800.0,
        keep_chars: int = 30_000,
        *,
        keep_secrets: Collection[str] = (),
        withhold: Collection[str] = (),
        background: Background | None = None,
    ) -> None:
        self._project = project.resolve()
        self._environ = environment_for_commands(environ, keep_secrets, withhold)
        self._seconds = seconds
        self._most_seconds = most_seconds
        self._keep_chars = keep_chars
        self.background = background or Background()
        """Share it with `ProcessTool`."""
        limit = f"Seconds until it is ended; {seconds:.0f} unless given, at most {most_seconds:.0f}."
        self.schema = function_schema(
            self.name,
            _ABOUT,
            {
                "command": {"type": "string"},
                "workdir": {"type": "string", "description": "Folder to run in; the project unless given."},
                "timeout": {"type": "number", "description": limit},
                "background": {"type": "boolean", "description": "Go on at once and let it run."},
            },
            "command",
        )

    def risk(self, arguments: Arguments) -> Risk | None:
        order = self._order(arguments)
        if isinstance(order, ToolResult):
            return None
        risk = risk_of_command(order.command, self._project, order.folder, self._environ)
        if order.folder.is_relative_to(self._project):
            return risk
        return outside_risk(order.command, order.folder, risk)

    def headline(self, arguments: Arguments) -> str:
        lines = str(arguments.get("command", "")).strip().splitlines() or [""]
        return f"$ {shown(lines[0], 200)}{' …' if len(lines) > 1 else ''}".rstrip()

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        order = self._order(arguments)
        if isinstance(order, ToolResult):
            return order
        if not os.path.isdir(order.folder):  # noqa: PTH112, ASYNC240 (one look; a name that is too long raises with Path)
            folder = shown(str(order.folder), 200)
            return wrong(f"workdir {folder!r} is no folder; give one that is there, or none for the project")
        if order.in_background:
            return await self._start(order)
        return await self._finish(order, call.on_output)

    async def close(self) -> None:
        await self.background.close()

    # -- running -------------------------------------------------------------------------------------------------------

    async def _finish(self, order: _Order, on_output: Callable[[str], None]) -> ToolResult:
        """Runs it to its end, or to the limit."""
        printed = Printed(self._keep_chars)
        started = time.monotonic()
        running = await Running.start(
            order.command, order.folder, self._environ, lambda piece: _show(on_output, printed.feed(piece))
        )
        code: int | None = None
        try:
            code = await asyncio.wait_for(running.exit_code(), order.seconds)
        except TimeoutError:
            pass
        finally:
            left_some = await running.end()
        seconds = time.monotonic() - started
        text = printed.text().rstrip("\n")
        news = [f"{one.id} {one.state}" for one in self.background.ended_since_last_look()]
        text = "\n".join([*([text] if text else []), *news])
        told = _report(text, code, seconds, order.seconds, left_some)
        return ToolResult(told, is_error=code is None, shown=f"exit {code}" if code else None)

    async def _start(self, order: _Order) -> ToolResult:
        if self.background.is_full:
            return wrong("too many commands run in the background; stop one with the tool `process` (list shows them)")
        command = await self.background.start(order.command, order.folder, self._environ)
        try:
            await command.wait(FIRST_LOOK_SECONDS)
        except asyncio.CancelledError:
            await asyncio.shield(command.stop())
            raise
        _, text = command.new_output()
        self.background.told(command)
        return ToolResult(f"{text}{command.id} {command.state}; look after it with the tool `process`")

    # -- arguments -----------------------------------------------------------------------------------------------------

    def _order(self, arguments: Arguments) -> _Order | ToolResult:
        command, workdir = arguments.get("command"), arguments.get("workdir") or "."
        if not isinstance(command, str) or not command.strip():
            return wrong(f"command is {command!r}; give the command as text")
        if not _can_be_passed(command):
            return wrong("command holds NUL or half of a surrogate pair, which no shell can run; leave that out")
        if not isinstance(workdir, str) or not _can_be_passed(workdir):
            return wrong(f"workdir is {workdir!r}; give a folder as text, or leave it out")
        seconds = self._limit(arguments.get("timeout"))
        if seconds is None:
            return wrong(f"timeout is {arguments['timeout']!r}; give seconds, from 1 to {self._most_seconds:.0f}")
        home = self._environ.get("HOME", "")
        if workdir == "~" or workdir.startswith("~/"):
            workdir = home + workdir[1:]
        folder = Path(os.path.realpath(self._project / workdir))  # Path.resolve raises where links go in circles
        try:
            in_background = flag_argument(arguments, "background")
        except InvalidArgument as problem:
            return wrong(str(problem))
        return _Order(command, folder, seconds, in_background)

    def _limit(self, timeout: object) -> float | None:
        if timeout is None:
            return self._seconds
        if isinstance(timeout, str) and re.fullmatch(r"\s*\d{1,6}(?:\.\d*)?\s*", timeout):
            timeout = float(timeout)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            return None
        return min(float(timeout), self._most_seconds)


def _can_be_passed(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _show(on_output: Callable[[str], None], text: str) -> None:
    if text:
        on_output(text)


def _report(text: str, code: int | None, seconds: float, limit: float, left_some: bool) -> str:
    """What was printed, and how it ended. The ledger reads `[exit N]`."""
    if code is None:
        end = f"timed out after {limit:g} s and was ended; for what takes longer give a timeout, or background: true"
        return f"{text}\n{end}" if text else f"{end} (nothing was printed)"
    end = f"[exit {code}] after {seconds:.1f} s"
    if left_some:
        end += "; what it left running was ended: use background: true for what shall go on"
    return f"{text or '(nothing was printed)'}\n{end}"
