"""The tool `patch`: replaces passages in files; of one file, all edits are made or none.

Passages are found by `clew.agent.files.patching`. Here edits are read, grouped by file and applied one after another,
and each file is written once; the result reports every edit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clew.agent.approvals import Risk
from clew.agent.files.diffs import file_diff, missed_passage_report
from clew.agent.files.disk import FileStamp, FileTracker, read_all
from clew.agent.files.file_types import TextFile, count_lines, decode_file
from clew.agent.files.patching import MAX_AMBIGUOUS, AmbiguousMatch, NormalizedText, PassageMatch, find_passage
from clew.agent.files.paths import ResolvedPath, Workspace
from clew.agent.tools.base import (
    AgentTool,
    Arguments,
    CallContext,
    ToolResult,
    error_result,
    flag_argument,
    risk_from_concerns,
    text_argument,
    tool_schema,
)
from clew.errors import InvalidArgument

_MAX_LISTED_LINES = 20


@dataclass(frozen=True, slots=True)
class PassageEdit:
    """One passage to replace, with its number in the call."""

    number: int
    path: str
    old: str
    new: str
    everywhere: bool


@dataclass(frozen=True, slots=True)
class _AppliedEdit:
    """Where an edit was made, in line numbers right after it."""

    edit: PassageEdit
    how: str
    first: int
    last: int
    growth: int
    """Lines that it added to the text."""
    count: int
    """How many passages were replaced."""


@dataclass(slots=True)
class _EditedFile:
    """A file's text while edits are applied."""

    text: str
    applied: list[_AppliedEdit] = field(default_factory=list)
    failed: list[tuple[PassageEdit, str]] = field(default_factory=list)

    def on_disk(self, line: int) -> int:
        """The number in the file on disk of a line of this text."""
        for done in reversed(self.applied):
            if line > done.last:
                line -= done.growth
        return line

    def final_lines(self, done: _AppliedEdit) -> tuple[int, int]:
        """The first and last line of an edit, after all later ones."""
        first, last = done.first, done.last
        for later in self.applied[self.applied.index(done) + 1 :]:
            if later.first <= first:
                first, last = first + later.growth, last + later.growth
        return first, last


class PatchTool(AgentTool):
    """Replaces passages; the file need not have been read, since a passage that is found is known."""

    name = "patch"
    schema = tool_schema(name)

    def __init__(self, workspace: Workspace, tracker: FileTracker) -> None:
        self._workspace = workspace
        self._tracker = tracker

    def risk(self, arguments: Arguments) -> Risk | None:
        paths = _paths(arguments)
        # Where an edit does not match, the report shows lines of the file.
        concerns = [*self._workspace.write_concerns(*paths), *self._workspace.secret_concerns(*paths)]
        text = "\n".join(str(item.get("new", "")) for item in _items(arguments))
        concerns += [concern for path in paths for concern in self._workspace.lasting_concerns(path, text)]
        return risk_from_concerns(f"patch {', '.join(map(str, paths))}", concerns)

    def refused(self, arguments: Arguments) -> None:
        self._workspace.withdraw(*_paths(arguments))

    def try_edit(self, arguments: Arguments) -> ToolResult:
        return self._patch(arguments, is_trial=True)

    def headline(self, arguments: Arguments) -> str:
        raw = arguments.get("edits")
        count, paths = len(raw) if isinstance(raw, list) else 1, _paths(arguments)
        if not any(paths):
            return "patch ?"
        edits = f"{count} edit{'s' if count != 1 else ''}"
        return f"patch {edits} in {paths[0] if len(paths) == 1 else f'{len(paths)} files'}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        return await asyncio.to_thread(self._patch, arguments)

    def _patch(self, arguments: Arguments, *, is_trial: bool = False) -> ToolResult:
        by_file: dict[ResolvedPath, list[PassageEdit]] = {}
        try:
            for edit in parse_edits(arguments):
                by_file.setdefault(self._workspace.path_to_write(edit.path), []).append(edit)
        except InvalidArgument as problem:
            return error_result(str(problem))
        outcomes = [self._patch_file(target, edits, is_trial=is_trial) for target, edits in by_file.items()]
        diffs = [outcome.display_text for outcome in outcomes if outcome.display_text is not None]
        is_error = any(outcome.is_error for outcome in outcomes)
        text = "\n".join(outcome.text for outcome in outcomes)
        return ToolResult(text, is_error, display_text="\n".join(diffs) if diffs else None)

    def _patch_file(self, target: ResolvedPath, edits: Sequence[PassageEdit], *, is_trial: bool) -> ToolResult:
        try:
            file, stamp = _open(target, edits)
            edited = _EditedFile(file.text)
            for edit in edits:
                _apply(edited, edit, is_new=stamp is None)
            if edited.failed:
                return error_result(_failure_report(target, edited, edits))
            encoded = file.encode(edited.text)
            if not is_trial:
                self._write(target, encoded, stamp)
        except InvalidArgument as problem:
            return error_result(f"{target.display_name}: nothing changed; {problem}")
        except OSError as problem:
            return error_result(f"{target.display_name}: nothing changed; {problem.strerror or problem}")
        return ToolResult(
            _success_report(target, file.text, edited),
            display_text=file_diff(target.display_name, file.text, edited.text),
        )

    def _write(self, target: ResolvedPath, content: bytes, before: FileStamp | None) -> None:
        was_known = before is None or self._tracker.is_current(target.path, before)
        stamp = self._tracker.write(target.path, content, before)
        if was_known:
            self._tracker.record(target.path, stamp)


