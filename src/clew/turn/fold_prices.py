"""What the next message of a conversation costs, with the provider's cache and without, and which early folds pay.

A provider keeps what it has read for some minutes. The next message reads it from there at about a tenth of the price;
after a longer pause it pays for the whole conversation again. Estimates are for one model at its listed prices; where
no price is known, no early fold pays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clew.facts import announces, asks_back
from clew.messages import Message, calls_of, text_of
from clew.turn.request import ModelTarget
from clew.usage import CanonicalUsage, cost_of

CACHE_SECONDS: Final[Mapping[str, float]] = {"5m": 300.0, "30m": 1_800.0, "1h": 3_600.0}
"""How long a provider has a prefix after it was last read. Those that cache by themselves say five minutes or more."""
FOLD_BEFORE_SECONDS: Final = 30.0
"""So long before the cache expires an idle conversation is folded: asking for its handoff must still read the cache."""
IDLE_AT: Final = 0.40
"""Of the window: an idle conversation that is smaller is left as it is."""
COLD_AT: Final = 0.80
"""Of the threshold: from there on a request that the cache no longer has is folded where its handoff costs nothing."""
FINISHED_AT: Final = 0.60 / 0.85
"""Of the threshold, 60% of the window in the gateway: from there on a finished task may be folded."""
KEPT_SHARE: Final = 0.30
"""Of what is in view before a fold, about so much is there after it."""
RETURNS: Final = 0.5
"""The share of pauses beyond the life of the cache after which a person came back: 4 of 8 in recordings."""
LATER_TURNS: Final = 10
"""Turns that follow then; in the same recordings 9, 158, 428 and 435."""
HANDOFF_SHARE: Final = 0.6
"""Of its budget, so much a model uses for a handoff: six by a strong model took 50 to 61%."""


@dataclass(frozen=True, slots=True)
class NextMessageCost:
    """What the prompt of the next message costs, in dollars."""

    warm: float
    """While the provider has what was sent before in its cache."""
    cold: float
    """Once it has not."""


def next_message_cost(tokens: int, model: str, provider: str | None, ttl: str = "5m") -> NextMessageCost | None:
    """What a prompt of so many tokens costs, of which the newest message is a small part; None without a price."""
    read = _dollars(CanonicalUsage(cache_read_tokens=tokens), model, provider, ttl)
    plain = _dollars(CanonicalUsage(input_tokens=tokens), model, provider, ttl)
    written = _dollars(CanonicalUsage(cache_write_tokens=tokens), model, provider, ttl)
    if read is None or plain is None or written is None:
        return None
    return NextMessageCost(read, max(plain, written))


def idle_fold_pays(tokens: int, summary: int, target: ModelTarget, ttl: str = "5m") -> bool:
    """Whether to fold an idle conversation before its cache expires, with a handoff of so many tokens by the model.

    Asking for the handoff reads the cache once more; nothing of that is saved if the session ends.
    """
    cost, written = _costs(tokens, summary, target, ttl)
    if cost is None or written is None:
        return False
    return RETURNS * (1 - KEPT_SHARE) * (cost.cold + LATER_TURNS * cost.warm) > cost.warm + written


def cold_fold_pays(tokens: int, target: ModelTarget, ttl: str = "5m") -> bool:
    """Whether a request that must be read anew is better sent folded, where the handoff is there or costs nothing."""
    cost, _ = _costs(tokens, 0, target, ttl)
    return cost is not None and cost.cold > cost.warm


def early_fold_pays(tokens: int, turns: int, summary: int, target: ModelTarget, ttl: str = "5m") -> bool:
    """Whether a fold with a handoff by the model is paid back by the turns to be expected.

    A session that has continued for so many turns continues for as many more, on average.
    """
    cost, written = _costs(tokens, summary, target, ttl)
    if cost is None or written is None:
        return False
    saved = turns * (1 - KEPT_SHARE) * cost.warm
    return saved > KEPT_SHARE * (cost.cold - cost.warm) + cost.warm + written


def reports_finished(messages: Sequence[Message]) -> bool:
    """Whether the newest message reports work as done: words behind calls of tools, that neither ask nor announce."""
    if not messages or messages[-1]["role"] != "assistant" or calls_of(messages[-1]):
        return False
    text = text_of(messages[-1])
    if not text.strip() or announces(text) or asks_back(text):
        return False
    for message in reversed(messages[:-1]):
        if message["role"] == "user":
            return False
        if message["role"] == "tool":
            return True
    return False


def _costs(tokens: int, summary: int, target: ModelTarget, ttl: str) -> tuple[NextMessageCost | None, float | None]:
    """What the next prompt costs, and a handoff of so many tokens."""
    model, provider = target.model, target.served_by or None
    written = _dollars(CanonicalUsage(output_tokens=summary), model, provider, ttl)
    return next_message_cost(tokens, model, provider, ttl), written


def _dollars(usage: CanonicalUsage, model: str, provider: str | None, ttl: str) -> float | None:
    cost = cost_of(usage, model, provider, ttl if ttl in ("5m", "1h") else "5m")
    return None if cost is None else float(cost.total)
