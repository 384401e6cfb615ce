"""A real client at work while `clew import --watch` follows its session folder: all comes in, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clew.importers.program_folders import program_folders
from tests.clients.catalog import RealClient
from tests.clients.session import run_program, run_session

WATCHED = ("codex", "claude", "opencode", "gemini")
"""Clients whose sessions are known where they keep them, and that work with tools."""
_LINES = 60
"""Of output in each round: the session is short enough not to be folded."""
_LAST_SECONDS = 8.0
_CLEW = (sys.executable, "-m", "clew")


@dataclass(slots=True)
class WatchResult:
    """What the follower took in of a session, and what an import found missing afterwards."""

    code: int | None
    changes: Sequence[Mapping[str, Any]]
    after: Sequence[Mapping[str, Any]]
    err: str

    @property
    def messages(self) -> int:
        return sum(change["added"] for change in self.changes)

    def problems(self, client: RealClient) -> list[str]:
        states = {change["state"] for change in (*self.changes, *self.after)}
        missing = sum(each["added"] for each in self.after)
        told = (
            (self.code != 0, f"exit status {self.code} of the client"),
            (len(self.changes) < 2, f"{len(self.changes)} changes; it was not seen growing"),
            ("branch" in states, "half a reply was taken in, and came again on a branch"),
            (self.messages < client.rounds * 2, f"{self.messages} messages of {client.rounds} rounds"),
            (missing > 1, f"{missing} messages were missing, where only the newest reply may be"),
        )
        return [what for is_so, what in told if is_so]


async def run_watched(client: RealClient, program: Path, folder: Path) -> WatchResult:
    """Send a client through a session, with a follower beside it that looks every second."""
    home = folder / "home"
    environ = {"HOME": str(home), "CLEW_HOME": str(folder / "followed"), "PATH": os.environ["PATH"]}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    starting = asyncio.create_task(_follow_when_there(environ))
    done = await run_session(replace(client, lines=_LINES), program, folder)
    follower = await starting
    await asyncio.sleep(_LAST_SECONDS)
    follower.send_signal(signal.SIGINT)
    out, err = await follower.communicate()
    changes = [json.loads(line) for line in out.decode().splitlines()]
    _, after, _ = await run_program((*_CLEW, "import", "--json"), environ, folder)
    return WatchResult(done.code, changes, json.loads(after)["sessions"], err.decode())


async def _follow_when_there(environ: Mapping[str, str]) -> Process:
    """The follower, begun as soon as the client has made its folder."""
    while not await asyncio.to_thread(program_folders, environ):  # noqa: ASYNC110 (another process makes it)
        await asyncio.sleep(0.2)
    words = (*_CLEW, "import", "--watch", "--every", "1", "--json")
    return await asyncio.create_subprocess_exec(*words, env=dict(environ), stdout=PIPE, stderr=PIPE)
