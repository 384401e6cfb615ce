"""The plan of a fold: how long the tail is, where it begins, and what it leaves of the target for the map.

Tail and map share one room. Where there is little for the map to say, the tail is longer; where the tail is short
because its messages are large, the map has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from clew.config import CompressionSettings
from clew.engines.compressor.budgets import Budgets
from clew.engines.compressor.history import CountedHistory, MessageSizes
from clew.engines.compressor.plan import (
    CompactionPlan,
    PlanSettings,
    plan_compaction,
    with_longer_tail,
    wrapping_tokens,
)
from clew.engines.lossless.budgets import LEAST_MAP, MapBudgets

# Of the tail: how far from its planned beginning an exchange may begin with which it begins instead. A map of quotes
# takes the room that this leaves; what a model wrote does not become longer.
_NEAR, _NEAR_FULL = (0.6, 1.1), (0.93, 1.03)
_WORTH_GIVING_BACK = 0.05
_LARGEST_SHARE_OF_FOLDED = 0.6
_ENOUGH_FOR_MAP = 15_000
"""In less room a map says more of what is needed than the newest messages do beyond their share of it."""

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
        tail, least = self._tail(room, expected_map, 0)
        plan = self.with_tail(tail, force=force)
        if kept := self._kept_tokens(plan):
            tail, least = self._tail(room, expected_map, kept)
            plan = self._other(plan, self.with_tail(tail, force=force))
        if force and not plan.cut.folded:
            # With force, a conversation that fits its tail is shortened too.
            tail = least = self.budgets.tail
            plan = self.with_tail(tail, force=True)
        # Where the map has all it can use, nothing else takes what a shorter tail leaves.
        is_full = by_model or tail > least
        near = _exchange_near(plan, tail, _NEAR_FULL if is_full else _NEAR)
        if near is not None and plan.cut.folded:
            plan = self._other(plan, self.with_tail(near, force=False))
        elif is_full and self.sizes.total(plan.tail_messages) < _NEAR_FULL[0] * tail:
            plan = self._other(plan, self.with_tail(tail, force=force, fewest=len(plan.tail_messages) + 1))
        # A tail that is larger than it shall be, because its last messages are, leaves the map some room all the same.
        least_map = self.budgets.map // 2 if tail <= self.budgets.tail else LEAST_MAP
        return self._with_map_budget(plan, room, least_map)

    def with_tail(self, tail: int, *, force: bool, fewest: int = 0) -> CompactionPlan:
        """The plan with a tail of at most so many tokens, and of some messages at least, shortened where need be."""
        return plan_compaction(self._settings(tail, fewest), self.read, self.current_tokens, force=force)

    def _settings(self, tail: int, fewest: int = 0) -> PlanSettings:
        budgets = self.budgets
        threshold = min(budgets.threshold, max(1, budgets.limit - budgets.map))
        planned = Budgets(budgets.window, threshold, tail, budgets.tail, budgets.map)
        # The tail is a number of tokens, and the first messages are in the map.
        compression = replace(self.compression, protect_first_n=0, protect_last_n=fewest)
        return PlanSettings(planned, compression, self.sizes, self.note_as_block)

    def with_rest_in_tail(self, plan: CompactionPlan, map_tokens: int) -> CompactionPlan:
        """The plan in which what the map leaves of its room gives shortened messages of the tail more of their text."""
        left = plan.summary_budget - map_tokens
        if left < _WORTH_GIVING_BACK * plan.summary_budget:
            return plan
        return with_longer_tail(self._settings(self.budgets.tail), plan, left)

    def _other(self, plan: CompactionPlan, other: CompactionPlan) -> CompactionPlan:
        """The other plan, where it folds anything."""
        return other if other.cut.folded else plan

    def _tail(self, room: int, expected_map: ExpectedMap, kept: int) -> tuple[int, int]:
        """For the tail, and the least it shall have, beside `kept` tokens of the newest request, which count, too."""
        prompts = sum(self.read.sizes[at] for at in self.read.prompts)
        raw = sum(self.read.sizes) - prompts
        least = max(int(room * self.compression.target_ratio), min(self.budgets.tail, room - _ENOUGH_FOR_MAP))
        least = max(least // 2, least - kept)
        return self.budgets.longest_tail(room - prompts - kept, raw, expected_map, least), least

    def _kept_tokens(self, plan: CompactionPlan) -> int:
        return self.sizes.total([plan.staying[at] for at in plan.cut.kept]) if plan.cut.folded else 0

    def _with_map_budget(self, plan: CompactionPlan, room: int, least: int) -> CompactionPlan:
        """The plan with what its tail leaves of the room for the map."""
        if not plan.cut.folded:
            return plan
        wrapping = wrapping_tokens(self.sizes, plan.history.following(plan.cut.tail))
        left = room - self.sizes.total(list(plan.staying.values())) - wrapping
        # A map as long as the messages that it covers would be useless.
        earlier = self.sizes.text(plan.history.earlier.text) if plan.history.earlier else 0
        most = earlier + int(_LARGEST_SHARE_OF_FOLDED * sum(plan.sizes[at] for at in plan.cut.folded))
        return replace(plan, summary_budget=max(1, min(most, max(left, least))))


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
