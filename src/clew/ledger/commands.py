"""What a command line did to files: the parts of shell that change something.

Reads the text of a command; runs nothing, and understands only the common forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clew.ledger.tools import patched_files

_MOST_CHARS = 20_000
_MAY_WRITE = re.compile(
    r">|\b(?:tee|touch|rm|mv|cp|ln|truncate)\b|\b(?:sed|perl) -|\bgit (?:add|restore)\b|\*\*\* Begin"
)
# The text that a command writes is no command, nor are its quoted arguments.
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?(?:^\s*\2\b|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"")
_BETWEEN = re.compile(r"&&|\|\||[;|\n()]")
_REDIRECTION = re.compile(r"(?<![0-9>=-])>>?\s*([^\s<>&()]+)")
_NAME = re.compile(r"[\w./~@+-]+")
_FILE_LIKE = re.compile(r"[\w-]\.\w{1,6}$|/[\w-]+$|^(?:Makefile|Dockerfile)$")
_NOWHERE = ("/dev/", "/proc/")
_ALL, _LAST, _BUT_FIRST = slice(None), slice(-1, None), slice(1, None)
# Which of the names behind a command are changed by it.
_CHANGES = {
    "tee": _ALL, "touch": _ALL, "rm": _ALL, "mv": _ALL, "truncate": _ALL, "git rm": _ALL, "git mv": _ALL,
    "git add": _ALL, "git restore": _ALL, "cp": _LAST, "ln": _LAST,
}  # fmt: skip
_IN_PLACE = re.compile(r"-\w*i\S*|--in-place\S*")
_SCRIPT_OPTIONS = ("-e", "-f", "--expression", "--file")


def files_changed_by(command: str) -> list[str]:
    """The files that a command line writes, moves or removes, as far as its text shows."""
    if not _MAY_WRITE.search(command):
        return []
    text = command[:_MOST_CHARS]
    patched = patched_files(text) if "*** Begin Patch" in text else []
    plain = _QUOTED.sub(_without_quotes, _HERE_DOCUMENT.sub(r"\3\n", text))
    names = [name for one in _BETWEEN.split(plain) for name in _changed_by_one(one) if _is_file(name)]
    return list(dict.fromkeys([*patched, *names]))


def _changed_by_one(command: str) -> Iterator[str]:
    yield from _REDIRECTION.findall(command)
    words = _REDIRECTION.sub(" ", command).split()
    while words and (words[0] in ("sudo", "then", "do", "else", "{") or "=" in words[0]):
        words.pop(0)
    if not words:
        return
    if words[0] in ("sed", "perl"):
        yield from _edited_in_place(words[1:])
        return
    name = " ".join(words[:2]) if words[0] == "git" else words[0]
    if name in _CHANGES:
        arguments = words[2:] if words[0] == "git" else words[1:]
        named = [word for word in arguments if not word.startswith("-")]
        yield from named[_CHANGES[name]]


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
    return named if has_option else named[_BUT_FIRST]


def _without_quotes(found: re.Match[str]) -> str:
    """A quoted name stays; what else is quoted becomes a word that is no name."""
    inside = found[1] or found[2] or ""
    return inside if _NAME.fullmatch(inside) else "''"


def _is_file(name: str) -> bool:
    return bool(_NAME.fullmatch(name) and _FILE_LIKE.search(name)) and not name.startswith(_NOWHERE)
