"""Settings and their values, read from what a tool call wrote: edits of files, and command lines. And files that code
that was run writes.

Of a file that holds settings every plain assignment counts; of code those whose value an edit changed, and constants.
Values of secrets are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.redact import redact_text

_MOST_OF_A_FILE = 12
_MOST_LINES_READ = 400
_SMALL_EDIT_LINES = 12
_LONGEST_VALUE = 80
_SETTINGS_FILE = re.compile(
    r"(?:^|/)(?:\.env(?:\.\w+)?|[\w.-]*\.(?:env|ini|cfg|conf|toml|ya?ml|properties|json)|Dockerfile|Makefile)$"
)
_NO_SETTINGS_FILE = re.compile(
    r"(?:lock|\.lock\.\w+|fixtures?/.*|snapshots?/.*|test[\w/]*data/.*)$|\.(?:ipynb|geojson)$"
)
_CODE_FILE = re.compile(r"\.(?:py|pyi|tsx?|jsx?|mjs|go|rs|java|kt|cc?|hh?|cpp|hpp|cs|rb|php|swift|sh|lua|ex|scala)$")
_LITERAL = (
    r"\"[^\"\n]{0,80}\"|'[^'\n]{0,80}'|-?\d[\d_]*(?:\.\d+)?(?:e-?\d+)?[a-zA-Z%]{0,3}"
    r"|(?:true|false|null|none|nil|yes|no|on|off)\b"
)
_WRITTEN = re.compile(
    r"^[ \t]*(?:export |const |let |var |static |final |public |private |pub |readonly |ENV )*"
    r"[\"']?(?P<key>[A-Za-z_][\w.-]{1,60})[\"']?(?:\s*:\s*[\w\[\], |.&']{1,40}?)??"
    r"\s*(?:=|:=|:)\s*(?P<value>[^\s=].*?)\s*$"
)
_PLAIN_LITERAL = re.compile(rf"(?:{_LITERAL})\s*[,;]?\s*(?:(?:#|//).*)?$", re.IGNORECASE)
_SECTION = re.compile(r"^\s*\[+([\w.\-\" ]{1,60})\]+\s*$")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_COMMENT = re.compile(r"\s+(?:#|//).*$")
_BY_COMMAND = (
    re.compile(r"\bexport (?P<key>[A-Za-z_]\w+)=(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]+)"),
    re.compile(
        r"\bgit config (?:--(?:global|local|system|add|replace-all) )*(?P<key>[\w-]+\.[\w.-]+) "
        r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]+)"
    ),
    re.compile(r"\bconfig set (?P<key>[\w.:-]+)[ =](?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]+)"),
    re.compile(r"\bset-env (?P<key>\w+)[= ](?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]+)"),
)
_OLD_TEXT = ("old_string", "oldString", "old_str", "oldText", "old_text", "old")
_NEW_TEXT = ("new_string", "newString", "new_str", "newText", "new_text", "new")
_WHOLE_TEXT = ("content", "file_text", "contents")
_PATCH_FILE = re.compile(r"^(?:\*\*\* (?:Update|Add) File: |\+\+\+ (?:b/)?)(.+)$")


@dataclass(frozen=True, slots=True)
class Assignment:
    """A setting that was given a value, and the one that it had in the text that was replaced."""

    key: str
    value: str
    before: str = ""
    file: str = ""


def assignments_in_command(command: str) -> list[Assignment]:
    """The settings that a command line sets for longer than itself."""
    found: list[Assignment] = []
    if "export " in command or "config " in command or "set-env " in command:
        for pattern in _BY_COMMAND:
            found += (_assignment(match["key"], match["value"]) for match in pattern.finditer(command[:4_000]))
    return [each for each in found if not each.value.startswith("$")]


def assignments_in_edit(arguments: Mapping[str, Any], path: str) -> list[Assignment]:
    """The settings that a call of a writing tool gave a value."""
    if whole := _first_text(arguments, _WHOLE_TEXT):
        return _of_new_file(whole, path)
    listed = arguments.get("edits")
    edits = [edit for edit in listed if isinstance(edit, Mapping)] if isinstance(listed, list) else [arguments]
    found: list[Assignment] = []
    for edit in edits:
        own = next((str(edit[key]) for key in ("path", "file_path", "filePath") if isinstance(edit.get(key), str)), "")
        found += _changed(_first_text(edit, _OLD_TEXT), _first_text(edit, _NEW_TEXT), own or path)
    if not found:
        patches = [value for value in arguments.values() if isinstance(value, str) and "\n+" in value]
        found = [each for patch in patches for each in assignments_in_patch(patch)]
    return found


def assignments_in_patch(patch: str) -> list[Assignment]:
    """The settings that a patch in Codex' or in unified form gave a value."""
    found: list[Assignment] = []
    for path, old, new in _patched_texts(patch):
        found += _changed("\n".join(old), "\n".join(new), path)
    return found


