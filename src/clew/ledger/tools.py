"""What a tool call did, read from its name and arguments: a verb, a target, the files it changed, the plan it wrote.

The table below lists the tools of common agents; any other tool is CALLED, with its first short argument as target.
Command lines are read as text and never run; only the common forms of writing to a file are known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any, Literal, TypeAlias

from clew.messages import ToolCall

Verb: TypeAlias = Literal[
    "READ", "WROTE", "CHANGED", "RAN", "SEARCHED", "LISTED", "FETCHED", "PLANNED", "DELEGATED", "ASKED", "CALLED"
]

_PATH = ("path", "file_path", "filePath", "filename", "file", "target_file", "absolute_path", "notebook_path", "uri")
_COMMAND = ("command", "cmd", "script", "code", "input")
_PATTERN = ("pattern", "query", "regex", "q", "search", "glob", "path")


@dataclass(frozen=True, slots=True)
class KnownTool:
    """The tools of one kind: their names, and the arguments that may hold what a call is about."""

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
        "edit_file replace_in_file replace notebookedit update_file insert apply_diff search_replace "
        "delete_file remove_file",
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
    KnownTool(
        "ASKED",
        "askuserquestion ask_user_question ask_user ask_followup_question ask_question question request_user_input "
        "ask_human",
        ("question", "prompt", "message"),
    ),
    KnownTool("DELEGATED", "task agent delegate subagent spawn delegate_task", ("description", "prompt", "task")),
)
_BY_NAME = {name: tool for tool in _TABLE for name in tool.names.split()}
_LONGEST_TARGET = 200
_EDITOR_COMMANDS: Mapping[str, Verb] = {"view": "READ", "create": "WROTE"}
_OF_FILES = frozenset({"READ", "WROTE", "CHANGED"})
_NONE: Mapping[str, Any] = {}
_PATCHED_FILE = re.compile(
    r"^\*\*\* (?P<how>Update File|Add File|Delete File|Move to): (?P<path>.+)$"
    r"|^\+\+\+ b/(?P<changed>.+)$|^--- a/(?P<deleted>.+)\n\+\+\+ /dev/null$",
    re.MULTILINE,
)
_DELETING_TOOLS = frozenset({"delete_file", "remove_file"})
# How a file ended, in the words in which it is told; empty where it was changed.
DELETED = "deleted"
_MOVED_TO = "moved to "
REVERTED = "reverted"


def plain_tool_name(name: str) -> str:
    """`mcp__files__read-file` and `functions.read_file` are both `read_file`."""
    short = name.rsplit("__", 1)[-1] if name.startswith("mcp__") else name
    return short.removeprefix("functions.").lower().replace("-", "_")


def verb_of(name: str, arguments: Mapping[str, Any] = _NONE) -> Verb:
    """What the tool does, in one word; CALLED for a tool that is not in the table."""
    known = _BY_NAME.get(plain_tool_name(name))
    if known and known.verb == "CHANGED":
        # Some editors are one tool for everything and say in an argument what they do.
        return _EDITOR_COMMANDS.get(str(arguments.get("command")), "CHANGED")
    return known.verb if known else "CALLED"


def arguments_text(call: ToolCall) -> str:
    """The arguments as the model wrote them: JSON in most calls, free text in some."""
    raw: Any = call
    inner = raw.get("function") or raw.get("custom") or {}
    written = inner.get("arguments", inner.get("input", ""))
    return written if isinstance(written, str) else json.dumps(written, ensure_ascii=False, default=str)


def target_of(name: str, arguments: Mapping[str, Any]) -> str:
    """What the call was about: a path, a command line, a pattern, an address."""
    known = _BY_NAME.get(plain_tool_name(name))
    wanted = known.target if known else (*_PATH, "url", "query", "name", "id")
    for key in wanted:
        text = _as_text(arguments.get(key))
        if text:
            return ", ".join(_files_in_patch(text)) or text
    if known and known.verb in _OF_FILES:
        return ", ".join(_files_in_edits(arguments)) or ", ".join(
            path for value in arguments.values() for path in _files_in_patch(_as_text(value))
        )
    texts = (text for value in arguments.values() if (text := _as_text(value)) and len(text) <= _LONGEST_TARGET)
    return next(texts, "") or _target_inside(arguments)


def _target_inside(arguments: Mapping[str, Any]) -> str:
    """The texts that a list in the arguments begins with, such as questions to a person; else names with numbers."""
    listed = [item for value in arguments.values() if isinstance(value, list) for item in value]
    maps = [item for item in listed if isinstance(item, Mapping)]
    inside = (next((text for value in item.values() if (text := _as_text(value))), "") for item in maps)
    if texts := list(filter(None, inside)):
        return " ".join(texts)[:_LONGEST_TARGET]
    return ", ".join(f"{key} {value}" for key, value in arguments.items() if isinstance(value, int | float))


def offered_by(arguments: Mapping[str, Any]) -> str:
    """The question that a call puts to a person, with its numbered options; empty where it puts several."""
    listed = arguments.get("questions")
    questions = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else [arguments]
    options = questions[0].get("options") if len(questions) == 1 else None
    told = [_option_text(option) for option in options] if isinstance(options, list) else []
    return "\n".join(f"{number}. {text}" for number, text in enumerate(told, 1))


def _option_text(option: Any) -> str:
    if not isinstance(option, Mapping):
        return _as_text(option)
    texts = (_as_text(option.get(key)) for key in ("label", "title", "text", "value", "description"))
    return ": ".join(filter(None, texts))


def files_edited(name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The files that a call of a writing tool names, as its path, in a list of edits, or inside a patch; and how each
    ended."""
    for key in _PATH:
        if path := _as_text(arguments.get(key)):
            return {path: DELETED if plain_tool_name(name) in _DELETING_TOOLS else ""}
    if edited := _files_in_edits(arguments):
        return dict.fromkeys(edited, "")
    patches = map(_as_text, arguments.values()) if _BY_NAME.get(plain_tool_name(name)) else ()
    return {path: how for patch in patches for path, how in _files_in_patch(patch).items()}


