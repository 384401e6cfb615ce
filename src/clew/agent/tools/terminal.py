"""The tools `terminal` and `process`: run a shell command in the project, and look after those in the background.

Every call of `terminal` is a new shell in its own process group, which always ends with the call. What
is dangerous about a command is decided in `clew.agent.command_risk`. Without a sandbox (`clew.agent.sandbox`) an
allowed command can do what its user can.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clew.agent.approvals import Risk
from clew.agent.command_risk import CommandAssessment, assess_command, outside_risk
from clew.agent.files.session_files import SessionFiles
from clew.agent.process_output import CommandOutput
from clew.agent.processes import (
    BackgroundCommand,
    BackgroundCommands,
    CommandSandbox,
    ProcessGroup,
    command_environment,
    shell_command,
    watched,
)
from clew.agent.safe_text import printable_line
from clew.agent.tools.base import (
    AgentTool,
    Arguments,
    CallContext,
    ToolResult,
    error_result,
    flag_argument,
    tool_schema,
)
from clew.errors import InvalidArgument

FIRST_LOOK_SECONDS = 1.0
"""How long a call with `background` waits for first output, or for an early end."""
MAX_LOOK_CHARS = 30_000
MAX_WAIT_SECONDS = 600.0

_SANDBOX_DESCRIPTION = (
    " Commands run in a sandbox: there is no network, only the project and /tmp can be written, and secrets of the "
    "user are hidden. What fails for that reason fails in every other way, too; say what you need instead."
)


@dataclass(frozen=True, slots=True)
class _TerminalRequest:
    """The arguments of a call."""

    command: str
    folder: Path
    seconds: float
    in_background: bool


class TerminalTool(AgentTool):
    """Runs commands."""

    name = "terminal"

    def __init__(
        self,
        project: Path,
        environ: Mapping[str, str],
        seconds: float = 120.0,
        max_seconds: float = 1_800.0,
        keep_chars: int = 30_000,
        *,
        keep_secrets: Collection[str] = (),
        withhold: Collection[str] = (),
        background: BackgroundCommands | None = None,
        sandbox: CommandSandbox | None = None,
        session_files: SessionFiles | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._session_files = session_files or SessionFiles()
        self._shown: dict[_TerminalRequest, frozenset[str]] = {}
        """The scripts, by their hashes, that a person saw with a call that has not run yet."""
        self._project = project.resolve()
        self._environ = command_environment(environ, keep_secrets, withhold)
        self._seconds = seconds
        self._max_seconds = max_seconds
        self._keep_chars = keep_chars
        self.background = background or BackgroundCommands(sandbox=sandbox)
        """Share it with `ProcessTool`."""
        self.schema = tool_schema(
            self.name,
            SANDBOX=_SANDBOX_DESCRIPTION if sandbox else "",
            SECONDS=f"{seconds:.0f}",
            MAX_SECONDS=f"{max_seconds:.0f}",
        )

    def risk(self, arguments: Arguments) -> Risk | None:
        request = self._request(arguments)
        if isinstance(request, ToolResult):
            return None
        assessment = self._assess(request)
        risk = assessment.risk
        self._shown[request] = frozenset(script.digest for script in assessment.scripts)
        if request.folder.is_relative_to(self._project):
            return risk
        return outside_risk(request.command, request.folder, risk)

    def refused(self, arguments: Arguments) -> None:
        request = self._request(arguments)
        if isinstance(request, _TerminalRequest):
            self._shown.pop(request, None)

    def _assess(self, request: _TerminalRequest) -> CommandAssessment:
        return assess_command(
            request.command, self._project, request.folder, self._environ, session_files=self._session_files
        )

    def _note_files(self, request: _TerminalRequest) -> str | None:
        """Note what it writes and what was agreed to; returns the problem where a script has changed since."""
        assessment = self._assess(request)
        now = {script.digest: script.path for script in assessment.scripts}
        shown = self._shown.pop(request, now.keys())
        changed = [path for digest, path in now.items() if digest not in shown]
        if changed:
            return f"{changed[0]} has changed since this command was looked at; run it again"
        self._session_files.agree(now)
        for path in assessment.written:
            self._session_files.record(path)
        return None

    def headline(self, arguments: Arguments) -> str:
        lines = str(arguments.get("command", "")).strip().splitlines() or [""]
        return f"$ {printable_line(lines[0], 200)}{' …' if len(lines) > 1 else ''}".rstrip()

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        request = self._request(arguments)
        if isinstance(request, ToolResult):
            return request
        if not os.path.isdir(request.folder):  # noqa: PTH112, ASYNC240 (one look; a name that is too long raises with Path)
            folder = printable_line(str(request.folder), 200)
            return error_result(f"workdir {folder!r} is no folder; give one that is there, or none for the project")
        problem = self._note_files(request)
        if problem:
            return error_result(problem)
        if request.in_background:
            return await self._start(request)
        return await self._finish(request, call)

    async def close(self) -> None:
        await self.background.close()

    # -- running -------------------------------------------------------------------------------------------------------

    async def _finish(self, request: _TerminalRequest, call: CallContext) -> ToolResult:
        """Run it to its end, or to the time limit."""
        output = CommandOutput(self._keep_chars)
        started = time.monotonic()
        process = await ProcessGroup.start(
            shell_command(request.command, self._sandbox, request.folder),
            request.folder,
            self._environ,
            lambda piece: _pass_on(call.on_output, output.feed(piece)),
        )
        code: int | None = None
        async with watched(self._sandbox) as left:
            try:
                code = await asyncio.wait_for(process.exit_code(), request.seconds)
            except TimeoutError:
                pass
            finally:
                left_some = await process.end()
        seconds = time.monotonic() - started
        text = output.text().rstrip("\n")
        news = [f"{one.id} {one.state}" for one in self.background.newly_ended()]
        sentences = await self.background.ask_about([*left, *self.background.take_left()], call.confirm)
        text = "\n".join([*([text] if text else []), *(f"[{sentence}]" for sentence in sentences), *news])
        report = _report(text, code, seconds, request.seconds, left_some)
        return ToolResult(report, is_error=code is None, has_failed=bool(code))

    async def _start(self, request: _TerminalRequest) -> ToolResult:
        if self.background.is_full:
            return error_result(
                "too many commands run in the background; stop one with the tool `process` (list shows them)"
            )
        command = await self.background.start(request.command, request.folder, self._environ)
        try:
            await command.wait(FIRST_LOOK_SECONDS)
        except asyncio.CancelledError:
            await asyncio.shield(command.stop())
            raise
        _, text = command.new_output()
        command.is_reported = command.has_ended
        return ToolResult(f"{text}{command.id} {command.state}; look after it with the tool `process`")

    # -- arguments -----------------------------------------------------------------------------------------------------

    def _request(self, arguments: Arguments) -> _TerminalRequest | ToolResult:
        command, workdir = arguments.get("command"), arguments.get("workdir") or "."
        if not isinstance(command, str) or not command.strip():
            return error_result(f"command is {command!r}; give the command as text")
        if not _can_be_passed(command):
            return error_result("command holds NUL or half of a surrogate pair, which no shell can run; leave that out")
        if not isinstance(workdir, str) or not _can_be_passed(workdir):
            return error_result(f"workdir is {workdir!r}; give a folder as text, or leave it out")
        seconds = self._time_limit(arguments.get("timeout"))
        if seconds is None:
            return error_result(f"timeout is {arguments['timeout']!r}; give seconds, from 1 to {self._max_seconds:.0f}")
        home = self._environ.get("HOME", "")
        if workdir == "~" or workdir.startswith("~/"):
            workdir = home + workdir[1:]
        folder = Path(os.path.realpath(self._project / workdir))  # Path.resolve raises where links go in circles
        try:
            in_background = flag_argument(arguments, "background")
        except InvalidArgument as problem:
            return error_result(str(problem))
        return _TerminalRequest(command, folder, seconds, in_background)

    def _time_limit(self, timeout: object) -> float | None:
        if timeout is None:
            return self._seconds
        if isinstance(timeout, str) and re.fullmatch(r"\s*\d{1,6}(?:\.\d*)?\s*", timeout):
            timeout = float(timeout)
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            return None
        return min(float(timeout), self._max_seconds)


def _can_be_passed(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _pass_on(on_output: Callable[[str], None], text: str) -> None:
    if text:
        on_output(text)


def _report(text: str, code: int | None, seconds: float, limit: float, left_some: bool) -> str:
    """The output, and how it ended. `clew.facts` reads `[exit N]`."""
    if code is None:
        end = f"timed out after {limit:g} s and was ended; for what takes longer give a timeout, or background: true"
        return f"{text}\n{end}" if text else f"{end} (nothing was printed)"
    end = f"[exit {code}] after {seconds:.1f} s"
    if left_some:
        end += "; what it left running was ended: use background: true for what shall go on"
    return f"{text or '(nothing was printed)'}\n{end}"


class ProcessTool(AgentTool):
    """Looks after commands in the background."""

    name = "process"
    schema = tool_schema(name)

    def __init__(self, background: BackgroundCommands, look_chars: int = MAX_LOOK_CHARS) -> None:
        self._background = background
        self._look_chars = look_chars

    def headline(self, arguments: Arguments) -> str:
        return f"process {arguments.get('action', '')} {arguments.get('id', '')}".strip()

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        result = await self._run(arguments)
        sentences = await self._background.ask_about(self._background.take_left(), call.confirm)
        text = "\n".join([result.text, *(f"[{sentence}]" for sentence in sentences)])
        return replace(result, text=text) if sentences else result

    async def _run(self, arguments: Arguments) -> ToolResult:
        action = arguments.get("action")
        if action == "list":
            return ToolResult(self._list())
        command = self._background.find(str(arguments.get("id", "")))
        if command is None:
            ids = ", ".join(one.id for one in self._background.commands) or "none were started"
            return error_result(f"there is no background command {arguments.get('id')!r}; there are: {ids}")
        if action == "output":
            return self._output(command, arguments.get("tail"))
        if action == "wait":
            seconds = _seconds(arguments.get("seconds", 30))
            if seconds is None:
                return error_result(
                    f"seconds is {arguments['seconds']!r}; give a number from 0 to {MAX_WAIT_SECONDS:.0f}"
                )
            await command.wait(min(seconds, MAX_WAIT_SECONDS))
            return self._output(command, None)
        if action == "stop":
            await command.stop()
            return self._output(command, None)
        return error_result(f"action is {action!r}; it is one of list, output, wait, stop")

    def _list(self) -> str:
        for command in self._background.commands:
            command.is_reported = command.has_ended
        lines = [f"{one.id}  {one.state}  {_one_line(one.command)}" for one in self._background.commands]
        return "\n".join(lines) or "no command was started in the background"

    def _output(self, command: BackgroundCommand, tail: object) -> ToolResult:
        if tail is None:
            lost, text = command.new_output()
        elif isinstance(tail, int) and tail > 0:
            lost, text = 0, command.last_output(tail)
        else:
            return error_result(f"tail is {tail!r}; give a number of lines, from 1")
        if len(text) > self._look_chars:
            lost, text = lost + len(text) - self._look_chars, text[-self._look_chars :]
        command.is_reported = command.has_ended
        return ToolResult("\n".join(part for part in self._parts(command, lost, text) if part))

    def _parts(self, command: BackgroundCommand, lost: int, text: str) -> list[str]:
        others = self._background.newly_ended()
        return [
            f"[{lost:,} chars left out here]" if lost else "",
            text.rstrip("\n") or "(nothing new was printed)",
            f"{command.id} {command.state}",
            *(f"also {other.id} {other.state}: {_one_line(other.command)}" for other in others),
        ]

    async def close(self) -> None:
        await self._background.close()


def _seconds(value: object) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    return float(value) if good else None  # type: ignore[arg-type]


def _one_line(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 100 else f"{line[:99]}…"
