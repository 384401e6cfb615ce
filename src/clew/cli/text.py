"""Text for a terminal: made safe, measured in columns, cut, padded and wrapped.

Widths come from `wcwidth`, which knows wide characters, combining marks and emoji of several code points. Text that is
only ASCII, as most is, needs no table and does not import it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

TAB_COLUMNS = 4
# Whole sequences first: without its escape character a colour would be left as "[31m".
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
# Direction marks too: a line that reads otherwise than it runs makes people approve what they did not mean.
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_CARRIAGE_RETURN = re.compile(r"\r\n?")
_JOINER = "\u200d"
"""Makes one emoji of several, and steers nothing."""


def printable(text: str) -> str:
    """The text with a space for each character that could move the cursor, change colours or fail to be encoded."""
    return "".join(char if char.isprintable() or char == _JOINER else " " for char in text)


def printable_line(text: str) -> str:
    """The same on one line, with single spaces."""
    return " ".join(printable(text).split())


def sanitize(text: str) -> str:
    """Text of models and tools without what steers a terminal; tabs and line ends stay, a carriage return is one."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL_CHARACTERS.sub("", _CARRIAGE_RETURN.sub("\n", _ESCAPE_SEQUENCE.sub("", text)))


def sanitize_line(text: str) -> str:
    """The same on one line."""
    return " ".join(sanitize(text).split())


def display_width(text: str) -> int:
    """How many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(columns for _, columns in _graphemes(text))


def clip(text: str, width: int) -> str:
    """The text cut to a number of columns, with an ellipsis where something is missing; between words, if a third of
    the room is filled by then."""
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
    """The text, made printable, as lines of at most so many columns; none for an empty text.

    A word is broken only where it is longer than a line.
    """
    safe = printable(text)
    if safe.isascii():
        return textwrap.wrap(safe, width, break_on_hyphens=False)
    from wcwidth import wrap as wrap_columns

    return wrap_columns(safe, width, break_on_hyphens=False)


def wrap_all(sentences: Iterable[str], width: int) -> list[str]:
    """Each sentence on lines of its own."""
    return [line for sentence in sentences for line in wrap(sentence, width)]


def whole_facts(facts: Iterable[str], width: int, gap: str = "  ") -> str:
    """The first facts that fit on a line together: half a date says less than none."""
    line = ""
    for fact in facts:
        longer = f"{line}{gap}{fact}" if line else fact
        if display_width(longer) > width:
            break
        line = longer
    return line


def tail_rows(text: str, width: int, most: int) -> list[str]:
    """The last rows of a text, sanitized, each at most so many columns wide."""
    # Only the end is read, since a tail may be long and is drawn often. Where that begins moves in steps: rows that
    # are broken anew with every character would flicker.
    room = max(1, width) * (most + 1)
    start = max(0, len(text) - room) // room * room
    rows: list[str] = []
    for line in sanitize(text[start:]).expandtabs(TAB_COLUMNS).split("\n"):
        rows += line_rows(line, width)
    return rows[-most:]


def line_rows(line: str, width: int) -> list[str]:
    """Rows of a line, broken at spaces where there are any; unlike `wrap`, runs of spaces stay."""
    rows = []
    while display_width(line) > width:
        fits = max(1, fitting_chars(line, width))
        space = line.rfind(" ", 1, fits + 1)
        rows.append(line[: space if space > 0 else fits].rstrip())
        line = line[space + 1 if space > 0 else fits :]
    return [*rows, line]


def fitting_chars(text: str, width: int) -> int:
    """How many characters from the start fit into so many columns; characters that are drawn as one stay together."""
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
    """What is drawn as one, and the columns that it takes."""
    # One by one, because measured as a whole a mark without a letter before it counts otherwise than alone.
    from wcwidth import iter_graphemes, width

    return ((grapheme, width(grapheme, control_codes="ignore")) for grapheme in iter_graphemes(text))
