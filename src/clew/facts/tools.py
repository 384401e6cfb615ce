"""What a tool call did, read from its name and arguments: a verb, a target, the files it changed, the plan it wrote.

`tools.toml` lists the tools of common agents; any other tool is CALLED. Command lines are read by `clew.shell`, and
never run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import basename, join, normpath
from typing import Any, Literal, NamedTuple, TypeAlias

from clew.errors import UnreadableCommand
from clew.facts.data import load_table
from clew.facts.text import has_one
from clew.lazy import lazy_pattern
from clew.messages import ToolCall, arguments_of_call, name_of_call
from clew.shell import SimpleCommand, read_command_line

Verb: TypeAlias = Literal[
    "READ", "WROTE", "CHANGED", "RAN", "SEARCHED", "LISTED", "FETCHED", "PLANNED", "ASKED", "DELEGATED", "LOADED",
    "SAID", "CALLED",
]  # fmt: skip
FileFate: TypeAlias = Literal["changed", "created", "deleted", "moved"]

_TABLE = load_table("tools.toml")
_VERBS: Mapping[str, Verb] = {name: row["verb"] for row in _TABLE["tool"] for name in row["names"].split()}
_TARGETS: Mapping[str, tuple[str, ...]] = {row["verb"]: tuple(row["target"].split()) for row in _TABLE["tool"]}
_PATH_KEYS = _TARGETS["READ"]
_ANY_TARGET = (*_PATH_KEYS, *_TARGETS["RAN"], *_TARGETS["SEARCHED"], "url", "name", "id", "title")
_OLD, _NEW, _LISTS = (tuple(_TABLE["edits"][key].split()) for key in ("old", "new", "lists"))
_DELETING = frozenset(_TABLE["edits"]["deleting"].split())
_EXISTED = tuple(_TABLE["edits"]["existed"])
_STATUS_CHARS = 200
_ALL, _LAST, _INPLACE = (frozenset(_TABLE["commands"][key].split()) for key in ("all", "last", "inplace"))
_GENERATED = frozenset(_TABLE["generated"]["names"].split())
_GENERATED_ENDS = tuple(_TABLE["generated"]["suffixes"].split())
_EDITOR_COMMANDS: Mapping[str, Verb] = {"view": "READ", "create": "WROTE"}
_PATCHED_FILE = lazy_pattern(
    r"^\*\*\* (?P<how>Update File|Add File|Delete File|Move to): (?P<path>.+)$"
    r"|^\+\+\+ b/(?P<changed>\S+)|^--- a/(?P<deleted>\S+)\n\+\+\+ /dev/null$",
    re.MULTILINE,
)
_BLOCK_LINE = lazy_pattern(r"(?P<search>[<-]{5,9} SEARCH>?)|(?P<divides>={5,9})|(?P<replaces>[>+]{5,9} REPLACE).*")
_STATUSES = ("status", "state", "done", "completed", "checked")
_ENTRY_TEXTS = ("content", "step", "text", "title", "task", "description", "name")
# One of these is on every command line that changes a file in a way that is read here.
_MAY_WRITE = (">", "tee ", "rm ", "mv ", "cp ", "touch ", "-i", "rmdir", "truncate", "ln ", "install ")
_LONGEST_READ_CHARS = 20_000
_NULL_DEVICES = ("/dev/", "NUL", "&")


class FileEffect(NamedTuple):
    """A file that a call changed, by the path as the tool took it."""

    path: str
    fate: FileFate
    added: int = 0
    removed: int = 0


class Edit(NamedTuple):
    """A text that a call takes out of a file, and the one that it puts in."""

    path: str
    fate: FileFate
    old: str
    new: str


class PlanEntry(NamedTuple):
    """One entry of an agent's plan, with its status as the agent wrote it."""

    text: str
    status: str
    key: str = ""

    @property
    def is_done(self) -> bool:
        return self.status in ("completed", "done", "complete", "true", "x", "finished")

    @property
    def is_started(self) -> bool:
        return self.status in ("in_progress", "in-progress", "active", "doing", "started", "inprogress")


class CallReading(NamedTuple):
    """What a call is about."""

    verb: Verb
    tool: str
    target: str
    arguments: Mapping[str, Any]

    @property
    def is_file(self) -> bool:
        """Whether the target is the path of a file."""
        return self.verb in ("READ", "WROTE", "CHANGED")


def read_call(call: ToolCall) -> CallReading:
    name, arguments = name_of_call(call), arguments_of_call(call)
    verb = verb_of(name, arguments)
    return CallReading(verb, name, _target(verb, arguments), arguments)


def verb_of(name: str, arguments: Mapping[str, Any] | None = None) -> Verb:
    """What the tool does, in one word; CALLED for a tool that is not in the table."""
    verb = _VERBS.get(_plain_name(name), "CALLED")
    if verb == "CHANGED" and arguments:
        # Some editors are one tool for everything and say in an argument what they do.
        return _EDITOR_COMMANDS.get(str(arguments.get("command")), verb)
    return verb


