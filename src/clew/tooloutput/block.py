"""The `<persisted-output>` block for a result that is in a file, and the cut text of one that could not be saved.

A tool's text is shown as it is, except that it cannot end the block.
"""

from __future__ import annotations

import re
from pathlib import Path

from clew.tooloutput.folder import Spilled

OPENING = "<persisted-output"
CLOSING = "</persisted-output>"

LONGEST_BLOCK_CHARS = 6_000
"""Longer than any block without its preview, also with the longest possible path."""

BLOCK_CHARS = 520
"""The longest block without its preview and the path."""

LONG_LINE_CHARS = 2_000

_TAIL_SHARE = 4
_TAG = re.compile(r"<(/?)persisted-output", re.IGNORECASE)


def persisted_block(text: str, spilled: Spilled, preview_chars: int, most_chars: int) -> str:
    """What the model sees of a result in a file: its size, its path, how to read it, and a preview.

    The preview is shortened where the block would be longer than `most_chars`.
    """
    room = max(0, most_chars - block_chars(spilled.path))
    return _render(text, spilled, min(preview_chars, len(text) // 4, room))


def block_chars(path: Path) -> int:
    """The length of a block without its preview, at most."""
    return len(str(path)) + BLOCK_CHARS


def is_persisted_block(text: str, preview_chars: int) -> bool:
    """Whether this text is such a block, and not a longer text that only looks like one."""
    return (
        len(text) <= LONGEST_BLOCK_CHARS + max(preview_chars, 1_500)
        and text.startswith(OPENING)
        and text.rstrip().endswith(CLOSING)
    )


def cut_text(text: str, keep_chars: int, reason: str) -> str:
    """Start and end of a result that could not be saved, with a note between them that says so."""
    note = (
        f" of {len(text):,} chars are left out here: the result was too long to stand whole, and could not be saved "
        f"({reason}). To see them, run the tool again with a narrower question.]"
    )
    head, tail = head_and_tail(text, max(0, keep_chars - len(note) - 20))
    left_out = f"[{len(text) - len(head) - len(tail):,}{note}"
    return "\n".join(piece for piece in (head, left_out, tail) if piece)


def head_and_tail(text: str, chars: int) -> tuple[str, str]:
    """The start and the end of a text longer than so many chars, cut at line ends where there are any.

    The end gets a quarter: a command's last lines say how it went.
    """
    tail_chars = chars // _TAIL_SHARE
    return _start_of(text, chars - tail_chars), _end_of(text, tail_chars)


def _start_of(text: str, chars: int) -> str:
    line_end = text.rfind("\n", 0, chars + 1)
    return text[: line_end if _leaves_enough(line_end, chars) else chars]


def _end_of(text: str, chars: int) -> str:
    start = len(text) - chars
    line_start = text.find("\n", max(0, start - 1), len(text) - 1) + 1
    return text[line_start if _leaves_enough(len(text) - line_start, chars) and line_start else start :]


def _leaves_enough(cut_chars: int, chars: int) -> bool:
    """Whether the cut at a line end leaves enough: one short line before an endless one would be no preview."""
    return chars // 4 <= cut_chars <= chars and cut_chars > 0


def _render(text: str, spilled: Spilled, preview_chars: int) -> str:
    return "\n".join(
        (
            f'{OPENING} id="{spilled.id}">',
            f"The whole result is {spilled.chars:,} chars in {spilled.lines:,} lines, too long to stand here. "
            "It was saved, complete, as:",
            str(spilled.path),
            _how_to_read(spilled),
            *_preview(text, preview_chars),
            CLOSING,
        )
    )


def _preview(text: str, chars: int) -> tuple[str, ...]:
    head, tail = head_and_tail(text, chars)
    first, last = f"It starts ({len(head):,} chars):", f"It ends ({len(tail):,} chars):"
    between = f"[... {len(text) - len(head) - len(tail):,} chars in between ...]"
    start = (first, _escape_tags(head), between) if head else ()
    return (*start, last, _escape_tags(tail)) if tail else start


def _how_to_read(spilled: Spilled) -> str:
    if spilled.lines and spilled.chars // spilled.lines > LONG_LINE_CHARS:
        return "Its lines are very long: search it for the words you need, or read a stretch of one (offset, column)."
    return (
        "Read a stretch of it with read_file on that path (offset: first line, limit: how many lines), "
        "or search it for the words you need."
    )


def _escape_tags(text: str) -> str:
    """The text with the tags of a block changed, so that it cannot open or close one."""
    return _TAG.sub(r"<\1persisted_output", text)
