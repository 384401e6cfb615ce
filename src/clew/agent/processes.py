"""Shell commands as processes: each in its own process group, in the foreground or in the background.

Standard input is empty, both outputs come through one pipe in their order, and a command is ended together with all
that it started. Whether a command may run is decided in `clew.agent.command_risk`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clew.agent.approvals import Risk
from clew.agent.process_output import CommandOutput
from clew.providers import PROVIDER_PRESETS

GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL."""
LINGER_SECONDS = 0.5
"""How long output may still follow the command ended: a `tee` that it wrote to needs a moment."""
_POLL_SECONDS = 0.01
_LOOK_SECONDS = 3.0
MAX_RUNNING = 16
MAX_ENDED = 64
"""Ended background commands that are remembered; the oldest are forgotten."""
OUTPUT_CHARS = 1_000_000
"""Of a background command: the last part is kept."""

OnBytes = Callable[[bytes], object]


_PARENT_SCRIPT = 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?'
"""The shell that is the parent of a command; it prints nothing itself."""


def shell_command(command: str, sandbox: CommandSandbox | None = None, folder: Path = Path()) -> list[str]:
    """The arguments that run a command: by bash where there is one, since models write for bash.

    Its parent is a shell, not this process: what it can read of its parent under /proc is an environment without keys.
    In a sandbox it sees no process outside.
    """
    run = [shutil.which("bash") or shutil.which("sh") or "/bin/sh", "-c", command]
    if sandbox is not None:
        return [*sandbox.arguments(folder), *run]
    return [shutil.which("sh") or "/bin/sh", "-c", _PARENT_SCRIPT, "command", *run]


@dataclass(frozen=True, slots=True)
class LeftCode:
    """What a command left that would run outside the sandbox."""

    path: Path
    why: str
    name: str
    """Its path, for people."""
    aside: Path | None = None
    """Where it is now; None where it is still in its place."""
    aside_name: str = ""
    digest: bytes = b""
    text: str = ""
    """What a person reads before deciding."""

    def __str__(self) -> str:
        if self.aside is None:
            return f"{self.name} has changed, and {self.why}. A person should look at it"
        return (
            f"{self.name} was made inside the sandbox and would run code outside ({self.why}); it is now "
            f"{self.aside_name}. A person can look at it and rename it back, and the HEAD in it"
        )


class CommandSandbox(Protocol):
    """Walls around a command."""

    def arguments(self, folder: Path) -> list[str]:
        """The words before a command that run it inside, in that folder."""

    def set_aside(self) -> list[LeftCode]:
        """Set aside what commands left that would run outside."""

    def decide(self, left: LeftCode, *, keeps: bool) -> str:
        """Carry out what a person decided; returns a sentence about it."""


@asynccontextmanager
async def watched(sandbox: CommandSandbox | None) -> AsyncIterator[list[LeftCode]]:
    """While a command runs, and when it has ended, look at what it left; the list gets each thing."""
    found: list[LeftCode] = []

    async def look() -> None:
        while sandbox is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            found.extend(await asyncio.to_thread(sandbox.set_aside))

    looking = asyncio.create_task(look())
    try:
        yield found
    finally:
        looking.cancel()
        if sandbox is not None:
            found.extend(sandbox.set_aside())


