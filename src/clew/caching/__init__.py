"""Prompt caching: where breakpoints go, which models get them, and whether a request continues the one before it.

A marker on a message itself is moved to a block by its dialect.
"""

from clew.caching.breakpoints import (
    MARKER,
    MOST_BREAKPOINTS,
    Ttl,
    apply_cache_control,
    clear_cache_control,
    mark_anthropic_request,
)
from clew.caching.divergence import Divergence, divergence
from clew.caching.fingerprints import PrefixChain, extends, fingerprint, prompt_cache_key, shared_length
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
