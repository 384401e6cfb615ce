"""The tools `read_file`, which reads a page of a file or lists a folder, and `write_file`, which writes a whole file.

Pages are bounded by lines and by chars, so their results never have to be spilled. A file that the agent has not read,
or that changed since, is not overwritten; a replaced file keeps its encoding, byte order mark and CRLF, which the model
that read it could not see.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from clew.agent.approvals import Risk
from clew.agent.files.diffs import file_diff
from clew.agent.files.disk import FileStamp, FileTracker, open_regular, read_all
from clew.agent.files.file_types import (
    HEAD_BYTES,
    TextFile,
    binary_kind,
    bom_of,
    count_lines,
    decode_file,
    dominant_line_ending,
    is_binary,
)
from clew.agent.files.pages import MAX_LINES, PAGE_CHARS, FilePage, read_line_excerpt, read_page
from clew.agent.files.paths import ResolvedPath, Workspace, list_folder, similar_paths
from clew.agent.tools.base import (
    AgentTool,
    Arguments,
    CallContext,
    ToolResult,
    error_result,
    number_argument,
    risk_from_concerns,
    text_argument,
    tool_schema,
)
from clew.errors import InvalidArgument

_MAX_NUMBER = 10**12


class ReadFileTool(AgentTool):
    """Reads what the workspace allows, and records that it was read."""

    name = "read_file"
    is_read_only = True
    schema = tool_schema(name)

    def __init__(self, workspace: Workspace, tracker: FileTracker, page_chars: int = PAGE_CHARS) -> None:
        self._workspace = workspace
        self._tracker = tracker
        self._page_chars = page_chars

    def risk(self, arguments: Arguments) -> Risk | None:
        path = arguments.get("path")
        return risk_from_concerns(f"read {path}", self._workspace.read_concerns(path))

    def refused(self, arguments: Arguments) -> None:
        self._workspace.withdraw(arguments.get("path"))

    def headline(self, arguments: Arguments) -> str:
        path = arguments.get("path", "?")
        try:
            offset, limit = _requested_lines(arguments)
        except InvalidArgument:
            return f"read {path}"
        span = f" {offset}-{offset + limit - 1}" if "offset" in arguments or "limit" in arguments else ""
        return f"read {path}{span}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        try:
            return await asyncio.to_thread(self._read, arguments)
        except InvalidArgument as problem:
            return error_result(str(problem))
        except OSError as problem:
            return error_result(f"{arguments.get('path')} cannot be read: {problem.strerror or problem}")

    def _read(self, arguments: Arguments) -> ToolResult:
        offset, limit = _requested_lines(arguments)
        column = number_argument(arguments, "column", 0, 0, _MAX_NUMBER)
        target = self._workspace.path_to_read(arguments.get("path"))
        if target.path.is_dir():
            return ToolResult(list_folder(target.path, offset, limit))
        try:
            return self._read_file(target, offset, limit, column)
        except (FileNotFoundError, NotADirectoryError):
            return error_result(_missing_message(self._workspace, target))

    def _read_file(self, target: ResolvedPath, offset: int, limit: int, column: int) -> ToolResult:
        with open_regular(target.path) as file:
            status = os.fstat(file.fileno())
            head = file.read(HEAD_BYTES)
            # Spilled results are always text.
            if target.zone != "read_only" and is_binary(head):
                return ToolResult(f"{target.display_name} holds no text: {binary_kind(head)}, {status.st_size:,} bytes")
            file.seek(0)
            self._tracker.record(target.path, FileStamp.of(status))
            if not head:
                return ToolResult(f"[{target.display_name} is empty]")
            if column:
                return _excerpt_result(
                    read_line_excerpt(file, offset, column, self._page_chars), target.display_name, offset, column
                )
            page = read_page(file, offset, limit, self._page_chars)
        return _page_result(page, target.display_name, [*_bom_notes(head), *_page_notes(page)], status.st_size)


def _requested_lines(arguments: Arguments) -> tuple[int, int]:
    offset = number_argument(arguments, "offset", 1, 0, _MAX_NUMBER)
    return max(1, offset), number_argument(arguments, "limit", MAX_LINES, 1, MAX_LINES)


def _page_result(page: FilePage, name: str, notes: list[str], size_bytes: int) -> ToolResult:
    if not page.lines:
        return error_result(f"{name} has {page.total_lines:,} lines; offset={page.first} is behind its end")
    lines = [f"{number}\t{line}" for number, line in enumerate(page.lines, page.first)]
    total = f"{page.total_lines:,}" if page.total_lines is not None else f"many ({size_bytes:,} bytes)"
    span = f"lines {page.first}-{page.last} of {total}"
    more = "" if page.is_end else f"; go on with offset={page.last + 1}"
    return ToolResult("\n".join([*lines, f"[{span}{more}{''.join('; ' + note for note in notes)}]"]))


def _excerpt_result(excerpt: tuple[str, bool] | None, name: str, line: int, column: int) -> ToolResult:
    if excerpt is None:
        return error_result(f"{name} has no char {column} in a line {line}; read the line without column first")
    text, is_end = excerpt
    last = column + len(text) - 1
    more = "; the line ends here" if is_end else f"; go on with offset={line}, column={last + 1}"
    return ToolResult(f"{text}\n[line {line}, chars {column}-{last}{more}]")


def _bom_notes(head: bytes) -> list[str]:
    bom, encoding = bom_of(head)
    return [f"{encoding} with a byte order mark"] if bom else []


def _page_notes(page: FilePage) -> list[str]:
    return [
        *([f"{page.non_utf8_lines} lines are no UTF-8, read as Latin-1"] if page.non_utf8_lines else []),
        *(["line ends are CRLF"] if page.is_crlf else []),
        *(["no line end at the end of the file"] if page.is_end and page.lacks_final_newline else []),
        *([f"long lines are cut, the first is {page.cut_line}"] if page.cut_line else []),
    ]


def _missing_message(workspace: Workspace, target: ResolvedPath) -> str:
    similar = similar_paths(workspace, target)
    if similar:
        return f"there is no {target.display_name}; perhaps you mean {' or '.join(similar)}"
    folder = _nearest_folder(target.path)
    return f"there is no {target.display_name}; the nearest folder that exists is {workspace.display_name(folder)}"


def _nearest_folder(path: Path) -> Path:
    return next(folder for folder in path.parents if folder.is_dir())


class WriteFileTool(AgentTool):
    """Creates files, and replaces those that the agent has read."""

    name = "write_file"
    schema = tool_schema(name)

    def __init__(self, workspace: Workspace, tracker: FileTracker) -> None:
        self._workspace = workspace
        self._tracker = tracker

    def risk(self, arguments: Arguments) -> Risk | None:
        path, content = arguments.get("path"), arguments.get("content")
        lasting = self._workspace.lasting_concerns(path, content if isinstance(content, str) else "")
        return risk_from_concerns(f"write {path}", [*self._workspace.write_concerns(path), *lasting])

    def refused(self, arguments: Arguments) -> None:
        self._workspace.withdraw(arguments.get("path"))

    def try_edit(self, arguments: Arguments) -> ToolResult:
        return self._write_or_say_why(arguments, is_trial=True)

    def headline(self, arguments: Arguments) -> str:
        content = arguments.get("content")
        lines = (
            f", {count_lines(content):,} line{'s' if count_lines(content) != 1 else ''}"
            if isinstance(content, str)
            else ""
        )
        return f"write {arguments.get('path', '?')}{lines}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        return await asyncio.to_thread(self._write_or_say_why, arguments)

    def _write_or_say_why(self, arguments: Arguments, *, is_trial: bool = False) -> ToolResult:
        try:
            return self._write(arguments, is_trial=is_trial)
        except InvalidArgument as problem:
            return error_result(str(problem))
        except OSError as problem:
            return error_result(f"{arguments.get('path')} cannot be written: {problem.strerror or problem}")

    def _write(self, arguments: Arguments, *, is_trial: bool) -> ToolResult:
        content = text_argument(arguments, "content")
        target = self._workspace.path_to_write(arguments.get("path"))
        if target.path.is_dir():
            raise InvalidArgument(f"{target.display_name} is a folder; give the path of a file in it")
        if target.path.exists():
            return self._replace(target, content, is_trial=is_trial)
        encoded = TextFile("").encode(content)
        if not is_trial:
            self._tracker.record(target.path, self._tracker.write(target.path, encoded, None))
        diff = file_diff(target.display_name, "", content)
        return ToolResult(f"created {target.display_name}: {count_lines(content):,} lines", display_text=diff)

    def _replace(self, target: ResolvedPath, content: str, *, is_trial: bool) -> ToolResult:
        raw, stamp = read_all(target.path)
        problem = self._tracker.overwrite_problem(target.path, target.display_name, stamp)
        if problem:
            raise InvalidArgument(problem)
        before = decode_file(raw)
        file, after, notes = _encoded_like(before, content)
        encoded = file.encode(after)
        if encoded == raw:
            return ToolResult(f"{target.display_name} holds exactly that already; nothing was written")
        if not is_trial:
            self._tracker.record(target.path, self._tracker.write(target.path, encoded, stamp))
        former = before.text if before else ""
        lines = f"{count_lines(former):,} -> {count_lines(after):,} lines"
        text = f"replaced {target.display_name}: {lines}{notes}"
        return ToolResult(text, display_text=file_diff(target.display_name, former, after))


def _encoded_like(before: TextFile | None, content: str) -> tuple[TextFile, str, str]:
    """How to encode the content as the file was, the content with its line endings, and a note of what was kept."""
    if before is None or before.encoding == "latin-1":
        return TextFile(""), content, ""
    after = content.removeprefix("\ufeff") if before.bom else content
    if dominant_line_ending(before.text) == "\r\n" and "\r\n" not in after:
        return before, after.replace("\n", "\r\n"), " (CRLF line ends kept)"
    return before, after, ""
