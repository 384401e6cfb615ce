"""`clew serve --workers N`: processes that share a port; the system distributes connections.

A worker runs this module. It reads its options from standard input, which stays open while its parent runs, and writes
a line when it is ready. Limits and budgets are counted in the store; workers share nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from clew.cli.console import stop_signals
from clew.cli.serve import ServeOptions, serving
from clew.config import load_config
from clew.errors import ClewError

MAX_WORKERS = 64
_READY = b"ready\n"
_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Of prometheus_client: the folder for metrics of several processes."""
_PAUSE_SECONDS = 1.0
"""Delay before a worker is replaced."""
_PATIENCE_SECONDS = 70.0
"""Time for workers to finish running replies."""


def shared_port(host: str, port: int) -> socket.socket:
    """A bound socket that reserves a port for several processes, and does not listen; raises `OSError`."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(address)
    except OSError:
        opened.close()
        raise
    return opened


async def run_workers(
    task: ServeOptions, environ: Mapping[str, str], note: Callable[[str], None], on_ready: Callable[[], None]
) -> None:
    """Run workers until this process is stopped; raises `ClewError` if one of the first fails to start."""
    stopping = stop_signals()
    folder = tempfile.mkdtemp(prefix="clew-workers-")
    environ = {**environ, _METRICS_FOLDER: folder}
    running: list[Process] = []
    keeping: list[asyncio.Task[None]] = []
    try:
        for _ in range(task.workers):
            running.append(await _started(task, environ))
        on_ready()
        keeping = [asyncio.create_task(_keep(running, at, task, environ, note, stopping)) for at in range(task.workers)]
        await stopping.wait()
    finally:
        stopping.set()
        for process in running:
            with suppress(ProcessLookupError):
                process.terminate()
        ending = [asyncio.create_task(process.wait()) for process in running]
        late = (await asyncio.wait(ending, timeout=_PATIENCE_SECONDS))[1] if ending else set()
        for process in running if late else ():
            with suppress(ProcessLookupError):
                process.kill()
        await asyncio.gather(*keeping, *ending)
        shutil.rmtree(folder, ignore_errors=True)


async def _keep(
    running: list[Process],
    at: int,
    task: ServeOptions,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    stopping: asyncio.Event,
) -> None:
    """Replace the worker at an index whenever it ends."""
    while not stopping.is_set():
        code = await running[at].wait()
        _remove_live_gauges(Path(environ[_METRICS_FOLDER]), running[at].pid)
        if stopping.is_set():
            return
        note(f"a worker ended ({f'signal {-code}' if code < 0 else f'exit code {code}'}); another one starts")
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), _PAUSE_SECONDS)
        if not stopping.is_set():
            with suppress(ClewError):  # tried again
                running[at] = await _started(task, environ)


def _remove_live_gauges(folder: Path, pid: int) -> None:
    """Remove the live gauges of an ended worker from the metrics; its counters stay."""
    for gauge in folder.glob(f"gauge_live*_{pid}.db"):
        gauge.unlink(missing_ok=True)


async def _started(task: ServeOptions, environ: Mapping[str, str]) -> Process:
    """Start a worker and wait until it is ready; raises `ClewError` if it ends before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", __name__, stdin=PIPE, stdout=PIPE, env=dict(environ)
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
    if await process.stdout.readline() != _READY:
        raise ClewError(f"a worker could not start (exit code {await process.wait()})")
    return process


# -- a worker ----------------------------------------------------------------------------------------------------------


async def _work(task: ServeOptions, environ: Mapping[str, str]) -> None:
    stopped, loop = stop_signals(), asyncio.get_running_loop()
    # At the end of the input the parent has ended, and the port must be released.
    loop.add_reader(sys.stdin, stopped.set)
    async with serving(task, load_config(environ, task.flags), environ, sys.stderr, is_port_shared=True):
        os.write(sys.stdout.fileno(), _READY)
        await stopped.wait()
        loop.remove_reader(sys.stdin)


def main() -> int:
    """Run a worker."""
    task = ServeOptions(**json.loads(sys.stdin.buffer.readline()))
    try:
        asyncio.run(_work(task, os.environ))
    except ClewError as problem:
        print(f"clew: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
