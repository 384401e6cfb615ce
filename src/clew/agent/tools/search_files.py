"""The tool `search_files`: finds lines by regular expression, or files by name, with ripgrep where it is installed.

Results are the same without ripgrep. They are bounded and say how many more there are. Files that look like secrets are
skipped unless they are named.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from clew.agent.approvals import Risk
from clew.agent.files.file_search import FileSearch, FileSearchRequest, SearchedLine, python_command, ripgrep_command
from clew.agent.files.paths import ResolvedPath, Workspace
from clew.agent.processes import path_outside
from clew.agent.tools.base import (
    AgentTool,
    Arguments,
    CallContext,
    ToolResult,
    error_result,
    flag_argument,
    number_argument,
    risk_from_concerns,
    text_argument,
    tool_schema,
)
from clew.errors import InvalidArgument

MODES = ("content", "files", "count", "names")
LIMIT = 100
MAX_LIMIT = 1_000
MAX_CHARS = 40_000
LINE_CHARS = 400
_MAX_MATCHES = 20_000
"""After them the search ends: a pattern that matches everywhere needs no exact count."""
_MAX_CONTEXT = 10


@dataclass(slots=True)
class _SearchResults:
    """The lines to show, and the counts of all."""

    limit: int
    kept: list[SearchedLine] = field(default_factory=list)
    by_file: dict[str, int] = field(default_factory=dict)
    matches: int = 0
    chars: int = 0
    secret: set[str] = field(default_factory=set)
    is_cut: bool = False

    @property
    def is_full(self) -> bool:
        return self.chars > MAX_CHARS


class SearchFilesTool(AgentTool):
    """Searches the project, or one file."""

    name = "search_files"
    is_read_only = True
    schema = tool_schema(name)

    def __init__(self, workspace: Workspace, environ: Mapping[str, str], seconds: float = 20.0) -> None:
        self._workspace = workspace
        self._environ = environ
        self._seconds = seconds

    def risk(self, arguments: Arguments) -> Risk | None:
        path = arguments.get("path", ".")
        return risk_from_concerns(f"search in {path}", self._workspace.read_concerns(path))

    def refused(self, arguments: Arguments) -> None:
        self._workspace.withdraw(arguments.get("path", "."))

    def headline(self, arguments: Arguments) -> str:
        what = arguments.get("pattern") or arguments.get("glob") or ""
        path = arguments.get("path")
        return f"search {str(what)[:80]!r}{f' in {path}' if path not in (None, '', '.') else ''}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        try:
            target, mode, limit, request = await asyncio.to_thread(self._parse, arguments)
            if mode == "names":
                return await self._names(target, request, limit)
            return await self._matches(target, request, mode, limit)
        except InvalidArgument as problem:
            return error_result(str(problem))
        except OSError as problem:
            return error_result(f"{arguments.get('path', '.')} cannot be searched: {problem.strerror or problem}")

    def _parse(self, arguments: Arguments) -> tuple[ResolvedPath, str, int, FileSearchRequest]:
        target = self._workspace.path_to_read(arguments.get("path") or ".")
        if not target.path.exists():
            raise InvalidArgument(f"there is no {target.display_name}; give a folder or a file that exists")
        return target, *_parse_request(arguments, target)

    async def _names(self, target: ResolvedPath, request: FileSearchRequest, limit: int) -> ToolResult:
        search = self._search(request, use_ripgrep=True)
        names: list[str] = []
        count = 0
        async for name in search.names():
            count += 1
            if len(names) < limit:
                names.append(self._display_name(name))
        if not names:
            return ToolResult(f"no file in {target.display_name} fits {request.glob!r}{_time_note(search)}")
        more = f"\n[{count - len(names):,} more; narrow it with path or glob]" if count > len(names) else ""
        return ToolResult("\n".join(names) + more + _time_note(search))

    async def _matches(self, target: ResolvedPath, request: FileSearchRequest, mode: str, limit: int) -> ToolResult:
        search = self._search(request, use_ripgrep=True)
        results = await self._collect(search, request, mode, limit)
        if search.problem and not search.is_complete:
            # Ripgrep has no look-around and no back references; Python does.
            _check_pattern(request)
            search = self._search(request, use_ripgrep=False)
            results = await self._collect(search, request, mode, limit)
        if not results.matches:
            return ToolResult(_no_match_message(target, request, search, results))
        body = self._content(results) if mode == "content" else self._files(results, mode)
        return ToolResult("\n".join([*body, *_closing_lines(search, results, mode)]))

    async def _collect(self, search: FileSearch, request: FileSearchRequest, mode: str, limit: int) -> _SearchResults:
        results = _SearchResults(limit)
        lines = search.lines()
        async for line in lines:
            if not request.is_file and self._workspace.secret_kind_of(Path(line.path)):
                results.secret.add(line.path)
                continue
            _add(results, line, mode)
            if results.matches >= _MAX_MATCHES:
                results.is_cut = True
                break
        await lines.aclose()
        return results

    def _search(self, request: FileSearchRequest, *, use_ripgrep: bool) -> FileSearch:
        searched = path_outside(self._environ, (self._workspace.root, *self._workspace.allowed))
        program = shutil.which("rg", path=searched) if use_ripgrep else None
        if program is None and not request.names:
            _check_pattern(request)
        command = ripgrep_command(program, request) if program else python_command(request)
        return FileSearch(command, request, self._environ, self._seconds)

    def _content(self, results: _SearchResults) -> list[str]:
        shown: list[str] = []
        last: SearchedLine | None = None
        for line in results.kept:
            if last is None or line.path != last.path:
                shown.append(self._display_name(line.path))
            elif line.number != last.number + 1 and (not line.is_match or not last.is_match):
                shown.append("--")
            shown.append(f"{line.number}{':' if line.is_match else '-'} {_line_text(line)}")
            last = line
        return shown

    def _files(self, results: _SearchResults, mode: str) -> list[str]:
        listed = list(results.by_file.items())[: results.limit]
        return [f"{self._display_name(path)}{f': {count}' if mode == 'count' else ''}" for path, count in listed]

    def _display_name(self, path: str) -> str:
        return self._workspace.display_name(Path(path)).encode("utf-8", "backslashreplace").decode()


def _parse_request(arguments: Arguments, target: ResolvedPath) -> tuple[str, int, FileSearchRequest]:
    mode = text_argument(arguments, "mode", "content")
    if mode not in MODES:
        raise InvalidArgument(f"mode is {mode!r:.80}; it can be {', '.join(MODES)}")
    glob, pattern = text_argument(arguments, "glob", ""), text_argument(arguments, "pattern", "")
    limit = number_argument(arguments, "limit", LIMIT, 1, MAX_LIMIT)
    request = FileSearchRequest("", target.path, target.path.is_file(), glob)
    if mode == "names":
        return mode, limit, replace(request, names=True, glob=glob or pattern)
    if not pattern:
        raise InvalidArgument("pattern is empty; send a regular expression, or mode names with a glob")
    if "\n" in pattern:
        raise InvalidArgument("pattern holds a line end; lines are searched one by one: search for one of them")
    return (
        mode,
        limit,
        replace(
            request,
            pattern=pattern,
            literal=flag_argument(arguments, "literal"),
            ignore_case=flag_argument(arguments, "ignore_case"),
            first_only=mode == "files",
            context=number_argument(arguments, "context", 0, 0, _MAX_CONTEXT) if mode == "content" else 0,
        ),
    )


def _add(results: _SearchResults, line: SearchedLine, mode: str) -> None:
    if line.is_match:
        results.matches += 1
        results.by_file[line.path] = results.by_file.get(line.path, 0) + 1
    # Context after the last match that is shown belongs to it; context before the next match does not.
    if mode == "content" and not results.is_full and _belongs(results, line):
        results.kept.append(line)
        results.chars += min(len(line.text), LINE_CHARS) + 8


def _belongs(results: _SearchResults, line: SearchedLine) -> bool:
    if results.matches < results.limit or (line.is_match and results.matches == results.limit):
        return True
    last = results.kept[-1] if results.kept else None
    is_next = last is not None and last.path == line.path and last.number + 1 == line.number
    return results.matches == results.limit and not line.is_match and is_next


def _line_text(line: SearchedLine) -> str:
    """A line as it is shown: of a long one, the part around the match."""
    if len(line.text) <= LINE_CHARS:
        return line.text
    first = max(0, min(line.start - LINE_CHARS // 4, len(line.text) - LINE_CHARS))
    piece = line.text[first : first + LINE_CHARS]
    return f"{'...' if first else ''}{piece}... [chars {first + 1}-{first + len(piece)} of {len(line.text):,}]"


def _check_pattern(request: FileSearchRequest) -> None:
    try:
        re.compile("" if request.literal else request.pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise InvalidArgument(
            f"{request.pattern!r:.120} is no regular expression: {problem}; escape it, or set literal for plain text"
        ) from problem


def _no_match_message(
    target: ResolvedPath, request: FileSearchRequest, search: FileSearch, results: _SearchResults
) -> str:
    fitting = f" in files like {request.glob}" if request.glob else ""
    hint = "; a pattern never fits across line ends" if "\\n" in request.pattern else ""
    secret = f"\n[{_secret_note(results)}]" if results.secret else ""
    return f"nothing in {target.display_name}{fitting} fits {request.pattern!r:.200}{hint}{secret}{_time_note(search)}"


def _closing_lines(search: FileSearch, results: _SearchResults, mode: str) -> list[str]:
    shown = (
        sum(line.is_match for line in results.kept) if mode == "content" else min(results.limit, len(results.by_file))
    )
    total = results.matches if mode == "content" else len(results.by_file)
    least = "at least " if results.is_cut or search.is_out_of_time else ""
    notes = [
        *([f"{least}{total - shown:,} more; narrow it with path, glob or pattern"] if total > shown else []),
        *([_secret_note(results)] if results.secret else []),
    ]
    return [f"[{'; '.join(notes)}]" if notes else f"[{total:,} in all]", *_time_note(search).split("\n")[1:]]


def _secret_note(results: _SearchResults) -> str:
    return f"{len(results.secret)} files that look like secrets left out; name one as path to search it"


def _time_note(search: FileSearch) -> str:
    return "\n[out of time: not everything was searched; narrow it with path or glob]" if search.is_out_of_time else ""
