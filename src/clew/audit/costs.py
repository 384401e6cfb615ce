"""What compactions and expired caches of a session cost at list prices.

The cost of a compaction has two parts: the request for the summary, which most files do not record and which is then
estimated as one read of the cached window plus the summary as output; and what the first request after it had to write
into the cache again. An expired cache costs the difference between writing and reading what the provider had held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Final

from clew.importers import SourceEntry
from clew.importers.store_values import parse_time
from clew.usage import CanonicalUsage, cost_of, normalize_usage, price_of

_MILLION: Final = Decimal(1_000_000)
CACHE_SECONDS: Final = 300
"""The lifetime of a cache unless a longer one was paid for."""
LONG_CACHE_SECONDS: Final = 3_600
_MIN_LOST_TOKENS: Final = 1_024
"""No provider caches less."""


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """A call of the model, as a session file records it."""

    entry: SourceEntry
    usage: CanonicalUsage
    model: str
    at: datetime | None

    @property
    def window(self) -> int:
        """Tokens that the provider holds after it."""
        return self.usage.prompt_tokens + self.usage.output_tokens


@dataclass(frozen=True, slots=True)
class ExpiredCache:
    """A pause after which the provider had to read its cached tokens again."""

    line: int
    seconds: int
    tokens: int
    """Tokens that were cached before and were not read from the cache."""
    dollars: Decimal | None
    """None where the model has no known price."""


@dataclass(frozen=True, slots=True)
class CompactionCost:
    """The cost of one compaction."""

    summary: Decimal | None
    rebuild: Decimal | None
    is_estimate: bool
    """Whether the file does not record the request for the summary."""

    @property
    def dollars(self) -> Decimal | None:
        known = [part for part in (self.summary, self.rebuild) if part is not None]
        return sum(known, Decimal(0)) if known else None


def recorded_calls(entries: Sequence[SourceEntry], model: str | None) -> list[AuditedCall]:
    """The calls of a session, each once: programs repeat the usage of a reply on several lines."""
    calls: list[AuditedCall] = []
    known: set[str] = set()
    for entry in entries:
        usage = normalize_usage(entry.usage) if entry.usage is not None else None
        if usage is None or not usage.prompt_tokens or (entry.call_id and entry.call_id in known):
            continue
        known.add(entry.call_id or "")
        calls.append(AuditedCall(entry, usage, entry.model or model or "", parse_time(entry.timestamp)))
    return calls


def expired_caches(calls: Sequence[AuditedCall], compacted: Sequence[int]) -> list[ExpiredCache]:
    """The pauses after which a cache was lost, without those in which a compaction (by its line) explains the miss."""
    found = []
    for earlier, call in pairwise(calls):
        if earlier.at is None or call.at is None or earlier.model != call.model:
            continue
        if any(earlier.entry.line < line < call.entry.line for line in compacted):
            continue
        seconds = int((call.at - earlier.at).total_seconds())
        lost = min(earlier.window, call.usage.prompt_tokens) - call.usage.cache_read_tokens
        was_cached = earlier.usage.cache_read_tokens + earlier.usage.cache_write_tokens
        if seconds < _lifetime(earlier) or min(lost, was_cached) < _MIN_LOST_TOKENS:
            continue
        lost = min(lost, was_cached)
        found.append(ExpiredCache(call.entry.line, seconds, lost, _miss_price(call, lost)))
    return found


def _lifetime(call: AuditedCall) -> int:
    written = (call.entry.usage or {}).get("cache_creation")
    is_long = isinstance(written, dict) and bool(written.get("ephemeral_1h_input_tokens"))
    return LONG_CACHE_SECONDS if is_long else CACHE_SECONDS


def _miss_price(call: AuditedCall, tokens: int) -> Decimal | None:
    price = price_of(call.model, prompt_tokens=call.usage.prompt_tokens)
    if price is None or price.cache_read is None:
        return None
    paid = price.cache_write if call.usage.cache_write_tokens and price.cache_write is not None else price.input
    return tokens * (paid - price.cache_read) / _MILLION


def compaction_cost(
    calls: Sequence[AuditedCall], summary: SourceEntry, summary_tokens: int, model: str | None
) -> CompactionCost:
    """The cost of the compaction with this summary."""
    own = next((call for call in calls if call.entry is summary), None)
    before = [call for call in calls if call.entry.line < summary.line and call is not own]
    after = [call for call in calls if call.entry.line > summary.line]
    written = _write_cost(after[0]) if after else None
    if own is not None:
        cost = cost_of(own.usage, own.model)
        return CompactionCost(cost.total if cost else None, written, is_estimate=False)
    if not before:
        return CompactionCost(None, written, is_estimate=True)
    last = before[-1]
    estimate = CanonicalUsage(0, summary_tokens, cache_read_tokens=last.window)
    asked = cost_of(estimate, last.model or model or "")
    return CompactionCost(asked.total if asked else None, written, is_estimate=True)


def _write_cost(call: AuditedCall) -> Decimal | None:
    cost = cost_of(call.usage, call.model)
    return cost.input + cost.cache_write if cost else None
