"""A command as a process group of its own: started, read from, and ended together with all it started.

Knows nothing of tools. Standard input is empty, both outputs come through one pipe in their order.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

GRACE_SECONDS = 2.0
"""Between asking a group to end and ending it."""
LINGER_SECONDS = 0.5
"""How long output may still come after the command ended: a `tee` that it wrote to needs a moment."""
_POLL_SECONDS = 0.01
_PIECE_BYTES = 65_536

OnBytes = Callable[[bytes], None]


def shell_words(command: str) -> list[str]:
    """How a command is run: bash where there is one, since that is what models write."""
    return [shutil.which("bash") or shutil.which("sh") or "/bin/sh", "-c", command]


class Running:
    """A command that runs. Whoever starts it must `end` it or wait for its `exit_code`."""

    def __init__(self, child: asyncio.subprocess.Process, reading: asyncio.ReadTransport, reader: _Reader) -> None:
        self._child = child
        self._reading = reading
        self._reader = reader
        self.started = time.monotonic()

    @classmethod
    async def start(cls, command: str, folder: Path, environ: Mapping[str, str], on_bytes: OnBytes) -> Running:
        """Starts it. Raises OSError where that cannot be. Cancelled on the way, nothing runs."""
        starting = asyncio.ensure_future(cls._start(command, folder, environ, on_bytes))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The command may run already, and only what is under way knows it. That is short: whoever stops it again
            # waits for it, too.
            ending = asyncio.ensure_future(_ended(starting))
            while not ending.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.shield(ending)
            raise

    @classmethod
    async def _start(cls, command: str, folder: Path, environ: Mapping[str, str], on_bytes: OnBytes) -> Running:
        # A pipe of our own: asyncio's would make waiting for the exit wait for grandchildren that hold it, too.
        read_end, write_end = os.pipe()
        try:
            child = await asyncio.create_subprocess_exec(
                *shell_words(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                cwd=folder,
                env=dict(environ),
                start_new_session=True,
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        reader = _Reader(on_bytes)
        pipe = os.fdopen(read_end, "rb", buffering=0)
        reading, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: reader, pipe)
        return cls(child, reading, reader)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        return self._child.returncode

    async def exit_code(self) -> int:
        """The exit code, when it has ended and what it printed is read; negative where a signal ended it."""
        code = await self._child.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reader.at_end), LINGER_SECONDS)
        return code

    async def end(self, grace: float = GRACE_SECONDS) -> bool:
        """Nothing of the group runs after this. Whether anything still did."""
        try:
            left = self._is_alive()
            if left:
                self._signal(signal.SIGTERM)
                await self._alive_for(grace)
            return left
        finally:
            # Also when the waiting itself is cancelled: no command survives its call.
            if self._is_alive():
                self._signal(signal.SIGKILL)
            self._reading.close()
            await asyncio.shield(self._gone())

    async def _gone(self) -> None:
        await self._child.wait()
        # A signal is not yet a death; but who hangs in the kernel must not hang the call.
        await self._alive_for(GRACE_SECONDS)
        await self._reader.at_end

    async def _alive_for(self, most_seconds: float) -> None:
        """Until nothing of the group runs, but no longer than this."""
        deadline = time.monotonic() + most_seconds
        while self._is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110 (nobody tells of grandchildren)
            await asyncio.sleep(_POLL_SECONDS)

    def _is_alive(self) -> bool:
        return self._child.returncode is None or bool(_living_members(self.pid))

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


async def _ended(starting: asyncio.Future[Running]) -> None:
    with suppress(OSError, ValueError):
        await (await starting).end(grace=0)


class _Reader(asyncio.Protocol):
    """Hands on what comes out of the pipe, and knows when nothing more will."""

    def __init__(self, on_bytes: OnBytes) -> None:
        self._on_bytes = on_bytes
        self.at_end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._on_bytes(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.at_end.done():
            self.at_end.set_result(None)


def _living_members(group: int) -> list[int]:
    """Processes of a group that still run. The dead that nobody has collected (in a container, say) are none."""
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
        # The name stands in brackets and may hold anything; state, parent and group come after it.
        state, _, its_group = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return its_group == str(group) and state not in "ZX"
