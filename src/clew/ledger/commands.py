"""What a command line did to files and where it stood: the parts of shell that change something.

Reads the text of a command; runs nothing, and understands only the common forms.
"""

from __future__ import annotations

import re

_WRITES = re.compile(
    r"(?:^|[^0-9&>])>>?\s*([\w./~@+-]+)"  # > file, >> file, not 2> and not >&
    r"|\btee\s+(?:-a\s+)?([\w./~@+-]+)"
    r"|\bsed\s+-i\S*\s+(?:-e\s+)?(?:'[^']*'|\"[^\"]*\"|\S+)\s+([\w./~@+-]+)"
    r"|\b(?:touch|rm|git rm|git add)\s+(?:-\w+\s+)*([\w./~@+-]+)"
    r"|\b(?:mv|cp|git mv)\s+(?:-\w+\s+)*\S+\s+([\w./~@+-]+)"
    r"|\bpatch\s+(?:-p\d\s+)?([\w./~@+-]+)"
)
_FILE_LIKE = re.compile(r"[\w-]\.\w{1,6}$|/[\w-]+$|^(?:Makefile|Dockerfile)$")
_NOWHERE = ("/dev/", "/tmp/null")  # noqa: S108 (names in commands, not files of ours)
_MAY_WRITE = re.compile(r">|\btee\b|\bsed -i|\btouch\b|\brm\b|\bmv\b|\bcp\b|\bpatch\b|\bgit add\b")


def files_changed_by(command: str) -> list[str]:
    """The files that a command line writes, moves or removes, as far as its text shows."""
    if not _MAY_WRITE.search(command):
        return []
    names = (next(group for group in found.groups() if group) for found in _WRITES.finditer(command[:20_000]))
    return list(dict.fromkeys(name for name in names if _FILE_LIKE.search(name) and not name.startswith(_NOWHERE)))
