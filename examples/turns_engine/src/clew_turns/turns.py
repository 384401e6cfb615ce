"""Which messages stay, and how the list of earlier requests is written. Pure functions over messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clew.messages import Message, safe_cuts, text_of

OPENING = "[For reference, not a request: what was asked earlier. The tool earlier_request gives one in full."
CLOSING = "]"
PROMPTS = ("system", "developer")
MOST_LINES = 40
LONGEST_LINE = 100
_LINE = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Split:
    """Positions of the messages that stay, and of those that go."""

    stays: tuple[int, ...]
    goes: tuple[int, ...]


def split(messages: Sequence[Message], sizes: Sequence[int], budget: int) -> Split:
    """The newest turns that fit into the budget stay whole; of a turn that is too long for it, the end."""
    start = _start_of_what_fits(messages, sizes, budget)
    newest = _newest_request(messages)
    stays = {
        position
        for position, message in enumerate(messages)
        if position >= start or position == newest or message["role"] in PROMPTS
    }
    if len(stays) < len(messages):
        # The next list takes the place of the last one.
        stays = {position for position in stays if not is_list(messages[position])}
    return Split(tuple(sorted(stays)), tuple(position for position in range(len(messages)) if position not in stays))


def _newest_request(messages: Sequence[Message]) -> int | None:
    """The position of the newest user message."""
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at]["role"] == "user"), None)


def _start_of_what_fits(messages: Sequence[Message], sizes: Sequence[int], budget: int) -> int:
    """A turn begins with a request. A cut inside a turn lies where no call is parted from its result."""
    left, earliest = budget, len(messages)
    while earliest > 0 and sizes[earliest - 1] <= left:
        earliest -= 1
        left -= sizes[earliest]
    cuts = [cut for cut in safe_cuts(messages) if cut < len(messages)]
    fitting = [cut for cut in cuts if cut >= earliest]
    turns = [cut for cut in fitting if messages[cut]["role"] == "user"]
    # The last group of calls and results stays however large it is: the model has not answered it yet.
    return next(iter([*turns, *fitting, *cuts[-1:]]), 0)


def is_list(message: Message) -> bool:
    """Whether this is the message that an earlier compaction put in."""
    return message["role"] == "user" and text_of(message).startswith(OPENING)


def requests_in(message: Message) -> list[str]:
    """The requests of such a message, as far as its lines show them."""
    return [line[2] for line in _LINE.finditer(text_of(message))]


def list_of(requests: Sequence[str]) -> Message:
    """One message for all of them; the oldest are left out where they are many."""
    first = max(0, len(requests) - MOST_LINES)
    lines = [f"{number}. {_one_line(requests[number - 1])}" for number in range(first + 1, len(requests) + 1)]
    more = f" {first} older ones are not shown." if first else ""
    return {"role": "user", "content": "\n".join([OPENING + more, *lines, CLOSING])}


def _one_line(request: str) -> str:
    text = " ".join(request.split())
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 3]}..."
