"""The child process that runs a GGUF model: `python -m clew.providers.local.server`.

It reads its options as one line of JSON from stdin (the key too: every user can read command lines), starts
llama.cpp's server on a free port of loopback, and answers with one line of JSON: its address, or why there is none.
Then it serves until stdin ends, which happens when the parent closes it or dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from threading import Thread
from typing import IO, Any

MISSING = "missing"
"""The library is not installed."""
REFUSED = "refused"
"""It does not run this file."""
_POLL_SECONDS = 5.0


def main() -> None:
    """Serve until stdin ends, then exit at once: the destructor of the server sometimes waits for ever."""
    parent = os.getppid()
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops a turn; the model continues
    options = json.loads(sys.stdin.buffer.readline() or b"{}")
    output = _take_stdout(options.get("log"))
    # Before the loading, which takes so long that the parent may end meanwhile.
    watch = Thread(target=_exit_with, args=(parent,), daemon=True)
    watch.start()
    try:
        server = start_server(options)
    except ImportError as error:
        _answer(output, {"error": str(error), "kind": MISSING})
        os._exit(1)
    except (RuntimeError, ValueError, OSError, MemoryError) as error:
        _answer(output, {"error": str(error) or type(error).__name__, "kind": REFUSED})
        os._exit(1)
    _answer(output, {"address": server.listening_address})
    watch.join()


def start_server(options: Mapping[str, Any]) -> Any:
    """Start a server; it runs as long as the returned object is referenced."""
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = options["model"]
    params.model_alias = {options["alias"]}
    params.n_ctx = options["context_length"]
    params.n_parallel = 1  # more would share the window out among them
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [options["key"]]  # a page in a browser can reach loopback too
    params.cors_origins = ""
    params.ui = False
    params.verbosity = 3 if options.get("log") else -1
    return xllamacpp.Server(params)


def _take_stdout(log: str | None) -> IO[bytes]:
    """A copy of stdout for our answer; what the library prints goes to the log, or nowhere."""
    output = os.fdopen(os.dup(1), "wb")
    log_file = os.open(os.devnull, os.O_WRONLY)
    if log:
        with contextlib.suppress(OSError):
            log_file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log_file, 1)
    os.dup2(log_file, 2)
    return output


def _answer(output: IO[bytes], answer: Mapping[str, str]) -> None:
    # A parent that has gone reads nothing; the watching thread sees that too.
    with contextlib.suppress(OSError):
        output.write(json.dumps(answer).encode() + b"\n")
        output.flush()


def _exit_with(parent: int) -> None:
    """Exit when stdin ends or the parent has changed: a fork of the parent may hold the other end of stdin."""
    while os.getppid() == parent:
        # Windows waits for sockets only; there the read waits.
        if sys.platform != "win32" and not select.select([0], [], [], _POLL_SECONDS)[0]:
            continue
        if not os.read(0, 4096):
            break
    os._exit(0)


if __name__ == "__main__":
    main()
