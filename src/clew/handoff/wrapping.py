"""A handoff inside a conversation: behind a fixed prefix, before an end marker, with the numbers that it covers.

`wrap` writes the message text, `unwrap` finds a handoff again. The last line before the end marker is the only text of
a handoff that is read back exactly: it says which messages are folded and how the others are numbered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clew.lazy import dataclass
from clew.messages import Message, calls_of, reasoning_of, text_of

PREFIX = """\
[Clew handoff] Background for reference, not instructions. It replaces earlier messages of this conversation. Requests
in it were dealt with unless it says otherwise, and its work may already be in the files: look before repeating it. Its
active task was the newest request when it was written; reply to the newest user message that follows. Memory and
rules in the system prompt take precedence. Numbers such as m12 are those of the original messages."""
SHORT_PREFIX = "[Clew handoff] Background, not instructions. A newer user message replaces its active task."
"""For small targets, where every token counts."""
END_MARKER = "[End of Clew handoff]"
SHORTENED = "(shortened)"
"""Ends the line that a result was pruned to, where its original cannot be opened."""
HANDOFF_OPENING = PREFIX[: PREFIX.index("]") + 1]
SYSTEM_NOTE = "[Older messages may be replaced by a [Clew handoff]: background, not instructions.]"

_COVERS = re.compile(
    r"^Messages m(\d+) to m(\d+) are folded here(?:; of these, (.+?) follows? word for word)?"
    r"(?:; what follows is (.+?), then m(\d+) and so on)?(?:; what stands before is (.+))?\.$",
    re.MULTILINE,
)
_NUMBER = re.compile(r"m(\d+)")
_RUN = re.compile(r"m(\d+)(?:-m(\d+))?")
_GAP = "\n\n"
# A text that only looks like ours shall not fill the memory.
_LONGEST_RUN = 100_000


@dataclass(frozen=True, slots=True)
class WrappedSummary:
    """A handoff found in a conversation, and the message numbers it covers."""

    text: str
    first: int
    last: int
    """Not included."""
    kept: tuple[int, ...]
    """The covered messages that are still in the conversation, word for word."""
    message: Message | None
    """The message that the handoff was merged into, without it."""
    following: tuple[int, ...] = ()
    """The numbers of the messages behind those kept, and the next one; empty where they count on from `last`."""
    leading: tuple[int, ...] = ()
    """The numbers of the messages before the handoff; empty where they count from 0."""


def wrap(
    text: str,
    first: int,
    last: int,
    kept: Sequence[int] = (),
    following: Sequence[int] = (),
    leading: Sequence[int] = (),
    *,
    is_short: bool = False,
) -> str:
    """The text that is put into the conversation for a handoff of the messages `first` to `last` (not included)."""
    inside = without_markers(text)
    follow = "follow" if len(kept) > 1 else "follows"
    also = f"; of these, {' and '.join(f'm{number}' for number in kept)} {follow} word for word" if kept else ""
    behind = f"; what follows is {_runs(following[:-1])}, then m{following[-1]} and so on" if following else ""
    before = f"; what stands before is {_runs(leading)}" if leading else ""
    covers = f"Messages m{first} to m{last - 1} are folded here{also}{behind}{before}."
    return f"{SHORT_PREFIX if is_short else PREFIX}\n\n{inside.strip()}\n\n{covers}\n{END_MARKER}"


def unwrap(message: Message) -> WrappedSummary | None:
    """The handoff that a message holds; None where it holds none."""
    content = message.get("content")
    text = content if isinstance(content, str) else text_of({"role": "user", "content": content[:1] if content else []})
    if not text.startswith(HANDOFF_OPENING):
        return None
    # The prefix is one paragraph, whatever its wording was when it was written.
    inside, end, rest = text.partition(_GAP)[2].partition(END_MARKER)
    # The last match, since a handoff may quote such a line.
    covers = next(reversed(list(_COVERS.finditer(inside))), None)
    if not end or not covers:
        return None
    kept = tuple(int(number) for number in _NUMBER.findall(covers[3] or ""))
    handoff = inside[: covers.start()].strip()
    following = [*_numbers_in(covers[4] or ""), *([int(covers[5])] if covers[5] else [])]
    left = _without_summary(message, rest)
    leading = tuple(_numbers_in(covers[6] or ""))
    return WrappedSummary(handoff, int(covers[1]), int(covers[2]) + 1, kept, left, tuple(following), leading)


def _runs(numbers: Sequence[int]) -> str:
    """`m61-m64, m66`: numbers that count on are told by the first and the last."""
    starts = [at for at in range(len(numbers)) if not at or numbers[at] != numbers[at - 1] + 1]
    ends = [at - 1 for at in (*starts[1:], len(numbers))]
    runs = [(numbers[start], numbers[end]) for start, end in zip(starts, ends, strict=True)]
    return ", ".join(f"m{first}" if first == last else f"m{first}-m{last}" for first, last in runs)


def _numbers_in(runs: str) -> list[int]:
    found = [(int(first), int(last or first)) for first, last in _RUN.findall(runs)]
    return [number for first, last in found for number in range(first, min(last, first + _LONGEST_RUN) + 1)]


def without_markers(text: str) -> str:
    """The text with our markers replaced, since one inside a handoff would end or open one."""
    return text.replace(END_MARKER, "[end marker]").replace(HANDOFF_OPENING, "[handoff]")


def _without_summary(message: Message, rest: str) -> Message | None:
    content = message.get("content")
    if isinstance(content, list) and len(content) > 1:
        return {**message, "content": content[1:]}
    if rest.startswith(_GAP):
        return {**message, "content": rest.removeprefix(_GAP)}
    # A message with only calls or reasoning had no content before the handoff was merged into it.
    return {**message, "content": None} if calls_of(message) or reasoning_of(message) else None
