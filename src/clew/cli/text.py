"""Text for a terminal: made safe, measured in columns, cut, padded and wrapped.

Widths come from `wcwidth`, which handles wide characters, combining marks and emoji sequences; ASCII text does not
import it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

TAB_COLUMNS = 4
# Whole sequences first: otherwise "[31m" of a color would remain.
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
# Direction marks too: a command that is displayed in another order could be approved by mistake.
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_CARRIAGE_RETURN = re.compile(r"\r\n?")
_JOINER = "\u200d"
"""Joins emoji, and has no effect on the terminal."""


def printable(text: str) -> str:
    """The text with a space for each character that is not printable."""
    return "".join(char if char.isprintable() or char == _JOINER else " " for char in text)


def printable_line(text: str) -> str:
    """The same on one line, with single spaces."""
    return " ".join(printable(text).split())


def sanitize(text: str) -> str:
    """Text without control characters and escape sequences; tabs stay, a carriage return becomes a line end."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL_CHARACTERS.sub("", _CARRIAGE_RETURN.sub("\n", _ESCAPE_SEQUENCE.sub("", text)))


def sanitize_line(text: str) -> str:
    """The same on one line."""
    return " ".join(sanitize(text).split())


def display_width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(columns for _, columns in _graphemes(text))


def clip(text: str, width: int) -> str:
    """The text cut to a number of columns with an ellipsis; at a space if that fills at least a third of the width."""
    if display_width(text) <= width:
        return text
    end = fitting_chars(text, width - 1)
    space = text.rfind(" ", 0, end + 1)
    return (text[:space].rstrip(" ,;:") if 3 * space >= end > 0 else text[:end]) + "…"


def pad(text: str, width: int, align: str = "<") -> str:
    """The text filled with spaces to a number of columns."""
    space = " " * max(0, width - display_width(text))
    return space + text if align == ">" else text + space


def wrap(text: str, width: int) -> list[str]:
    """The text, made printable, in lines of at most this many columns; only longer words are broken."""
    safe = printable(text)
    if safe.isascii():
        return textwrap.wrap(safe, width, break_on_hyphens=False)
    from wcwidth import wrap as wrap_columns

    return wrap_columns(safe, width, break_on_hyphens=False)


def wrap_all(sentences: Iterable[str], width: int) -> list[str]:
    """Sentences, each starting on a new line."""
    return [line for sentence in sentences for line in wrap(sentence, width)]


def whole_facts(facts: Iterable[str], width: int, gap: str = "  ") -> str:
    """The first facts that fit on a line; none is cut."""
    line = ""
    for fact in facts:
        longer = f"{line}{gap}{fact}" if line else fact
        if display_width(longer) > width:
            break
        line = longer
    return line


def tail_rows(text: str, width: int, most: int) -> list[str]:
    """The last rows of a text, sanitized and wrapped."""
    # Only the end is wrapped, for speed. Its start moves in steps: otherwise rows would flicker with every character.
    room = max(1, width) * (most + 1)
    start = max(0, len(text) - room) // room * room
    rows: list[str] = []
    for line in sanitize(text[start:]).expandtabs(TAB_COLUMNS).split("\n"):
        rows += line_rows(line, width)
    return rows[-most:]


def line_rows(line: str, width: int) -> list[str]:
    """Rows of a line, broken at spaces if possible; unlike `wrap`, runs of spaces stay."""
    rows = []
    while display_width(line) > width:
        fits = max(1, fitting_chars(line, width))
        space = line.rfind(" ", 1, fits + 1)
        rows.append(line[: space if space > 0 else fits].rstrip())
        line = line[space + 1 if space > 0 else fits :]
    return [*rows, line]


def fitting_chars(text: str, width: int) -> int:
    """The number of leading characters that fit into this many columns; grapheme clusters stay whole."""
    if text.isascii():
        return max(0, width)
    used = end = 0
    for grapheme, columns in _graphemes(text):
        used += columns
        if used > width:
            break
        end += len(grapheme)
    return end


def _graphemes(text: str) -> Iterator[tuple[str, int]]:
    """Grapheme clusters with their columns."""
    # Measured one by one, because a combining mark without a base character is measured differently in a text.
    from wcwidth import iter_graphemes, width

    return ((grapheme, width(grapheme, control_codes="ignore")) for grapheme in iter_graphemes(text))