class ProcessGroup:
    """A running command. The caller of `start` must call `end`, or wait for its `exit_code`."""

    def __init__(self, child: asyncio.subprocess.Process, reading: asyncio.ReadTransport, reader: _PipeReader) -> None:
        self._child = child
        self._reading = reading
        self._reader = reader
        self.started = time.monotonic()

    @classmethod
    async def start(
        cls, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], on_bytes: OnBytes
    ) -> ProcessGroup:
        """Start a program. Raises OSError where that fails. When it is cancelled, nothing is left running."""
        starting = asyncio.ensure_future(cls._start(arguments, folder, environ, on_bytes))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The command may run already, and only `starting` knows it. Ending it is quick, so a second cancellation
            # waits for it, too.
            ending = asyncio.ensure_future(_end_started(starting))
            while not ending.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(ending)
            raise

    @classmethod
    async def _start(
        cls, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], on_bytes: OnBytes
    ) -> ProcessGroup:
        # A pipe of our own: asyncio's would make waiting for the exit wait for grandchildren that hold it, too.
        read_end, write_end = os.pipe()
        with ExitStack() as opened:
            pipe = opened.enter_context(os.fdopen(read_end, "rb", buffering=0))
            try:
                child = await asyncio.create_subprocess_exec(
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=write_end,
                    stderr=write_end,
                    cwd=folder,
                    env=dict(environ),
                    start_new_session=True,
                )
            finally:
                os.close(write_end)
            opened.pop_all()  # the child runs, and the pipe is read until it ends
        reader = _PipeReader(on_bytes)
        reading, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: reader, pipe)
        return cls(child, reading, reader)

    @property
    def pid(self) -> int:
        return self._child.pid

    async def exit_code(self) -> int:
        """Wait for the end and for the output; the exit code, 128 and its number where a signal ended the command."""
        code = await self._child.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reader.at_end), LINGER_SECONDS)
        return code

    async def end(self, grace: float = GRACE_SECONDS) -> bool:
        """End every process of the group; returns whether any still ran."""
        try:
            left = self._is_alive()
            if left:
                self._signal(signal.SIGTERM)
                await self._wait_until_dead(grace)
            return left
        finally:
            # Also when the waiting itself is cancelled: no command survives its call.
            if self._is_alive():
                self._signal(signal.SIGKILL)
            self._reading.close()
            await asyncio.shield(self._wait_until_gone())

    async def _wait_until_gone(self) -> None:
        await self._child.wait()
        # A signal takes time to work; a process that hangs in the kernel must not hang the call.
        await self._wait_until_dead(GRACE_SECONDS)
        await self._reader.at_end

    async def _wait_until_dead(self, max_seconds: float) -> None:
        """Wait until nothing of the group runs, or the time is up."""
        deadline = time.monotonic() + max_seconds
        while self._is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110 (there is no event for grandchildren)
            await asyncio.sleep(_POLL_SECONDS)

    def _is_alive(self) -> bool:
        return self._child.returncode is None or bool(_live_processes(self.pid))

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


async def _end_started(starting: asyncio.Future[ProcessGroup]) -> None:
    with suppress(OSError, ValueError):
        await (await starting).end(grace=0)