def _files_in_edits(arguments: Mapping[str, Any]) -> list[str]:
    """The files named in a list of edits, as the `patch` tool of Clew takes them."""
    listed = arguments.get("edits")
    edits = [edit for edit in listed if isinstance(edit, Mapping)] if isinstance(listed, list) else []
    paths = (next((path for key in _PATH if (path := _as_text(edit.get(key)))), "") for edit in edits)
    return list(dict.fromkeys(path for path in paths if path))


def patched_files(patch: str) -> dict[str, str]:
    """The files that a patch in Codex' or in unified form names, each with how it ended."""
    files: dict[str, str] = {}
    for found in _PATCHED_FILE.finditer(patch):
        path = found["path"] or found["changed"] or found["deleted"]
        if found["how"] == "Move to" and files:
            files[next(reversed(files))] = f"moved to {path}"
        files[path] = DELETED if found["deleted"] or found["how"] == "Delete File" else ""
    return files


def _files_in_patch(text: str) -> dict[str, str]:
    return patched_files(text) if text.lstrip().startswith(("*** Begin Patch", "--- ", "diff ")) else {}


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        # Codex sends ["bash", "-lc", "the command"]
        return value[-1] if value[0] in ("bash", "sh", "zsh") else " ".join(value)
    return ""


# -- the size of an edit -----------------------------------------------------------------------------------------------

# The arguments of an edit: the text that it replaces, and the one that comes there.
OLD_TEXT = ("old_string", "oldString", "old_str", "oldText", "old_text", "old")
NEW_TEXT = ("new_string", "newString", "new_str", "newText", "new_text", "new", "content", "file_text")


def size_of_edit(arguments: Mapping[str, object]) -> str:
    """Lines added and removed, such as `+41 -17`; empty where the call does not show them."""
    listed = arguments.get("edits")
    edits = [edit for edit in listed if isinstance(edit, Mapping)] if isinstance(listed, list) else [arguments]
    added = sum(_line_count(edit, NEW_TEXT) for edit in edits)
    removed = sum(_line_count(edit, OLD_TEXT) for edit in edits)
    return f"+{added} -{removed}" if added or removed else ""


def _line_count(edit: Mapping[str, object], keys: tuple[str, ...]) -> int:
    text = next((edit[key] for key in keys if isinstance(edit.get(key), str)), "")
    return str(text).count("\n") + 1 if text else 0


# -- files changed by a command line -----------------------------------------------------------------------------------

