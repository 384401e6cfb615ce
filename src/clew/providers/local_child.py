"""A child process that serves one model: started, waited for, told to end.

Knows processes and the two lines that pass (see `local_server`); nothing of requests. All of it is synchronous and
belongs to no event loop, so that a provider can outlive one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread

from clew.errors import InvalidArgument
from clew.providers.gguf import is_gguf
from clew.providers.local_server import MISSING

_GRACE_SECONDS = 3.0
_REMEDY = "A smaller model.context_length takes less; CLEW_LOCAL_LOG=FILE keeps what llama.cpp says"


@dataclass(frozen=True, slots=True)
class Orders:
    """What to run, and how."""

    model: Path
    context_length: int
    threads: int | None = None
    """None: see `usual_threads`."""
    log: Path | None = None
    """Where llama.cpp's chatter goes; None: nowhere."""


def usual_threads() -> int:
    """Half of the cores, and at least one.

    Often the other half are their twins and bring nothing. And threads wait for each other after every step: where one
    of them has to share its core with another program, two together were measured slower than one alone.
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return max(1, cores // 2)


class ServerChild:
    """The process. It ends with `stop`, and by itself when this process does."""

    def __init__(self, orders: Orders) -> None:
        self.key = secrets.token_urlsafe(24)
        self.address: Future[str] = Future()
        """Comes when the model is loaded; `InvalidArgument` where it cannot be."""
        self._orders = orders
        self._stopping = Lock()
        # -P keeps the folder that happens to be current, which may be anybody's project, off the module path.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clew.providers.local_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._give_orders()
        Thread(target=self._listen, name="clew-local-model", daemon=True).start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        return _ending(self._process.poll())

    def stop(self) -> None:
        """End it: by closing its stdin, else by force. Returns when it is gone."""
        with self._stopping:
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

    def _give_orders(self) -> None:
        orders, stdin = self._orders, self._process.stdin
        assert stdin is not None
        line = json.dumps(
            {
                "model": str(orders.model),
                "alias": orders.model.stem,
                "context_length": orders.context_length,
                "threads": orders.threads or usual_threads(),
                "key": self.key,
                "log": str(orders.log) if orders.log else None,
            }
        )
        # One that ended at once is met where its answer is read.
        with contextlib.suppress(OSError):
            stdin.write(line.encode() + b"\n")
            stdin.flush()

    def _listen(self) -> None:
        """Read the one line that it says."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            line = stdout.readline()
        except (OSError, ValueError):  # stopped while it was loading
            line = b""
        said = json.loads(line) if line.endswith(b"\n") else {}
        if "address" in said:
            self.address.set_result(said["address"])
        else:
            self.address.set_exception(self._refusal(said))

    def _refusal(self, said: dict[str, str]) -> InvalidArgument:
        file = self._orders.model
        if said.get("kind") == MISSING:
            return InvalidArgument(
                f"models in files need the extra `local`; pip install 'clew[local]' ({said['error']})"
            )
        if not is_gguf(file):
            return InvalidArgument(f"{file} cannot be run: it is no GGUF file; `clew models get smollm2` fetches one")
        if said:
            return InvalidArgument(
                f"{file} cannot be run: {said['error']} Is the file whole, and is there memory for it? {_REMEDY}"
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        return InvalidArgument(
            f"{file} cannot be run: its server ended while it was loading ({self.ending}). Is there memory for it? "
            f"{_REMEDY}"
        )


def _ending(code: int | None) -> str:
    if code is None:
        return "it still runs"
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def _close(pipe: object) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[attr-defined]
