"""The `prompt_cache_key` of OpenAI-style providers: requests with the same key go to the machine that has the cache.

Made by hashing, so it says nothing about the conversation and always fits: OpenAI refuses more than 64 chars.
"""

from __future__ import annotations

from hashlib import sha256

from clew.caching.canonical import canonical_bytes
from clew.errors import InvalidArgument


def prompt_cache_key(conversation: str, *also: str) -> str:
    """A short key that is the same for this conversation in every process and on every machine.

    Give the id of the conversation's first session, which a compaction does not change. `also` sets apart requests
    that share no prefix, for example the model, or the name of a subagent.
    """
    if not conversation:
        raise InvalidArgument("the conversation id of a prompt_cache_key is empty; pass the id of its first session")
    return "clew-" + sha256(canonical_bytes([conversation, *also])).hexdigest()[:32]
