"""The tool that edits files: any number of passages in any number of files, each file wholly or not at all.

What a passage is, and when it is found, is known to `patching`. Here edits are read, put together by file, applied one
after another to the text, and the file is written once; the report tells of every edit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from clew.agent.files.closest import miss_report
from clew.agent.files.diffs import diff_of
from clew.agent.files.disk import read_whole, write_whole
from clew.agent.files.patching import Found, Plain, Several, find_passage
from clew.agent.files.paths import Place, Workplace
from clew.agent.files.seen import FilesSeen, Stamp
from clew.agent.files.textfile import TextFile, count_lines, text_of_bytes
from clew.agent.tools.arguments import flag_argument, risk_of, text_argument
from clew.agent.tools.base import AgentTool, Arguments, CallContext, Risk, ToolResult, function_schema, wrong
from clew.errors import InvalidArgument

MOST_BYTES = 50 << 20
_SHOWN_PLACES = 20


@dataclass(frozen=True, slots=True)
class Edit:
    """One passage to change, with its number in the call."""

    number: int
    path: str
    old: str
    new: str
    everywhere: bool


@dataclass(frozen=True, slots=True)
class _Applied:
    """Where an edit went, in lines as they were numbered right after it."""

    edit: Edit
    how: str
    first: int
    last: int
    growth: int
    """Lines that the text has more since then."""
    places: int


@dataclass(slots=True)
class _Sheet:
    """A file's text while its edits are made."""

    text: str
    applied: list[_Applied] = field(default_factory=list)
    failed: list[tuple[Edit, str]] = field(default_factory=list)

    def on_disk(self, line: int) -> int:
        """The number that a line of this text has in the file."""
        for done in reversed(self.applied):
            if line > done.last:
                line -= done.growth
        return line

    def at_the_end(self, done: _Applied) -> tuple[int, int]:
        """The lines of an edit, after all that came later."""
        first, last = done.first, done.last
        for later in self.applied[self.applied.index(done) + 1 :]:
            if later.first <= first:
                first, last = first + later.growth, last + later.growth
        return first, last


class Patch(AgentTool):
    """Changes passages of files that may have been read or not: what is found is known."""

    name = "patch"
    schema = function_schema(
        name,
        "Change passages of text files, several at once. Each `old` must occur once in its file, so give enough lines; "
        "differing white space is tolerated. Edits of one file are applied in order, all or none.",
        {
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "old": {"type": "string", "description": "as in the file, no line numbers; empty: new file"},
                        "new": {"type": "string", "description": "what shall stand there"},
                        "replace_all": {"type": "boolean", "description": "every occurrence"},
                    },
                    "required": ["path", "old", "new"],
                    "additionalProperties": False,
                },
            }
        },
        "edits",
    )

    def __init__(self, workplace: Workplace, seen: FilesSeen) -> None:
        self._workplace = workplace
        self._seen = seen

    def risk(self, arguments: Arguments) -> Risk | None:
        paths = _paths(arguments)
        # Where an edit does not match, the report shows lines of the file.
        concerns = [*self._workplace.writing_concerns(*paths), *self._workplace.secret_concerns(*paths)]
        return risk_of(f"patch {', '.join(map(str, paths))}", concerns)

    def refused(self, arguments: Arguments) -> None:
        self._workplace.forget(*_paths(arguments))

    def headline(self, arguments: Arguments) -> str:
        raw = arguments.get("edits")
        count, paths = len(raw) if isinstance(raw, list) else 1, _paths(arguments)
        if not any(paths):
            return "patch ?"
        edits = f"{count} edit{'s' if count != 1 else ''}"
        return f"patch {edits} in {paths[0] if len(paths) == 1 else f'{len(paths)} files'}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        try:
            return await asyncio.to_thread(self._patch, edits_of(arguments))
        except InvalidArgument as problem:
            return wrong(str(problem))

    def _patch(self, edits: Sequence[Edit]) -> ToolResult:
        by_file: dict[Place, list[Edit]] = {}
        for edit in edits:
            by_file.setdefault(self._workplace.place_to_write(edit.path), []).append(edit)
        outcomes = [self._patch_file(place, mine) for place, mine in by_file.items()]
        shown = "\n".join(outcome.shown for outcome in outcomes if outcome.shown)
        is_error = any(outcome.is_error for outcome in outcomes)
        return ToolResult("\n".join(outcome.text for outcome in outcomes), is_error, shown or None)

    def _patch_file(self, place: Place, edits: Sequence[Edit]) -> ToolResult:
        try:
            file, stamp = _opened(place, edits)
            sheet = _Sheet(file.text)
            for edit in edits:
                _apply(sheet, edit, is_new=stamp is None)
            if sheet.failed:
                return wrong(_refusal(place, sheet, edits))
            self._write(place, file.encoded(sheet.text), stamp)
        except InvalidArgument as problem:
            return wrong(f"{place.shown}: nothing changed; {problem}")
        except OSError as problem:
            return wrong(f"{place.shown}: nothing changed; {problem.strerror or problem}")
        return ToolResult(_account(place, file.text, sheet), shown=diff_of(place.shown, file.text, sheet.text).text)

    def _write(self, place: Place, content: bytes, before: Stamp | None) -> None:
        was_known = before is None or self._seen.is_current(place.path, before)
        stamp = write_whole(place.path, content, before)
        if was_known:
            self._seen.saw(place.path, stamp)


