"""A result as a reader takes it in: JSON by its fields, each with its name; a listing by its folder; a drawn tree too.

Programs print records as JSON, often in one long line, and texts in them with their line breaks escaped. A piece of
such a line tells a reader nothing; a field with its name, or a line of the text, does. Records that were cut are read
too.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from operator import is_
from typing import Any

from clew.ledger.spans import LONGEST_LINE

_FEWEST_FIELDS = 3
_FEWEST_BREAKS = 3
_MOST_NESTED = 4
_JOINED_CHARS = 240
_SHORT_CHARS = 150
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)("|\Z)', re.DOTALL)
_PLAIN_VALUE = re.compile(r"\s*:\s*(-?\d[\w.+-]*|true\b|false\b)?")
_BETWEEN_STRINGS = re.compile(r"[\s,:{}\[\]]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "", "t": "\t", "b": "", "f": ""}
_PLAIN_NAMES = frozenset({"title", "text", "content", "message", "line", "output", "stdout", "stderr", "body"})
_LONGEST_SETTING = 10
# Behind the letter of a drive a folder can begin with any letter.
_DRIVE = re.compile(r"\b[A-Za-z]:\\\w")

_NUMBERED = re.compile(r"\s*\d+(?:→|[:|]\s|\t)\s*")
# What tools put around what they show.
_WRAPPING_TAG = "(?:path|type|content|entries|file|output|stdout|returncode|exit_code)"
_WRAPPED_START = re.compile(rf"(?:<{_WRAPPING_TAG}>(?:[^<\n]*</{_WRAPPING_TAG}>)?[ \t]*(?:\n|\Z))*")
_WRAPPED_END = re.compile(rf"(?:\s*(?:</{_WRAPPING_TAG}>|\(End of file - total \d+ lines\)))+\s*\Z")
_WRAPPING_CHARS, _WRAPPING_ENDS = 160, (">", "lines)")


def lines_shown(result: str) -> int:
    """How many lines a result has without what the tool put around them."""
    start = _WRAPPED_START.match(result) if result.startswith("<") else None
    may_end = result[-_WRAPPING_CHARS:].rstrip().endswith(_WRAPPING_ENDS)
    ending = _WRAPPED_END.search(result, max(0, len(result) - _WRAPPING_CHARS)) if may_end else None
    low, high = start.end() if start else 0, ending.start() if ending else len(result)
    return result.count("\n", low, high) + 1 if low < high else 0


def readable_result(text: str, depth: int = 0) -> str:
    """The text with its JSON told by fields; the same object where there is none."""
    if depth > _MOST_NESTED:
        return text
    if text.lstrip()[:1] in ("{", "["):
        try:
            return "\n".join(_joined(_fields_of(json.loads(text), depth)))
        except (ValueError, RecursionError):
            pass
    lines = text.split("\n")
    if max(map(len, lines)) <= LONGEST_LINE:
        return text
    read = [_readable_line(line, depth) if len(line) > LONGEST_LINE else line for line in lines]
    return text if all(map(is_, read, lines)) else "\n".join(read)


def _readable_line(line: str, depth: int) -> str:
    if line.count('":') >= _FEWEST_FIELDS:
        record = min(at for at in map(line.find, '{["') if at >= 0)
        if _NUMBERED.match(line) and not _NUMBERED.fullmatch(line, 0, record):
            return line  # a line of a file, with a record somewhere in it: as the file has it
        return line[:record] + "\n".join(_joined(_fields_in(line[record:], depth)))
    is_escaped = line.count("\\n") >= _FEWEST_BREAKS and not _DRIVE.search(line)
    return _unescaped(line) if is_escaped else line


def _fields_of(value: Any, depth: int, name: str = "") -> Iterator[str]:
    """The fields of a record, each with its name; of a list its entries, records with nothing between them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields_of(inner, depth, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields_of(inner, depth, name)
            if isinstance(inner, dict):
                yield ""
    elif isinstance(value, str) and value:
        yield _named(name, readable_result(value, depth + 1))
    elif value is not None:
        yield _named(name, json.dumps(value))


def _fields_in(line: str, depth: int) -> Iterator[str]:
    """The fields of records in a line, also where one of them is cut at an end."""
    name, at = "", 0
    while string := _STRING.search(line, at):
        between = line[at : string.start()]
        if "{" in between and "}" in between:
            yield ""
        at = string.end()
        if _BETWEEN_STRINGS.fullmatch(string[1]):
            # The line began inside a string: this is what stands between two.
            at = string.end() - 1
            continue
        value = _PLAIN_VALUE.match(line, at)
        if value is None:
            if string[1]:
                yield _named(name, readable_result(_unescaped(string[1]), depth + 1))
            name = ""
        else:
            name = _unescaped(string[1])
            at = value.end()
            if value[1]:
                yield _named(name, value[1])
                name = ""


def _named(name: str, value: str) -> str:
    """A field with its name, but for those that say by themselves what they are: an address, a title, a text."""
    is_text = name in _PLAIN_NAMES and len(value) > _LONGEST_SETTING
    is_plain = not name or is_text or value.startswith(("https://", "http://"))
    return value if is_plain else f"{name}: {value}"


def _joined(fields: Iterator[str]) -> Iterator[str]:
    """Short fields of a record on one line; where one is empty, a record ends."""
    short: list[str] = []
    for field in (*fields, ""):
        is_short = 0 < len(field) <= _SHORT_CHARS and "\n" not in field
        if short and (not is_short or sum(map(len, short)) + len(field) > _JOINED_CHARS):
            yield ", ".join(short)
            short = []
        if is_short:
            short.append(field)
        elif field.strip():
            yield field


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_meant, text) if "\\" in text else text


