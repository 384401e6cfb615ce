"""The requests of a session with their cache reads, cache writes and new tokens, and the compactions between them.

A compaction costs the calls that wrote its handoff. It saves, up to the next one, the tokens that it freed in each
request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clew.store import CompactionAccount, RecordedCall
from clew.usage import CanonicalUsage, cost_of

MICROS = 1_000_000
AT_CACHE_PRICE = "at the price of reading from the cache"
AT_INPUT_PRICE = "at the price of input"
BESIDE_CLIENT = "beside the client's own requests"


@dataclass(frozen=True, slots=True)
class CompactionEffect:
    """A compaction with what it cost, and what it saved up to the next one."""

    account: CompactionAccount
    before_request: int
    """The number of the first request after it."""
    requests_since: int
    cost_micros: int | None
    """The cost of the calls that wrote its handoff; None where the price of one is not known."""
    saved_micros: int | None
    saved_basis: str | None

    @property
    def freed(self) -> int:
        return self.account.tokens_before - self.account.tokens_after

    @property
    def tokens_saved(self) -> int:
        """Tokens that were left out of the requests since then."""
        return max(0, self.freed) * self.requests_since


def requests_of(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """The calls that a turn asked for; the others wrote summaries."""
    return [call for call in calls if not call.is_auxiliary]


def compaction_effects(accounts: Sequence[CompactionAccount], calls: Sequence[RecordedCall]) -> list[CompactionEffect]:
    """What each compaction cost and saved, oldest first."""
    requests = requests_of(calls)
    times = [call.at for call in requests]
    starts = [bisect_left(times, account.at) for account in accounts]
    written = _summary_calls(accounts, calls)
    effects = []
    for index, account in enumerate(accounts):
        stop = starts[index + 1] if index + 1 < len(accounts) else len(requests)
        # When a compaction was undone is not recorded.
        since = requests[starts[index] : stop] if account.is_in_effect else []
        costs = [call.cost_micros for call in written[index]]
        saved, basis = _saved(account, since)
        cost = None if None in costs else sum(cost or 0 for cost in costs)
        effects.append(CompactionEffect(account, starts[index], len(since), cost, saved, basis))
    return effects


def _summary_calls(accounts: Sequence[CompactionAccount], calls: Sequence[RecordedCall]) -> list[list[RecordedCall]]:
    """The auxiliary calls of each compaction: those since the one before it."""
    times = [account.at for account in accounts]
    written: list[list[RecordedCall]] = [[] for _ in accounts]
    for call in calls:
        index = bisect_left(times, call.at)
        if call.is_auxiliary and index < len(accounts):
            written[index].append(call)
    return written


def _saved(account: CompactionAccount, since: Sequence[RecordedCall]) -> tuple[int | None, str | None]:
    freed = account.tokens_before - account.tokens_after
    if not since or freed <= 0:
        return None, None
    compared = [
        call.cost_direct_micros - call.cost_micros
        for call in since
        if call.cost_direct_micros is not None and call.cost_micros is not None
    ]
    if len(compared) == len(since):
        return sum(compared), BESIDE_CLIENT
    is_cached = any(call.usage.cache_read_tokens for call in since)
    used = CanonicalUsage(cache_read_tokens=freed) if is_cached else CanonicalUsage(input_tokens=freed)
    cost = cost_of(used, since[-1].model)
    if cost is None:
        return None, None
    return cost.micros * len(since), AT_CACHE_PRICE if is_cached else AT_INPUT_PRICE


def plain_timeline(calls: Sequence[RecordedCall], effects: Sequence[CompactionEffect], points: int) -> dict[str, Any]:
    """The requests as columns of at most so many entries.

    Where there are more requests, each entry represents `every` of them, and is the one with the largest prompt.
    """
    requests = requests_of(calls)
    chosen = list(enumerate(requests))
    every = max(1, -(-len(chosen) // points))
    if every > 1:
        groups = (chosen[at : at + every] for at in range(0, len(chosen), every))
        chosen = [max(group, key=lambda each: each[1].usage.prompt_tokens) for group in groups]
    names = list(dict.fromkeys(call.model for _, call in chosen))
    numbers = {name: number for number, name in enumerate(names)}
    return {
        "requests": len(requests),
        "every": every,
        "number": [number for number, _ in chosen],
        "at": [call.at.timestamp() for _, call in chosen],
        "read": [call.usage.cache_read_tokens for _, call in chosen],
        "write": [call.usage.cache_write_tokens for _, call in chosen],
        "uncached": [call.usage.input_tokens for _, call in chosen],
        "output": [call.usage.output_tokens for _, call in chosen],
        "cost_usd": [dollars(call.cost_micros) for _, call in chosen],
        "model": [numbers[call.model] for _, call in chosen],
        "models": names,
        "compactions": [plain_effect(effect) for effect in effects],
    }


def plain_effect(effect: CompactionEffect) -> dict[str, Any]:
    """A compaction for the page of its session."""
    account = effect.account
    return {
        "id": account.id,
        "at": account.at.isoformat(),
        "is_in_effect": account.is_in_effect,
        "tokens_before": account.tokens_before,
        "tokens_after": account.tokens_after,
        "freed": effect.freed,
        "first": account.first,
        "stop": account.stop,
        "folded": account.stop - account.first,
        "written_by": account.written_by,
        "focus": account.focus_topic,
        "cost_usd": dollars(effect.cost_micros),
        "before_request": effect.before_request,
        "requests_since": effect.requests_since,
        "tokens_saved": effect.tokens_saved,
        "saved_usd": dollars(effect.saved_micros),
        "saved_basis": effect.saved_basis,
        "warnings": list(account.warnings),
    }


def dollars(micros: int | None) -> float | None:
    return None if micros is None else micros / MICROS
