"""The plan of a fold: how long the tail is, where it begins, and what it leaves of the target for the map.

Tail and map share one room. Where the map has little to tell, the tail is so much longer; where the tail is short
because its messages are large, the map has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from clew.config import CompressionSettings
from clew.engines.compressor.budgets import Budgets
from clew.engines.compressor.history import CountedHistory, MessageSizes
from clew.engines.compressor.plan import CompactionPlan, PlanSettings, plan_compaction, wrapping_tokens
from clew.engines.lossless.budgets import LEAST_MAP, MapBudgets

# Of the tail: how far from where it would begin an exchange may begin that it begins with instead. A map that is told
# from messages takes the room that this leaves; what a model wrote is as long as it is.
_NEAR, _NEAR_BY_MODEL = (0.6, 1.1), (0.93, 1.03)
_ENOUGH_FOR_MAP = 15_000
"""In less room a map tells more of what is needed than the newest messages do beyond their share of it."""

ExpectedMap = Callable[[int], int]
"""About how many tokens the map would like to have with so many more tokens of messages folded."""


@dataclass(frozen=True, slots=True)
class FoldPlanner:
    """Plans folds of one history within given budgets."""

    read: CountedHistory
    current_tokens: int | None
    budgets: MapBudgets
    compression: CompressionSettings
    sizes: MessageSizes
    note_as_block: bool
    """Whether the note behind the system prompt is a block of its own."""

    def plan(self, expected_map: ExpectedMap, *, force: bool, by_model: bool) -> CompactionPlan:
        """The plan that brings the request to the target; with `force`, to the shares of tail and map alone."""
        read, budgets = self.read, self.budgets
        beside = max(0, (read.tokens if self.current_tokens is None else self.current_tokens) - read.tokens)
        room = budgets.tail + budgets.map if force else budgets.target - beside
        tail = self._tail(room, expected_map, 0)
        plan = self.with_tail(tail, force=force)
        if kept := self._kept_tokens(plan):
            tail = self._tail(room, expected_map, kept)
            plan = self._other(plan, tail, force=force)
        near = _exchange_near(plan, tail, _NEAR_BY_MODEL if by_model else _NEAR)
        if near is not None and plan.cut.folded:
            plan = self._other(plan, near, force=False)
        # A tail that is larger than it shall be, because its last messages are, leaves the map some room all the same.
        least = self.budgets.map // 2 if tail <= self.budgets.tail else LEAST_MAP
        return self._with_map_budget(plan, room, least)

    def with_tail(self, tail: int, *, force: bool) -> CompactionPlan:
        """The plan with a tail of at most so many tokens."""
        budgets = self.budgets
        threshold = min(budgets.threshold, max(1, budgets.limit - budgets.map))
        planned = Budgets(budgets.window, threshold, tail, budgets.tail, budgets.map)
        # The tail is told in tokens, and what comes first is in the map.
        compression = replace(self.compression, protect_first_n=0, protect_last_n=0)
        settings = PlanSettings(planned, compression, self.sizes, self.note_as_block)
        return plan_compaction(settings, self.read, self.current_tokens, force=force)

    def _other(self, plan: CompactionPlan, tail: int, *, force: bool) -> CompactionPlan:
        """The plan with another tail, where that folds anything."""
        other = self.with_tail(tail, force=force)
        return other if other.cut.folded else plan

    def _tail(self, room: int, expected_map: ExpectedMap, kept: int) -> int:
        """For the tail, beside `kept` tokens that stay before it: the newest request is a part of what it is for."""
        prompts = sum(self.read.sizes[at] for at in self.read.prompts)
        raw = sum(self.read.sizes) - prompts
        least = max(int(room * self.compression.target_ratio), min(self.budgets.tail, room - _ENOUGH_FOR_MAP))
        least = max(least // 2, least - kept)
        return self.budgets.longest_tail(room - prompts - kept, raw, expected_map, least)

    def _kept_tokens(self, plan: CompactionPlan) -> int:
        return self.sizes.total([plan.staying[at] for at in plan.cut.kept]) if plan.cut.folded else 0

    def _with_map_budget(self, plan: CompactionPlan, room: int, least: int) -> CompactionPlan:
        """The plan with what its tail leaves of the room for the map."""
        if not plan.cut.folded:
            return plan
        wrapping = wrapping_tokens(self.sizes, plan.history.following(plan.cut.tail))
        left = room - self.sizes.total(list(plan.staying.values())) - wrapping
        return replace(plan, summary_budget=max(left, least))


def _exchange_near(plan: CompactionPlan, tail: int, shares: tuple[float, float]) -> int | None:
    """How many tokens a tail has that begins with a request near to where the plan cuts; None where there is none."""
    low, high = (share * tail for share in shares)
    messages, sizes = plan.history.messages, plan.sizes
    size, best = 0, None
    for at in range(len(messages) - 1, plan.cut.head, -1):
        size += sizes[at]
        if size > high:
            break
        is_near = best is None or abs(size - tail) < abs(best - tail)
        if messages[at]["role"] == "user" and size >= low and is_near:
            best = size
    return best