def _meant(escape: re.Match[str]) -> str:
    if escape[1]:
        char = chr(int(escape[1], 16))
        return "" if "\ud800" <= char <= "\udfff" else char
    return _ESCAPED.get(escape[2], escape[2])


# -- what is wrapped ---------------------------------------------------------------------------------------------------

_CATEGORY = "+ CategoryInfo"
_PLACE_OF_ERROR = re.compile(r"^ {2,}\+ (?:CategoryInfo|FullyQualifiedErrorId)\b.*(?:\n {2,4}[^\s+].*)*", re.MULTILINE)
_FAR_IN = "\n" + 12 * " "
_VALUE_GOES_ON = re.compile(r"^(\w+ +: \S.{20,})\n {12,}(?=\S)(?!\w+ +: )", re.MULTILINE)


def without_wrapping(text: str) -> str:
    """The text without where PowerShell saw an error, which it wraps in the middle of words; a value that goes on below
    its name on one line."""
    if _CATEGORY in text:
        text = _PLACE_OF_ERROR.sub("", text)
    return _VALUE_GOES_ON.sub(r"\1", text) if _FAR_IN in text and " : " in text else text


_ELIDED, _BEHIND_ELIDED = "\n</output_head>\n<elided_chars>\n", "</elided_chars>\n<output_tail>\n"


def without_cut_lines(text: str) -> str:
    """A result of whose middle a harness left something out, without the two lines that this cut in pieces."""
    head, elided, rest = text.partition(_ELIDED)
    between, is_tail, tail = rest.partition(_BEHIND_ELIDED)
    if not elided or not is_tail:
        return text
    start, end = head.rpartition("\n")[0], tail.partition("\n")[2]
    return f"{start}{elided}{between}{is_tail}{end}"


# -- differences -------------------------------------------------------------------------------------------------------

_HUNK = "\n@@ -"


def without_context(text: str) -> str:
    """The text, of a difference only the names of files and what is new in them, or was left out: what stands around
    that, and what was replaced, would read as what came of it."""
    if _HUNK not in text:
        return text
    told: list[str] = []
    hunk: list[str] | None = None
    for line in (*text.split("\n"), "diff --git "):
        if hunk is not None and line[:1] in ("+", "-", " ", "\\", ""):
            hunk.append(line)
            continue
        told += _changed(hunk) if hunk else []
        hunk = [] if line.startswith("@@ -") else None
        if hunk is None and not line.startswith(("diff --git ", "--- a/")):
            told.append(line.removeprefix("+++ b/"))
    return "\n".join(told)


def _changed(hunk: Sequence[str]) -> list[str]:
    """The new lines of a part of a difference; where there are none, those that were taken out."""
    return [line for line in hunk if line.startswith("+")] or [line for line in hunk if line.startswith("-")]


# -- listings ----------------------------------------------------------------------------------------------------------

_LONG_LISTING = re.compile(
    r"[-bcdlps][-rwxsStT]{9}[@+.]? +\d+ \S+ +\S+ +(?P<size>[\d.,]+[KMGT]?) +\S+ +\S+ +(?:[\d:]+ +)?(?P<name>\S.*)"
)
_THE_FOLDER_ITSELF = ((".", "/"), ("..", "/"))
_SHORTEST_FOLDER, _LONG_FOLDER = 4, 16
_DRAWN = ("├─", "└─", "┣━", "┗━")
_BRANCH = re.compile(r"(?P<drawn>[\s│┃]*[├└┣┗][─━]+\s?)(?P<name>\S+)(?P<more>.*)")
_BOXED = re.compile(r"\s*[│┃║]\s*(\S.*?)\s*[│┃║]\s*")
_BETWEEN_BRANCHES = re.compile(r"[\s│┃]*")
_ROOT = re.compile(r"\s*(?!\.\.?/)(\S+)/\s*")


