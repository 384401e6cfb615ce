"""A parser of server-sent events that takes bytes in any pieces."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_EVENT_CHARS = 64 * 1024 * 1024
"""Many times a whole reply: a longer event is a fault of the server."""

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event: its name ("" where the server gave none) and its data, lines joined."""

    name: str
    data: str


class EventTooLong(ValueError):  # noqa: N818 (reads as what it says)
    """An event that does not end."""


class SseReader:
    """Takes bytes in any pieces and gives the events that are complete."""

    def __init__(self) -> None:
        # The network may cut a character in two; bytes that are no UTF-8 become U+FFFD.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []
        self._name = ""
        self._data: list[str] = []
        self._chars = 0
        self._is_first = True

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """The events that these bytes complete; raises `EventTooLong`."""
        yield from self._events(self._decoder.decode(chunk))

    def end(self) -> Iterator[SseEvent]:
        """The last event, where the server left out the blank line behind it."""
        yield from self._events(self._decoder.decode(b"", final=True) + "\n\n")

    def _events(self, text: str) -> Iterator[SseEvent]:
        for line in self._lines(text):
            event = self._event_after(line)
            if event is not None:
                yield event

    def _lines(self, text: str) -> list[str]:
        """The complete lines; the rest is kept. A piece without a line end costs the same however much is kept."""
        if self._is_first and text:
            self._is_first, text = False, text.removeprefix("\ufeff")
        waits_for_lf = bool(self._pieces) and self._pieces[-1].endswith("\r")
        self._chars += len(text)
        if self._chars > MAX_EVENT_CHARS:
            raise EventTooLong(f"an event of the stream has more than {MAX_EVENT_CHARS:,} characters")
        self._pieces.append(text)
        if not waits_for_lf and "\n" not in text and "\r" not in text:
            return []
        *lines, rest = _LINE_END.split("".join(self._pieces))
        if rest == "" and text.endswith("\r") and lines:
            rest = lines.pop() + "\r"  # its line feed may be in the next piece
        self._pieces = [rest]
        return lines

    def _event_after(self, line: str) -> SseEvent | None:
        if not line:
            event = SseEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._chars = "", [], sum(map(len, self._pieces))
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None
