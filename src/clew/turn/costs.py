"""A call as the store keeps it: its tokens, and what they cost where a price is known."""

from __future__ import annotations

from secrets import token_hex

from clew.store import CallSource, ModelCall
from clew.turn.target import Target
from clew.usage import CanonicalUsage, cost_of

_MICROS = 1_000_000


def call_of(usage: CanonicalUsage, target: Target, source: CallSource, ttl: str = "5m") -> ModelCall:
    """The account of one call; an unknown price stays unknown."""
    cost = cost_of(usage, target.model, target.provider.name or None, ttl)
    micros = None if cost is None else round(cost.total * _MICROS)
    # With an id, a call that is told twice, because a commit was stopped on its way, counts once.
    return ModelCall(usage, target.model, target.provider.name, source, micros, f"clew-{token_hex(12)}")
