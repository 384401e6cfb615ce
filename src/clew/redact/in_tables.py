"""Secrets in tables: the cells of a column named password, secret or token, in Markdown, CSV and what databases print.

Also of a table of names and values: `| Password | ... |`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clew.redact.in_prose import is_secret_cell
from clew.redact.values import SecretFinding

_NAME_ENDS = re.compile(
    rb"[a-z?]{0,8}(?:[_ ](?:value|key|2))?[\"'`*\\]{0,4}[ \t]{0,60}(?:[|,;\t\r\n]|\\[nrt]|\Z)"
).match
_DELIMITERS = (b"|", b"\t", b";", b",")
_HEADER_CELL = re.compile(rb"[\s\"'`*]*[\w?][\w?() ./-]{0,40}[\s\"'`*]*").fullmatch
_IS_CODE = re.compile(rb"[{}\[\]=<>$@!^~&%:#]|\([^)]*[,|]").search
_RULE = re.compile(rb"[\s|+:=-]*-{2,}[\s|+:=-]*").fullmatch
_MOST_ROWS = 5_000
_LONGEST_LINE = 2_000
_LONGEST_HEADER = 400
_STRING_BEGINS = (b'": "', b'":"')
_CELL_EDGES = b" \t\r\"'`*\\"


class TableReader:
    """Reads the tables of a text whose header, or one of whose rows, has the name of a secret."""

    def __init__(self, text: bytes, folded: bytes) -> None:
        self.found: list[SecretFinding] = []
        self._text, self._folded = text, folded
        self._lines: _Lines | None = None

    def read(self, at: int) -> None:
        """Read the table at a name, if there is one. Escaped line ends count as line ends."""
        if _NAME_ENDS(self._folded, at) is None:
            return
        if self._lines is None:
            self._lines = _Lines(self._text)
        self.found += _cells(self._lines, at)


class _Lines:
    """Lines of a text by position; `\\n` written out ends a line too, and counts for two characters."""

    def __init__(self, text: bytes) -> None:
        self.text = text.replace(b"\\n", b" \n").replace(b"\\t", b" \t")

    def around(self, at: int) -> tuple[int, int]:
        end = self.text.find(b"\n", at, at + _LONGEST_LINE)
        return self.text.rfind(b"\n", max(0, at - _LONGEST_LINE), at) + 1, len(self.text) if end < 0 else end

    def after(self, end: int) -> tuple[int, int] | None:
        return self.around(end + 1) if end + 1 < len(self.text) else None


def _cells(lines: _Lines, at: int) -> list[SecretFinding]:
    """The secrets of the table whose header, or row, has a name at that place."""
    first, last = lines.around(at)
    # The table may be a string of JSON, whose name stands before the header.
    for mark in _STRING_BEGINS:
        if (begins := lines.text.rfind(mark, first, at)) >= 0:
            first = begins + len(mark)
    header = lines.text[first:last]
    delimiter = next((mark for mark in _DELIMITERS if mark in header), b"")
    if not delimiter or len(header) > _LONGEST_HEADER or _IS_CODE(header):
        return []
    cells = _split(header, delimiter)
    column = next((n for n, (start, end) in enumerate(cells) if first + start <= at < first + end), -1)
    are_names = all(_HEADER_CELL(header[a:b]) for a, b in cells if header[a:b].strip() or delimiter != b"|")
    if column < 0 or len(cells) < 2 or not are_names:
        return []
    row = lines.after(last)
    if delimiter == b"|" and not (row and _RULE(lines.text[slice(*row)])):
        return _beside(lines, first, cells, column)
    found: list[SecretFinding] = []
    for _ in range(_MOST_ROWS):
        if row is None:
            break
        line = lines.text[slice(*row)]
        if not _RULE(line):
            values = _split(line, delimiter)
            if len(values) != len(cells) or len(line) > _LONGEST_LINE:
                break
            found += _cell_finding(lines.text, row[0] + values[column][0], row[0] + values[column][1])
        row = lines.after(row[1])
    return found


def _beside(lines: _Lines, first: int, cells: list[tuple[int, int]], column: int) -> list[SecretFinding]:
    """The cell beside a name, in a table of names and values."""
    if column + 1 >= len(cells):
        return []
    start, end = cells[column + 1]
    return list(_cell_finding(lines.text, first + start, first + end))


def _cell_finding(text: bytes, start: int, end: int) -> Iterator[SecretFinding]:
    cell = text[start:end]
    start += len(cell) - len(cell.lstrip(_CELL_EDGES))
    value = cell.strip(_CELL_EDGES)
    # Of what is longer or has blanks no cell is a secret unless one of its words is.
    if value and len(value) <= 256 and b" " not in value and is_secret_cell(value):
        yield SecretFinding(start, start + len(value), "password")


def _split(line: bytes, delimiter: bytes) -> list[tuple[int, int]]:
    """Start and end of each cell. A delimiter in double quotes separates nothing in CSV."""
    if delimiter != b"|" and b'"' in line:
        marks = [match.start() for match in _CSV_DELIMITER[delimiter].finditer(line) if match[1] is not None]
    else:
        marks = [at for at in range(len(line)) if line[at : at + 1] == delimiter]
    starts = [0, *(mark + 1 for mark in marks)]
    return list(zip(starts, (*marks, len(line)), strict=True))


_CSV_DELIMITER = {
    mark: re.compile(rb"\\?\"(?:[^\"\\]|\"\"|\\[^\"])*\\?\"|(%b)" % re.escape(mark)) for mark in _DELIMITERS
}
