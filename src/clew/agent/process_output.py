"""The output of commands as bounded, readable text.

Escape sequences are removed, a progress bar that redraws its line leaves its last state, and of too much output the
first and the last part are kept. Memory is bounded.
"""

from __future__ import annotations

import codecs
import re
from collections import deque

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC and other strings: titles, links, the clipboard
    r"|[ -/]+[0-~]|[0-Z\\`-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_UNFINISHED_ESCAPE = re.compile(r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?|\x9b[0-?]*[ -/]*)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_MAX_ESCAPE_CHARS = 4_096
"""A longer one is no escape sequence but a stray byte before text."""
_MAX_LINE_CHARS = 65_536
_HEAD_SHARE = 0.4
"""The end gets more than the beginning: it has the errors."""


class OutputDecoder:
    """Bytes in, text out, without escape sequences; carriage returns stay. Pieces may be split anywhere."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, piece: bytes, *, is_last: bool = False) -> str:
        text = self._held + self._decoder.decode(piece, is_last)
        self._held = ""
        if not is_last:
            unfinished = _UNFINISHED_ESCAPE.search(text, max(0, len(text) - _MAX_ESCAPE_CHARS))
            if unfinished is not None:
                text, self._held = text[: unfinished.start()], text[unfinished.start() :]
            elif text.endswith("\r"):  # the line feed after it may be on its way
                text, self._held = text[:-1], "\r"
        if "\x1b" in text or "\x9b" in text:
            text = _ESCAPE.sub("", text)
        return _CONTROL.sub("", text).replace("\r\n", "\n")


class CarriageReturnFilter:
    """Text in, complete lines out; what a carriage return overwrites is dropped."""

    def __init__(self) -> None:
        self._line = ""

    def feed(self, text: str) -> str:
        complete, end, line = (self._line + text).rpartition("\n")
        self._line = _last_state(line)
        # Most output is written once: only a carriage return makes every line worth a look.
        if "\r" in complete:
            complete = "\n".join(_last_state(line).rstrip("\r") for line in complete.split("\n"))
        complete += end
        if len(self._line) > _MAX_LINE_CHARS:
            complete, self._line = complete + self._line, ""
        return complete

    def flush(self) -> str:
        """The last line, which has not ended."""
        line, self._line = self._line.rstrip("\r"), ""
        return line


def _last_state(line: str) -> str:
    """A line as a terminal shows it: after a carriage return it is written again."""
    if "\r" not in line:
        return line
    states = [state for state in line.split("\r") if state]
    if not states:
        return ""
    # What the last carriage return would overwrite has not been overwritten yet.
    return states[-1] + ("\r" if line.endswith("\r") else "")


class OutputTail:
    """The last chars of a growing text, addressed by their position in all of it."""

    def __init__(self, keep_chars: int) -> None:
        self._keep = keep_chars
        self._pieces: deque[str] = deque()
        self._held = 0
        self.total_chars = 0

    def add(self, text: str) -> None:
        if not text:
            return
        self.total_chars += len(text)
        self._pieces.append(text[-self._keep :])
        self._held += len(self._pieces[-1])
        while self._held - len(self._pieces[0]) >= self._keep:
            self._held -= len(self._pieces.popleft())
        if len(self._pieces) > 1_024:
            self._pieces = deque(["".join(self._pieces)[-self._keep :]])
            self._held = len(self._pieces[0])

    def since(self, position: int) -> tuple[int, str]:
        """What followed a position: how many chars of it are lost, and the rest."""
        text = "".join(self._pieces)[-self._keep :]
        first = self.total_chars - len(text)
        return max(0, first - position), text[max(0, position - first) :]


class CommandOutput:
    """All output of a command, or its first and last part where it is larger than `keep_chars`."""

    def __init__(self, keep_chars: int, head_share: float = _HEAD_SHARE) -> None:
        self._head_room = int(keep_chars * head_share)
        self._head: list[str] = []
        self._decoder = OutputDecoder()
        self._overwrites = CarriageReturnFilter()
        self.tail = OutputTail(keep_chars - self._head_room)
        """What follows the first part."""

    def feed(self, piece: bytes) -> str:
        """Add a piece; returns its text for an observer."""
        text = self._decoder.feed(piece)
        self._keep(self._overwrites.feed(text))
        return text

    def flush(self) -> None:
        """Count a line that has not ended as one."""
        self._keep(self._overwrites.flush())

    def end(self) -> None:
        """Nothing follows."""
        self._keep(self._overwrites.feed(self._decoder.feed(b"", is_last=True)))
        self.flush()

    def text(self) -> str:
        """Everything, after the last piece."""
        self.end()
        gone, tail = self.tail.since(0)
        left_out = f"\n[{gone:,} chars left out here]\n" if gone else ""
        return "".join(self._head) + left_out + tail

    def _keep(self, text: str) -> None:
        if self._head_room and text:
            part, text = text[: self._head_room], text[self._head_room :]
            self._head.append(part)
            self._head_room -= len(part)
        self.tail.add(text)
