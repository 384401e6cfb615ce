"""Which models rest after a failure, and until when. Plain values, so that a restart remembers them.

Knows names and times; neither models nor clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clew.summaries.faults import LONG_REST_SECONDS

LONGEST_REST_SECONDS = 6 * LONG_REST_SECONDS


@dataclass(frozen=True, slots=True)
class Rest:
    """A model is not asked before `until` (seconds since 1970), because of `reason`."""

    until: float
    reason: str


class Cooldowns:
    """The models that rest. An engine keeps `memory` over a restart and calls `clear` when a person forces it."""

    def __init__(self, rests: Mapping[str, Rest] | None = None) -> None:
        self._rests = dict(rests or {})

    @classmethod
    def remembered(cls, memory: object) -> Cooldowns:
        """What `memory` said before a restart; what cannot be read is forgotten."""
        cooldowns = cls()
        cooldowns.restore(memory)
        return cooldowns

    def restore(self, memory: object) -> None:
        """Takes over what `memory` said, in place of what is known here."""
        entries = memory.items() if isinstance(memory, Mapping) else ()
        self._rests = {str(name): rest for name, value in entries if (rest := _rest(value)) is not None}

    @property
    def memory(self) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        return {name: {"until": rest.until, "reason": rest.reason} for name, rest in sorted(self._rests.items())}

    def start(self, name: str, seconds: float, reason: str, now: float) -> None:
        if seconds > 0:
            self._rests[name] = Rest(now + min(seconds, LONGEST_REST_SECONDS), reason)

    def resting(self, name: str, now: float) -> Rest | None:
        """The rest that a model has, if it is not over."""
        rest = self._rests.get(name)
        # A clock that was set back must not make a model rest for days.
        return rest if rest is not None and now < rest.until <= now + LONGEST_REST_SECONDS else None

    def end(self, name: str) -> None:
        """The model answered: whatever it had is over."""
        self._rests.pop(name, None)

    def clear(self) -> None:
        """Nobody rests any more: a person asked for it."""
        self._rests.clear()


def _rest(value: object) -> Rest | None:
    if not isinstance(value, Mapping):
        return None
    until, reason = value.get("until"), value.get("reason")
    if isinstance(until, bool) or not isinstance(until, int | float):
        return None
    return Rest(float(until), str(reason or ""))