COMMAND_CHARS_READ = 20_000
_LONGEST_LOOK = 300
_MAY_WRITE = re.compile(
    r">|\b(?:tee|touch|rm|mv|cp|ln|truncate)\b|\b(?:sed|perl) -|\bgit (?:add|restore|checkout)\b|\*\*\* Begin"
)
# One of these is in all that it finds: plain strings are found many times as fast.
_WORDS_OF_WRITING = (
    *(">", "tee", "touch", "rm", "mv", "cp", "ln", "truncate", "sed -", "perl -"),
    *("git add", "git restore", "git checkout", "*** Begin"),
)
# Here-documents and quoted arguments are not read as commands.
HERE_DOCUMENT = re.compile(
    r"<<-?\s*(['\"]?)(?P<word>\w+)\1(?P<rest>[^\n]{0,400})\n.*?(?:^[ \t]*(?P=word)\b|\Z)", re.DOTALL | re.MULTILINE
)
_QUOTED = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"")
_COMMAND_SEPARATOR = re.compile(r"&&|\|\||[;|\n()]")
_REDIRECTION = re.compile(r"(?<![0-9>=-])>>?\s*([^\s<>&()]+)")
_OVERWRITING = re.compile(r"(?<![0-9>=-])>(?!>)\s*([^\s<>&()]+)")
_NAME = re.compile(r"[\w./~@+-]+")
_FILE_LIKE = re.compile(r"[\w-]\.\w{1,6}$|/[\w-]+$|^(?:Makefile|Dockerfile)$")
_NO_FILES = ("/dev/", "/proc/")
_ALL, _LAST, _BUT_FIRST = slice(None), slice(-1, None), slice(1, None)
# Which of the arguments of a command are the files it changes.
_CHANGES = {
    "tee": _ALL, "touch": _ALL, "rm": _ALL, "mv": _ALL, "truncate": _ALL, "git rm": _ALL, "git mv": _ALL,
    "git add": _ALL, "git restore": _ALL, "cp": _LAST, "ln": _LAST,
}  # fmt: skip
_ENDS = {"rm": DELETED, "git rm": DELETED, "git restore": REVERTED}
# With one of these a file stays as it is in the folder.
_KEEPS = frozenset({"--cached", "--staged", "-n", "--dry-run"})
_IN_PLACE = re.compile(r"-\w*i\S*|--in-place\S*")
_SCRIPT = re.compile(r"s([/|#,]).*\1.*\1\w*")
_SCRIPT_OPTIONS = ("-e", "-f", "--expression", "--file")


_PLACES = (
    r"(?:sed -n ['\"]?[\d,$ ;p+]+['\"]?|head(?: -n)?(?: ?-?\d+)?|tail(?: -n)?(?: ?[-+]?\d+)?|nl(?: -\w+)*|cat -[nA])"
)
_SHOWS_FILE = re.compile(
    rf"\s*(?:{_PLACES}|cat|less|bat) (?P<path>[\w./~@+-]+)(?:\s*2>(?:&1|/dev/null))?(?:\s*\|\s*{_PLACES})*\s*"
)


_WRAPPER = re.compile(r"(?=\S*/\S{6})(?P<program>\S++) (?P<given>.+)", re.DOTALL)
_GIVEN_QUOTED = re.compile(r"[\w-]+ \"(?P<command>.+)\"(?: \d+)?\s*", re.DOTALL)
_EVERYDAY = re.compile(
    r"(?:cat|cd|cp|curl|diff|echo|env|find|git|grep|head|ls|make|mkdir|mv|node|npm|pip|pwd|pytest|python3?|rg|rm|sed|tail|"
    r"test|touch|tree|wc|which|write)\b"
)
_FIRST_CHARS = 60
_FEWEST_WRAPPED = 4
"""From so many different ones on, a program is one that others are run through."""


def unwrapped(command: str, seen: dict[str, set[str]]) -> str:
    """The command that a program was given to run, once it was seen to do no more: `/opt/box run "pytest -q" 5`."""
    found = _WRAPPER.match(command)
    given = found["given"] if found else ""
    quoted = _GIVEN_QUOTED.fullmatch(given)
    if found is None or not (quoted or _EVERYDAY.match(given)):
        return command
    wrapped = seen.setdefault(found["program"], set())
    if len(wrapped) < _FEWEST_WRAPPED:
        wrapped.add(given[:_FIRST_CHARS] if quoted else given.partition(" ")[0])
        return command
    return quoted["command"].replace('\\"', '"') if quoted else given


def file_shown_by(command: str) -> str:
    """The file that a command line prints, or prints a part of, and nothing else; empty where it does other things."""
    found = _SHOWS_FILE.fullmatch(command) if len(command) <= _LONGEST_LOOK else None
    return found["path"] if found and _is_file(found["path"]) else ""


_FOLDER_OF_COMMAND = re.compile(r"\s*cd (?:\"(?P<quoted>[^\"]*)\"|'(?P<single>[^']*)'|(?P<plain>\S+))\s*(?:&&|;|\n)")
_CHANGE_OF_FOLDER = re.compile(r"\s*cd (?:\"[^\"]*\"|'[^']*'|\S+)\s*(?:&&|;|\n)\s*(?:\\\n\s*)?")
_ABSOLUTE = re.compile(r"[~/\\$]|[A-Za-z]:")


