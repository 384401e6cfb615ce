"""The plan of a fold: the length and the beginning of the tail, and the room that is left for the map.

Tail and map share one room. If the map needs little of it, the tail is longer; if the tail is short because its
messages are large, the map has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from clew.config import CompressionSettings, LosslessSettings
from clew.engines.base import threshold_for
from clew.engines.compressor.history import CountedHistory, MessageSizes
from clew.engines.compressor.plan import (
    Budgets,
    CompactionPlan,
    PlanSettings,
    plan_compaction,
    with_longer_tail,
    wrapping_tokens,
)
from clew.errors import InvalidArgument

# Of the tail: how far from its planned beginning it may begin with an exchange instead. A map of quotes can use the
# room that this leaves, and a map by a model cannot.
_NEAR, _NEAR_FULL = (0.6, 1.1), (0.93, 1.03)
_WORTH_GIVING_BACK = 0.05
_LARGEST_SHARE_OF_FOLDED = 0.6
_ENOUGH_FOR_MAP = 15_000
"""In less room a map is more useful than newest messages beyond their share of it."""

ExpectedMap = Callable[[int], int]
"""An estimate of the tokens that the map can use with so many more tokens of messages folded."""


@dataclass(frozen=True, slots=True)
class FoldPlanner:
    """Plans folds of one history within given budgets."""

    read: CountedHistory
    current_tokens: int | None
    budgets: MapBudgets
    compression: CompressionSettings
    sizes: MessageSizes
    note_as_block: bool
    """Whether the note behind the system prompt is a separate block."""

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
        # If the map has all that it can use, a shorter tail would leave room unused.
        is_full = by_model or tail > least
        near = _exchange_near(plan, tail, _NEAR_FULL if is_full else _NEAR)
        if near is not None and plan.cut.folded:
            plan = self._other(plan, self.with_tail(near, force=False))
        elif is_full and self.sizes.total(plan.tail_messages) < _NEAR_FULL[0] * tail:
            plan = self._other(plan, self.with_tail(tail, force=force, fewest=len(plan.tail_messages) + 1))
        # A tail that is too large, because its last messages are, leaves the map some room, too.
        least_map = self.budgets.map // 2 if tail <= self.budgets.tail else LEAST_MAP
        return self._with_map_budget(plan, room, least_map)

    def with_tail(self, tail: int, *, force: bool, fewest: int = 0) -> CompactionPlan:
        """The plan with a tail of at most so many tokens and at least `fewest` messages, shortened if necessary."""
        plan = plan_compaction(self._settings(tail, fewest), self.read, self.current_tokens, force=force)
        if not plan.cut.folded:
            return plan
        # A repair, now or before, moves a result up to its call: the tail may begin with a number below a folded one.
        folded = max(plan.history.numbers[at] for at in plan.cut.folded) + 1
        return replace(plan, covers_below=max(folded, plan.history.first_unread))

    def _settings(self, tail: int, fewest: int = 0) -> PlanSettings:
        budgets = self.budgets
        threshold = min(budgets.threshold, max(1, budgets.limit - budgets.map))
        planned = Budgets(budgets.window, threshold, tail, budgets.tail, budgets.map)
        # The tail is a number of tokens, and the first messages are in the map.
        compression = replace(self.compression, protect_first_n=0, protect_last_n=fewest)
        return PlanSettings(planned, compression, self.sizes, self.note_as_block)

    def with_rest_in_tail(self, plan: CompactionPlan, map_tokens: int) -> CompactionPlan:
        """The plan with longer texts of shortened messages of the tail, in the room that the map does not use."""
        left = plan.summary_budget - map_tokens
        if left < _WORTH_GIVING_BACK * plan.summary_budget:
            return plan
        return with_longer_tail(self._settings(self.budgets.tail), plan, left)

    def _other(self, plan: CompactionPlan, other: CompactionPlan) -> CompactionPlan:
        """The other plan, if it folds anything."""
        return other if other.cut.folded else plan

    def _tail(self, room: int, expected_map: ExpectedMap, kept: int) -> tuple[int, int]:
        """The tokens of the tail, and their minimum, beside `kept` tokens of the newest request."""
        prompts = sum(self.read.sizes[at] for at in self.read.prompts)
        raw = sum(self.read.sizes) - prompts
        least = max(int(room * self.compression.target_ratio), min(self.budgets.tail, room - _ENOUGH_FOR_MAP))
        least = max(least // 2, least - kept)
        return self.budgets.longest_tail(room - prompts - kept, raw, expected_map, least), least

    def _kept_tokens(self, plan: CompactionPlan) -> int:
        return self.sizes.total([plan.staying[at] for at in plan.cut.kept]) if plan.cut.folded else 0

    def _with_map_budget(self, plan: CompactionPlan, room: int, least: int) -> CompactionPlan:
        """The plan with the room that its tail leaves for the map."""
        if not plan.cut.folded:
            return plan
        wrapping = wrapping_tokens(self.sizes, plan.history.following(plan.cut.tail))
        left = room - self.sizes.total(list(plan.staying.values())) - wrapping
        # A map must be much shorter than the messages that it covers.
        earlier = self.sizes.text(plan.history.earlier.text) if plan.history.earlier else 0
        most = earlier + int(_LARGEST_SHARE_OF_FOLDED * sum(plan.sizes[at] for at in plan.cut.folded))
        return replace(plan, summary_budget=max(1, min(most, max(left, least))))


def _exchange_near(plan: CompactionPlan, tail: int, shares: tuple[float, float]) -> int | None:
    """The tokens of a tail that begins with a request near the planned cut; None if there is none."""
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


# Of the threshold: the conversation must be able to continue before the next fold.
_LARGEST_SHARE_AFTER = 0.9
_SMALLEST_ROOM = 300
"""For tail and map together; in less no fold is possible."""
_SHARE_OF_LEAF, _SHARE_OF_QUOTES = 0.12, 0.25
"""Of the messages of a leaf: what a model may write of them, and what the built-in summariser may quote."""
LEAST_MAP = 450
_TRIES_TO_SOLVE = 4
_SHARE_OF_CHILDREN = 0.3
# Of the messages below a condensed node: its children may be short already, and are not condensed to less than this.
_LEAST_SHARE_OF_MESSAGES = 0.01
_LARGEST_SHARE_OF_COVERED = 0.6
_SMALLEST_NODE = 120
_HOUR = 3_600.0
_REST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class MapBudgets:
    """The budgets of the lossless engine, in tokens."""

    window: int
    threshold: int
    limit: int
    """Of the request, at most: the window without the reserve for the reply."""
    target: int
    """Of the whole request after a fold."""
    tail: int
    """Of the newest messages, which stay word for word, at least."""
    map: int

    def longest_tail(self, room: int, raw: int, expected_map: Callable[[int], int], least: int) -> int:
        """The tokens of the tail, if tail and map share `room` and there are `raw` tokens of messages.

        The map gets what it can use (`expected_map`), and the newest messages the rest.
        """
        most, tail = room - max(LEAST_MAP, room // 10), least
        for _ in range(_TRIES_TO_SOLVE):
            tail = max(least, min(most, room - expected_map(max(0, raw - tail))))
        return tail

    def leaf(self, covered: int, *, by_model: bool) -> int:
        """For the text of a node over messages of so many tokens; without a model it is longer."""
        if by_model:
            return self._node(int(covered * _SHARE_OF_LEAF), covered, self.map // 2)
        return self._node(int(covered * _SHARE_OF_QUOTES), covered, 2 * self.map)

    def condensed(self, below: int, covered: int) -> int:
        """For the text of a node over nodes of `below` tokens, which cover messages of `covered` tokens."""
        wanted = max(int(below * _SHARE_OF_CHILDREN), int(covered * _LEAST_SHARE_OF_MESSAGES))
        return self._node(wanted, below, self.map // 2)

    def _node(self, wanted: int, below: int, most: int) -> int:
        most = max(_SMALLEST_NODE, most)
        return min(max(wanted, _SMALLEST_NODE), most, max(1, int(below * _LARGEST_SHARE_OF_COVERED)))


def budgets_for_window(
    window: int, compression: CompressionSettings, lossless: LosslessSettings, max_output: int | None = None
) -> MapBudgets:
    """The budgets of a window, before anything is known of the system prompt and the tools."""
    threshold = threshold_for(window, compression.threshold, max_output)
    return MapBudgets(
        window=window,
        threshold=threshold,
        limit=threshold_for(window, 1.0, max_output),
        target=int(threshold * lossless.fold_to),
        tail=int(threshold * compression.target_ratio),
        map=int(threshold * lossless.map_ratio),
    )


def check_shares(budgets: MapBudgets, compression: CompressionSettings, lossless: LosslessSettings) -> None:
    """Refuse shares of tail and map that are more than a fold leaves."""
    if compression.target_ratio + lossless.map_ratio > lossless.fold_to:
        raise InvalidArgument(
            f"compression.target_ratio {compression.target_ratio:g} (a tail of {budgets.tail:,} tokens) and "
            f"lossless.map_ratio {lossless.map_ratio:g} (a map of {budgets.map:,}) are more than lossless.fold_to "
            f"{lossless.fold_to:g} of the threshold of {budgets.threshold:,} tokens leaves ({budgets.target:,})",
            remedy="lower one of the first two, or raise the last",
        )


def solved(budgets: MapBudgets, beside: int) -> MapBudgets | str:
    """The budgets with `beside` tokens of system prompt, tools and other parts; or why they are impossible.

    If these take much, tail and map shrink in proportion; if the threshold leaves no room, the window is the limit.
    """
    wanted = budgets.tail + budgets.map
    for most in (int(budgets.threshold * _LARGEST_SHARE_AFTER), budgets.limit):
        room = most - beside
        if room >= wanted:
            return replace(budgets, target=min(most, max(budgets.target, beside + wanted)))
        if room >= _SMALLEST_ROOM:
            tail = room * budgets.tail // max(1, wanted)
            return replace(budgets, target=most, tail=tail, map=room - tail)
    return (
        f"A window of {budgets.window:,} tokens, of which a request may take {budgets.limit:,}, cannot hold the "
        f"system prompt, the tools and what else is sent ({beside:,} tokens) and at least {_SMALLEST_ROOM} tokens of "
        "the conversation. Make the former smaller, or choose a model with a larger window."
    )


@dataclass(frozen=True, slots=True)
class ModelAllowance:
    """The calls of models for nodes, and the failures in a row. A part of the engine's state."""

    calls: tuple[float, ...] = ()
    """The times of the newest calls, in seconds since 1970: all of the last hour, and perhaps a few before it."""
    failures: int = 0
    rests_until: float = 0.0

    def refusal(self, now: float, settings: LosslessSettings) -> str:
        """Why no model may be asked now, for people; empty if one may."""
        if self.rests_until > now and self.rests_until - now <= _REST_SECONDS:
            return (
                f"The last {self.failures} summaries by a model failed: for another {self.rests_until - now:.0f} s "
                "none is asked, and the built-in summariser writes the map. It is written again by a model later."
            )
        recent = self._recent(now, settings)
        if len(recent) >= settings.calls_per_hour:
            return (
                f"{len(recent)} summaries by a model were requested within an hour, which is all that "
                f"lossless.calls_per_hour allows: the built-in summariser writes the map until "
                f"{_HOUR - (now - recent[0]):.0f} s from now. It is written again by a model later."
            )
        return ""

    def after_call(self, now: float, settings: LosslessSettings, *, failed: bool) -> ModelAllowance:
        failures = self.failures + 1 if failed else 0
        rests = now + _REST_SECONDS if failures >= settings.failures_before_rest else 0.0
        return ModelAllowance((*self._recent(now, settings), now), failures, rests)

    def _recent(self, now: float, settings: LosslessSettings) -> tuple[float, ...]:
        """The calls of the last hour; all known calls if they are within the limit anyway."""
        if len(self.calls) < settings.calls_per_hour:
            return self.calls
        return tuple(at for at in self.calls if 0 <= now - at < _HOUR)

    def as_json(self) -> dict[str, Any]:
        return {"calls": list(self.calls), "failures": self.failures, "rests_until": self.rests_until}

    @classmethod
    def of_json(cls, values: object) -> ModelAllowance:
        if not isinstance(values, Mapping):
            return cls()
        calls, failures, rests = values.get("calls"), values.get("failures"), values.get("rests_until")
        return cls(
            tuple(float(at) for at in calls if _is_number(at)) if isinstance(calls, list) else (),
            failures if type(failures) is int and failures > 0 else 0,
            float(rests) if isinstance(rests, int | float) and _is_number(rests) else 0.0,
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
