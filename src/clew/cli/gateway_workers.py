"""`clew serve --workers N`: a parent that listens, and processes that answer. One that ends is started again.

The parent opens the socket and hands it to each worker, so that a connection waits for whichever worker takes it, also
while one of them is being started again. A worker is this module as a program: what it serves comes on its standard
input, which stays open as long as its parent lives, and it writes a line when it is ready.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from clew.config import load_config
from clew.errors import ClewError

MAX_WORKERS = 64
_READY = b"ready\n"
_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Read by prometheus_client: figures of several processes in the files of a folder."""
_SHORT_LIFE_SECONDS = 10.0
"""A worker that ends sooner is started again after a pause, which doubles."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
_PATIENCE_SECONDS = 70.0
"""For workers that were told to stop: they finish the replies that are under way."""


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """What a worker serves."""

    upstreams: Sequence[str]
    """As `--upstream` gave them."""
    host: str
    mode: str
    names: Sequence[str]
    """As `--name` gave them."""
    settings: Sequence[str]
    """As `--set` gave them."""
    listening: int
    """The descriptor of the socket."""
    adds_breakpoints: bool = False
    folder: str = ""
    """What the workers count together is in files there."""
    number: int = 0
    """Among the workers; another one that begins in its place has the same."""


# -- the parent --------------------------------------------------------------------------------------------------------


class GatewayWorkers:
    """Keeps a number of workers running until it is told to stop."""

    def __init__(self, count: int, task: WorkerTask, environ: Mapping[str, str], note: Callable[[str], None]) -> None:
        self._count = count
        self._task = task
        self._environ = dict(environ)
        self._note = note
        self._running: dict[int, Process] = {}
        self._ready = 0
        self._all_ready = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def pids(self) -> list[int]:
        """Of the workers that run, oldest first."""
        return list(self._running)

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Start the workers, and others for those that end; `ClewError` where one cannot even begin."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
        folder = tempfile.mkdtemp(prefix="clew-workers-")
        keeping = [asyncio.create_task(self._keep(Path(folder), number)) for number in range(self._count)]
        stopped, ready = asyncio.create_task(self._stopping.wait()), asyncio.create_task(self._all_ready.wait())
        try:
            done, _ = await asyncio.wait({*keeping, stopped, ready}, return_when=asyncio.FIRST_COMPLETED)
            if ready in done:
                on_ready()
                done, _ = await asyncio.wait({*keeping, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for failed in done & set(keeping):
                failed.result()
        finally:
            self._stopping.set()
            stopped.cancel()
            ready.cancel()
            await self._stop(keeping)
            shutil.rmtree(folder, ignore_errors=True)

    async def _keep(self, folder: Path, number: int) -> None:
        """Run a worker, and another one when it ends."""
        task = replace(self._task, folder=str(folder), number=number)
        pause, is_first = _FIRST_PAUSE_SECONDS, True
        while not self._stopping.is_set():
            started = time.monotonic()
            code, was_ready = await self._run_one(task, counts=is_first)
            if self._stopping.is_set():
                return
            if is_first and not was_ready:
                raise ClewError(f"a worker could not start (exit code {code})")
            is_first = False
            if time.monotonic() - started > _SHORT_LIFE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
                self._note(f"a worker ended ({_why(code)}); another one starts")
                continue
            self._note(f"a worker ended soon after it began ({_why(code)}); another one starts in {pause:g} s")
            await _wait_for(self._stopping, pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _run_one(self, task: WorkerTask, *, counts: bool) -> tuple[int, bool]:
        """A worker from its start to its end: its exit code, and whether it was ever ready."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __name__,
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=(task.listening,),
            env={**self._environ, _METRICS_FOLDER: task.folder},
        )
        assert process.stdin is not None and process.stdout is not None
        self._running[process.pid] = process
        try:
            process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
            was_ready = await process.stdout.readline() == _READY
            if was_ready and counts:
                self._ready += 1
                if self._ready == self._count:
                    self._all_ready.set()
            return await process.wait(), was_ready
        finally:
            self._running.pop(process.pid, None)
            _forget_what_is_now(Path(task.folder), process.pid)

    async def _stop(self, keeping: list[asyncio.Task[None]]) -> None:
        for process in self._running.values():
            process.terminate()
        _, late = await asyncio.wait(keeping, timeout=_PATIENCE_SECONDS)
        if late:
            for process in self._running.values():
                process.kill()
            await asyncio.wait(late)


def _forget_what_is_now(folder: Path, pid: int) -> None:
    """What a worker that has ended has counted stays in the metrics; what it had under way does not."""
    for gauge in folder.glob(f"gauge_live*_{pid}.db"):
        gauge.unlink(missing_ok=True)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _why(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens, for all workers together; raises `OSError`."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(1_024)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


# -- a worker ----------------------------------------------------------------------------------------------------------


async def _work(task: WorkerTask, environ: Mapping[str, str]) -> None:
    from clew.app import GatewayAppOptions, gateway_options, gateway_token, open_gateway
    from clew.cli.commands.serve import gateway_observers
    from clew.cli.store_access import open_location, store_location
    from clew.gateway import MODES, SharedCallCounts

    config = load_config(environ, task.settings)
    mode = next(mode for mode in MODES if mode == task.mode)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    # The end of the input: the parent is gone, and whoever starts the next one expects the port to be free.
    loop.add_reader(sys.stdin, stopped.set)
    observers, stop = gateway_observers(config.settings, sys.stderr)
    with socket.socket(fileno=task.listening) as listening, ExitStack() as last:
        last.callback(stop)
        port = listening.getsockname()[1]
        counts = SharedCallCounts(Path(task.folder) / "calls", task.number)
        last.callback(counts.close)
        listen = gateway_options(config.settings, task.host, port, task.names, gateway_token(environ))
        options = GatewayAppOptions(
            tuple(task.upstreams),
            mode,
            replace(listen, listening=listening, counts=counts),
            observers=observers,
            adds_breakpoints=task.adds_breakpoints,
        )
        async with (
            open_location(store_location(config.settings, environ)) as store,
            open_gateway(config, environ, store, options),
        ):
            os.write(sys.stdout.fileno(), _READY)
            await stopped.wait()
            loop.remove_reader(sys.stdin)


def main() -> int:
    """The program of a worker."""
    task = WorkerTask(**json.loads(sys.stdin.buffer.readline()))
    try:
        asyncio.run(_work(task, os.environ))
    except ClewError as problem:
        print(f"clew: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
