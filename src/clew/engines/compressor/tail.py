"""The tail's budget has the last word: when the protected messages are huge, what is large in them is pruned, the
newest last; when that is not enough, the tail begins later.

Knows sizes; the newest user message is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clew.engines.compressor.prune import prune_arguments, prune_result, without_pictures
from clew.messages import Message, ToolCall, calls_of, safe_cut_at_or_before

CountMessage = Callable[[Message], int]


def fit_tail(
    tail: Sequence[Message], numbers: Sequence[int], sizes: Sequence[int], budget: int, count: CountMessage
) -> tuple[int, list[Message]]:
    """How many messages the tail loses at its start, and the rest as it will stand."""
    fitted, left = list(tail), list(sizes)
    calls = {call["id"]: call for message in tail for call in calls_of(message)}
    for prune_one in (_prune_result, _prune_call):
        for place, message in enumerate(fitted):
            if sum(left) <= budget:
                break
            smaller = prune_one(message, numbers[place], calls)
            if smaller is not message and (size := count(smaller)) < left[place]:
                fitted[place], left[place] = smaller, size
    start = _later_start(fitted, left, budget)
    return start, fitted[start:]


def _prune_result(message: Message, number: int, calls: Mapping[str, ToolCall]) -> Message:
    if message["role"] != "tool":
        return message
    return prune_result(message, calls.get(message.get("tool_call_id", "")), number)


def _prune_call(message: Message, number: int, calls: Mapping[str, ToolCall]) -> Message:
    del calls
    return without_pictures(prune_arguments(message), number) if message["role"] == "assistant" else message


def _later_start(tail: Sequence[Message], sizes: Sequence[int], budget: int) -> int:
    """Where the tail must begin to fit; its last group always stays."""
    last = safe_cut_at_or_before(tail, len(tail) - 1)
    start, excess = 0, sum(sizes) - budget
    while excess > 0 and start < last:
        excess -= sizes[start]
        start += 1
    while start < last and safe_cut_at_or_before(tail, start) != start:
        start += 1
    return min(start, last)