def _plain_name(name: str) -> str:
    """`mcp__files__read-file` and `functions.read_file` are both `read_file`."""
    short = name.rsplit("__", 1)[-1] if name.startswith("mcp__") else name
    return short.removeprefix("functions.").lower().replace("-", "_")


def _target(verb: Verb, arguments: Mapping[str, Any]) -> str:
    for key in _TARGETS.get(verb) or _ANY_TARGET:
        if text := _as_text(arguments.get(key)):
            return ", ".join(_files_in_patch(text)) or text
    if verb in ("READ", "WROTE", "CHANGED"):
        inside = [path for edit in _edits(arguments) if (path := _path_in(edit))]
        return ", ".join(dict.fromkeys(inside)) or ", ".join(
            path for value in arguments.values() for path in _files_in_patch(_as_text(value))
        )
    if verb == "ASKED":
        return " ".join(question for question, _ in questions_in(arguments))
    texts = (text for value in arguments.values() if (text := _as_text(value)))
    return next(texts, "")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        # Codex sends ["bash", "-lc", "the command"]
        return value[-1] if value[0] in ("bash", "sh", "zsh") else " ".join(value)
    return ""


def _edits(arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = [arguments[key] for key in _LISTS if isinstance(arguments.get(key), list)]
    return [edit for edits in listed for edit in edits if isinstance(edit, Mapping)] or [arguments]


def _path_in(arguments: Mapping[str, Any]) -> str:
    return next((path for key in _PATH_KEYS if (path := _as_text(arguments.get(key)))), "")


def _is_patch(text: str) -> bool:
    return text.lstrip().startswith(("*** Begin Patch", "--- ", "diff "))


def _files_in_patch(text: str) -> list[str]:
    if not _is_patch(text):
        return []
    found = (match["path"] or match["changed"] or match["deleted"] for match in _PATCHED_FILE.finditer(text))
    return list(dict.fromkeys(found))


# -- what a call changed -----------------------------------------------------------------------------------------------


def written_texts(reading: CallReading) -> list[str]:
    """The texts that a writing call puts into files."""
    texts: list[str] = []
    for edit in _edits(reading.arguments):
        texts += [text for key in _NEW if (text := _as_text(edit.get(key)))][:1]
    return texts


def edits_in(reading: CallReading) -> list[Edit]:
    """What a writing call takes out of files and puts in."""
    if reading.verb not in ("WROTE", "CHANGED"):
        return []
    arguments, own = reading.arguments, _path_in(reading.arguments)
    fate: FileFate = "created" if reading.verb == "WROTE" else "changed"
    if _plain_name(reading.tool) in _DELETING:
        fate = "deleted"
    found: list[Edit] = []
    for edit in _edits(arguments):
        path = _path_in(edit) or own
        old = next((text for key in _OLD if (text := _as_text(edit.get(key)))), "")
        new = next((text for key in _NEW if (text := _as_text(edit.get(key)))), "")
        if _is_patch(new):
            found += _edits_of_patch(new)
        elif path and (blocks := _search_replace_blocks(new)):
            found += (Edit(path, fate, before, after) for before, after in blocks)
        elif path:
            found.append(Edit(path, fate, old, new))
    return found or [edit for value in arguments.values() for edit in _edits_of_patch(_as_text(value))]


def _search_replace_blocks(text: str) -> list[tuple[str, str]]:
    """The texts of each block `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE`; an unfinished block is none."""
    blocks: list[tuple[str, str]] = []
    if " SEARCH" not in text or " REPLACE" not in text:
        return blocks
    before: list[str] | None = None
    after: list[str] | None = None
    for line in text.split("\n"):
        mark = _BLOCK_LINE.fullmatch(line)
        kind = mark.lastgroup if mark else None
        if kind == "search":
            before, after = [], None
        elif kind == "divides" and before is not None and after is None:
            after = []
        elif kind == "replaces" and before is not None and after is not None:
            blocks.append(("\n".join(before), "\n".join(after)))
            before = after = None
        elif after is not None:
            after.append(line)
        elif before is not None:
            before.append(line)
    return blocks


def _edits_of_patch(text: str) -> list[Edit]:
    if not _is_patch(text):
        return []
    found: list[Edit] = []
    headers = list(_PATCHED_FILE.finditer(text))
    for at, header in enumerate(headers):
        path, how = header["path"] or header["changed"] or header["deleted"], header["how"]
        if how == "Move to" and found:
            found[-1] = found[-1]._replace(fate="moved")
        lines = text[header.end() : headers[at + 1].start() if at + 1 < len(headers) else None].split("\n")
        old = "\n".join(line[1:] for line in lines if line.startswith("-") and not line.startswith("---"))
        new = "\n".join(line[1:] for line in lines if line.startswith("+") and not line.startswith("+++"))
        is_deleted = how == "Delete File" or bool(header["deleted"])
        fate: FileFate = "deleted" if is_deleted else "created" if how == "Add File" else "changed"
        found.append(Edit(path, fate, old, new))
    return found


def says_it_existed(result: str) -> bool:
    """Whether a tool that wrote a file says that it was there before."""
    status = result[:_STATUS_CHARS].lower()
    return any(word in status for word in _EXISTED)


def file_effects(reading: CallReading, edits: Sequence[Edit] | None = None) -> list[FileEffect]:
    """The files that a call changes, if it succeeds; `edits` are those of the call, where they were read before."""
    if reading.verb == "RAN":
        return _shell_effects(reading.target)
    effects: dict[str, FileEffect] = {}
    for path, fate, old, new in edits_in(reading) if edits is None else edits:
        before = effects.get(path, FileEffect(path, fate))
        added, removed = _changed_lines(old, new)
        effects[path] = FileEffect(path, fate, before.added + added, before.removed + removed)
    return list(effects.values())


def _changed_lines(old: str, new: str) -> tuple[int, int]:
    """How many lines an edit adds and removes; lines that it only repeats at its ends do not count."""
    before, after = old.splitlines(), new.splitlines()
    most = min(len(before), len(after))
    same = next((at for at in range(most) if before[at] != after[at]), most)
    most -= same
    ends = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    return len(after) - same - ends, len(before) - same - ends


def commands_in(line: str) -> Sequence[SimpleCommand]:
    """The simple commands of a line; none where it is too long or cannot be read."""
    if len(line) > _LONGEST_READ_CHARS:
        return ()
    try:
        return read_command_line(line).commands
    except UnreadableCommand:
        return ()


def _shell_effects(line: str) -> list[FileEffect]:
    if not has_one(line, _MAY_WRITE):
        return []
    effects: dict[str, FileEffect] = {}
    folder = ""
    for command in commands_in(line):
        words = [word.text for word in command.words if word.is_known]
        if len(words) > 1 and words[0] == "cd":
            folder = join(folder, words[1])
            continue
        for path, fate in _effects_of_command(command, words):
            if path and not path.startswith(_NULL_DEVICES):
                path = normpath(join(folder, path)) if folder else path
                effects[path] = FileEffect(path, fate)
    return list(effects.values())


def _effects_of_command(command: SimpleCommand, words: list[str]) -> Iterator[tuple[str, FileFate]]:
    for redirect in command.redirects:
        if redirect.writes and redirect.target.is_known:
            yield redirect.target.text, "changed"
    name = basename(words[0]) if words else ""
    if name == "git" and len(words) > 1 and words[1] in ("rm", "mv"):
        name, words = words[1], words[1:]
    named = [word for word in words[1:] if not word.startswith("-")]
    if name in _ALL:
        fate: FileFate = "changed" if name in ("tee", "touch", "truncate") else "deleted"
        yield from ((path, fate) for path in named)
    elif name in _LAST and len(named) > 1:
        yield named[-1], "changed"
        if name == "mv":
            yield from ((path, "moved") for path in named[:-1])
    elif name in _INPLACE and any(word.startswith("-i") or word == "--in-place" for word in words):
        scripts = {words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-e", "-f", "--expression")}
        files = [word for word in named if word and word not in scripts]
        yield from ((path, "changed") for path in files[0 if scripts else 1 :])


def is_generated(path: str) -> bool:
    """Whether the file is written by a program and its lines are noise."""
    return basename(path) in _GENERATED or path.endswith(_GENERATED_ENDS)


# -- plans and questions -----------------------------------------------------------------------------------------------


def plan_in(arguments: Mapping[str, Any]) -> list[PlanEntry]:
    """The entries of a plan that a call writes."""
    entries = []
    for value in arguments.values():
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                continue
        for item in value if isinstance(value, list) else ():
            if isinstance(item, Mapping) and (
                text := next(filter(None, map(_as_text, map(item.get, _ENTRY_TEXTS))), "")
            ):
                status = next((str(item[key]) for key in _STATUSES if item.get(key) is not None), "")
                entries.append(PlanEntry(text, status.lower(), str(item.get("id") or "")))
    return entries


def questions_in(arguments: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The questions that a call puts to a person, each with its options."""
    listed = arguments.get("questions")
    asked = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else [arguments]
    found = []
    for one in asked:
        text = next((text for key in ("question", "prompt", "message") if (text := _as_text(one.get(key)))), "")
        options = one.get("options")
        labels = [_option_text(option) for option in options] if isinstance(options, list) else []
        if text:
            found.append((text, [label for label in labels if label]))
    return found


def _option_text(option: Any) -> str:
    if not isinstance(option, Mapping):
        return _as_text(option)
    return next((text for key in ("label", "title", "text", "value") if (text := _as_text(option.get(key)))), "")