def parse_edits(arguments: Arguments) -> list[PassageEdit]:
    """The edits of a call; InvalidArgument names the one that cannot be read."""
    raw = arguments.get("edits", [arguments] if "old" in arguments else None)
    if not isinstance(raw, list) or not raw:
        raise InvalidArgument("edits is empty or no list; send [{path, old, new}, ...]")
    return [_edit(number, item, arguments.get("path")) for number, item in enumerate(raw, 1)]


def _edit(number: int, item: object, default_path: object) -> PassageEdit:
    if not isinstance(item, dict):
        raise InvalidArgument(f"edit {number} is {item!r:.80}; send an object with path, old and new")
    try:
        path = text_argument(item, "path", default_path if isinstance(default_path, str) else None)
        old, new = text_argument(item, "old"), text_argument(item, "new")
        return PassageEdit(number, path, old, new, flag_argument(item, "replace_all"))
    except InvalidArgument as problem:
        raise InvalidArgument(f"edit {number}: {problem}; nothing was changed") from problem


def _items(arguments: Arguments) -> list[Arguments]:
    raw = arguments.get("edits")
    return [item for item in (raw if isinstance(raw, list) else [arguments]) if isinstance(item, Mapping)]


def _paths(arguments: Arguments) -> list[object]:
    default = arguments.get("path")
    paths = [default if item.get("path") is None else item["path"] for item in _items(arguments)]
    return list({str(path): path for path in paths}.values())


def _open(target: ResolvedPath, edits: Sequence[PassageEdit]) -> tuple[TextFile, FileStamp | None]:
    if target.path.is_dir():
        raise InvalidArgument("it is a folder")
    try:
        content, stamp = read_all(target.path)
    except (FileNotFoundError, NotADirectoryError):
        if edits[0].old:
            raise InvalidArgument("there is no such file; to create it, send an edit with an empty old") from None
        return TextFile(""), None
    file = decode_file(content)
    if file is None:
        raise InvalidArgument("it holds no text")
    return file, stamp


def _apply(edited: _EditedFile, edit: PassageEdit, *, is_new: bool) -> None:
    normalized = NormalizedText.of(edited.text)
    if not edit.old:
        _apply_new_file(edited, edit, is_allowed=not edited.text and (is_new or not edited.applied))
    elif edit.old == edit.new:
        edited.failed.append((edit, "old and new are the same"))
    else:
        found = find_passage(normalized, edit.old, edit.new, everywhere=edit.everywhere)
        if isinstance(found, PassageMatch):
            _apply_found(edited, edit, normalized, found)
        else:
            edited.failed.append((edit, _failure(edited, normalized, edit, found)))


def _apply_new_file(edited: _EditedFile, edit: PassageEdit, *, is_allowed: bool) -> None:
    if not is_allowed:
        edited.failed.append((edit, "old is empty, which creates a file, but this one exists; say what to replace"))
        return
    lines = count_lines(edit.new)
    edited.text = edit.new
    edited.applied.append(_AppliedEdit(edit, "created", 1, lines, lines, 1))


def _apply_found(edited: _EditedFile, edit: PassageEdit, normalized: NormalizedText, found: PassageMatch) -> None:
    first = normalized.line_at(found.replacements[0].start)
    edited.text = normalized.with_replacements(found.replacements)
    growth = edited.text.count("\n") - normalized.raw.count("\n")
    end = found.replacements[-1].end
    last = normalized.line_at(max(end - 1, found.replacements[-1].start)) + growth
    edited.applied.append(_AppliedEdit(edit, found.how, first, max(first, last), growth, len(found.replacements)))


def _failure(edited: _EditedFile, normalized: NormalizedText, edit: PassageEdit, found: AmbiguousMatch | None) -> str:
    if found is None:
        return missed_passage_report(normalized.text, edit.old, edit.new, edited.on_disk)
    lines = ", ".join(str(edited.on_disk(line)) for line in found.lines[:_MAX_LISTED_LINES])
    count = f"{len(found.lines)} times" if len(found.lines) < MAX_AMBIGUOUS else f"{MAX_AMBIGUOUS} times or more"
    more = f" and {len(found.lines) - _MAX_LISTED_LINES} more" if len(found.lines) > _MAX_LISTED_LINES else ""
    way = "" if found.how == "exact" else f", but for {found.how}"
    return (
        f"old is there {count}, at lines {lines}{more}{way}; "
        "add lines around it until it is the only one, or set replace_all"
    )


def _failure_report(target: ResolvedPath, edited: _EditedFile, edits: Sequence[PassageEdit]) -> str:
    failed = {edit.number: why for edit, why in edited.failed}
    others = ", ".join(str(edit.number) for edit in edits if edit.number not in failed)
    lines = [f"edit {number}: {why}" for number, why in failed.items()]
    left_out = [f"edits that fit, but were left out with them: {others}"] if others else []
    return "\n".join([f"{target.display_name}: nothing changed", *lines, *left_out])


def _success_report(target: ResolvedPath, before: str, edited: _EditedFile) -> str:
    now, then = count_lines(edited.text), count_lines(before)
    size = f"{then:,} -> {now:,} lines" if now != then else f"{now:,} lines"
    return "\n".join(
        [f"{target.display_name}: changed, {size}", *(_edit_report(edited, done) for done in edited.applied)]
    )


def _edit_report(edited: _EditedFile, done: _AppliedEdit) -> str:
    first, last = edited.final_lines(done)
    where = f"line {first}" if last <= first else f"lines {first}-{last}"
    how = done.how if done.how in ("exact", "created") else f"tolerant ({done.how} differed)"
    times = f", {done.count} places" if done.count > 1 else ""
    return f"edit {done.edit.number}: applied, {how}, now {where}{times}"
