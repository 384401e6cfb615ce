"""Text of models and tools, made harmless for a terminal: it may say anything, and move nothing.

Keeps line ends and tabs. What steers a terminal is taken out; what turns the direction of writing too, since a line
that reads otherwise than it runs is how people are led to approve what they did not mean.
"""

from __future__ import annotations

import re

from clew.cli.output import clipped, columns

# Whole sequences first: without its escape character a colour would be left as "[31m".
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_RETURN = re.compile(r"\r\n?")
TAB = 4


def harmless(text: str) -> str:
    """The text without anything that steers the terminal; a carriage return is a line end."""
    if text.isascii() and text.isprintable():
        return text
    return _STEERING.sub("", _RETURN.sub("\n", _SEQUENCE.sub("", text)))


def harmless_line(text: str) -> str:
    """The same on one line."""
    return " ".join(harmless(text).split())


def rows_of(text: str, width: int, most: int) -> list[str]:
    """The last rows of a text, made harmless, each at most so many columns wide."""
    # Only the end is looked at, since a tail may be long and is drawn often. Where that begins moves in steps: rows
    # that are broken anew with every character would dance.
    room = max(1, width) * (most + 1)
    start = max(0, len(text) - room) // room * room
    rows: list[str] = []
    for line in harmless(text[start:]).expandtabs(TAB).split("\n"):
        rows += _folded(line, width)
    return rows[-most:]


def _folded(line: str, width: int) -> list[str]:
    """Rows of a line, broken at spaces where there are any."""
    rows = []
    while columns(line) > width:
        # `clipped` puts an ellipsis where it cuts; here the rest follows on the next row.
        fits = max(1, len(clipped(line, width + 1)) - 1)
        space = line.rfind(" ", 1, fits + 1)
        rows.append(line[: space if space > 0 else fits].rstrip())
        line = line[space + 1 if space > 0 else fits :]
    return [*rows, line]
