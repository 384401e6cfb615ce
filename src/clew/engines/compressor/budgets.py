"""How much of a window goes to what: when to compact, how long the tail, how long the summary.

Numbers only. Every figure rises with the window and none is larger than it.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.config import CompressionSettings
from clew.errors import InvalidArgument

SMALLEST_WINDOW = 2_000
"""Smaller ones are served too, with a warning: a handoff has hardly any room in them."""
SMALLEST_TARGET = 400
_RESERVE = 16_000
_RESERVE_SHARE = 0.25
_SUMMARY_SHARE_OF_CONTENT = 0.20
_SUMMARY_LEAST = 2_000
_SUMMARY_SHARE_OF_WINDOW = 0.05
_SUMMARY_MOST = 12_000
# Of a target that a caller names, the head may take this much before its long messages are cut.
_HEAD_SHARE = 0.35


@dataclass(frozen=True, slots=True)
class Budgets:
    """What the compressor may spend, in tokens."""

    window: int
    threshold: int
    tail: int
    head: int
    summary_most: int
    total: int | None = None
    """What the whole result may be, where the caller named it; the summary then takes what head and tail leave."""

    def summary(self, content: int, fixed: int) -> int:
        """For a summary of so many tokens of content, when head, tail and system take `fixed`."""
        if self.total is not None:
            return max(self.total // 20, self.total - fixed)
        return min(max(int(content * _SUMMARY_SHARE_OF_CONTENT), _SUMMARY_LEAST), self.summary_most)


def budgets_for(window: int, settings: CompressionSettings, max_output: int | None = None) -> Budgets:
    """The budgets of a window; room for the reply is reserved before the threshold is set."""
    if window < 1:
        raise InvalidArgument(f"context_length={window} is no window; give it in tokens, or leave it out")
    reserve = min(int(window * _RESERVE_SHARE), max_output or _RESERVE)
    threshold = min(int(window * settings.threshold), window - reserve)
    return Budgets(
        window=window,
        threshold=threshold,
        tail=int(threshold * settings.target_ratio),
        head=int(threshold * _HEAD_SHARE),
        summary_most=min(int(window * _SUMMARY_SHARE_OF_WINDOW), _SUMMARY_MOST),
    )


def budgets_for_target(target: int, settings: CompressionSettings) -> Budgets:
    """The budgets of a result that may have `target` tokens in all."""
    if target < SMALLEST_TARGET:
        raise InvalidArgument(f"target_tokens={target} is too small; use at least {SMALLEST_TARGET}")
    tail = int(target * settings.target_ratio)
    return Budgets(
        window=target, threshold=target, tail=tail, head=int(target * _HEAD_SHARE), summary_most=target, total=target
    )
