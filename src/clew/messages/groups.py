"""Which messages belong together: an assistant message with calls and the results of those calls.

Knows where a history may be cut. Does not choose a cut, and knows nothing of sizes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from clew.messages.types import Message


def tool_groups(messages: Sequence[Message]) -> list[range]:
    """Each assistant message that calls tools, with its results, as a range of indexes; in order, never overlapping.

    In a history that is not repaired a result may stand apart from its call: the range then reaches as far as the
    result, over whatever lies between, and groups that run into each other are one.
    """
    groups: list[range] = []
    callers: dict[str, int] = {}
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            start = callers.get(message.get("tool_call_id", ""))
            if start is not None:
                _reach(groups, start, index + 1)
        elif role == "assistant" and (calls := message.get("tool_calls")):
            groups.append(range(index, index + 1))
            for call in calls:
                callers[call.get("id", "")] = index
    return groups


def safe_cuts(messages: Sequence[Message]) -> list[int]:
    """Indexes, rising, where a history may be cut: a cut at n keeps messages[n:] together, 0 and the end included.

    Never between a call and its results, between parallel calls, or between thinking and the message it led to.
    """
    inside = {index for group in tool_groups(messages) for index in group[1:]}
    cuts = [index for index in range(1, len(messages)) if index not in inside and not _leans_back(messages, index)]
    return [0, *cuts, len(messages)] if messages else [0]


def last_cut_at_or_before(cuts: Sequence[int], index: int) -> int:
    """The last of these safe cuts that is not after an index."""
    return cuts[bisect_right(cuts, max(index, 0)) - 1]


def safe_cut_at_or_before(messages: Sequence[Message], index: int) -> int:
    """The last safe cut that is not after an index, found by looking at its neighbours alone.

    For walking back from the end of a *repaired* history, where every result stands directly behind its call.
    """
    index = min(index, len(messages))
    while 0 < index < len(messages) and _leans_back(messages, index):
        index -= 1
    return max(index, 0)


def _leans_back(messages: Sequence[Message], index: int) -> bool:
    """Whether a message cannot stand without the one before it: a result, or what thinking led to."""
    role = messages[index].get("role")
    return role == "tool" or (role == "assistant" and _only_thinks(messages[index - 1]))


def _only_thinks(message: Message) -> bool:
    return bool(message.get("reasoning")) and not message.get("content") and not message.get("tool_calls")


def _reach(groups: list[range], start: int, stop: int) -> None:
    """Let the group that holds `start` reach to `stop`, swallowing the groups behind it."""
    while groups[-1].start > start:
        groups.pop()
    groups[-1] = range(groups[-1].start, stop)
