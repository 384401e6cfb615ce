"""The tool that reads a file a page at a time, or lists a folder.

Pages are bounded by lines and by chars, so no result of it has to be spilled, and a spilled one can be read with it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from clew.agent.files.disk import open_regular
from clew.agent.files.kinds import HEAD_BYTES, kind_of
from clew.agent.files.neighbours import listing_of, similar_paths
from clew.agent.files.pages import MOST_LINES, PAGE_CHARS, Page, Stretch, page_of, stretch_of
from clew.agent.files.paths import Place, Workplace
from clew.agent.files.seen import FilesSeen, Stamp
from clew.agent.files.textfile import is_binary, mark_of
from clew.agent.tools.arguments import number_argument, risk_of
from clew.agent.tools.base import AgentTool, Arguments, CallContext, Risk, ToolResult, function_schema, wrong
from clew.errors import InvalidArgument

_FARTHEST = 10**12


class ReadFile(AgentTool):
    """Reads what the workplace allows, and remembers that it was seen."""

    name = "read_file"
    changes_nothing = True
    schema = function_schema(
        name,
        "Read a text file by pages of numbered lines (number, tab, line), or list a folder. "
        "The last line tells which lines these are and how to go on.",
        {
            "path": {"type": "string", "description": "from the project's folder on, or absolute"},
            "offset": {"type": "integer", "description": "first line, from 1", "default": 1},
            "limit": {"type": "integer", "description": "lines at most", "default": MOST_LINES},
            "column": {
                "type": "integer",
                "description": "read on within the one line `offset`, from this char: for lines that were cut",
            },
        },
        "path",
    )

    def __init__(self, workplace: Workplace, seen: FilesSeen, page_chars: int = PAGE_CHARS) -> None:
        self._workplace = workplace
        self._seen = seen
        self._page_chars = page_chars

    def risk(self, arguments: Arguments) -> Risk | None:
        path = arguments.get("path")
        return risk_of(f"read {path}", self._workplace.reading_concerns(path))

    def refused(self, arguments: Arguments) -> None:
        self._workplace.forget(arguments.get("path"))

    def headline(self, arguments: Arguments) -> str:
        path = arguments.get("path", "?")
        try:
            offset, limit = _lines_asked(arguments)
        except InvalidArgument:
            return f"read {path}"
        span = f" {offset}-{offset + limit - 1}" if "offset" in arguments or "limit" in arguments else ""
        return f"read {path}{span}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        try:
            return await asyncio.to_thread(self._read, arguments)
        except InvalidArgument as problem:
            return wrong(str(problem))
        except OSError as problem:
            return wrong(f"{arguments.get('path')} cannot be read: {problem.strerror or problem}")

    def _read(self, arguments: Arguments) -> ToolResult:
        offset, limit = _lines_asked(arguments)
        column = number_argument(arguments, "column", 0, 0, _FARTHEST)
        place = self._workplace.place_to_read(arguments.get("path"))
        if place.path.is_dir():
            return ToolResult(listing_of(place.path, offset, limit))
        try:
            return self._read_file(place, offset, limit, column)
        except (FileNotFoundError, NotADirectoryError):
            return wrong(_missing(self._workplace, place))

    def _read_file(self, place: Place, offset: int, limit: int, column: int) -> ToolResult:
        with open_regular(place.path) as file:
            status = os.fstat(file.fileno())
            head = file.read(HEAD_BYTES)
            # Spilled results are text whatever is in them.
            if place.zone != "read_only" and is_binary(head):
                return ToolResult(f"{place.shown} holds no text: {kind_of(head)}, {status.st_size:,} bytes")
            file.seek(0)
            self._seen.saw(place.path, Stamp.of(status))
            if not head:
                return ToolResult(f"[{place.shown} is empty]")
            if column:
                return _stretch_result(stretch_of(file, offset, column, self._page_chars), place.shown, offset, column)
            page = page_of(file, offset, limit, self._page_chars)
        return _page_result(page, place.shown, [*_mark_notes(head), *_page_notes(page)], status.st_size)


def _lines_asked(arguments: Arguments) -> tuple[int, int]:
    offset = number_argument(arguments, "offset", 1, 0, _FARTHEST)
    return max(1, offset), number_argument(arguments, "limit", MOST_LINES, 1, MOST_LINES)


def _page_result(page: Page, shown: str, notes: list[str], size_bytes: int) -> ToolResult:
    if not page.lines:
        return wrong(f"{shown} has {page.total_lines:,} lines; offset={page.first} is behind its end")
    lines = [f"{number}\t{line}" for number, line in enumerate(page.lines, page.first)]
    total = f"{page.total_lines:,}" if page.total_lines is not None else f"many ({size_bytes:,} bytes)"
    span = f"lines {page.first}-{page.last} of {total}"
    more = "" if page.is_end else f"; go on with offset={page.last + 1}"
    return ToolResult("\n".join([*lines, f"[{span}{more}{''.join('; ' + note for note in notes)}]"]))


def _stretch_result(stretch: Stretch | None, shown: str, line: int, column: int) -> ToolResult:
    if stretch is None:
        return wrong(f"{shown} has no char {column} in a line {line}; read the line without column first")
    last = column + len(stretch.text) - 1
    more = "; the line ends here" if stretch.is_end else f"; go on with offset={line}, column={last + 1}"
    return ToolResult(f"{stretch.text}\n[line {line}, chars {column}-{last}{more}]")


def _mark_notes(head: bytes) -> list[str]:
    mark, encoding = mark_of(head)
    return [f"{encoding} with a byte order mark"] if mark else []


def _page_notes(page: Page) -> list[str]:
    return [
        *([f"{page.odd_lines} lines are no UTF-8, read as Latin-1"] if page.odd_lines else []),
        *(["line ends are CRLF"] if page.is_crlf else []),
        *(["no line end at the end of the file"] if page.is_end and page.ends_open else []),
        *([f"long lines are cut, the first is {page.cut_line}"] if page.cut_line else []),
    ]


def _missing(workplace: Workplace, place: Place) -> str:
    similar = similar_paths(workplace, place)
    if similar:
        return f"there is no {place.shown}; perhaps you mean {' or '.join(similar)}"
    folder = _nearest_folder(place.path)
    return f"there is no {place.shown}; the nearest folder that exists is {workplace.shown(folder)}"


def _nearest_folder(path: Path) -> Path:
    return next(folder for folder in path.parents if folder.is_dir())
