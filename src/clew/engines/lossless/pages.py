"""Pages of bounded size: texts cut to a number of tokens, exact messages in parts, snippets completed to sentences."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from clew.engines.compressor.history import MessageSizes
from clew.engines.host import HistoryRow

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_ENTRY_TOKENS = 30
_EDGE_CHARS = 160
"""A snippet loses at most so much at an edge to begin or end with a sentence."""


def fitted(text: str, tokens: int, sizes: MessageSizes) -> str:
    """The beginning of a text that has at most so many tokens; at least one character of one that has any."""
    if len(text) <= tokens or sizes.text(text) <= tokens:
        return text
    most = min(len(text), tokens * 8)
    while most > 1 and (size := sizes.text(text[:most])) > tokens:
        most = min(most - 1, int(most * 0.97 * tokens / size))
    return text[: max(1, most)]


@dataclass(slots=True)
class MessagePage:
    """Messages of one page, as they are, until it is full."""

    room: int
    sizes: MessageSizes
    entries: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: HistoryRow, offset: int = 0) -> int | None:
        """Put a message on the page, from a char of it on. None where it is done; else the char to go on from later.

        A message that fits is given as it was stored. One that does not is given in parts of its JSON: these
        together, read as JSON, are the message.
        """
        entry: dict[str, Any] = {"id": f"m{row.number}", "at": f"{row.at:%Y-%m-%d %H:%M:%S}"}
        whole = json.dumps(row.message, ensure_ascii=False)
        tokens = self.sizes.text(whole) + _ENTRY_TOKENS
        if not offset and tokens <= self.room:
            self.entries.append({**entry, "message": row.message})
            self.room -= tokens
            return None
        if self.entries:
            return offset
        part = fitted(whole[offset:], self.room - 2 * _ENTRY_TOKENS, self.sizes)
        end = offset + len(part)
        self.entries.append({**entry, "json_part": part, "chars": f"{offset} to {end} of {len(whole)}"})
        self.room -= self.sizes.text(part) + 2 * _ENTRY_TOKENS
        return end if end < len(whole) else None


def sentences_of(text: str, *, is_start: bool, is_end: bool) -> str:
    """A passage without a broken sentence at its edges, where one ends near; otherwise with a mark there."""
    start, stop = 0, len(text)
    ends = [(found.start(), found.end()) for found in _SENTENCE_END.finditer(text)]
    if not is_start:
        start = next((end for _, end in ends if end <= _EDGE_CHARS), 0)
    if not is_end:
        stop = next((begin for begin, _ in reversed(ends) if begin >= len(text) - _EDGE_CHARS and begin > start), stop)
    lead = "" if is_start or start else "… "
    trail = "" if is_end or stop < len(text) else " …"
    return f"{lead}{text[start:stop].strip()}{trail}"
