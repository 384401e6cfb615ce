"""What a fold saves and costs: whether it pays back, and what the client's own request would have cost.

Figures are never in our favour: a direct request is taken to have read from the provider's cache all that the one
before it had sent. Whether it would have fitted the window at all is another question.
"""

from __future__ import annotations

from dataclasses import replace

from clew.turn import KEPT_SHARE
from clew.usage import CanonicalUsage, cost_of

MUST_FOLD = 0.95
"""Of the window: above it a fold waits for nothing, since the next turn may not fit any more."""


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
