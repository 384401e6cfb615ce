"""The five tools of the example session, really run in a folder of their own.

Paths, times and addresses of the machine that runs this are replaced, so that the same story gives the same bytes.
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = "/home/dev/tidepost"
SHOWN_CHARS = 24_000

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    }
    for name, description, properties, required in (
        (
            "read_file",
            "Read a text file with line numbers. `offset` is the first line, `limit` the number of lines.",
            {"path": {"type": "string"}, "offset": {"type": "integer"}, "limit": {"type": "integer"}},
            ["path"],
        ),
        (
            "write_file",
            "Write a whole file, replacing what is there.",
            {"path": {"type": "string"}, "content": {"type": "string"}},
            ["path", "content"],
        ),
        (
            "patch",
            "Replace one stretch of a file. `old` must occur exactly once.",
            {"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}},
            ["path", "old", "new"],
        ),
        (
            "search_files",
            "Search files for a regular expression; hits are given as path:line: text.",
            {"pattern": {"type": "string"}, "path": {"type": "string"}},
            ["pattern"],
        ),
        (
            "terminal",
            "Run a shell command in the project folder. Long output is cut in the middle.",
            {"command": {"type": "string"}, "timeout": {"type": "integer"}},
            ["command"],
        ),
    )
]


@dataclass(frozen=True)
class Call:
    """A tool call of the story, and whether the story expects it to fail."""

    name: str
    args: dict[str, Any]
    fails: bool = False


def read(path: str, offset: int | None = None, limit: int | None = None, *, fails: bool = False) -> Call:
    args = {"path": path, "offset": offset, "limit": limit}
    return Call("read_file", {name: value for name, value in args.items() if value is not None}, fails)


def write(path: str, content: str) -> Call:
    return Call("write_file", {"path": path, "content": content})


def patch(path: str, old: str, new: str, *, fails: bool = False) -> Call:
    return Call("patch", {"path": path, "old": old, "new": new}, fails)


def search(pattern: str, path: str = ".") -> Call:
    return Call("search_files", {"pattern": pattern, "path": path})


def sh(command: str, timeout: int | None = None, *, fails: bool = False) -> Call:
    args = {"command": command, "timeout": timeout}
    return Call("terminal", {name: value for name, value in args.items() if value is not None}, fails)


class StoryError(AssertionError):
    """The story says something that did not happen."""


class Workbench:
    """The project folder, and what the tools answer in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands = 0

    def run(self, call: Call) -> str:
        failed, result = getattr(self, f"_{call.name}")(**call.args)
        if failed is not call.fails:
            raise StoryError(f"{call.name} {call.args} {'failed' if failed else 'worked'} against the story:\n{result}")
        return self._plain(result)

    def _read_file(self, path: str, offset: int = 1, limit: int = 400) -> tuple[bool, str]:
        file = self.root / path
        if not file.is_file():
            near = difflib.get_close_matches(path, self._files(), n=2, cutoff=0.5)
            hint = f" Similar: {', '.join(near)}." if near else ""
            return True, f"error: {path} does not exist.{hint}"
        lines = file.read_text().splitlines()
        shown = lines[offset - 1 : offset - 1 + limit]
        text = "\n".join(f"{number:>5}  {line}" for number, line in enumerate(shown, offset))
        rest = len(lines) - (offset - 1 + len(shown))
        return False, text + (f"\n({rest} more lines; {len(lines)} in all)" if rest > 0 else "")

    def _write_file(self, path: str, content: str) -> tuple[bool, str]:
        file = self.root / path
        existed = file.exists()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return False, f"{'rewrote' if existed else 'created'} {path} ({len(content.splitlines())} lines)"

    def _patch(self, path: str, old: str, new: str) -> tuple[bool, str]:
        file = self.root / path
        if not file.is_file():
            return True, f"error: {path} does not exist"
        before = file.read_text()
        found = before.count(old)
        if found != 1:
            return True, f"error: `old` occurs {found} times in {path}, must be exactly once; nothing was changed"
        after = before.replace(old, new)
        file.write_text(after)
        diff = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="", n=2)
        return False, "\n".join(diff)

    def _search_files(self, pattern: str, path: str = ".") -> tuple[bool, str]:
        wanted = re.compile(pattern)
        hits: list[str] = []
        for name in self._files():
            if path in (".", name) or name.startswith(path.rstrip("/") + "/"):
                for number, line in enumerate((self.root / name).read_text().splitlines(), 1):
                    if wanted.search(line):
                        hits.append(f"{name}:{number}: {line.strip()}")
        more = f"\n({len(hits) - 60} more hits)" if len(hits) > 60 else ""
        return False, ("\n".join(hits[:60]) or "no hits") + more

    def _terminal(self, command: str, timeout: int = 60) -> tuple[bool, str]:
        self.commands += 1
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.root,
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            said = late.stdout or b""
            text = said.decode() if isinstance(said, bytes) else said
            return True, f"{text}[timed out after {timeout} s; the process was stopped]"
        text = (done.stdout + done.stderr).rstrip("\n")
        return done.returncode != 0, _cut(text) + ("\n" if text else "") + f"[exit {done.returncode}]"

    def _files(self) -> list[str]:
        found = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        hidden = {".git", "__pycache__", "var", "logs"}
        return sorted(str(path) for path in found if not hidden & set(path.parts))

    def _environment(self) -> dict[str, str]:
        # Every command is a minute after the one before, so that commit ids do not depend on when this runs.
        moment = f"2024-11-18T{8 + self.commands // 60:02d}:{self.commands % 60:02d}:00+00:00"
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.root.parent),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "100",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": str(self.root.parent / "seeded"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": f"-p no:cacheprovider --basetemp={self.root.parent}/pytest-tmp",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": moment,
            "GIT_COMMITTER_DATE": moment,
            **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _GIT_NAMES},
        }

    def _plain(self, text: str) -> str:
        text = text.replace(str(self.root.resolve()), HOME).replace(str(self.root), HOME)
        text = text.replace(f"{self.root.parent}/pytest-tmp", "/tmp/pytest-of-dev/pytest-0")  # noqa: S108
        text = re.sub(r"0x[0-9a-f]{8,}", "0x7f31c08a5d90", text)
        text = re.sub(r"(?:/[\w.-]+)+/lib/python3\.\d+/", "/usr/lib/python3.11/", text)
        # A time that looks like one and depends on nothing but the words around it.
        text = re.sub(r" in \d+\.\d\ds\b", " in {}s", text)
        return text.replace(" in {}s", f" in 0.{zlib.crc32(text.encode()) % 50 + 12}s")


_GIT_NAMES = (("NAME", "dev"), ("EMAIL", "dev@example.invalid"))


def _cut(text: str) -> str:
    """Long output without its middle, as a terminal tool gives it."""
    if len(text) <= SHOWN_CHARS:
        return text
    lines = text.splitlines()
    head: list[str] = []
    tail: list[str] = []
    size = 0
    for first, last in zip(lines, reversed(lines), strict=True):
        size += len(first) + len(last) + 2
        if size > SHOWN_CHARS:
            break
        head.append(first)
        tail.append(last)
    omitted = len(lines) - len(head) - len(tail)
    return "\n".join([*head, f"... {omitted} lines omitted ...", *reversed(tail)])


def copied_project(source: Path, root: Path) -> Workbench:
    """A fresh copy of the small code base, in git, as the session finds it."""
    shutil.copytree(source, root, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    # The story has a test that meets chance; this makes the chance the same every time.
    seeded = root.parent / "seeded"
    seeded.mkdir()
    (seeded / "sitecustomize.py").write_text("import random\nrandom.seed(1411)\n")
    return Workbench(root)
