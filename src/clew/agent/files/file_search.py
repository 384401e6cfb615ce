"""Searching files by a child process: ripgrep, or `python_search` where that is missing. Both write ripgrep's JSON.

The child is ended when the time is up or the caller goes away; what it found until then counts.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clew.agent.files import python_search

SKIPPED_FOLDERS = (".git", ".hg", ".svn", "node_modules", "__pycache__")
_BLOCK_BYTES = 1 << 18
_MAX_MESSAGE_BYTES = 8 << 20
"""A longer message of the child, for a very long line, is skipped."""


@dataclass(frozen=True, slots=True)
class FileSearchRequest:
    """What to search for, and where."""

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
class SearchedLine:
    """A matching line, or a line of its context."""

    path: str
    number: int
    text: str
    is_match: bool
    start: int
    """Where the match begins in it, in chars."""


class FileSearch:
    """One search: iterate over `lines` or `names`; how it ended is known afterwards."""

    def __init__(
        self, command: Sequence[str], request: FileSearchRequest, environ: Mapping[str, str], seconds: float
    ) -> None:
        self.is_complete = False
        self.problem = ""
        self.is_out_of_time = False
        self._command = command
        self._request = request
        self._environ = environ
        self._seconds = seconds

    async def lines(self) -> AsyncGenerator[SearchedLine, None]:
        async with contextlib.aclosing(self._messages(b"\n")) as messages:
            async for message in messages:
                event = json.loads(message)
                if event["type"] in ("match", "context"):
                    line = _line(event["type"], event["data"])
                    if self._matches_glob(line.path):
                        yield line
                elif event["type"] == "summary":
                    self.is_complete = True

    async def names(self) -> AsyncIterator[str]:
        async with contextlib.aclosing(self._messages(b"\0")) as messages:
            async for message in messages:
                name = message.decode("utf-8", "surrogateescape")
                if self._matches_glob(name):
                    yield name

    def _matches_glob(self, path: str) -> bool:
        if self._request.is_file or not self._request.glob:
            return True
        inside = Path(path)
        inside = inside.relative_to(self._request.path) if inside.is_relative_to(self._request.path) else inside
        return python_search.glob_matches(self._request.glob, str(inside))

    async def _messages(self, end: bytes) -> AsyncGenerator[bytes, None]:
        child = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=self._request.path.parent if self._request.is_file else self._request.path,
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
                self.problem = (await problems).decode("utf-8", "replace").strip()
                await child.wait()
        except TimeoutError:
            self.is_out_of_time = True
        finally:
            problems.cancel()
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


async def _split(stream: asyncio.StreamReader, end: bytes) -> AsyncIterator[bytes]:
    """Messages that end with a separator; one that is too long is skipped."""
    rest, is_skipping = b"", False
    while block := await stream.read(_BLOCK_BYTES):
        *complete, rest = (rest + block).split(end)
        for message in complete[1:] if is_skipping else complete:
            yield message
        is_skipping = is_skipping and not complete
        if len(rest) > _MAX_MESSAGE_BYTES or is_skipping:
            rest, is_skipping = b"", True
    if rest and not is_skipping:
        yield rest


def ripgrep_command(program: str, request: FileSearchRequest) -> list[str]:
    command = [program, "--no-config", "--no-messages", "--hidden", "--no-require-git", "--sort", "path"]
    command += [part for name in SKIPPED_FOLDERS for part in ("--glob", f"!{name}")]
    if request.glob and not set(request.glob) & set("/!:") and not request.is_file:
        # A --glob would bring back what .gitignore names; a file type does not.
        command += ["--type-add", f"clew:{request.glob}", "--type", "clew"]
    if request.names:
        return [*command, "--files", "--null", "--", str(request.path)]
    command += ["--json", "--context", str(request.context)]
    options = (
        ("--ignore-case", request.ignore_case),
        ("--fixed-strings", request.literal),
        ("--text", request.is_file),
    )
    command += [option for option, is_on in options if is_on]
    command += ["--max-count", "1"] if request.first_only else []
    return [*command, f"--regexp={request.pattern}", "--", str(request.path)]


def python_command(request: FileSearchRequest) -> list[str]:
    pattern = re.escape(request.pattern) if request.literal else request.pattern
    arguments = asdict(request) | {"pattern": pattern, "path": str(request.path), "skipped": SKIPPED_FOLDERS}
    return [sys.executable, "-I", "-S", str(python_search.__file__), json.dumps(arguments)]


def _line(kind: str, data: Mapping[str, Any]) -> SearchedLine:
    raw = _bytes(data["lines"])
    submatches = data["submatches"]
    start = len(raw[: submatches[0]["start"]].decode("utf-8", "replace")) if submatches else 0
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    path = _bytes(data["path"]).decode("utf-8", "surrogateescape")
    return SearchedLine(path, data["line_number"] or 0, text, kind == "match", start)


def _bytes(data: Mapping[str, str]) -> bytes:
    """Text, or base64 for what is no UTF-8."""
    if "text" in data:
        return data["text"].encode("utf-8", "surrogateescape")
    return base64.b64decode(data["bytes"])
