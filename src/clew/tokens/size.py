"""The size of a conversation, kept up to date one message at a time.

A message is counted once, ever, or not at all when its count comes from a store. After a reply the real size of its
prompt is the anchor, and only what changed since is counted: size now = last real size + counted difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from clew.tokens.calibration import Calibration
from clew.tokens.counter import TokenCounter

if TYPE_CHECKING:
    from clew.messages import Message, Tool


# A prompt cannot be much smaller than the text we know to be in it, and what we do not see of it (a host's own system
# prompt, its tools) has never been seen above the last figure.
_SMALLEST_SHARE = 0.25
_LARGEST_SHARE = 4
_MOST_UNSEEN = 250_000
# A figure outside those bounds may still be true: a host can drop messages without telling us. It is believed once
# this many figures in a row have grown from it as our count did, which a misreport does not do.
_CONFIRMATIONS = 2


@dataclass(frozen=True, slots=True)
class Anchor:
    """A real figure, and what we had counted for the very same prompt."""

    real: int
    counted: int


class ConversationSize:
    """How large the next request is. Appending and reading cost the same at 100 messages and at 100,000."""

    __slots__ = (
        "_anchor",
        "_confirmed",
        "_counter",
        "_doubted",
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
        self._anchor: Anchor | None = None
        self._doubted: Anchor | None = None
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
        """Our own count of the next request, uncorrected: system, tools, messages and what the wire adds."""
        return self._counter.request + self._system + self._tools + self._sums[-1]

    @property
    def tokens(self) -> int:
        """The best figure there is for the next request."""
        if self._anchor is None:
            return self.calibration.corrected(self.counted)
        difference = self.calibration.corrected(self.counted - self._anchor.counted)
        return max(self._counter.request, self._anchor.real + difference)

    @property
    def is_anchored(self) -> bool:
        """Whether a real figure stands behind `tokens`."""
        return self._anchor is not None

    @property
    def system(self) -> int:
        return self._system

    @property
    def tools(self) -> int:
        return self._tools

    @property
    def counts(self) -> list[int]:
        """The count of every message, for a store to keep."""
        return [after - before for before, after in zip(self._sums, self._sums[1:], strict=False)]

    def between(self, start: int, stop: int) -> int:
        """Counted tokens of the messages from `start` up to `stop`, without adding them up again."""
        return self._sums[stop] - self._sums[start]

    def append(self, message: Message, count: int | None = None) -> int:
        """Take in one message and give back its count; a known count is believed, and the message not read."""
        tokens = self._counter.message(message) if count is None else count
        self._sums.append(self._sums[-1] + tokens)
        return tokens

    def truncate(self, length: int) -> None:
        """Keep the first `length` messages."""
        del self._sums[max(0, length) + 1 :]

    def replace(self, start: int, stop: int, counts: Iterable[int]) -> None:
        """Put messages of these counts in the place of `start` up to `stop`, as a compaction does."""
        kept = self.counts
        kept[start:stop] = counts
        self._sums = list(accumulate(kept, initial=0))

    def set_system(self, system: object) -> None:
        """The system prompt of the next request; counted again only when it is another one."""
        key = _key_of(system, self._system_key)
        if key[1] != self._system_key[1]:
            self._system = self._counter.system(system)
        self._system_key = key

    def set_tools(self, tools: Sequence[Tool] | None) -> None:
        """The tools of the next request; counted again only when they are others."""
        key = _key_of(tools, self._tools_key)
        if key[1] != self._tools_key[1]:
            self._tools = self._counter.tools(tools)
        self._tools_key = key

    def observe(self, prompt_tokens: int | None, messages: int | None = None) -> bool:
        """Take in the real size of the prompt that held the first `messages` messages (default: all there are).

        Call it before the reply is appended, or say how many messages the prompt had. A figure that cannot be true
        changes nothing; whether it was taken is the answer.
        """
        upto = len(self) if messages is None else max(0, min(messages, len(self)))
        counted = self._counter.request + self._system + self._tools + self._sums[upto]
        if not isinstance(prompt_tokens, int) or isinstance(prompt_tokens, bool) or prompt_tokens <= 0:
            return False
        seen = Anchor(prompt_tokens, counted)
        if not _is_plausible(seen) and not self._is_confirmed(seen):
            return False
        if self._anchor is not None:
            self.calibration = self.calibration.learnt_from(
                seen.counted - self._anchor.counted, seen.real - self._anchor.real
            )
        self._anchor, self._doubted, self._confirmed = seen, None, 0
        return True

    def _is_confirmed(self, seen: Anchor) -> bool:
        """Whether an implausible figure goes on from the implausible ones before it."""
        before = self._anchor if self._anchor and not _is_plausible(self._anchor) else self._doubted
        goes_on = before is not None and _goes_on(before, seen)
        if goes_on and before is self._anchor:
            return True
        self._doubted, self._confirmed = seen, self._confirmed + 1 if goes_on else 0
        return self._confirmed >= _CONFIRMATIONS


def _is_plausible(seen: Anchor) -> bool:
    return _SMALLEST_SHARE * seen.counted <= seen.real <= _LARGEST_SHARE * seen.counted + _MOST_UNSEEN


def _goes_on(before: Anchor, after: Anchor) -> bool:
    counted = after.counted - before.counted
    return counted > 0 and abs(after.real - before.real - counted) <= 50 + 0.35 * counted


def _key_of(value: object, last: tuple[object, int]) -> tuple[object, int]:
    """The value and its fingerprint; the same object is not looked at again."""
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
