"""Running a search as a child process, ripgrep or our own, and reading what it says into one shape.

Both speak ripgrep's JSON. The child is ended when the time is up or the caller goes away; what it said until then
counts. Knows nothing of how results are shown.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.agent.files import globbing, own_search

SKIPPED = (".git", ".hg", ".svn", "node_modules", "__pycache__")
_BLOCK_BYTES = 1 << 18
_LONGEST_BYTES = 8 << 20
"""One message of a child: a longer line of a file is left out."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is looked for."""

    pattern: str
    path: Path
    is_file: bool
    glob: str = ""
    names: bool = False
    literal: bool = False
    ignore_case: bool = False
    first_only: bool = False
    context: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A line that matches, or one around it."""

    path: str
    number: int
    text: str
    is_match: bool
    start: int
    """Where in it the match begins, in chars."""


@dataclass(slots=True)
class Said:
    """How a search went."""

    is_whole: bool = False
    """It came to its end."""
    problem: str = ""
    is_out_of_time: bool = False


class Search:
    """One search: iterate over `lines` or `names`, then look at `said`."""

    def __init__(self, command: Sequence[str], ask: Ask, environ: Mapping[str, str], seconds: float) -> None:
        self.said = Said()
        self._command = command
        self._ask = ask
        self._environ = environ
        self._seconds = seconds

    async def lines(self) -> AsyncGenerator[Line, None]:
        async with contextlib.aclosing(self._messages(b"\n")) as messages:
            async for message in messages:
                event = json.loads(message)
                if event["type"] in ("match", "context"):
                    line = _line(event["type"], event["data"])
                    if self._fits(line.path):
                        yield line
                elif event["type"] == "summary":
                    self.said.is_whole = True

    async def names(self) -> AsyncIterator[str]:
        async with contextlib.aclosing(self._messages(b"\0")) as messages:
            async for message in messages:
                name = message.decode("utf-8", "surrogateescape")
                if self._fits(name):
                    yield name

    def _fits(self, path: str) -> bool:
        if self._ask.is_file or not self._ask.glob:
            return True
        inside = Path(path)
        inside = inside.relative_to(self._ask.path) if inside.is_relative_to(self._ask.path) else inside
        return globbing.glob_fits(self._ask.glob, str(inside))

    async def _messages(self, end: bytes) -> AsyncGenerator[bytes, None]:
        child = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._ask.path.parent if self._ask.is_file else self._ask.path,
            env=dict(self._environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert child.stdout and child.stderr
        problems = asyncio.create_task(child.stderr.read())
        try:
            async with asyncio.timeout(self._seconds):
                async for message in _split(child.stdout, end):
                    yield message
                self.said.problem = (await problems).decode("utf-8", "replace").strip()
                await child.wait()
        except TimeoutError:
            self.said.is_out_of_time = True
        finally:
            problems.cancel()
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


async def _split(stream: asyncio.StreamReader, end: bytes) -> AsyncIterator[bytes]:
    """Messages that end with a sign; one that is absurdly long is left out."""
    rest, is_skipping = b"", False
    while block := await stream.read(_BLOCK_BYTES):
        *whole, rest = (rest + block).split(end)
        for message in whole[1:] if is_skipping else whole:
            yield message
        is_skipping = is_skipping and not whole
        if len(rest) > _LONGEST_BYTES or is_skipping:
            rest, is_skipping = b"", True
    if rest and not is_skipping:
        yield rest


def ripgrep_command(program: str, ask: Ask) -> list[str]:
    command = [program, "--no-config", "--no-messages", "--hidden", "--no-require-git", "--sort", "path"]
    command += [part for name in SKIPPED for part in ("--glob", f"!{name}")]
    if ask.glob and not set(ask.glob) & set("/!:") and not ask.is_file:
        # A --glob would bring back what .gitignore names; a file type does not.
        command += ["--type-add", f"clew:{ask.glob}", "--type", "clew"]
    if ask.names:
        return [*command, "--files", "--null", "--", str(ask.path)]
    command += ["--json", "--context", str(ask.context)]
    options = (("--ignore-case", ask.ignore_case), ("--fixed-strings", ask.literal), ("--text", ask.is_file))
    command += [option for option, is_on in options if is_on]
    command += ["--max-count", "1"] if ask.first_only else []
    return [*command, f"--regexp={ask.pattern}", "--", str(ask.path)]


def own_command(ask: Ask) -> list[str]:
    asked: dict[str, Any] = {
        "pattern": re.escape(ask.pattern) if ask.literal else ask.pattern,
        "path": str(ask.path),
        "is_file": ask.is_file,
        "glob": ask.glob,
        "names": ask.names,
        "ignore_case": ask.ignore_case,
        "first_only": ask.first_only,
        "context": ask.context,
        "skipped": SKIPPED,
    }
    return [sys.executable, "-I", "-S", str(own_search.__file__), json.dumps(asked)]


def _line(kind: str, told: Mapping[str, Any]) -> Line:
    raw = _bytes(told["lines"])
    submatches = told["submatches"]
    start = len(raw[: submatches[0]["start"]].decode("utf-8", "replace")) if submatches else 0
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    path = _bytes(told["path"]).decode("utf-8", "surrogateescape")
    return Line(path, told["line_number"] or 0, text, kind == "match", start)


def _bytes(told: Mapping[str, str]) -> bytes:
    """Text, or what is none, in base64."""
    if "text" in told:
        return told["text"].encode("utf-8", "surrogateescape")
    return base64.b64decode(told["bytes"])