def without_folder(command: str) -> str:
    """A command without the change of folder before it."""
    found = _CHANGE_OF_FOLDER.match(command)
    return command[found.end() :] if found else command


# Programs that end so when they found something, or a difference; what they found is in what they print.
_FOUND_CODES = {
    **dict.fromkeys("grep egrep fgrep rg ag zgrep diff cmp colordiff pgrep lsof gitleaks codespell".split(), (1,)),
    "pylint": tuple(code for code in range(1, 32) if not code & 0b11),  # warnings, refactorings, conventions
    **dict.fromkeys(("git diff", "git grep", "npm outdated", "npm audit", "pip check"), (1,)),
}
_MODULE_RUN = re.compile(r"(?:\S*/)?python[\d.]* -m (?=\w)")


def found_by_exit_code(command: str, code: int) -> bool:
    """Whether the program that a command ends with says by this exit code that it found something."""
    plain = _QUOTED.sub("''", HERE_DOCUMENT.sub(" ", command[-COMMAND_CHARS_READ:]))
    last = next((part for part in reversed(_COMMAND_SEPARATOR.split(plain)) if part.strip()), "")
    words = _MODULE_RUN.sub("", last.strip(), count=1).split(maxsplit=2)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    return code in _FOUND_CODES.get(program, ()) or code in _FOUND_CODES.get(" ".join([program, *words[1:2]]), ())


def in_folder_of(command: str, path: str) -> str:
    """The whole path of a file that a command names from the folder that it changes to first."""
    found = _FOLDER_OF_COMMAND.match(command) if path and not _ABSOLUTE.match(path) else None
    folder = (found["quoted"] or found["single"] or found["plain"] or "") if found else ""
    if not _ABSOLUTE.match(folder):
        return normpath(f"{folder}/{path}") if folder != "-" and _NAME.fullmatch(folder) else path
    if "\\" in folder and "/" not in folder:
        return "\\".join([folder.rstrip("\\"), *path.removeprefix("./").split("/")])
    return f"{folder.rstrip('/')}/{path.removeprefix('./')}"


def ended_in_folder(command: str, ended: str) -> str:
    """How a file ended; where it was moved to a place that only the folder of the command tells, with that place."""
    place = ended.removeprefix(_MOVED_TO)
    if place == ended or not place.startswith("."):
        return ended
    whole = in_folder_of(command, place)
    return ended if whole == place or "\\" in whole else f"{_MOVED_TO}{normpath(whole)}/"


def files_changed_by(command: str) -> dict[str, str]:
    """The files that a command line writes, moves or removes, as far as its text shows, each with how it ended."""
    if not any(map(command.__contains__, _WORDS_OF_WRITING)) or not _MAY_WRITE.search(command):
        return {}
    text = command[:COMMAND_CHARS_READ]
    files = patched_files(text) if "*** Begin Patch" in text else {}
    plain = _QUOTED.sub(_without_quotes, HERE_DOCUMENT.sub(r"\g<rest>\n", text))
    for one in _COMMAND_SEPARATOR.split(plain):
        found = {name: how for name, how in _changed_by_command(one).items() if _is_file(name)}
        # What is added to a commit may well be that the file is gone.
        files |= {name: files.get(name, "") for name in found} if "git add" in one else found
    return files


def files_written_by(command: str) -> set[str]:
    """Of the files that a command line changes, those that it writes whole: into which its output goes."""
    plain = _QUOTED.sub(_without_quotes, HERE_DOCUMENT.sub(r"\g<rest>\n", command[:COMMAND_CHARS_READ]))
    return set(_OVERWRITING.findall(plain))


def _changed_by_command(command: str) -> dict[str, str]:
    files = dict.fromkeys(_REDIRECTION.findall(command), "")
    words = _command_words(_REDIRECTION.sub(" ", command))
    if not words:
        return files
    if words[0] in ("sed", "perl"):
        return files | dict.fromkeys(_edited_in_place(words[1:]), "")
    name = " ".join(words[:2]) if words[0] == "git" else words[0]
    arguments = words[2:] if words[0] == "git" else words[1:]
    if name == "git checkout":
        # Without the dashes a name may be a branch.
        behind = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
        return files | dict.fromkeys(behind, REVERTED)
    if name in _CHANGES:
        named = [word for word in arguments if not word.startswith("-")]
        ended = _ENDS.get(name, "") if _KEEPS.isdisjoint(arguments) else ""
        files |= dict.fromkeys(named[_CHANGES[name]], ended)
        if name in ("mv", "git mv"):
            files |= _moved(named)
    return files


