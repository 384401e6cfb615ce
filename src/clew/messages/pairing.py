"""Calls and results brought together: every call has one result, directly behind it, and every result has a call.

Takes messages that are valid one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from clew.messages.types import Message, Repair

NO_RESULT = "[no result was recorded for this call]"

Placed: TypeAlias = list[tuple[int, Message]]
"""Messages, each with the index it has, or belongs to, in the history as it came."""


@dataclass(slots=True)
class _Group:
    """An assistant message with calls, while its results are being gathered."""

    index: int
    waiting: dict[str, None]
    results: Placed = field(default_factory=list)
    closed: bool = False


def paired(messages: Sequence[Message], repairs: list[Repair], *, open_end: bool = False) -> Placed:
    """The messages with whole groups: strays removed, results moved to their calls, stubs where none came."""
    places: list[tuple[int, Message, _Group | None]] = []
    callers: dict[str, _Group] = {}
    last: _Group | None = None
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            _give(message, index, callers, last, repairs)
            continue
        if last is not None:
            last.closed = True
        group = None
        if message.get("tool_calls"):
            message = _with_unlike_ids(message, index, repairs)
            group = last = _Group(index, {call["id"]: None for call in message["tool_calls"]})
            callers.update(dict.fromkeys(group.waiting, group))
        places.append((index, message, group))
    ends_open = places[-1][2] if places and open_end else None
    return _laid_out(places, ends_open, repairs)


def _give(message: Message, index: int, callers: dict[str, _Group], last: _Group | None, repairs: list[Repair]) -> None:
    """Hand a result to the nearest call before it that has its id."""
    answered = message.get("tool_call_id")
    if not answered:
        answered = next(iter(last.waiting), None) if last is not None else None
        if last is None or answered is None:
            repairs.append(Repair(index, "a result that names no call, and no call waits", "removed"))
            return
        message = {**message, "tool_call_id": answered}
        repairs.append(Repair(index, "a result that names no call", f"given to {answered!r}, which waits"))
    group = callers.get(answered)
    if group is None:
        repairs.append(Repair(index, f"a result for {answered!r}, which was never called", "removed"))
    elif answered not in group.waiting:
        repairs.append(Repair(index, f"a second result for {answered!r}", "removed; the first is kept"))
    else:
        if group.closed:
            where = f"moved behind message {group.index}"
            repairs.append(Repair(index, f"the result of {answered!r} stands apart from its call", where))
        del group.waiting[answered]
        group.results.append((index, message))


def _with_unlike_ids(message: Message, index: int, repairs: list[Repair]) -> Message:
    calls = message["tool_calls"]
    first: dict[str, Any] = {}
    for call in calls:
        first.setdefault(call["id"], call)
    if len(first) == len(calls):
        return message
    repairs.append(Repair(index, "two calls with one id in one message", "the first of each is kept"))
    return {**message, "tool_calls": list(first.values())}


def _laid_out(
    places: Sequence[tuple[int, Message, _Group | None]], ends_open: _Group | None, repairs: list[Repair]
) -> Placed:
    result: Placed = []
    for index, message, group in places:
        result.append((index, message))
        if group is None:
            continue
        result.extend(group.results)
        if group is ends_open:
            continue
        for missing in group.waiting:
            result.append((index, {"role": "tool", "tool_call_id": missing, "content": NO_RESULT}))
            repairs.append(Repair(index, f"the call {missing!r} has no result", "a stub says so"))
    return result
