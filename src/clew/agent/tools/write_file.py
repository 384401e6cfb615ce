"""The tool that writes a whole file.

A file that the agent has not read, or that changed since, is never written over. Encoding, byte order mark and CRLF
of a file that is replaced stay, since a model that read it saw neither.
"""

from __future__ import annotations

import asyncio

from clew.agent.files.diffs import diff_of
from clew.agent.files.disk import read_whole, write_whole
from clew.agent.files.paths import Place, Workplace
from clew.agent.files.seen import FilesSeen, Stamp
from clew.agent.files.textfile import TextFile, count_lines, line_end_of, text_of_bytes
from clew.agent.tools.arguments import risk_of, text_argument
from clew.agent.tools.base import AgentTool, Arguments, CallContext, Risk, ToolResult, function_schema, wrong
from clew.errors import InvalidArgument

MOST_BYTES = 50 << 20


class WriteFile(AgentTool):
    """Creates files, and replaces those that the agent knows."""

    name = "write_file"
    schema = function_schema(
        name,
        "Write a whole text file: create it with its folders, or replace one that you have read. "
        "To change a part of a file, use patch.",
        {
            "path": {"type": "string", "description": "from the project's folder on, or absolute"},
            "content": {"type": "string", "description": "all of it"},
        },
        "path",
        "content",
    )

    def __init__(self, workplace: Workplace, seen: FilesSeen) -> None:
        self._workplace = workplace
        self._seen = seen

    def risk(self, arguments: Arguments) -> Risk | None:
        path = arguments.get("path")
        return risk_of(f"write {path}", self._workplace.writing_concerns(path))

    def refused(self, arguments: Arguments) -> None:
        self._workplace.forget(arguments.get("path"))

    def headline(self, arguments: Arguments) -> str:
        content = arguments.get("content")
        lines = f", {count_lines(content):,} lines" if isinstance(content, str) else ""
        return f"write {arguments.get('path', '?')}{lines}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        try:
            return await asyncio.to_thread(self._write, arguments)
        except InvalidArgument as problem:
            return wrong(str(problem))
        except OSError as problem:
            return wrong(f"{arguments.get('path')} cannot be written: {problem.strerror or problem}")

    def _write(self, arguments: Arguments) -> ToolResult:
        content = text_argument(arguments, "content")
        place = self._workplace.place_to_write(arguments.get("path"))
        if place.path.is_dir():
            raise InvalidArgument(f"{place.shown} is a folder; give the path of a file in it")
        if place.path.exists():
            return self._replace(place, content)
        self._seen.saw(place.path, write_whole(place.path, TextFile("").encoded(content), None))
        diff = diff_of(place.shown, "", content)
        return ToolResult(f"created {place.shown}: {count_lines(content):,} lines", shown=diff.text)

    def _replace(self, place: Place, content: str) -> ToolResult:
        raw, stamp = read_whole(place.path, MOST_BYTES)
        problem = self._seen.overwrite_problem(place.path, place.shown, stamp)
        if problem:
            raise InvalidArgument(problem)
        before = text_of_bytes(raw)
        spelling, after, notes = _spelt_like(before, content)
        encoded = spelling.encoded(after)
        if encoded == raw:
            return ToolResult(f"{place.shown} holds exactly that already; nothing was written")
        return self._written(place, encoded, stamp, (before.text if before else "", after, notes))

    def _written(self, place: Place, encoded: bytes, stamp: Stamp, texts: tuple[str, str, str]) -> ToolResult:
        before, after, notes = texts
        self._seen.saw(place.path, write_whole(place.path, encoded, stamp))
        diff = diff_of(place.shown, before, after)
        lines = f"{count_lines(before):,} -> {count_lines(after):,} lines"
        return ToolResult(f"replaced {place.shown}: {lines}{notes}", shown=diff.text or None)


def _spelt_like(before: TextFile | None, content: str) -> tuple[TextFile, str, str]:
    """How to write the content so that it is spelt as the file was; with a note of what was kept."""
    if before is None or before.encoding == "latin-1":
        return TextFile(""), content, ""
    after = content.removeprefix("\ufeff") if before.mark else content
    if line_end_of(before.text) == "\r\n" and "\r\n" not in after:
        return before, after.replace("\n", "\r\n"), " (CRLF line ends kept)"
    return before, after, ""
