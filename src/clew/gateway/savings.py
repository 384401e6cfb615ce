"""What a fold saves and costs: whether it pays back, and what the client's own request would have cost.

Figures are never in our favour: a direct request is taken to have read from the provider's cache all that the one
before it had sent. Whether it would have fitted the window at all is another question.
"""

from __future__ import annotations

from dataclasses import replace

from clew.turn import KEPT_SHARE, ModelTarget, early_fold_pays, next_message_cost
from clew.usage import CanonicalUsage, cost_of

MUST_FOLD = 0.95
"""Of the window: above it a fold waits for nothing, since the next turn may not fit any more."""


PREPARE_AT = 0.70 / 0.85
"""Of the threshold: 70% of the window, or less where the client reserves room for output."""
_LEAD_TURNS = 5
"""So many turns before the threshold a model begins to write: it takes as long as two, and what comes since stays."""

_WORTH = 2
"""A model's handoff may cost so many times what the fold saves: it is far better than the built-in one."""


def is_time_to_prepare(tokens: int, turns: int, threshold: int) -> bool:
    """Whether a handoff is to be written by the time that a conversation of so many turns reaches the threshold.

    From 70% of the window on, and no earlier than needed: all that comes since then stays in view behind it.
    """
    growth = tokens / max(1, turns)
    return tokens >= PREPARE_AT * threshold and tokens + _LEAD_TURNS * growth >= threshold


def handoff_pays(tokens: int, turns: int, summary: int, target: ModelTarget) -> bool:
    """Whether a handoff of so many tokens by the model is worth what it costs beside what the fold saves; True without
    a price.

    In a session of a few turns with large results it is not: there the built-in handoff is used.
    """
    cost = next_message_cost(tokens, target.model, target.served_by or None)
    return cost is None or not cost.cold or early_fold_pays(tokens, _WORTH * turns, summary, target)


def pays_back(tokens: int, turns: int, model: str, provider: str | None) -> bool:
    """Whether folding a prompt of so many tokens is paid back in the turns that are still to be expected.

    A session that has gone on for so many turns goes on for as many more, on average. A fold moves the prefix: what is
    left of the prompt is written to the cache once more, and each later turn reads so much less. True where no price is
    known, or it is nothing.
    """
    read = cost_of(CanonicalUsage(cache_read_tokens=tokens), model, provider)
    written = cost_of(CanonicalUsage(cache_write_tokens=tokens), model, provider)
    plain = cost_of(CanonicalUsage(input_tokens=tokens), model, provider)
    if read is None or written is None or plain is None or not plain.total:
        return True
    again = max(written.total, plain.total) - read.total
    return turns * (1 - KEPT_SHARE) * float(read.total) > KEPT_SHARE * float(again)


def direct_usage(usage: CanonicalUsage, freed: int, before: int) -> CanonicalUsage:
    """What the client's own request would have used, for one that used `usage` after folds that freed so many tokens.

    `before` is the prompt of the client's request before this one.
    """
    if freed <= 0:
        return usage
    whole = usage.prompt_tokens + freed
    read = min(whole, max(before, usage.cache_read_tokens + freed))
    rest = whole - read
    is_written = usage.cache_write_tokens > 0
    return replace(
        usage,
        input_tokens=0 if is_written else rest,
        cache_write_tokens=rest if is_written else 0,
        cache_read_tokens=read,
    )
