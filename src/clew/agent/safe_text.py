"""Text that others wrote (files, models, web pages) made safe to put into a prompt or to show on a screen.

`fenced` is for prompts: the text cannot close its own fence. `printable_line` is for people: the text cannot move a
cursor, hide, or look like another line.
"""

from __future__ import annotations

from clew.messages import fenced, one_line, without_invisible
from clew.shell import UNKNOWN

__all__ = ["fenced", "one_line", "printable_line", "without_invisible"]


def printable_line(text: str, max_chars: int = 120) -> str:
    """The text on one line with unprintable characters escaped; of a longer one, the beginning and the end."""
    left_out = max(0, len(text) - 2 * max_chars)
    if left_out:  # of a text of any length only its ends are shown
        text = text[:max_chars] + text[-max_chars:]
    line = "".join(char if char.isprintable() else "…" if char == UNKNOWN else _escaped(char) for char in text.strip())
    if len(line) <= max_chars:
        return line
    half = max_chars // 2
    return f"{line[:half]} …({len(line) + left_out - 2 * half:,} chars)… {line[-half:]}"


def _escaped(char: str) -> str:
    return {"\n": " ⏎ ", "\t": " "}.get(char) or char.encode("unicode_escape").decode("ascii")
