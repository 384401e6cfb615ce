"""The cost of the next message of a conversation, with the provider's cache and without, and which early folds pay.

A provider caches a prompt for some minutes. The next message reads it from the cache at about a tenth of the price;
after a longer pause the whole conversation is paid for again. Estimates are for one model at its listed prices; if no
price is known, no early fold pays.
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
"""How long a provider caches a prefix after it was last read; five minutes or more without markers."""
FOLD_BEFORE_SECONDS: Final = 30.0
"""So long before its cache expires an idle conversation is folded, so that its handoff still reads the cache."""
IDLE_AT: Final = 0.40
"""Of the window: a smaller idle conversation is not folded."""
COLD_AT: Final = 0.80
"""Of the threshold: from here on a request that is not cached any more is folded, if its handoff costs nothing."""
FINISHED_AT: Final = 0.60 / 0.85
"""Of the threshold, 60% of the window in the gateway: from here on a finished task may be folded."""
KEPT_SHARE: Final = 0.30
"""Of the view before a fold, the share that is left after it."""
LATER_TURNS: Final = 10
"""Turns that follow a pause in which the cache expired; in recordings 9, 158, 428 and 435."""
HANDOFF_SHARE: Final = 0.6
"""Of its budget, the share that a model uses for a handoff: six by a strong model took 50 to 61%."""
INSTRUCTION_TOKENS: Final = 1_500
"""Of the instruction that asks a model for a handoff."""
_USUAL: Final = ModelTarget(None, "claude-sonnet-4-5", host_name="anthropic")
"""The model whose prices stand for those of a model that has none: a tenth for cached input, five times for output."""


@dataclass(frozen=True, slots=True)
class NextMessageCost:
    """The cost of the prompt of the next message, in dollars."""

    warm: float
    """While the provider caches the conversation."""
    cold: float
    """Once the cache has expired."""


def next_message_cost(tokens: int, model: str, provider: str | None, ttl: str = "5m") -> NextMessageCost | None:
    """The cost of a prompt of so many tokens, of which the newest message is a small part; None without a price."""
    read = _dollars(CanonicalUsage(cache_read_tokens=tokens), model, provider, ttl)
    plain = _dollars(CanonicalUsage(input_tokens=tokens), model, provider, ttl)
    written = _dollars(CanonicalUsage(cache_write_tokens=tokens), model, provider, ttl)
    if read is None or plain is None or written is None:
        return None
    return NextMessageCost(read, max(plain, written))


def idle_fold_pays(tokens: int, summary: int, target: ModelTarget, returns: int, ttl: str = "5m") -> bool:
    """Whether to fold an idle conversation before its cache expires, with a handoff of so many tokens by the model.

    The handoff reads the cache once more, which is lost if the user does not return. The chance of a return is
    estimated from the conversation: the user returned from `returns` pauses, and this one is open.
    """
    cost, written = _costs(tokens, summary, target, ttl)
    if cost is None or written is None:
        return False
    return returns / (returns + 1) * (1 - KEPT_SHARE) * (cost.cold + LATER_TURNS * cost.warm) > cost.warm + written


def cold_fold_pays(tokens: int, target: ModelTarget, ttl: str = "5m") -> bool:
    """Whether a request that is not cached is cheaper folded, if the handoff is there or costs nothing."""
    cost, _ = _costs(tokens, 0, target, ttl)
    return cost is not None and cost.cold > cost.warm


def early_fold_pays(
    tokens: int, turns: int, summary: int, target: ModelTarget, ttl: str = "5m", *, fixed: int = 0
) -> bool:
    """Whether the expected turns pay for a fold with a handoff by the model.

    A session that has had so many turns has as many more, on average. `fixed` tokens of the prompt are not folded.
    """
    cost, written = _costs(tokens, summary, target, ttl)
    if cost is None or written is None:
        return False
    folded = max(0, tokens - fixed) / max(1, tokens)
    saved = turns * (1 - KEPT_SHARE) * folded * cost.warm
    return saved > KEPT_SHARE * folded * (cost.cold - cost.warm) + cost.warm + written


def handoff_pays(tokens: int, fixed: int, turns: int, summary: int, target: ModelTarget) -> bool:
    """Whether a fold still pays back if the model writes its handoff, so that a session is not dearer than without.

    Not in sessions of few turns with large results: they get the built-in handoff. `fixed` tokens are those of system
    prompt and tools. A model without a price is taken as one with the usual prices; one that costs nothing always pays.
    """
    cost, _ = _costs(tokens, 0, target, "5m")
    if cost is not None and not cost.cold:
        return True
    return early_fold_pays(tokens, turns, summary, _USUAL if cost is None else target, fixed=fixed)


def reports_finished(messages: Sequence[Message]) -> bool:
    """Whether the newest message reports finished work: a text behind tool calls that neither asks nor announces."""
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
    """The cost of the next prompt, and what a handoff of so many tokens costs more than that."""
    model, provider = target.model, target.served_by or None
    asked = CanonicalUsage(input_tokens=INSTRUCTION_TOKENS if summary else 0, output_tokens=summary)
    written = _dollars(asked, model, provider, ttl)
    return next_message_cost(tokens, model, provider, ttl), written


def _dollars(usage: CanonicalUsage, model: str, provider: str | None, ttl: str) -> float | None:
    cost = cost_of(usage, model, provider, ttl if ttl in ("5m", "1h") else "5m")
    return None if cost is None else float(cost.total)
