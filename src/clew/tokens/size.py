"""The size of a conversation, updated with each message and corrected by the real size of prompts.

A message is counted once, or not at all when its count comes from a store. After a reply with a real prompt size:
size now = last real size + counted difference.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any

from clew.tokens.count import TokenCounter

if TYPE_CHECKING:
    from clew.messages import Message, Tool


# A real size is plausible between these shares of the counted one. _MOST_UNSEEN is for what a host adds that we do not
# see (a system prompt, tools).
_SMALLEST_SHARE = 0.25
_LARGEST_SHARE = 4
_MOST_UNSEEN = 250_000
# A size outside of that may still be true, because a host can drop messages unseen. It is taken once this many sizes in
# a row grew from it as our count did.
_CONFIRMATIONS = 2
# The ratio 1.0 weighs as much as the first number of tokens; what was learnt never weighs more than the second, so that
# a new vocabulary under the same model name is noticed.
_PRIOR_TOKENS = 4_000.0
_MOST_EVIDENCE = 400_000.0
# A smaller growth says little about the ratio. A ratio outside the bounds has another cause: text that we did not see,
# a dropped reply, a wrong report.
_LEAST_GROWTH = 100
_LOWEST_RATIO, _HIGHEST_RATIO = 0.6, 1.8


@dataclass(frozen=True, slots=True)
class Calibration:
    """The learnt ratio of real to counted growth of prompts for one model, and the counted tokens it is based on."""

    ratio: float = 1.0
    evidence: float = 0.0

    def learnt_from(self, counted: float, real: float) -> Calibration:
        """The calibration after one more growth; unchanged when that is too small or not plausible."""
        if counted < _LEAST_GROWTH or not _LOWEST_RATIO <= real / counted <= _HIGHEST_RATIO:
            return self
        known = self.evidence + _PRIOR_TOKENS
        ratio = (self.ratio * known + real) / (known + counted)
        return Calibration(ratio, min(_MOST_EVIDENCE, self.evidence + counted))

    def corrected(self, counted: float) -> int:
        """An estimate in the model's own tokens for what was counted."""
        return round(counted * self.ratio)

    def as_plain(self) -> dict[str, float]:
        """As a dict of numbers, for a store."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: object) -> Calibration:
        """Back from a store; a new one when the stored values are not valid."""
        if not isinstance(plain, Mapping):
            return cls()
        ratio, evidence = _number(plain.get("ratio")), _number(plain.get("evidence"))
        if ratio is None or evidence is None or not _LOWEST_RATIO <= ratio <= _HIGHEST_RATIO or evidence < 0:
            return cls()
        return cls(ratio, min(_MOST_EVIDENCE, evidence))


@dataclass(frozen=True, slots=True)
class ObservedSize:
    """The real size of a prompt, and our count of the same prompt."""

    real: int
    counted: int


class ConversationSize:
    """The size of the next request. Appending and reading take the same time at 100 messages and at 100,000."""

    __slots__ = (
        "_confirmed",
        "_counter",
        "_implausible",
        "_observed",
        "_sums",
        "_system",
        "_system_key",
        "_tools",
        "_tools_key",
        "calibration",
    )

    def __init__(
        self,
        counter: TokenCounter,
        *,
        system: object = None,
        tools: Sequence[Tool] | None = None,
        calibration: Calibration | None = None,
        counts: Iterable[int] = (),
    ) -> None:
        self.calibration = calibration or Calibration()
        self._counter = counter
        self._sums = list(accumulate(counts, initial=0))
        self._observed: ObservedSize | None = None
        self._implausible: ObservedSize | None = None
        self._confirmed = 0
        self._system = self._tools = 0
        self._system_key: tuple[object, int] = (None, 0)
        self._tools_key: tuple[object, int] = (None, 0)
        self.set_system(system)
        self.set_tools(tools)

    def __len__(self) -> int:
        return len(self._sums) - 1

    @property
    def counted(self) -> int:
        """Our own count of the next request: system, tools, messages and what the wire adds, without correction."""
        return self._counter.request + self._system + self._tools + self._sums[-1]

    @property
    def tokens(self) -> int:
        """The size of the next request: based on the last real size where there is one."""
        return self.tokens_of(self.counted)

    def tokens_of(self, counted: int) -> int:
        """What `tokens` would be if the next request had this count instead of `counted`."""
        if self._observed is None:
            return self.calibration.corrected(counted)
        difference = self.calibration.corrected(counted - self._observed.counted)
        return max(self._counter.request, self._observed.real + difference)

    @property
    def is_measured(self) -> bool:
        """Whether `tokens` is based on a real size."""
        return self._observed is not None

    @property
    def system(self) -> int:
        return self._system

    @property
    def tools(self) -> int:
        return self._tools

    @property
    def fixed(self) -> int:
        """Tokens of system prompt and tools, which no compaction makes smaller: corrected, and never above `tokens`."""
        return min(self.calibration.corrected(self._system + self._tools), self.tokens)

    @property
    def counts(self) -> list[int]:
        """The count of every message, for a store to keep."""
        return [after - before for before, after in zip(self._sums, self._sums[1:], strict=False)]

    def between(self, start: int, stop: int) -> int:
        """Counted tokens of the messages from `start` up to `stop`, without adding them up again."""
        return self._sums[stop] - self._sums[start]

    def append(self, message: Message, count: int | None = None) -> int:
        """Append one message and return its count; with a given count the message is not read."""
        tokens = self._counter.message(message) if count is None else count
        self._sums.append(self._sums[-1] + tokens)
        return tokens

    def truncate(self, length: int) -> None:
        """Keep the first `length` messages."""
        del self._sums[max(0, length) + 1 :]

    def replace(self, start: int, stop: int, counts: Iterable[int]) -> None:
        """Replace the messages from `start` up to `stop` by others with these counts, as a compaction does."""
        behind = (after - before for before, after in pairwise(self._sums[stop:]))
        self._sums[start:] = accumulate(chain(counts, behind), initial=self._sums[start])

    def set_system(self, system: object) -> None:
        """Set the system prompt of the next request; counted again only when it changed."""
        key = _key_of(system, self._system_key)
        if key[1] != self._system_key[1]:
            self._system = self._counter.system(system)
        self._system_key = key

    def set_tools(self, tools: Sequence[Tool] | None) -> None:
        """Set the tools of the next request; counted again only when they changed."""
        key = _key_of(tools, self._tools_key)
        if key[1] != self._tools_key[1]:
            self._tools = self._counter.tools(tools)
        self._tools_key = key

    def observe(self, prompt_tokens: int | None, messages: int | None = None) -> bool:
        """Use the real size of the prompt that held the first `messages` messages (default: all of them).

        Call it before the reply is appended, or say how many messages the prompt had. Returns False for a size that
        is not plausible, which changes nothing.
        """
        upto = len(self) if messages is None else max(0, min(messages, len(self)))
        counted = self._counter.request + self._system + self._tools + self._sums[upto]
        if not isinstance(prompt_tokens, int) or isinstance(prompt_tokens, bool) or prompt_tokens <= 0:
            return False
        seen = ObservedSize(prompt_tokens, counted)
        if not _is_plausible(seen) and not self._is_confirmed(seen):
            return False
        if self._observed is not None:
            self.calibration = self.calibration.learnt_from(
                seen.counted - self._observed.counted, seen.real - self._observed.real
            )
        self._observed, self._implausible, self._confirmed = seen, None, 0
        return True

    def _is_confirmed(self, seen: ObservedSize) -> bool:
        """Whether an implausible size grew from the implausible ones before it as our count did."""
        before = self._observed if self._observed and not _is_plausible(self._observed) else self._implausible
        grows_alike = before is not None and _grows_alike(before, seen)
        if grows_alike and before is self._observed:
            return True
        self._implausible, self._confirmed = seen, self._confirmed + 1 if grows_alike else 0
        return self._confirmed >= _CONFIRMATIONS


def _is_plausible(seen: ObservedSize) -> bool:
    return _SMALLEST_SHARE * seen.counted <= seen.real <= _LARGEST_SHARE * seen.counted + _MOST_UNSEEN


def _grows_alike(before: ObservedSize, after: ObservedSize) -> bool:
    counted = after.counted - before.counted
    return counted > 0 and abs(after.real - before.real - counted) <= 50 + 0.35 * counted


def _key_of(value: object, last: tuple[object, int]) -> tuple[object, int]:
    """The value and its hash; the same object is not hashed again."""
    if value is last[0]:
        return last
    if not value:
        return value, 0
    if isinstance(value, str):
        return value, hash(value)
    try:
        return value, hash(json.dumps(value, default=repr, skipkeys=True))
    except (ValueError, RecursionError):
        return value, id(value)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None
