"""Prompt caching: where breakpoints go, for whom they are on, and whether a request continues the one before it.

Knows messages and the facts about providers. Does not send requests, does not count tokens, and does not know how a
dialect spells a marker that stands on a message.
"""

from clew.caching.breakpoints import (
    MOST_BREAKPOINTS,
    apply_cache_control,
    clear_cache_control,
    mark_anthropic_request,
)
from clew.caching.cache_key import prompt_cache_key
from clew.caching.divergence import Divergence, divergence
from clew.caching.fingerprints import PrefixChain, extends, fingerprint, shared_length
from clew.caching.markers import MARKER, Ttl
from clew.caching.policy import CachePolicy, caching_for

__all__ = [
    "MARKER",
    "MOST_BREAKPOINTS",
    "CachePolicy",
    "Divergence",
    "PrefixChain",
    "Ttl",
    "apply_cache_control",
    "caching_for",
    "clear_cache_control",
    "divergence",
    "extends",
    "fingerprint",
    "mark_anthropic_request",
    "prompt_cache_key",
    "shared_length",
]
