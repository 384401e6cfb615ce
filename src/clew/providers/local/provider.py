"""A GGUF model on this machine: llama.cpp's server in a child process, on loopback, with a key made for it.

`LocalServerProcess` starts and stops the child; it is synchronous and belongs to no event loop, so that a provider can
outlive one. `LocalProvider` starts it with the first request and again where it died; requests go through the provider
of the chat wire. The library (`xllamacpp`, the extra `local`) is imported by the child alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from clew.errors import InvalidArgument, ProviderRefused
from clew.install import install_command
from clew.providers.base import OnDelta, Provider, Reply, Request
from clew.providers.http.connection import RetryPolicy
from clew.providers.local.models import is_gguf, trained_window
from clew.providers.local.server import MISSING
from clew.providers.wires.chat import OpenAIChatProvider

DEFAULT_CONTEXT_LENGTH = 16_384
"""A window costs memory from the first token on, so that a larger one has to be asked for."""
# The output cap where none is given: a small model may continue until the window is full, which takes minutes.
_OUTPUT_SHARE = 4
_MIN_OUTPUT = 256
# A prompt of a full window takes minutes on a small machine, and nothing is sent before it is read. A server that dies
# is noticed at once all the same.
_IDLE_SECONDS = 1_800.0
_GRACE_SECONDS = 3.0
_REMEDY = "A smaller model.context_length takes less; CLEW_LOCAL_LOG=FILE keeps what llama.cpp says"


@dataclass(frozen=True, slots=True)
class LocalServerOptions:
    """The model to run, and its settings."""

    model: Path
    context_length: int
    threads: int | None = None
    """None means `default_threads()`."""
    log: Path | None = None
    """Where the output of llama.cpp goes; None drops it."""


def default_threads() -> int:
    """Half of the cores, and at least one.

    The other half are often hyper-threads, which bring nothing. And threads wait for each other after every step: where
    one of them shares its core with another program, two were measured slower than one.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return max(1, cores // 2)


class LocalServerProcess:
    """The child process. It ends with `stop`, and when this process ends."""

    def __init__(self, options: LocalServerOptions) -> None:
        self.key = secrets.token_urlsafe(24)
        self.address: Future[str] = Future()
        """Set when the model is loaded; `InvalidArgument` where it cannot be."""
        self._options = options
        self._stop_lock = Lock()
        # -P keeps the current folder, which may be a project, off the module path.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clew.providers.local.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._send_options()
        Thread(target=self._read_answer, name="clew-local-model", daemon=True).start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_description(self) -> str:
        """Its exit status or signal, in words."""
        return _describe_exit(self._process.poll())

    def stop(self) -> None:
        """End it: by closing its stdin, else by signals. Returns when it has ended."""
        with self._stop_lock:
            _close(self._process.stdin)
            for force in (self._process.terminate, self._process.kill, None):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_GRACE_SECONDS)
                    break
                if force is not None:
                    force()
            else:
                self._process.wait()
            _close(self._process.stdout)

    def _send_options(self) -> None:
        options, stdin = self._options, self._process.stdin
        assert stdin is not None
        line = json.dumps(
            {
                "model": str(options.model),
                "alias": options.model.stem,
                "context_length": options.context_length,
                "threads": options.threads or default_threads(),
                "key": self.key,
                "log": str(options.log) if options.log else None,
            }
        )
        # One that ended at once is noticed where its answer is read.
        with contextlib.suppress(OSError):
            stdin.write(line.encode() + b"\n")
            stdin.flush()

    def _read_answer(self) -> None:
        """Read the one line that it writes."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            line = stdout.readline()
        except (OSError, ValueError):  # stopped while it was loading
            line = b""
        answer = json.loads(line) if line.endswith(b"\n") else {}
        if "address" in answer:
            self.address.set_result(answer["address"])
        else:
            self.address.set_exception(self._error(answer))

    def _error(self, answer: dict[str, str]) -> InvalidArgument:
        file = self._options.model
        if answer.get("kind") == MISSING:
            return InvalidArgument(
                f"models in files need the extra `local` ({answer['error']})", remedy=install_command("local")
            )
        if not is_gguf(file):
            return InvalidArgument(
                f"{file} cannot be run: it is no GGUF file", remedy="`clew models get smollm2` fetches one"
            )
        if answer:
            return InvalidArgument(
                f"{file} cannot be run: {answer['error']} Is the file whole, and is there memory for it? {_REMEDY}"
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        return InvalidArgument(
            f"{file} cannot be run: its server ended while it was loading ({self.exit_description}). "
            f"Is there memory for it? {_REMEDY}"
        )


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "it still runs"
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def _close(pipe: object) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class _RunningServer:
    child: LocalServerProcess
    chat: OpenAIChatProvider


class LocalProvider(Provider):
    """Runs a GGUF file."""

    def __init__(
        self,
        model_file: str | Path,
        *,
        context_length: int | None = None,
        threads: int | None = None,
        retry_policy: RetryPolicy | None = None,
        log: Path | None = None,
    ) -> None:
        """`context_length` is cut to what the model was trained for; `log` takes the output of llama.cpp."""
        self.name = "local"
        self.file = Path(model_file).expanduser().absolute()
        if not self.file.is_file():
            raise InvalidArgument(f"there is no model file at {self.file}", remedy="give the path of a .gguf file")
        trained = trained_window(self.file)
        asked = context_length or DEFAULT_CONTEXT_LENGTH
        self.context_length = min(asked, trained) if trained else asked
        """The window that the server will run with."""
        self._options = LocalServerOptions(self.file, self.context_length, threads, log)
        # A server on this machine that does not answer is dead: another try would only wait.
        self._retry_policy = replace(
            retry_policy or RetryPolicy(), retries=0, idle_seconds=_IDLE_SECONDS, content_seconds=_IDLE_SECONDS
        )
        self._running: _RunningServer | None = None
        self._child: LocalServerProcess | None = None
        self._finalizer: weakref.finalize[..., LocalProvider] | None = None

    @property
    def model(self) -> str:
        """The name of the file without its suffix."""
        return self.file.stem

    @property
    def base_url(self) -> str:
        """The key under which limits that the server states are remembered: this model in this window."""
        return f"local://{self.file.name}/{self.context_length}"

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        running = await self._ensure_started()
        try:
            return await running.chat.send(self._with_output_cap(request), on_delta)
        except ProviderRefused as refused:
            if refused.fault.kind != "network" or not await _has_ended(running.child):
                raise
            raise self._exit_error(running.child, refused) from refused

    async def models(self) -> list[Mapping[str, Any]]:
        return await (await self._ensure_started()).chat.models()

    async def close(self) -> None:
        running, child = self._detach()
        await _stop(running, child)

    async def _ensure_started(self) -> _RunningServer:
        """The running server, started where none runs. No lock: nothing is awaited between test and change."""
        if self._child is None or not self._child.is_running:
            running, child = self._detach()
            self._child = LocalServerProcess(self._options)
            self._finalizer = weakref.finalize(self, self._child.stop)
            await _stop(running, child)
        child = self._child
        if child is None:
            raise InvalidArgument(
                f"{self.file.name} was closed while it was being started", remedy="ask again to start it"
            )
        try:
            # Shielded: a cancelled request does not stop the loading, and the next one finds it further on.
            address = await asyncio.shield(asyncio.wrap_future(child.address))
        except InvalidArgument:
            if self._child is child:
                await self.close()
            raise
        if self._running is None or self._running.child is not child:
            chat = OpenAIChatProvider(
                f"{address}/v1", api_key=child.key, name=self.name, retry_policy=self._retry_policy
            )
            self._running = _RunningServer(child, chat)
        return self._running

    def _detach(self) -> tuple[_RunningServer | None, LocalServerProcess | None]:
        taken = self._running, self._child
        self._running = self._child = None
        if self._finalizer is not None:
            self._finalizer.detach()
        return taken

    def _with_output_cap(self, request: Request) -> Request:
        """The request with an output cap: where it has none, a quarter of the window."""
        if request.max_tokens is not None:
            return request
        return replace(request, max_tokens=max(_MIN_OUTPUT, self.context_length // _OUTPUT_SHARE))

    def _exit_error(self, child: LocalServerProcess, refused: ProviderRefused) -> ProviderRefused:
        problem = (
            f"the server of {self.file.name} ended during the request ({child.exit_description}); "
            "the next request starts it again. If that repeats, a smaller model.context_length takes less memory"
        )
        return ProviderRefused(self.name, refused.fault, problem, refused.partial)


async def _has_ended(child: LocalServerProcess) -> bool:
    """Whether the process has ended; a connection can break a moment before that shows."""
    for _ in range(20):
        if not child.is_running:
            return True
        await asyncio.sleep(0.01)
    return False


async def _stop(running: _RunningServer | None, child: LocalServerProcess | None) -> None:
    if running is not None:
        await running.chat.close()
    if child is not None:
        await asyncio.to_thread(child.stop)
