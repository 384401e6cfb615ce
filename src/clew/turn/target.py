"""Which model a conversation talks to, through whom, and how large its window is.

Knows the order in which windows are believed; asks the store and the file of stated limits, never a network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.providers import Provider
from clew.store import Store
from clew.tokens import LearntLimits, Window, window_of


@dataclass(frozen=True, slots=True)
class Target:
    """A model at a provider, and what every call to it is made with."""

    provider: Provider
    model: str
    base_url: str | None = None
    context_length: int | None = None
    """As configured; None: found out."""
    max_tokens: int | None = None
    """The output cap of each call; None leaves it to the provider."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    endpoint: object = None
    """What the provider's models endpoint answered, where it was asked."""


async def window_for(target: Target, store: Store, learnt: LearntLimits | None) -> Window:
    """The window of a target, by everything that is known of it."""
    kept = await store.learnt_window(target.model, target.base_url or "")
    stated = [kept.tokens] if kept else []
    if learnt and (limit := learnt.limit(target.model, target.base_url)):
        stated.append(limit)
    return window_of(
        target.model,
        base_url=target.base_url,
        configured=target.context_length,
        stated=min(stated, default=None),
        endpoint=target.endpoint,
    )
