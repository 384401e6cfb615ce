"""The child process in which a model in a file runs: `python -m clew.providers.local_server`.

Reads its orders as one line of JSON from stdin (the key too, which a command line would show to everybody), starts
llama.cpp's server on a free port of loopback, and answers with one line of JSON: its address, or why there is none.
Then it serves until stdin ends, which it does when the parent lets go of it, however that came about.
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
"""It is, and does not run this file."""
_LOOK_SECONDS = 5.0


def main() -> None:
    """Serve until told to end, and then leave at once: the destructor of the server sometimes waits for ever."""
    parent = os.getppid()
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops a turn; the model goes on
    orders = json.loads(sys.stdin.buffer.readline() or b"{}")
    answers = _own_stdout(orders.get("log"))
    # From before the loading on, which takes long enough for a person to think better of it.
    watch = Thread(target=_end_with, args=(parent,), daemon=True)
    watch.start()
    try:
        server = started_server(orders)
    except ImportError as error:
        _say(answers, {"error": str(error), "kind": MISSING})
        os._exit(1)
    except (RuntimeError, ValueError, OSError, MemoryError) as error:
        _say(answers, {"error": str(error) or type(error).__name__, "kind": REFUSED})
        os._exit(1)
    _say(answers, {"address": server.listening_address})
    watch.join()


def started_server(orders: Mapping[str, Any]) -> Any:
    """A server by these orders, which lives as long as somebody holds it."""
    xllamacpp = import_module("xllamacpp")
    asked = xllamacpp.CommonParams()
    asked.model.path = orders["model"]
    asked.model_alias = {orders["alias"]}
    asked.n_ctx = orders["context_length"]
    asked.n_parallel = 1  # more would share the window out among them
    asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = orders["threads"]
    asked.hostnames = ["127.0.0.1"]
    asked.port = 0
    asked.api_keys = [orders["key"]]  # a page in a browser can reach loopback too
    asked.cors_origins = ""
    asked.ui = False
    asked.verbosity = 3 if orders.get("log") else -1
    return xllamacpp.Server(asked)


def _own_stdout(log: str | None) -> IO[bytes]:
    """The way to the parent, kept for us: what the library prints goes to the log, or nowhere."""
    answers = os.fdopen(os.dup(1), "wb")
    chatter = os.open(os.devnull, os.O_WRONLY)
    if log:
        with contextlib.suppress(OSError):
            chatter = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(chatter, 1)
    os.dup2(chatter, 2)
    return answers


def _say(answers: IO[bytes], words: Mapping[str, str]) -> None:
    # A parent that has gone reads nothing; the watch sees that too.
    with contextlib.suppress(OSError):
        answers.write(json.dumps(words).encode() + b"\n")
        answers.flush()


def _end_with(parent: int) -> None:
    """End when stdin does, or when the parent is another: somebody it forked may hold the other end of stdin."""
    while os.getppid() == parent:
        # Windows waits for sockets only; there the read waits.
        if sys.platform != "win32" and not select.select([0], [], [], _LOOK_SECONDS)[0]:
            continue
        if not os.read(0, 4096):
            break
    os._exit(0)


if __name__ == "__main__":
    main()
