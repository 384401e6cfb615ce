"""The limits of the compressor: what head, tail and summary may take of a window, and when it stops by itself.

Every budget rises with the window and none is larger than it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from clew.config import CompressionSettings
from clew.engines.base import threshold_for
from clew.errors import InvalidArgument

SMALLEST_WINDOW = 2_000
"""Smaller ones are served too, with a warning: a handoff has hardly any room in them."""
SMALLEST_TARGET = 400
SMALL_TARGET = 3_000
"""Below it the frame of a handoff is short, and no message at the start is kept for its place alone."""
MAX_STRIKES = 2
_SUMMARY_SHARE_OF_CONTENT = 0.20
_MIN_SUMMARY = 2_000
_FEWEST_TOKENS = 100
_LARGEST_SHARE_OF_CONTENT = 0.6
# What a summary with as much room as it likes takes of what it stands for, at least.
_SUMMARY_USES_OF_CONTENT = 0.6
# And what it takes in any case, with the text around it.
_LEAST_FOR_SUMMARY = 450
_LEAST_SHARE_FOR_SUMMARY = 0.1
_SUMMARY_SHARE_OF_WINDOW = 0.05
_MAX_SUMMARY = 12_000
# Of a target that a caller names, the head may take this much before its long messages are cut.
_HEAD_SHARE = 0.35
_LARGE_TARGET = 12_000
"""From here on what was said and seen last is worth more, as it was, than more lines of what came before."""
_MIN_FREED = 0.10
_GROWTH_THAT_RESETS = 0.10


@dataclass(frozen=True, slots=True)
class Budgets:
    """What the compressor may spend, in tokens."""

    window: int
    threshold: int
    tail: int
    head: int
    max_summary: int
    total: int | None = None
    """What the whole result may be, where the caller named it; the summary then takes what head and tail leave."""

    def tail_of(self, content: int, head: int) -> int:
        """For the tail of so many tokens of messages behind a head that takes `head`.

        Where a target is a large part of a conversation, there is more room behind the head than a summary of the rest
        can use: the tail is so much longer. Of what is left of a large target, the newest messages get half.
        """
        if self.total is None:
            return self.tail
        room = self.total - head
        tail = self.tail * min(self.total, _LARGE_TARGET) // self.total + max(0, room - _LARGE_TARGET) // 2
        longest = room - max(_LEAST_FOR_SUMMARY, int(_LEAST_SHARE_FOR_SUMMARY * self.total))
        unused = (room - _SUMMARY_USES_OF_CONTENT * content) / (1 - _SUMMARY_USES_OF_CONTENT)
        return max(self.tail, tail, min(longest, int(unused)))

    def summary(self, content: int, fixed: int) -> int:
        """For a summary of so many tokens of content, when head, tail and system take `fixed`."""
        if self.total is not None:
            return max(self.total // 20, self.total - fixed)
        share = max(int(content * _SUMMARY_SHARE_OF_CONTENT), _MIN_SUMMARY)
        # Of little content a summary that fills the least budget would be no shorter than what it stands for.
        return min(share, self.max_summary, max(_FEWEST_TOKENS, int(content * _LARGEST_SHARE_OF_CONTENT)))


def budgets_for(window: int, settings: CompressionSettings, max_output: int | None = None) -> Budgets:
    """The budgets of a window; room for the reply is reserved before the threshold is set."""
    threshold = threshold_for(window, settings.threshold, max_output)
    return Budgets(
        window=window,
        threshold=threshold,
        tail=int(threshold * settings.target_ratio),
        head=int(threshold * _HEAD_SHARE),
        max_summary=min(int(window * _SUMMARY_SHARE_OF_WINDOW), _MAX_SUMMARY),
    )


def budgets_for_target(target: int, settings: CompressionSettings) -> Budgets:
    """The budgets of a result that may have `target` tokens in all."""
    if target < SMALLEST_TARGET:
        raise InvalidArgument(f"target_tokens={target} is too small; use at least {SMALLEST_TARGET}")
    tail = int(target * settings.target_ratio) // (2 if target < SMALL_TARGET else 1)
    return Budgets(
        window=target, threshold=target, tail=tail, head=int(target * _HEAD_SHARE), max_summary=target, total=target
    )


@dataclass(frozen=True, slots=True)
class Strikes:
    """Compactions in a row that did not help, and how large the request was left by the last one."""

    count: int = 0
    left_at: int = 0
    compactions: int = 0

    def after_compaction(self, before: int, after: int, threshold: int) -> Strikes:
        """One more compaction: a strike when it freed too little, or left the request over the threshold.

        None where the request was below the threshold: somebody wanted that compaction, and it says nothing of others.
        """
        if before < threshold:
            return replace(self, left_at=after, compactions=self.compactions + 1)
        helped = before - after >= _MIN_FREED * before and after < threshold
        return Strikes(0 if helped else self.count + 1, after, self.compactions + 1)

    def after_no_change(self, tokens: int, threshold: int) -> Strikes:
        """Nothing could be changed: a strike where something should have been."""
        return replace(self, count=self.count + 1, left_at=tokens) if tokens >= threshold else self

    def after_growth(self, tokens: int, threshold: int) -> Strikes:
        """No strikes where the request has grown since, so that there may be something to gain again."""
        if self.count and tokens - self.left_at >= _GROWTH_THAT_RESETS * threshold:
            return replace(self, count=0)
        return self

    @property
    def is_paused(self) -> bool:
        return self.count >= MAX_STRIKES

    def as_json(self) -> dict[str, int]:
        return {"strikes": self.count, "left_at": self.left_at, "compactions": self.compactions}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Strikes:
        figures = [values.get(key, 0) for key in ("strikes", "left_at", "compactions")]
        return cls(*(figure if type(figure) is int and figure > 0 else 0 for figure in figures))
