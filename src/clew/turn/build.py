"""A request out of a view: system prompt, messages, breakpoints, and what is injected for this turn only.

What is injected stands at the very end, behind the breakpoints: it is gone from the next request, and everything
before it is then still cached. It never enters the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from clew.caching import CachePolicy, apply_cache_control, caching_for, prompt_cache_key
from clew.messages import Message, Tool
from clew.providers import OnDelta, Request
from clew.turn.live import LiveConversation
from clew.turn.runtime import Runtime
from clew.turn.target import Target


@dataclass(frozen=True, slots=True)
class Ask:
    """What one turn is run with beside the history."""

    inject: Sequence[Message] = ()
    tools: Sequence[Tool] = ()
    on_delta: OnDelta | None = None
    prompt: Message | None = None
    """The system prompt, where a client brings its own with each request; None: the session's."""


def build(runtime: Runtime, live: LiveConversation, ask: Ask, max_tokens: int | None) -> Request:
    """The request for the view as it is now."""
    policy = cache_policy(runtime, live.target)
    prompt = live.system_message(as_blocks=policy.enabled)
    messages = [prompt, *live.messages] if prompt else list(live.messages)
    if policy.enabled:
        messages = apply_cache_control(messages, policy.ttl, policy.native)
    return Request(
        model=live.target.model,
        messages=[*messages, *ask.inject] if ask.inject else messages,
        tools=live.tools_with(ask.tools),
        max_tokens=max_tokens,
        cache_key=prompt_cache_key(live.root, live.target.model) if policy.takes_key else None,
        extra=live.target.extra,
    )


_caching_for = lru_cache(maxsize=256)(caching_for)


def cache_policy(runtime: Runtime, target: Target) -> CachePolicy:
    """Whether requests to a target get breakpoints; its `describe()` is the line at start-up."""
    settings = runtime.host.settings.prompt_caching
    policy = _caching_for(target.model, target.provider.name or None, target.base_url, settings.cache_ttl)
    if settings.enabled:
        return policy
    return CachePolicy(False, False, policy.ttl, "switched off in the config", policy.model, policy.through)
