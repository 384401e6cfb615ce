"""What a tool call did, in one verb and one target: a table of the tools that agents really have.

Reads the name and the arguments of a call; a tool that is not in the table is CALLED, with its first short argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from clew.messages import ToolCall, arguments_of_call

Verb: TypeAlias = Literal[
    "READ", "WROTE", "CHANGED", "RAN", "SEARCHED", "LISTED", "FETCHED", "PLANNED", "DELEGATED", "CALLED"
]

_PATH = ("path", "file_path", "filePath", "filename", "file", "target_file", "absolute_path", "notebook_path", "uri")
_COMMAND = ("command", "cmd", "script", "code", "input")
_PATTERN = ("pattern", "query", "regex", "q", "search", "glob", "path")


@dataclass(frozen=True, slots=True)
class KnownTool:
    verb: Verb
    names: str
    target: tuple[str, ...]


# Names as Clew, Hermes, Claude Code, Codex, opencode, pi, Cline and others spell them, lower case, without dashes.
_TABLE = (
    KnownTool("READ", "read_file read view cat open_file fs_read notebookread readfile view_file", _PATH),
    KnownTool("WROTE", "write_file write create_file create writefile write_to_file save_file fs_write", _PATH),
    KnownTool(
        "CHANGED",
        "patch edit multiedit multi_edit apply_patch str_replace str_replace_editor str_replace_based_edit_tool "
        "edit_file replace_in_file replace notebookedit update_file insert apply_diff search_replace",
        _PATH,
    ),
    KnownTool(
        "RAN",
        "terminal bash shell run_command execute_command exec exec_command run run_terminal_cmd local_shell_call "
        "container.exec execute_bash bash_tool shell_command python execute_code unified_exec",
        _COMMAND,
    ),
    KnownTool(
        "SEARCHED",
        "search_files grep search glob find ripgrep codebase_search find_files grep_search file_search websearch "
        "web_search google_search toolsearch find_by_name recall",
        _PATTERN,
    ),
    KnownTool("LISTED", "ls list list_dir list_files list_directory tree", (*_PATH, "directory")),
    KnownTool("FETCHED", "webfetch web_fetch fetch browse read_url http_get web_extract", ("url", "urls", "uri")),
    KnownTool("PLANNED", "todowrite todo_write update_plan todo write_todos todos manage_todo_list set_plan", ()),
    KnownTool("DELEGATED", "task agent delegate subagent spawn delegate_task", ("description", "prompt", "task")),
)
_BY_NAME = {name: tool for tool in _TABLE for name in tool.names.split()}
_EDITOR_COMMANDS: Mapping[str, Verb] = {"view": "READ", "create": "WROTE"}
_OF_FILES = frozenset({"READ", "WROTE", "CHANGED"})
_NONE: Mapping[str, Any] = {}
_PATCHED_FILE = re.compile(r"^\*\*\* (?:(?:Update|Add|Delete) File|Move to): (.+)$|^\+\+\+ b/(.+)$", re.MULTILINE)


def plain_name(name: str) -> str:
    """`mcp__files__read-file` and `functions.read_file` are both `read_file`."""
    short = name.rsplit("__", 1)[-1] if name.startswith("mcp__") else name
    return short.removeprefix("functions.").lower().replace("-", "_")


def verb_of(name: str, arguments: Mapping[str, Any] = _NONE) -> Verb:
    known = _BY_NAME.get(plain_name(name))
    if known and known.verb == "CHANGED":
        # Editors of one tool for everything say in an argument what they do.
        return _EDITOR_COMMANDS.get(str(arguments.get("command")), "CHANGED")
    return known.verb if known else "CALLED"


def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """The arguments as a mapping, whatever the model wrote."""
    return arguments_of_call(call)


def written_arguments(call: ToolCall) -> str:
    """The arguments as the model wrote them: JSON in most calls, free text in some."""
    raw: Any = call
    inner = raw.get("function") or raw.get("custom") or {}
    written = inner.get("arguments", inner.get("input", ""))
    return written if isinstance(written, str) else str(written)


def target_of(name: str, arguments: Mapping[str, Any]) -> str:
    """What the call was about: a path, a command line, a pattern, an address."""
    known = _BY_NAME.get(plain_name(name))
    wanted = known.target if known else (*_PATH, "url", "query", "name", "id")
    for key in wanted:
        text = _as_text(arguments.get(key))
        if text:
            return ", ".join(_patched_in(text)) or text
    if known and known.verb in _OF_FILES:
        return ", ".join(_edited_in(arguments)) or ", ".join(
            path for value in arguments.values() for path in _patched_in(_as_text(value))
        )
    return next((text for value in arguments.values() if (text := _as_text(value)) and len(text) <= 200), "")


def files_written(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """The files that a tool for writing names: as its path, or inside a patch."""
    for key in _PATH:
        if path := _as_text(arguments.get(key)):
            return [path]
    if edited := _edited_in(arguments):
        return edited
    patches = map(_as_text, arguments.values()) if _BY_NAME.get(plain_name(name)) else ()
    return list(dict.fromkeys(path for patch in patches for path in _patched_in(patch)))


def _edited_in(arguments: Mapping[str, Any]) -> list[str]:
    """The files that a list of edits names, one each, as our own `patch` takes them."""
    listed = arguments.get("edits")
    edits = [edit for edit in listed if isinstance(edit, Mapping)] if isinstance(listed, list) else []
    paths = (next((path for key in _PATH if (path := _as_text(edit.get(key)))), "") for edit in edits)
    return list(dict.fromkeys(path for path in paths if path))


def patched_files(patch: str) -> list[str]:
    """The files that a patch in Codex' or in unified form names."""
    return [first or second for first, second in _PATCHED_FILE.findall(patch)]


def _patched_in(text: str) -> list[str]:
    return patched_files(text) if text.lstrip().startswith(("*** Begin Patch", "--- ", "diff ")) else []


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        # Codex sends ["bash", "-lc", "the command"]
        return value[-1] if value[0] in ("bash", "sh", "zsh") else " ".join(value)
    return ""
