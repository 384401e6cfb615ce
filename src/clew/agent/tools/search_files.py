"""The tool that finds lines and files: by ripgrep where it is installed, else by a search of our own.

Results look the same either way, are bounded, and tell how many more there are. Files that look like secrets are
left out unless they are named.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from clew.agent.files.paths import Place, Workplace
from clew.agent.files.searching import Ask, Line, Search, own_command, ripgrep_command
from clew.agent.tools.arguments import flag_argument, number_argument, risk_of, text_argument
from clew.agent.tools.base import AgentTool, Arguments, CallContext, Risk, ToolResult, function_schema, wrong
from clew.errors import InvalidArgument

MODES = ("content", "files", "count", "names")
LIMIT = 100
MOST = 1_000
MOST_CHARS = 40_000
LINE_CHARS = 400
_COUNTED = 20_000
"""Results, after which the search ends: a pattern that fits everywhere needs no exact number."""
_MOST_CONTEXT = 10


@dataclass(slots=True)
class _Results:
    """What is shown, and what was only counted."""

    limit: int
    kept: list[Line] = field(default_factory=list)
    by_file: dict[str, int] = field(default_factory=dict)
    matches: int = 0
    chars: int = 0
    secret: set[str] = field(default_factory=set)
    is_cut: bool = False

    @property
    def is_full(self) -> bool:
        return self.chars > MOST_CHARS


class SearchFiles(AgentTool):
    """Looks through the project, or through one file."""

    name = "search_files"
    changes_nothing = True
    schema = function_schema(
        name,
        "Find lines of text files by regular expression, or files by name; not what .gitignore names.",
        {
            "pattern": {"type": "string", "description": "regular expression"},
            "path": {"type": "string", "description": "folder or file", "default": "."},
            "glob": {"type": "string", "description": "*.py, src/**/*.{ts,tsx}"},
            "mode": {
                "type": "string",
                "enum": list(MODES),
                "description": "lines, paths of files with matches, matches per file, or paths that fit glob",
                "default": "content",
            },
            "context": {"type": "integer", "description": "lines around each match"},
            "limit": {"type": "integer", "default": LIMIT},
            "literal": {"type": "boolean", "description": "pattern is plain text"},
            "ignore_case": {"type": "boolean"},
        },
    )

    def __init__(self, workplace: Workplace, environ: Mapping[str, str], seconds: float = 20.0) -> None:
        self._workplace = workplace
        self._environ = environ
        self._seconds = seconds

    def risk(self, arguments: Arguments) -> Risk | None:
        path = arguments.get("path", ".")
        return risk_of(f"search in {path}", self._workplace.reading_concerns(path))

    def refused(self, arguments: Arguments) -> None:
        self._workplace.forget(arguments.get("path", "."))

    def headline(self, arguments: Arguments) -> str:
        what = arguments.get("pattern") or arguments.get("glob") or ""
        path = arguments.get("path")
        return f"search {str(what)[:80]!r}{f' in {path}' if path not in (None, '', '.') else ''}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        try:
            place, mode, limit, ask = await asyncio.to_thread(self._understood, arguments)
            if mode == "names":
                return await self._names(place, ask, limit)
            return await self._matches(place, ask, mode, limit)
        except InvalidArgument as problem:
            return wrong(str(problem))
        except OSError as problem:
            return wrong(f"{arguments.get('path', '.')} cannot be searched: {problem.strerror or problem}")

    def _understood(self, arguments: Arguments) -> tuple[Place, str, int, Ask]:
        place = self._workplace.place_to_read(arguments.get("path") or ".")
        if not place.path.exists():
            raise InvalidArgument(f"there is no {place.shown}; give a folder or a file that exists")
        return place, *_asked(arguments, place)

    async def _names(self, place: Place, ask: Ask, limit: int) -> ToolResult:
        search = self._search(ask, use_ripgrep=True)
        names: list[str] = []
        count = 0
        async for name in search.names():
            count += 1
            if len(names) < limit:
                names.append(self._shown(name))
        if not names:
            return ToolResult(f"no file in {place.shown} fits {ask.glob!r}{_out_of_time(search)}")
        more = f"\n[{count - len(names):,} more; narrow it with path or glob]" if count > len(names) else ""
        return ToolResult("\n".join(names) + more + _out_of_time(search))

    async def _matches(self, place: Place, ask: Ask, mode: str, limit: int) -> ToolResult:
        search = self._search(ask, use_ripgrep=True)
        results = await self._gathered(search, ask, mode, limit)
        if search.said.problem and not search.said.is_whole:
            # Ripgrep's expressions know no look-around and no back references; Python's do.
            _must_compile(ask)
            search = self._search(ask, use_ripgrep=False)
            results = await self._gathered(search, ask, mode, limit)
        if not results.matches:
            return ToolResult(_nothing(place, ask, search, results))
        body = self._content(results) if mode == "content" else self._files(results, mode)
        return ToolResult("\n".join([*body, *_closing(search, results, mode)]))

    async def _gathered(self, search: Search, ask: Ask, mode: str, limit: int) -> _Results:
        results = _Results(limit)
        lines = search.lines()
        async for line in lines:
            if not ask.is_file and self._workplace.looks_secret(Path(line.path)):
                results.secret.add(line.path)
                continue
            _take(results, line, mode)
            if results.matches >= _COUNTED:
                results.is_cut = True
                break
        await lines.aclose()
        return results

    def _search(self, ask: Ask, *, use_ripgrep: bool) -> Search:
        program = shutil.which("rg", path=self._environ.get("PATH", "")) if use_ripgrep else None
        if program is None and not ask.names:
            _must_compile(ask)
        command = ripgrep_command(program, ask) if program else own_command(ask)
        return Search(command, ask, self._environ, self._seconds)

    def _content(self, results: _Results) -> list[str]:
        shown: list[str] = []
        last: Line | None = None
        for line in results.kept:
            if last is None or line.path != last.path:
                shown.append(self._shown(line.path))
            elif line.number != last.number + 1 and (not line.is_match or not last.is_match):
                shown.append("--")
            shown.append(f"{line.number}{':' if line.is_match else '-'} {_around(line)}")
            last = line
        return shown

    def _files(self, results: _Results, mode: str) -> list[str]:
        listed = list(results.by_file.items())[: results.limit]
        return [f"{self._shown(path)}{f': {count}' if mode == 'count' else ''}" for path, count in listed]

    def _shown(self, path: str) -> str:
        return self._workplace.shown(Path(path)).encode("utf-8", "backslashreplace").decode()


def _asked(arguments: Arguments, place: Place) -> tuple[str, int, Ask]:
    mode = text_argument(arguments, "mode", "content")
    if mode not in MODES:
        raise InvalidArgument(f"mode is {mode!r:.80}; it can be {', '.join(MODES)}")
    glob, pattern = text_argument(arguments, "glob", ""), text_argument(arguments, "pattern", "")
    limit = number_argument(arguments, "limit", LIMIT, 1, MOST)
    ask = Ask("", place.path, place.path.is_file(), glob)
    if mode == "names":
        return mode, limit, replace(ask, names=True, glob=glob or pattern)
    if not pattern:
        raise InvalidArgument("pattern is empty; send a regular expression, or mode names with a glob")
    if "\n" in pattern:
        raise InvalidArgument("pattern holds a line end; lines are searched one by one: search for one of them")
    return (
        mode,
        limit,
        replace(
            ask,
            pattern=pattern,
            literal=flag_argument(arguments, "literal"),
            ignore_case=flag_argument(arguments, "ignore_case"),
            first_only=mode == "files",
            context=number_argument(arguments, "context", 0, 0, _MOST_CONTEXT) if mode == "content" else 0,
        ),
    )


def _take(results: _Results, line: Line, mode: str) -> None:
    if line.is_match:
        results.matches += 1
        results.by_file[line.path] = results.by_file.get(line.path, 0) + 1
    # Lines around the last match that is shown still belong to it, those before the next do not.
    if mode == "content" and not results.is_full and _belongs(results, line):
        results.kept.append(line)
        results.chars += min(len(line.text), LINE_CHARS) + 8


def _belongs(results: _Results, line: Line) -> bool:
    if results.matches < results.limit or (line.is_match and results.matches == results.limit):
        return True
    last = results.kept[-1] if results.kept else None
    is_next = last is not None and last.path == line.path and last.number + 1 == line.number
    return results.matches == results.limit and not line.is_match and is_next


def _around(line: Line) -> str:
    """A line as it is shown: of a long one, the stretch around the match."""
    if len(line.text) <= LINE_CHARS:
        return line.text
    first = max(0, min(line.start - LINE_CHARS // 4, len(line.text) - LINE_CHARS))
    piece = line.text[first : first + LINE_CHARS]
    return f"{'...' if first else ''}{piece}... [chars {first + 1}-{first + len(piece)} of {len(line.text):,}]"


def _must_compile(ask: Ask) -> None:
    try:
        re.compile("" if ask.literal else ask.pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise InvalidArgument(
            f"{ask.pattern!r:.120} is no regular expression: {problem}; escape it, or set literal for plain text"
        ) from problem


def _nothing(place: Place, ask: Ask, search: Search, results: _Results) -> str:
    fitting = f" in files like {ask.glob}" if ask.glob else ""
    hint = "; a pattern never fits across line ends" if "\\n" in ask.pattern else ""
    secret = f"\n[{_secret_note(results)}]" if results.secret else ""
    return f"nothing in {place.shown}{fitting} fits {ask.pattern!r:.200}{hint}{secret}{_out_of_time(search)}"


def _closing(search: Search, results: _Results, mode: str) -> list[str]:
    shown = (
        sum(line.is_match for line in results.kept) if mode == "content" else min(results.limit, len(results.by_file))
    )
    total = results.matches if mode == "content" else len(results.by_file)
    least = "at least " if results.is_cut or search.said.is_out_of_time else ""
    notes = [
        *([f"{least}{total - shown:,} more; narrow it with path, glob or pattern"] if total > shown else []),
        *([_secret_note(results)] if results.secret else []),
    ]
    return [f"[{'; '.join(notes)}]" if notes else f"[{total:,} in all]", *_out_of_time(search).split("\n")[1:]]


def _secret_note(results: _Results) -> str:
    return f"{len(results.secret)} files that look like secrets left out; name one as path to search it"


def _out_of_time(search: Search) -> str:
    return (
        "\n[out of time: not everything was searched; narrow it with path or glob]"
        if search.said.is_out_of_time
        else ""
    )
