"""The limits of the lossless engine: what tail and map may take of a window, and how often a model may be asked.

Budgets are solved together: window, room for the reply, system prompt, tools, tail and map. Settings that cannot hold
are refused with the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from clew.config import CompressionSettings, LosslessSettings
from clew.engines.base import threshold_for
from clew.errors import InvalidArgument

# Of the threshold: a fold must leave room for the conversation to go on before the next one.
_LARGEST_SHARE_AFTER = 0.9
_SMALLEST_ROOM = 300
"""For tail and map together: with less there is nothing that a fold could leave."""
_SHARE_OF_LEAF, _SHARE_OF_QUOTES = 0.12, 0.25
"""Of the messages below a leaf: what a model may write of them, and what the built-in summariser may quote."""
LEAST_MAP = 450
_TRIES_TO_SOLVE = 4
_SHARE_OF_CHILDREN = 0.3
# Of the messages far below a node: where little is left of them already, it is not made a third of that again.
_LEAST_SHARE_OF_MESSAGES = 0.01
_LARGEST_SHARE_OF_COVERED = 0.6
_SMALLEST_NODE = 120
_HOUR = 3_600.0
_REST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class MapBudgets:
    """What the lossless engine may spend, in tokens."""

    window: int
    threshold: int
    limit: int
    """What the request may have at most: the window without the room for the reply."""
    target: int
    """What the whole request should have after a fold."""
    tail: int
    """What stays word for word at the end, at least."""
    map: int

    def longest_tail(self, room: int, raw: int, expected_map: Callable[[int], int], least: int) -> int:
        """For the tail, where `room` is for tail and map and there are `raw` tokens of messages to fold or keep.

        Of little that is folded the map says all there is to say, and the rest is for the newest messages. What the map
        would have with so many more tokens folded is `expected_map`.
        """
        most, tail = room - max(LEAST_MAP, room // 10), least
        for _ in range(_TRIES_TO_SOLVE):
            tail = max(least, min(most, room - expected_map(max(0, raw - tail))))
        return tail

    def leaf(self, covered: int, *, by_model: bool) -> int:
        """For the text of a node over messages of so many tokens; lines without a model say less each."""
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
    """Refuse a tail and a map that a fold could not leave together."""
    if compression.target_ratio + lossless.map_ratio > lossless.fold_to:
        raise InvalidArgument(
            f"compression.target_ratio {compression.target_ratio:g} (a tail of {budgets.tail:,} tokens) and "
            f"lossless.map_ratio {lossless.map_ratio:g} (a map of {budgets.map:,}) are more than lossless.fold_to "
            f"{lossless.fold_to:g} of the threshold of {budgets.threshold:,} tokens leaves ({budgets.target:,}); "
            "lower one of the first two, or raise the last"
        )


def solved(budgets: MapBudgets, beside: int) -> MapBudgets | str:
    """The budgets with `beside` tokens of system prompt, tools and what else is sent; or why they cannot hold.

    Where these take much, tail and map shrink in proportion; where the threshold leaves no room, the window counts.
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


# -- how often a model is asked ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelAllowance:
    """When models were asked to write nodes, and how often in a row it failed. A part of the engine's state."""

    calls: tuple[float, ...] = ()
    """The times of the newest calls, in seconds since 1970: all of the last hour, and perhaps a few before it."""
    failures: int = 0
    rests_until: float = 0.0

    def refusal(self, now: float, settings: LosslessSettings) -> str:
        """Why no model may be asked now, for people; nothing where one may."""
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
        """The calls of the last hour. Which of them are older matters only where they are too many together."""
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