def listing(lines: Sequence[str], worth_of: Callable[[str], float], may_tell: Callable[[str], bool], most: int) -> str:
    """Paths of a listing as one line: the folder that they have in common, once, then what is in it, folder by folder.

    Of more than fit into `most` chars those that are worth most, in their order, and how many there are.
    """
    entries = [one for one in dict.fromkeys(map(_entry_of, lines)) if one not in _THE_FOLDER_ITSELF]
    # As Windows writes them, where no other is among them.
    mark = "\\" if all("\\" in path and "/" not in path for path, _ in entries) else "/"
    root = _common_folder([path for path, _ in entries], mark)
    cut = len(root) + 1 if len(root) >= _SHORTEST_FOLDER else 0
    names = [_folder_and_name(path[cut:], mark) for path, _ in entries]
    left, told, folders = most - cut, set(), {""}
    for at in sorted(range(len(entries)), key=lambda at: -worth_of(entries[at][0])):
        folder, name = names[at]
        chars = len(name) + len(entries[at][1]) + (0 if folder in folders else len(folder) + 4)
        if left < chars:
            break
        if may_tell(entries[at][0]):
            left -= chars + 1
            folders.add(folder)
            told.add(at)
    by_folder: dict[str, list[str]] = {}
    for at in sorted(told):
        folder, name = names[at]
        by_folder.setdefault(folder, []).append(name + entries[at][1])
    groups = [_names_in_folder(folder, own, mark) for folder, own in by_folder.items()]
    shown = (" · " if any(f"{mark}: " in one for one in groups) else " ").join(groups)
    counted = f" ({len(lines)} in all)" if len(told) < len(entries) else ""
    return f"{root}: {shown}{counted}"[0 if cut else len(root) + 2 :]


def _names_in_folder(folder: str, names: Sequence[str], mark: str) -> str:
    if folder and len(names) > 1:
        return f"{folder}{mark}: {' '.join(names)}"
    return f"{folder}{mark}{names[0]}" if folder else " ".join(names)


def _folder_and_name(path: str, mark: str) -> tuple[str, str]:
    """A path apart where its folder is long enough to be told once: `src/core/session` and `tools.ts`."""
    folder, _, name = path.rpartition(mark)
    return (folder, name) if len(folder) >= _LONG_FOLDER else ("", path)


def _entry_of(line: str) -> tuple[str, str]:
    """A path, and its size where the line of a listing has it; that of a folder is not that of what is in it."""
    plain = line.strip()
    found = _LONG_LISTING.fullmatch(plain)
    if not found:
        return plain.rstrip(":").rstrip("/"), ""
    return found["name"], "/" if plain.startswith("d") else f" {found['size']}"


def _common_folder(paths: Sequence[str], mark: str) -> str:
    folders = [path.split(mark)[:-1] for path in paths]
    shared = takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    return mark.join(names[0] for names in shared)


def without_drawing(text: str) -> str:
    """The text, a tree that is drawn in it told by folders: `src/core: session.ts, tools.ts`; no sides of boxes.

    The folder that stands above a tree is the first of each path in it.
    """
    if text.isascii() or not any(mark in text for mark in _DRAWN):
        return text
    told: list[str] = []
    branches: list[re.Match[str]] = []
    between: list[str] = []
    root: list[str] = []
    for line in text.split("\n"):
        # Nothing is drawn in most lines.
        if not branches and line.isascii():
            told.append(line)
        elif found := _BRANCH.match(line):
            if not branches:
                root = [above[1]] if told and (above := _ROOT.fullmatch(told[-1])) else []
                told[len(told) - len(root) :] = []
            branches.append(found)
            between = []
        elif branches and _BETWEEN_BRANCHES.fullmatch(line):
            between.append("")
        else:
            boxed = _BOXED.fullmatch(line)
            told += [*_by_folder(branches, root), *between, boxed[1] if boxed else line]
            branches, between = [], []
    return "\n".join([*told, *_by_folder(branches, root), *between])


def _by_folder(branches: Sequence[re.Match[str]], root: Sequence[str]) -> Iterator[str]:
    """The lines that tell a tree; an entry with a remark stands on a line of its own."""
    above: list[tuple[int, str]] = []
    plain: dict[str, list[str]] = {}
    remarked: dict[str, list[str]] = {}
    for at, one in enumerate(branches):
        depth, name, more = one.end("drawn"), one["name"], " ".join(one["more"].split())
        while above and above[-1][0] >= depth:
            above.pop()
        folder = "/".join([*root, *(inner for _, inner in above)])
        if at + 1 < len(branches) and branches[at + 1].end("drawn") > depth:
            above.append((depth, name.rstrip("/")))
        elif not more:
            plain.setdefault(folder, []).append(name)
        if more:
            remarked.setdefault(folder, []).append(f"{name} {more}")
    for folder in dict.fromkeys([*plain, *remarked]):
        head = f"{folder}: " if folder else ""
        yield from (head + entry for entry in [", ".join(plain.get(folder, ())), *remarked.get(folder, ())] if entry)


def left_out(text: str, shown: str) -> str:
    """The lines of a result that are not shown where its first and its last ones are."""
    lines = deque(shown.split("\n"))
    start, end = 0, len(text)
    while lines and text.startswith(f"{lines[0]}\n", start):
        start += len(lines.popleft()) + 1
    while lines and text.endswith(f"\n{lines[-1]}", start, end):
        end -= len(lines.pop()) + 1
    return text[start:end]