class _PipeReader(asyncio.Protocol):
    """Passes on the output of the pipe; `at_end` is set when it is closed."""

    def __init__(self, on_bytes: OnBytes) -> None:
        self._on_bytes = on_bytes
        self.at_end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._on_bytes(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.at_end.done():
            self.at_end.set_result(None)


def _live_processes(group: int) -> list[int]:
    """Processes of a group that still run; zombies (in a container, say) do not count."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return []
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return [group]
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit() and _is_of_group(entry, group)]


def _is_of_group(entry: Path, group: int) -> bool:
    try:
        # The name is in brackets and may hold anything; state, parent and group follow it.
        state, _, its_group = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return its_group == str(group) and state not in "ZX"


# -- commands in the background ----------------------------------------------------------------------------------------


class BackgroundCommand:
    """A command in the background, and how much of its output was read."""

    def __init__(self, number: int, command: str, sandbox: CommandSandbox | None = None) -> None:
        self._sandbox = sandbox
        self.id = f"p{number}"
        self.command = command
        self.exit_code: int | None = None
        self.was_stopped = False
        self.is_reported = False
        """Whether a result has its end already."""
        self.seconds = 0.0
        self._process: ProcessGroup
        self._watching: asyncio.Task[None]
        self._output = CommandOutput(OUTPUT_CHARS, head_share=0)
        self._read_chars = 0
        self.left: list[LeftCode] = []
        """What it left that would run outside the sandbox, until a person decided about it."""

    async def start(self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._process = await ProcessGroup.start(arguments, folder, environ, self._output.feed)
        self._watching = asyncio.create_task(self._watch(self._process))

    @property
    def has_ended(self) -> bool:
        return self.exit_code is not None

    @property
    def state(self) -> str:
        """Whether and how long it runs or ran, in a few words."""
        if self.exit_code is None:
            return f"running for {time.monotonic() - self._process.started:.0f} s"
        return f"{'stopped' if self.was_stopped else 'ended'} after {self.seconds:.1f} s, [exit {self.exit_code}]"

    def new_output(self) -> tuple[int, str]:
        """What was printed since the last call: how many chars of it are lost, and the rest."""
        self._output.flush()
        gone, text = self._output.tail.since(self._read_chars)
        self._read_chars = self._output.tail.total_chars
        return gone, text

    def last_output(self, lines: int) -> str:
        self._output.flush()
        self._read_chars = self._output.tail.total_chars
        return "\n".join(self._output.tail.since(0)[1].splitlines()[-lines:])

    async def wait(self, seconds: float) -> None:
        """Wait until it has ended, or the time is up."""
        await asyncio.wait([self._watching], timeout=seconds)

    async def stop(self) -> None:
        """End it and all it started."""
        if not self.has_ended:
            self.was_stopped = True
            await self._process.end()
        await asyncio.wait([self._watching])

    async def _watch(self, running: ProcessGroup) -> None:
        async with watched(self._sandbox) as aside:
            code = await running.exit_code()
            # What it left running ends with it.
            await running.end()
        self.left = aside
        for left in aside:
            self._output.tail.add(f"\n[{left}]\n")
        self._output.end()
        self.seconds = time.monotonic() - running.started
        self.exit_code = code


class BackgroundCommands:
    """The background commands of one agent."""

    def __init__(self, max_running: int = MAX_RUNNING, sandbox: CommandSandbox | None = None) -> None:
        self._max_running = max_running
        self._sandbox = sandbox
        self._commands: dict[str, BackgroundCommand] = {}
        self._started = 0

    @property
    def commands(self) -> tuple[BackgroundCommand, ...]:
        return tuple(self._commands.values())

    def find(self, name: str) -> BackgroundCommand | None:
        return self._commands.get(name)

    @property
    def is_full(self) -> bool:
        return sum(not command.has_ended for command in self.commands) >= self._max_running

    async def start(self, command: str, folder: Path, environ: Mapping[str, str]) -> BackgroundCommand:
        """Start a command. Raises OSError where that fails; ask `is_full` first."""
        self._started += 1
        started = BackgroundCommand(self._started, command, self._sandbox)
        await started.start(shell_command(command, self._sandbox, folder), folder, environ)
        self._commands[started.id] = started
        ended = [command.id for command in self.commands if command.has_ended]
        for forgotten in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._commands[forgotten]
        return started

    def take_left(self) -> list[LeftCode]:
        """What ended commands left that would run outside the sandbox; each is returned once."""
        found = [left for command in self.commands for left in command.left]
        for command in self.commands:
            command.left = []
        return found

    async def ask_about(
        self, found: Sequence[LeftCode], confirm: Callable[[Risk], Awaitable[bool | None]]
    ) -> list[str]:
        """Ask a person about what commands left; returns a sentence about each. Without an answer nothing changes."""
        sentences = []
        for left in found:
            keeps = await confirm(
                Risk(
                    f"keep {left.name}",
                    (str(left), "yes keeps it in its place, no sets it aside"),
                    f"{left.name} {left.digest.hex()}",
                    left.text,
                )
            )
            decide = self._sandbox.decide if self._sandbox is not None else None
            sentences.append(str(left) if keeps is None or decide is None else decide(left, keeps=keeps))
        return sentences

    def newly_ended(self) -> tuple[BackgroundCommand, ...]:
        """Those whose end was not reported yet; they count as reported from now on."""
        ended = tuple(command for command in self.commands if command.has_ended and not command.is_reported)
        for command in ended:
            command.is_reported = True
        return ended

    async def close(self) -> None:
        await asyncio.gather(*(command.stop() for command in self.commands))


# -- the environment of commands ---------------------------------------------------------------------------------------

# There is no keyboard: what would ask or page must fail or continue instead of waiting for the time limit.
_FIXED_VARIABLES = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
# What a person may have set otherwise, with a reason.
_DEFAULT_VARIABLES = {
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    # Output through a pipe would arrive only at the end, and not at all when the time limit ends the command.
    "PYTHONUNBUFFERED": "1",
}
_OWN_SECRET = re.compile(r"CLEW_.*(?:KEY|KEYS|TOKEN|SECRET|PASSWORD|DSN|URL)\Z")


def provider_key_variables() -> frozenset[str]:
    """Names of the variables that hold known providers' keys."""
    return frozenset(name for preset in PROVIDER_PRESETS for name in (preset.key_env, *preset.other_key_envs) if name)


def withheld_variables(
    environ: Mapping[str, str], keep: Collection[str] = (), withhold: Collection[str] = ()
) -> frozenset[str]:
    """Names of the variables that commands do not get."""
    ours = provider_key_variables().union(withhold)
    return frozenset(name for name in environ if name not in keep and (name in ours or _OWN_SECRET.match(name)))


def command_environment(
    environ: Mapping[str, str], keep: Collection[str] = (), withhold: Collection[str] = ()
) -> dict[str, str]:
    """The environment of commands: without keys of providers and of Clew, except those named in `keep`.

    `withhold` names more variables that hold our keys, as the config says.
    """
    withheld = withheld_variables(environ, keep, withhold)
    passed = {name: value for name, value in environ.items() if name not in withheld}
    return {**_DEFAULT_VARIABLES, **passed, **_FIXED_VARIABLES}


def path_outside(environ: Mapping[str, str], folders: Sequence[Path]) -> str:
    """The search path without relative folders and those below these: a program there may be a command's own work."""
    kept = [one for one in environ.get("PATH", os.defpath).split(os.pathsep) if one.startswith("/")]
    return os.pathsep.join(
        one for one in kept if not any(Path(os.path.realpath(one)).is_relative_to(it) for it in folders)
    )
