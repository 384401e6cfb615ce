"""The repair of broken histories: whatever comes in, what goes out has valid messages and whole tool groups.

Each repair is reported as a value. A history with nothing to repair comes back as the very object that came in, and
the input is never changed. Knows the rules that all wires share; what one wire alone demands is its dialect's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clew.errors import InvalidArgument
from clew.messages.joining import join_same_roles
from clew.messages.mending import mended
from clew.messages.pairing import paired
from clew.messages.soundness import is_sound
from clew.messages.types import Message, Repair

_SHORTEST_CUT = 100


@dataclass(frozen=True, slots=True)
class Repaired:
    """A history that can be sent, and what was done to it."""

    messages: Sequence[Message]
    repairs: tuple[Repair, ...] = ()
    indexes: Sequence[int] = field(default=(), repr=False, compare=False)
    """For each message the one that it is, or that it was put in for, in the history as it came."""


def repair(
    messages: Sequence[Message],
    *,
    merge_same_role: bool = False,
    open_end: bool = False,
    longest_text: int | None = None,
) -> Repaired:
    """Make a history valid; raises `InvalidMessage` where a message has no meaning that a repair could keep.

    Several system messages, and several messages of one role in a row, are valid and kept, unless `merge_same_role`.
    With `open_end`, the calls of the last group may still wait for their results. `longest_text` cuts longer texts,
    in chars; nothing is cut unless it is given.
    """
    if longest_text is not None and longest_text < _SHORTEST_CUT:
        raise InvalidArgument(f"longest_text={longest_text} leaves no text; use at least {_SHORTEST_CUT}, or None")
    if not merge_same_role and is_sound(messages, open_end=open_end, longest_text=longest_text):
        return Repaired(messages, (), range(len(messages)))
    repairs: list[Repair] = []
    whole = [mended(message, index, repairs, longest_text) for index, message in enumerate(messages)]
    result = paired(whole, repairs, open_end=open_end)
    if merge_same_role:
        result = join_same_roles(result, repairs)
    if not repairs:
        return Repaired(messages, (), range(len(messages)))
    told = tuple(sorted(repairs, key=lambda done: done.index))
    return Repaired([message for _, message in result], told, [index for index, _ in result])
