"""Prompt caching: where breakpoints go, and which models get them.

A marker on a message itself is moved to a block by its dialect.
"""

from clew.caching.breakpoints import MARKER, MOST_BREAKPOINTS, Ttl, apply_cache_control
from clew.caching.policy import CachePolicy, caching_for, prompt_cache_key

__all__ = [
    "MARKER",
    "MOST_BREAKPOINTS",
    "CachePolicy",
    "Ttl",
    "apply_cache_control",
    "caching_for",
    "prompt_cache_key",
]