def _patched_texts(patch: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each file of a patch with the lines that it takes out and those that it puts in."""
    path, old, new = "", list[str](), list[str]()
    for line in patch.split("\n")[: 10 * _MOST_LINES_READ]:
        if header := _PATCH_FILE.match(line):
            if path:
                yield path, old, new
            path, old, new = header[1].strip(), [], []
        elif line.startswith("-") and not line.startswith("---"):
            old.append(line[1:])
        elif line.startswith("+"):
            new.append(line[1:])
    if path:
        yield path, old, new


def _of_new_file(text: str, path: str) -> list[Assignment]:
    if not _is_settings_file(path):
        return []
    return [_assignment(key, value, file=path) for key, value in _pairs(text).items()][:_MOST_OF_A_FILE]


def _changed(old: str, new: str, path: str) -> list[Assignment]:
    """What has another value in the new text than in the old one; in a file of settings what is new in it, too."""
    if not new or not path:
        return []
    is_settings, is_code = _is_settings_file(path), bool(_CODE_FILE.search(path))
    before, after = _pairs(old), _pairs(new)
    found: list[Assignment] = []
    for key, value in after.items():
        if before.get(key) == value or not (is_settings or is_code):
            continue
        is_small = max(old.count("\n"), new.count("\n")) < _SMALL_EDIT_LINES
        was_changed = key in before and _PLAIN_LITERAL.match(before[key])
        if is_settings or (was_changed and (is_small or _CONSTANT.fullmatch(key))):
            found.append(_assignment(key, value, before.get(key, ""), path))
    return found[:_MOST_OF_A_FILE]


def _pairs(text: str) -> dict[str, str]:
    """The plain assignments of a text, by name; those that stand there twice are told apart by nobody."""
    pairs: dict[str, str] = {}
    twice: set[str] = set()
    section = ""
    for line in text.split("\n")[:_MOST_LINES_READ]:
        if header := _SECTION.match(line):
            section = f"{header[1]}."
            continue
        found = _WRITTEN.match(line) if ":" in line or "=" in line else None
        if found is None or not _PLAIN_LITERAL.match(found["value"]):
            continue
        key = section + found["key"]
        twice |= {key} & pairs.keys()
        pairs[key] = found["value"]
    return {key: value for key, value in pairs.items() if key not in twice}


def _assignment(key: str, value: str, before: str = "", file: str = "") -> Assignment:
    return Assignment(key, _shown(key, value), _shown(key, before) if before else "", file)


def _shown(key: str, value: str) -> str:
    """A value as people read it: without quotes, a comment behind it, or a secret."""
    plain = _COMMENT.sub("", value.strip()).rstrip(",; ").strip("\"'")
    clean = redact_text(f"{key}={plain}").partition("=")[2] if plain else plain
    return clean if len(clean) <= _LONGEST_VALUE else f"{clean[: _LONGEST_VALUE - 1]}…"


def _is_settings_file(path: str) -> bool:
    return bool(_SETTINGS_FILE.search(path)) and not _NO_SETTINGS_FILE.search(path)


def _first_text(arguments: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((value for key in keys if isinstance(value := arguments.get(key), str)), "")


# -- files that code writes --------------------------------------------------------------------------------------------

_WRITES_FILE = re.compile(
    r"\bopen\(\s*(?:f?['\"](?P<opened>[^'\"\n]+)['\"]|(?P<name>\w+))\s*,\s*(?:mode=)?['\"](?:[wax]|r\+)"
    r"|Path\(\s*['\"](?P<path>[^'\"\n]+)['\"]\s*\)\.write_|\b(?P<own>\w+)\.write_(?:text|bytes)\("
    r"|\bwriteFile(?:Sync)?\(\s*(?:['\"`](?P<js>[^'\"`\n]+)|(?P<js_name>\w+))"
)
_NAMES_FILE = re.compile(
    r"(?:^|[;'\"]|const |let )[ \t]*(\w+) *= *(?:[\w.]*Path\()?['\"]([^'\"\n]+)['\"]", re.MULTILINE
)
_RUNS_CODE = re.compile(
    r"\b(?:python[\d.]*|node|bun|ruby)(?: +-[A-Za-z]+(?= +[\w./~-]))*? +"
    r"(?P<what>-[ce]\b|-? *<<|[\w./~-]+\.(?:py|[cm]?[jt]s|rb)\b)"
)
_SCRIPT_ENDINGS = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb")
_FILE_NAME = re.compile(r"[\w./~@+-]*(?:[\w-]\.\w{1,6}|/[\w-]+)")
MAY_WRITE = ("open(", ".write_", "writeFile")
"""One of these is in all code that is seen to write a file."""


def files_written_in_code(code: str) -> list[str]:
    """The files that code writes when it is run, as far as their names stand in it."""
    if not any(map(code.__contains__, MAY_WRITE)):
        return []
    named = dict(_NAMES_FILE.findall(code))
    found = (
        one["opened"] or one["path"] or one["js"] or named.get(one["name"] or one["own"] or one["js_name"], "")
        for one in _WRITES_FILE.finditer(code)
    )
    return list(dict.fromkeys(path for path in found if _FILE_NAME.fullmatch(path)))


def files_written_by_scripts(
    command: str, written: Iterable[str], scripts: MutableMapping[str, Sequence[str]]
) -> list[str]:
    """The files that a command line changes by the code that it runs: its own, or that of a script written before.

    `written` are the files that it writes itself: of scripts among them it is noted in `scripts` what they write.
    """
    code = files_written_in_code(command)
    for path in written:
        if code and path.endswith(_SCRIPT_ENDINGS):
            scripts[path.rpartition("/")[2]] = code
    files: list[str] = []
    for run in _RUNS_CODE.finditer(command):
        what = run["what"]
        files += code if what[0] in "-<" else scripts.get(what.rpartition("/")[2], ())
    return files