def edits_of(arguments: Arguments) -> list[Edit]:
    """The edits of a call; InvalidArgument names the one that cannot be read."""
    raw = arguments.get("edits", [arguments] if "old" in arguments else None)
    if not isinstance(raw, list) or not raw:
        raise InvalidArgument("edits is empty or no list; send [{path, old, new}, ...]")
    return [_edit(number, item, arguments.get("path")) for number, item in enumerate(raw, 1)]


def _edit(number: int, item: object, default_path: object) -> Edit:
    if not isinstance(item, dict):
        raise InvalidArgument(f"edit {number} is {item!r:.80}; send an object with path, old and new")
    try:
        path = text_argument(item, "path", default_path if isinstance(default_path, str) else None)
        old, new = text_argument(item, "old"), text_argument(item, "new")
        return Edit(number, path, old, new, flag_argument(item, "replace_all"))
    except InvalidArgument as problem:
        raise InvalidArgument(f"edit {number}: {problem}; nothing was changed") from problem


def _paths(arguments: Arguments) -> list[object]:
    raw = arguments.get("edits")
    items = raw if isinstance(raw, list) else [arguments]
    default = arguments.get("path")
    paths = [default if item.get("path") is None else item["path"] for item in items if isinstance(item, dict)]
    return list({str(path): path for path in paths}.values())


def _opened(place: Place, edits: Sequence[Edit]) -> tuple[TextFile, Stamp | None]:
    if place.path.is_dir():
        raise InvalidArgument("it is a folder")
    try:
        content, stamp = read_whole(place.path, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        if edits[0].old:
            raise InvalidArgument("there is no such file; to create it, send an edit with an empty old") from None
        return TextFile(""), None
    file = text_of_bytes(content)
    if file is None:
        raise InvalidArgument("it holds no text")
    return file, stamp


def _apply(sheet: _Sheet, edit: Edit, *, is_new: bool) -> None:
    plain = Plain.of(sheet.text)
    if not edit.old:
        _apply_creation(sheet, edit, is_free=not sheet.text and (is_new or not sheet.applied))
    elif edit.old == edit.new:
        sheet.failed.append((edit, "old and new are the same"))
    else:
        found = find_passage(plain, edit.old, edit.new, everywhere=edit.everywhere)
        if isinstance(found, Found):
            _apply_found(sheet, edit, plain, found)
        else:
            sheet.failed.append((edit, _why_not(sheet, plain, edit, found)))


def _apply_creation(sheet: _Sheet, edit: Edit, *, is_free: bool) -> None:
    if not is_free:
        sheet.failed.append((edit, "old is empty, which creates a file, but this one exists; say what to replace"))
        return
    lines = count_lines(edit.new)
    sheet.text = edit.new
    sheet.applied.append(_Applied(edit, "created", 1, lines, lines, 1))


def _apply_found(sheet: _Sheet, edit: Edit, plain: Plain, found: Found) -> None:
    first = plain.line_at(found.passages[0].start)
    sheet.text = plain.with_passages(found.passages)
    growth = sheet.text.count("\n") - plain.raw.count("\n")
    end = found.passages[-1].end
    last = plain.line_at(max(end - 1, found.passages[-1].start)) + growth
    sheet.applied.append(_Applied(edit, found.how, first, max(first, last), growth, len(found.passages)))


def _why_not(sheet: _Sheet, plain: Plain, edit: Edit, found: Several | None) -> str:
    if found is None:
        return miss_report(plain.text, edit.old, edit.new, sheet.on_disk)
    lines = ", ".join(str(sheet.on_disk(line)) for line in found.lines[:_SHOWN_PLACES])
    more = f" and {len(found.lines) - _SHOWN_PLACES} more" if len(found.lines) > _SHOWN_PLACES else ""
    way = "" if found.how == "exact" else f", but for {found.how}"
    return (
        f"old stands {len(found.lines)} times, at lines {lines}{more}{way}; "
        "add lines around it until it is the only one, or set replace_all"
    )


def _refusal(place: Place, sheet: _Sheet, edits: Sequence[Edit]) -> str:
    failed = {edit.number: why for edit, why in sheet.failed}
    others = ", ".join(str(edit.number) for edit in edits if edit.number not in failed)
    lines = [f"edit {number}: {why}" for number, why in failed.items()]
    left_out = [f"edits that fit, but were left out with them: {others}"] if others else []
    return "\n".join([f"{place.shown}: nothing changed", *lines, *left_out])


def _account(place: Place, before: str, sheet: _Sheet) -> str:
    now, then = count_lines(sheet.text), count_lines(before)
    size = f"{then:,} -> {now:,} lines" if now != then else f"{now:,} lines"
    return "\n".join([f"{place.shown}: changed, {size}", *(_told(sheet, done) for done in sheet.applied)])


def _told(sheet: _Sheet, done: _Applied) -> str:
    first, last = sheet.at_the_end(done)
    where = f"line {first}" if last <= first else f"lines {first}-{last}"
    how = done.how if done.how in ("exact", "created") else f"tolerant ({done.how} differed)"
    times = f", {done.places} places" if done.places > 1 else ""
    return f"edit {done.edit.number}: applied, {how}, now {where}{times}"
