"""Tool groups: an assistant message with calls, and the results of those calls.

Where groups are, where a history may be cut without splitting one, and the pairing of calls with results in a history
that is being repaired.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from clew.messages.message import Message, Repair

NO_RESULT = "[no result was recorded for this call]"

IndexedMessages: TypeAlias = list[tuple[int, Message]]
"""Messages, each with its index in the history as it came; a stub has the index of its call."""


def tool_groups(messages: Sequence[Message]) -> list[range]:
    """Each assistant message that calls tools, with its results, as a range of indexes; in order, never overlapping.

    In a history that is not repaired a result may be apart from its call: the range then reaches as far as the result,
    and groups that overlap are one.
    """
    starts: list[int] = []
    stops: list[int] = []
    callers: dict[str, int] = {}
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            start = callers.get(message.get("tool_call_id", ""))
            if start is not None:
                while starts[-1] > start:
                    del starts[-1], stops[-1]
                stops[-1] = index + 1
        elif role == "assistant" and (calls := message.get("tool_calls")):
            starts.append(index)
            stops.append(index + 1)
            for call in calls:
                callers[call.get("id", "")] = index
    return list(map(range, starts, stops))


def safe_cuts(messages: Sequence[Message]) -> list[int]:
    """Indexes, rising, where a history may be cut into messages[:n] and messages[n:]; 0 and the end are included.

    Never between a call and its results, between parallel calls, or between reasoning and the message it led to.
    """
    cuts: list[int] = []
    callers: dict[str, int] = {}
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            start = callers.get(message.get("tool_call_id", ""))
            while start is not None and cuts[-1] > start:
                cuts.pop()
            continue
        if role != "assistant":
            cuts.append(index)
            continue
        if index == 0 or not _is_only_reasoning(messages[index - 1]):
            cuts.append(index)
        for call in message.get("tool_calls") or ():
            callers[call.get("id", "")] = index
    if not cuts or cuts[0] != 0:
        cuts.insert(0, 0)
    if messages:
        cuts.append(len(messages))
    return cuts


def last_cut_at_or_before(cuts: Sequence[int], index: int) -> int:
    """The last of these safe cuts that is not after an index."""
    return cuts[bisect_right(cuts, max(index, 0)) - 1]


def safe_cut_at_or_before(messages: Sequence[Message], index: int) -> int:
    """The last safe cut that is not after an index, found by looking at its neighbours only.

    Right for a *repaired* history, where every result is directly behind its call.
    """
    index = min(index, len(messages))
    while 0 < index < len(messages) and _belongs_to_previous(messages, index):
        index -= 1
    return max(index, 0)


def _belongs_to_previous(messages: Sequence[Message], index: int) -> bool:
    """Whether a message must not be separated from the one before it: a result, or what reasoning led to."""
    role = messages[index].get("role")
    return role == "tool" or (role == "assistant" and _is_only_reasoning(messages[index - 1]))


def _is_only_reasoning(message: Message) -> bool:
    return bool(message.get("reasoning")) and not message.get("content") and not message.get("tool_calls")


@dataclass(slots=True)
class _CallGroup:
    """An assistant message with calls, while its results are collected."""

    index: int
    waiting: dict[str, None]
    results: IndexedMessages = field(default_factory=list)
    closed: bool = False


def pair_calls_with_results(
    messages: Sequence[Message], repairs: list[Repair], *, open_end: bool = False
) -> IndexedMessages:
    """Valid messages with each result behind its call; results without a call are removed, missing ones get a stub.

    With `open_end`, the calls of the last message get no stubs.
    """
    entries: list[tuple[int, Message, _CallGroup | None]] = []
    callers: dict[str, _CallGroup] = {}
    last: _CallGroup | None = None
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            _assign_result(message, index, callers, last, repairs)
            continue
        if last is not None:
            last.closed = True
        group = None
        if message.get("tool_calls"):
            message = _without_duplicate_ids(message, index, repairs)
            group = last = _CallGroup(index, {call["id"]: None for call in message["tool_calls"]})
            callers.update(dict.fromkeys(group.waiting, group))
        entries.append((index, message, group))
    open_group = entries[-1][2] if entries and open_end else None
    return _in_order(entries, open_group, repairs)


def _assign_result(
    message: Message, index: int, callers: dict[str, _CallGroup], last: _CallGroup | None, repairs: list[Repair]
) -> None:
    """Give a result to the nearest call before it that has its id, or remove it."""
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


def _without_duplicate_ids(message: Message, index: int, repairs: list[Repair]) -> Message:
    calls = message["tool_calls"]
    first: dict[str, Any] = {}
    for call in calls:
        first.setdefault(call["id"], call)
    if len(first) == len(calls):
        return message
    repairs.append(Repair(index, "two calls with one id in one message", "the first of each is kept"))
    return {**message, "tool_calls": list(first.values())}


def _in_order(
    entries: Sequence[tuple[int, Message, _CallGroup | None]], open_group: _CallGroup | None, repairs: list[Repair]
) -> IndexedMessages:
    result: IndexedMessages = []
    for index, message, group in entries:
        result.append((index, message))
        if group is None:
            continue
        result.extend(group.results)
        if group is open_group:
            continue
        for missing in group.waiting:
            result.append((index, {"role": "tool", "tool_call_id": missing, "content": NO_RESULT}))
            repairs.append(Repair(index, f"the call {missing!r} has no result", "a stub says so"))
    return result
