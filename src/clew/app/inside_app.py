"""The service for plugins inside other agents: started on demand, found by a private file, ended when idle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from clew.config import clew_home, load_config, replace_file, store_place
from clew.errors import ClewError, InvalidArgument
from clew.portable import lock_file

FILE_NAME = "inside.json"
IDLE_SECONDS = 3_600.0
START_SECONDS = 20.0
ANSWER_SECONDS = 2.0
_CHECK_SECONDS = 0.05
_WARM_UP_MESSAGES = 40
_WARM_UP_TARGET = 600
_STARTED: list[subprocess.Popen[bytes]] = []
"""Kept, since a process object that is collected while its process runs emits a warning."""
_LOCKS: list[IO[bytes]] = []
"""Open as long as the process runs."""


@dataclass(frozen=True, slots=True)
class InsideNote:
    """The file that plugins read: the command that starts the service, and its address."""

    start: tuple[str, ...] = ()
    url: str = ""
    token: str = field(default="", repr=False)
    pid: int = 0


def note_path(environ: Mapping[str, str]) -> Path:
    return clew_home(environ) / FILE_NAME


def read_note(environ: Mapping[str, str]) -> InsideNote:
    """The note; an empty one if there is none or it cannot be read."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        read = json.loads(note_path(environ).read_text("utf-8"))
        start = tuple(str(word) for word in read.get("start") or ())
        return InsideNote(start, str(read.get("url") or ""), str(read.get("token") or ""), int(read.get("pid") or 0))
    return InsideNote()


def write_note(environ: Mapping[str, str], note: InsideNote) -> None:
    fields = {"start": list(note.start), "url": note.url, "token": note.token, "pid": note.pid}
    replace_file(note_path(environ), json.dumps(fields, indent=1))


def start_command() -> tuple[str, ...]:
    """The command with which plugins start the service in any folder."""
    # Plugins run it in the folder of a project: -P keeps that folder off the module path.
    return (sys.executable, "-P", "-m", "clew", "setup", "service")


def ask_service(note: InsideNote, seconds: float = ANSWER_SECONDS) -> Mapping[str, Any] | None:
    """The answer of the service to a greeting; None if none answers."""
    if not note.url.startswith("http://127.0.0.1:"):
        return None
    request = urllib.request.Request(f"{note.url}/inside/v1/hello", headers={"x-clew-token": note.token})  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=seconds) as answer:
            read = json.loads(answer.read())
    except (OSError, ValueError, urllib.error.URLError):
        return None
    return read if isinstance(read, dict) else None


def ensure_service(environ: Mapping[str, str]) -> tuple[InsideNote, bool]:
    """The running service, and whether it was started now. `InvalidArgument` if it does not start."""
    note = read_note(environ)
    if ask_service(note) is not None:
        return note, False
    log = clew_home(environ) / "inside.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "clew.app.inside_app"],
            env=dict(environ),
            cwd=clew_home(environ),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    _STARTED.append(process)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and not process.poll():
        # Two programs may start it at once: the second process ends, and the first one answers.
        note = read_note(environ)
        if ask_service(note) is not None:
            return note, note.pid == process.pid
        time.sleep(_CHECK_SECONDS)
    raise InvalidArgument(f"the service for plugins did not start; the reason is in {log}")


def stop_service(environ: Mapping[str, str]) -> bool:
    """End the service that the note names; whether one answered."""
    note = read_note(environ)
    if ask_service(note) is None or not note.pid:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(note.pid, signal.SIGTERM)
    until = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < until and ask_service(note, _CHECK_SECONDS * 4) is not None:
        time.sleep(_CHECK_SECONDS)
    return True


async def serve_plugins(environ: Mapping[str, str], idle_seconds: float = IDLE_SECONDS) -> None:
    """Serve until there was no request for so long, or a signal arrives."""
    from clew.app.engines import EngineChoice
    from clew.gateway import PageServer, RequestBounds
    from clew.integrations.plugin_service import PluginService
    from clew.store import open_store
    from clew.turn import RuntimeOptions, spill_folder

    config = load_config(environ)
    engines, settings = EngineChoice(config, environ), config.settings
    options = RuntimeOptions(
        lambda setup: engines.load(setup).engine,
        spill_folder(clew_home(environ), settings),
        settings,
        summarizes=False,
    )
    token = secrets.token_urlsafe(24)
    if not _is_only_one(environ):
        return
    async with open_store(str(store_place(settings.store.url, environ))) as store:
        service = PluginService(store, options, token)
        async with PageServer(service, "127.0.0.1", 0, bounds=RequestBounds()) as server:
            await asyncio.to_thread(warm_up)
            write_note(environ, InsideNote(start_command(), server.address, token, os.getpid()))
            ended = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, ended.set)
            while not ended.is_set() and time.monotonic() - service.used_at < idle_seconds:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), 30.0)
        await service.close()


def _is_only_one(environ: Mapping[str, str]) -> bool:
    """Whether no other process serves this folder; the lock is held until this one ends."""
    path = clew_home(environ) / "inside.lock"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _LOCKS.append(file := path.open("wb"))
    try:
        lock_file(file.fileno(), wait=False)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a system without locks
    return True


def warm_up() -> None:
    """Load the modules of a fold, so that the first one is as quick as the others."""
    from clew.config import CompressionSettings
    from clew.engines import ContextCompressor, budgets_for_target
    from clew.messages import Message

    said = ("Look at part {} of the work.", "Part {} is done, as it was asked for, and nothing else was changed in it.")
    turns: list[Message] = []
    for number in range(_WARM_UP_MESSAGES):
        turns += [
            {"role": "user", "content": said[0].format(number)},
            {"role": "assistant", "content": said[1].format(number)},
        ]
    settings = CompressionSettings()
    engine = ContextCompressor(settings=settings, budgets=budgets_for_target(_WARM_UP_TARGET, settings))
    asyncio.run(engine.compress(turns, engine.size_of(turns), None))


def main() -> int:
    try:
        asyncio.run(serve_plugins(os.environ))
    except ClewError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
