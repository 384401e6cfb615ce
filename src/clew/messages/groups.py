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
    """Indexes, rising, where a history may be cut: a cut at n keeps messages[n:] together, 0 and the end included.

    Never between a call and its results, between parallel calls, or between thinking and the message it led to.
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
        if index == 0 or not _only_thinks(messages[index - 1]):
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