def _moved(named: list[str]) -> dict[str, str]:
    """The files that `mv` was given before the last name, which is a folder where it looks like one."""
    *sources, target = named or [""]
    into = target.endswith("/") or len(sources) > 1 or "." not in target.rsplit("/", 1)[-1]
    return dict.fromkeys(sources, f"{_MOVED_TO}{target.rstrip('/')}/" if into else f"{_MOVED_TO}{target}")


def _command_words(command: str) -> list[str]:
    words = command.split()
    while words and (words[0] in ("sudo", "then", "do", "else", "{") or "=" in words[0]):
        words.pop(0)
    return words


def _edited_in_place(words: list[str]) -> list[str]:
    """The files behind `sed -i SCRIPT` or `sed -i -e SCRIPT`."""
    if not any(_IN_PLACE.fullmatch(word) for word in words):
        return []
    has_option = any(word in _SCRIPT_OPTIONS or re.fullmatch(r"-\w*e", word) for word in words)
    named = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith("-") and before not in _SCRIPT_OPTIONS and not re.fullmatch(r"-\w*e", before)
    ]
    files = named if has_option else named[_BUT_FIRST]
    # `sed -i '' SCRIPT FILE`, as macOS has it, names no ending for a copy of the file.
    return [name for name in files if not _SCRIPT.fullmatch(name)]


def _without_quotes(found: re.Match[str]) -> str:
    """A quoted file name without its quotes; any other quoted text is replaced by empty quotes."""
    inside = found[1] or found[2] or ""
    return inside if _NAME.fullmatch(inside) else "''"


def _is_file(name: str) -> bool:
    return bool(_NAME.fullmatch(name) and _FILE_LIKE.search(name)) and not name.startswith(_NO_FILES)


# -- plans -------------------------------------------------------------------------------------------------------------

PlanProgress: TypeAlias = Literal["open", "doing", "done"]

_TASK_TEXT_KEYS = ("content", "step", "task", "text", "title", "description", "name", "subject")
_DOING = frozenset({"inprogress", "active", "doing", "current", "started", "running", "wip"})
_DONE = frozenset({"completed", "complete", "done", "finished", "cancelled", "canceled", "skipped", "closed", "true"})
_CHECK_BOX = re.compile(r"^[ \t]*(?:[-*]|\d+[.)])[ \t]*\[(.)\][ \t]*(.+)$", re.MULTILINE)
_LONGEST_PLAN = 200


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One task of an agent's plan and its progress. `id` is the agent's own name for it, where it gave one."""

    text: str
    progress: PlanProgress
    id: str = ""


def plan_in(arguments: Mapping[str, Any]) -> list[PlanItem]:
    """The tasks that a planning call lists; empty where it only asks for the plan."""
    for value in arguments.values():
        items = [item for one in _items_listed(value) if (item := _plan_item(one))]
        if items:
            return items
    return []


def updated_plan(before: Sequence[PlanItem], items: Sequence[PlanItem], arguments: Mapping[str, Any]) -> list[PlanItem]:
    """The plan after the call: the new list or, with `merge`, the old one with the listed tasks updated."""
    if not arguments.get("merge"):
        return list(items)
    merged = {item.id or item.text: item for item in before}
    return list((merged | {item.id or item.text: item for item in items}).values())


def _items_listed(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        # A list of check boxes, or JSON that was written as text.
        if boxes := _CHECK_BOX.findall(value):
            return [{"text": text, "status": "done" if mark in "xX" else "open"} for mark, text in boxes]
        try:
            value = json.loads(value) if value.lstrip().startswith("[") else []
        except (ValueError, RecursionError):
            return ()
    return value[:_LONGEST_PLAN] if isinstance(value, list) else ()


def _plan_item(one: Any) -> PlanItem | None:
    if isinstance(one, str):
        return PlanItem(one, "open") if one.strip() else None
    if not isinstance(one, dict):
        return None
    text = next((one[key] for key in _TASK_TEXT_KEYS if isinstance(one.get(key), str) and one[key].strip()), "")
    if not text:
        return None
    # Most tools have a status, some a boolean instead.
    status = one.get("status", one.get("state", one.get("completed", one.get("done", ""))))
    return PlanItem(text, _progress(str(status)), str(one.get("id", "")))


def _progress(status: str) -> PlanProgress:
    plain = re.sub(r"[\W_]", "", status).lower()
    return "doing" if plain in _DOING else "done" if plain in _DONE else "open"
