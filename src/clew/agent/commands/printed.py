"""What a command prints, made readable and kept within bounds: bytes in pieces become text without screen control.

Knows no process. Escape sequences go, a progress bar that redraws its line leaves its last state, and of a flood the
first and the last part stay. Memory is bounded whatever comes.
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
_UNFINISHED = re.compile(r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?|\x9b[0-?]*[ -/]*)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LONGEST_ESCAPE = 4_096
"""A longer one is no escape sequence but a stray byte with text after it."""
_LONGEST_LINE = 65_536
_HEAD_SHARE = 0.4
"""The end of an output says more than its beginning: there are the errors."""


class Cleaner:
    """Bytes in, text out, without escape sequences; carriage returns stay. Pieces may be cut anywhere."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, piece: bytes, *, is_last: bool = False) -> str:
        text = self._held + self._decoder.decode(piece, is_last)
        self._held = ""
        if not is_last:
            unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_ESCAPE))
            if unfinished is not None:
                text, self._held = text[: unfinished.start()], text[unfinished.start() :]
            elif text.endswith("\r"):  # the line feed after it may be on its way
                text, self._held = text[:-1], "\r"
        if "\x1b" in text or "\x9b" in text:
            text = _ESCAPE.sub("", text)
        return _CONTROL.sub("", text).replace("\r\n", "\n")


class Folder:
    """Text in, whole lines out, each in its last state: what a carriage return overwrites is gone."""

    def __init__(self) -> None:
        self._line = ""

    def feed(self, text: str) -> str:
        whole, end, line = (self._line + text).rpartition("\n")
        self._line = _last_state(line)
        # Most output is written once: only a carriage return makes every line worth a look.
        if "\r" in whole:
            whole = "\n".join(_last_state(line).rstrip("\r") for line in whole.split("\n"))
        whole += end
        if len(self._line) > _LONGEST_LINE:
            whole, self._line = whole + self._line, ""
        return whole

    def rest(self) -> str:
        """The line that has not ended."""
        line, self._line = self._line.rstrip("\r"), ""
        return line


def _last_state(line: str) -> str:
    """A line as a screen shows it: after a carriage return it is written anew."""
    if "\r" not in line:
        return line
    states = [state for state in line.split("\r") if state]
    if not states:
        return ""
    # The return that comes last has not been written over yet.
    return states[-1] + ("\r" if line.endswith("\r") else "")


class Tail:
    """The last chars of a text that grows, each with its place in the whole."""

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

    def since(self, place: int) -> tuple[int, str]:
        """What came after a place: how many chars of it are gone, and the rest."""
        text = "".join(self._pieces)[-self._keep :]
        first = self.total_chars - len(text)
        return max(0, first - place), text[max(0, place - first) :]


class Printed:
    """The whole output of a command, or its first and last part where it is larger than is kept."""

    def __init__(self, keep_chars: int) -> None:
        self._head_room = int(keep_chars * _HEAD_SHARE)
        self._head: list[str] = []
        self._tail = Tail(keep_chars - self._head_room)
        self._cleaner = Cleaner()
        self._folder = Folder()

    def feed(self, piece: bytes) -> str:
        """Takes a piece; gives the same for people who watch."""
        text = self._cleaner.feed(piece)
        self._keep(self._folder.feed(text))
        return text

    def text(self) -> str:
        """Everything, when nothing more comes."""
        self._keep(self._folder.feed(self._cleaner.feed(b"", is_last=True)) + self._folder.rest())
        gone, tail = self._tail.since(0)
        left_out = f"\n[{gone:,} chars left out here]\n" if gone else ""
        return "".join(self._head) + left_out + tail

    def _keep(self, text: str) -> None:
        if self._head_room and text:
            part, text = text[: self._head_room], text[self._head_room :]
            self._head.append(part)
            self._head_room -= len(part)
        self._tail.add(text)
