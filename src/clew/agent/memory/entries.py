"""A memory file as text: which of its list items are entries, and the same text with one more, less or another.

Knows markdown as far as people write such files by hand. What is no entry is kept as it stands, character by character.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clew.agent.fence import visible

_ITEM = re.compile(r"[-*+][ \t]+(?=.*\w)(\S.*)")
_MARKERS = re.compile(r"(?:[-*+]\s+)+")
_CODE = "```"
_ENDS_AN_ITEM = ("#", _CODE, ">", "---", "***", "___")


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together: an entry, or a line that somebody wrote between entries."""

    lines: tuple[str, ...]
    entry: str | None = None
    """What the entry says, on one line; None for what is no entry."""


def blocks_of(text: str) -> list[Block]:
    """The text as blocks; their lines, joined, are the text again."""
    blocks: list[Block] = []
    lines = text.split("\n")
    at, is_code = 0, False
    while at < len(lines):
        item = None if is_code else _ITEM.match(lines[at].rstrip("\r"))
        if item is None:
            is_code ^= lines[at].lstrip().startswith(_CODE)
            blocks.append(Block((lines[at],)))
            at += 1
            continue
        stop = at + 1
        while stop < len(lines) and _goes_on(lines[stop]):
            stop += 1
        said = " ".join(" ".join([item[1], *lines[at + 1 : stop]]).split())
        blocks.append(Block(tuple(lines[at:stop]), said))
        at = stop
    return blocks


def text_from(blocks: Sequence[Block]) -> str:
    return "\n".join(line for block in blocks for line in block.lines)


def entries_of(text: str) -> list[str]:
    """What the entries of a text say, in their order."""
    return [block.entry for block in blocks_of(text) if block.entry is not None]


def clean_entry(text: str) -> str:
    """A text as an entry: one paragraph, with nothing in it that is not seen; empty where it says nothing."""
    words = " ".join(visible(" ".join(text.split())).split())
    words = _MARKERS.sub("", words, count=1) if _MARKERS.match(words) else words
    return words if re.search(r"\w", words) else ""


def with_entry(text: str, entry: str) -> str:
    """The text with an entry behind the last one."""
    blocks = blocks_of(text)
    places = [at for at, block in enumerate(blocks) if block.entry is not None]
    new = Block((f"- {entry}{_line_end(text)}",), entry)
    if places:
        blocks.insert(places[-1] + 1, new)
    else:
        kept = text.rstrip()
        # Behind code that nobody closed it would be code.
        is_open = sum(line.lstrip().startswith(_CODE) for line in kept.split("\n")) % 2 == 1
        if is_open:
            blocks = [new, Block((_line_end(text),)), *blocks]
        else:
            above = [*blocks_of(kept), Block((_line_end(text),))] if kept else []
            blocks = [*above, new, Block(("",))]
    changed = text_from(blocks)
    return changed if changed.endswith("\n") else changed + "\n"


def with_other(text: str, old: str, new: str) -> str:
    """The text with another entry where the old one stood, as `entries_of` tells it; copies of the old one go."""
    blocks = blocks_of(text)
    first = next(at for at, block in enumerate(blocks) if block.entry == old)
    blocks[first] = Block((f"- {new}{_line_end(text)}",), new)
    return text_from([block for block in blocks if block.entry != old])


def without_entry(text: str, old: str) -> str:
    """The text without an entry and its copies."""
    return text_from([block for block in blocks_of(text) if block.entry != old])


def matching(entries: Sequence[str], part: str) -> list[str]:
    """The entries that hold a part of their text; one that is the part as a whole is meant alone."""
    wanted = " ".join(part.split())
    if not wanted:
        return []
    if wanted in entries:
        return [wanted]
    exact = [entry for entry in entries if wanted in entry]
    return exact or [entry for entry in entries if wanted.casefold() in entry.casefold()]


def _goes_on(line: str) -> bool:
    """Whether a line belongs to the item above it: indented, or plain text with no empty line between."""
    if not line.strip():
        return False
    if line[0] in " \t":
        return True
    return not line.startswith(_ENDS_AN_ITEM) and not re.match(r"[-*+][ \t]", line)


def _line_end(text: str) -> str:
    """What stands before a line feed in this text."""
    return "\r" if "\r\n" in text else ""
